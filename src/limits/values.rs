//! Numbers and durations, checked against their ranges once.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A value outside its range, with the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    expected: &'static str,
    found: String,
}

impl Invalid {
    pub(super) fn new(expected: &'static str, found: impl fmt::Debug) -> Self {
        Self {
            expected,
            found: format!("{found:?}"),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, found {}", self.expected, self.found)
    }
}

impl std::error::Error for Invalid {}

/// A visitor that takes whole numbers and nothing that merely looks like one: `true`, `"3"` and
/// `2.9` are not limits.
struct Whole<T> {
    expected: &'static str,
    check: fn(u32) -> Result<T, Invalid>,
}

impl<T> de::Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        match u32::try_from(number) {
            Ok(small) => (self.check)(small).map_err(E::custom),
            Err(_) => Err(E::custom(Invalid::new(self.expected, number))),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(positive) => self.visit_u64(positive),
            Err(_) => Err(E::custom(Invalid::new(self.expected, number))),
        }
    }
}

/// How many questions are admitted in one window: 0 to 1 000 000, where 0 turns the bound off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(u32);

impl Limit {
    /// No bound.
    pub const OFF: Self = Self(0);
    /// What is valid.
    pub const EXPECTED: &str = "a whole number from 0 to 1000000 (0 turns this limit off)";
    const MAX: u32 = 1_000_000;

    /// Admits `count` questions per window.
    ///
    /// # Errors
    ///
    /// [`Invalid`] above 1 000 000.
    pub fn new(count: u32) -> Result<Self, Invalid> {
        if count <= Self::MAX {
            Ok(Self(count))
        } else {
            Err(Invalid::new(Self::EXPECTED, count))
        }
    }

    /// A default, checked where it is compiled.
    pub(super) const fn default_of(count: u32) -> Self {
        assert!(count <= Self::MAX);
        Self(count)
    }

    /// The number in the settings; 0 if off.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The bound, or `None` if it is off.
    #[must_use]
    pub const fn bound(self) -> Option<u32> {
        match self.0 {
            0 => None,
            bound => Some(bound),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whole {
            expected: Self::EXPECTED,
            check: Self::new,
        })
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

/// How many `input_required` rounds of one call are answered: 1 to 100 (D8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskRounds(u32);

impl AskRounds {
    /// What is valid.
    pub const EXPECTED: &str = "a whole number from 1 to 100";
    pub(super) const DEFAULT: Self = Self(8);

    /// Answers up to `rounds` rounds per call.
    ///
    /// # Errors
    ///
    /// [`Invalid`] outside of 1 to 100.
    pub fn new(rounds: u32) -> Result<Self, Invalid> {
        if (1..=100).contains(&rounds) {
            Ok(Self(rounds))
        } else {
            Err(Invalid::new(Self::EXPECTED, rounds))
        }
    }

    /// The number of rounds.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl<'de> Deserialize<'de> for AskRounds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whole {
            expected: Self::EXPECTED,
            check: Self::new,
        })
    }
}

impl Serialize for AskRounds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.0)
    }
}

/// How long one question may stay open: whole seconds, 1 s to 24 h, written `"90s"`, `"5m"` or
/// `"2h"` (D9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskTtl(u32);

impl AskTtl {
    /// What is valid.
    pub const EXPECTED: &str =
        r#"a duration in whole seconds from "1s" to "24h", written as "90s", "5m" or "2h""#;
    pub(super) const DEFAULT: Self = Self(5 * 60);
    const MAX_SECONDS: u64 = 24 * 60 * 60;

    /// Closes a question after `ttl`.
    ///
    /// # Errors
    ///
    /// [`Invalid`] outside of 1 s to 24 h, or with a fraction of a second.
    pub fn new(ttl: Duration) -> Result<Self, Invalid> {
        match u32::try_from(ttl.as_secs()) {
            Ok(seconds)
                if ttl.subsec_nanos() == 0
                    && (1..=Self::MAX_SECONDS).contains(&u64::from(seconds)) =>
            {
                Ok(Self(seconds))
            }
            _ => Err(Invalid::new(Self::EXPECTED, ttl)),
        }
    }

    /// The duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

impl std::str::FromStr for AskTtl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || Invalid::new(Self::EXPECTED, text);
        let (digits, unit) = text
            .find(|c: char| !c.is_ascii_digit())
            .map(|at| text.split_at(at))
            .ok_or_else(invalid)?;
        let seconds_per_unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(invalid()),
        };
        digits
            .parse::<u32>()
            .ok()
            .and_then(|count| {
                Self::new(Duration::from_secs(u64::from(count) * seconds_per_unit)).ok()
            })
            .ok_or_else(invalid)
    }
}

impl fmt::Display for AskTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds % 3600 == 0 => write!(f, "{}h", seconds / 3600),
            seconds if seconds % 60 == 0 => write!(f, "{}m", seconds / 60),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

impl<'de> Deserialize<'de> for AskTtl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = AskTtl;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(AskTtl::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<AskTtl, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl Serialize for AskTtl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bad_values_are_refused_with_what_is_valid() {
        for bad in [
            json!(-1),
            json!(1.5),
            json!(5.0),
            json!("5"),
            json!(true),
            json!(1_000_001),
            json!(4_294_967_296_u64),
            json!(18_446_744_073_709_551_615_u64),
            json!(null),
            json!([5]),
        ] {
            let error = serde_json::from_value::<Limit>(bad.clone()).unwrap_err();
            assert!(
                error.to_string().contains(Limit::EXPECTED),
                "{bad}: {error}"
            );
        }
        for bad in [json!(0), json!(101), json!("8"), json!(true)] {
            let error = serde_json::from_value::<AskRounds>(bad.clone()).unwrap_err();
            assert!(
                error.to_string().contains(AskRounds::EXPECTED),
                "{bad}: {error}"
            );
        }
        for bad in [
            json!(300),
            json!("300"),
            json!("5 m"),
            json!("1.5m"),
            json!("0s"),
            json!("25h"),
            json!("500ms"),
            json!("99999999999h"),
            json!(""),
            json!("-5m"),
        ] {
            let error = serde_json::from_value::<AskTtl>(bad.clone()).unwrap_err();
            assert!(
                error.to_string().contains(AskTtl::EXPECTED),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn good_values_come_back_as_written() {
        for good in ["1s", "90s", "5m", "2h", "24h"] {
            assert_eq!(good.parse::<AskTtl>().unwrap().to_string(), good);
        }
        assert_eq!("60s".parse::<AskTtl>().unwrap().to_string(), "1m");
        assert_eq!(
            serde_json::from_value::<Limit>(json!(0)).unwrap(),
            Limit::OFF
        );
    }
}
