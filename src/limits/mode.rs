//! Whether limits are enforced, or only observed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Invalid;

/// What happens to a question that is over a limit: `proto.throttleMode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThrottleMode {
    /// It is refused.
    #[default]
    Enforce,
    /// It is admitted, and counted and reported as one that would have been refused. It charges
    /// nothing, so that the totals say what [`Enforce`](Self::Enforce) would have done.
    ///
    /// This is about the limits of windows and the table of servers. `proto.askRounds` and
    /// `proto.askTTL` hold all the same: they end a call or a question that was asked already. So
    /// do a muted server and a failure of the throttle itself.
    Observe,
}

impl ThrottleMode {
    /// What is valid.
    pub const EXPECTED: &str = r#""enforce" or "observe""#;

    /// The full name of the setting.
    pub const SETTING: &str = "proto.throttleMode";

    /// The word in the settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
        }
    }
}

impl fmt::Display for ThrottleMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ThrottleMode {
    type Err = Invalid;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Enforce, Self::Observe]
            .into_iter()
            .find(|mode| mode.as_str() == word)
            .ok_or_else(|| Invalid::new(Self::EXPECTED, word))
    }
}

impl Serialize for ThrottleMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ThrottleMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl de::Visitor<'_> for Word {
            type Value = ThrottleMode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ThrottleMode::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<ThrottleMode, E> {
                word.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Word)
    }
}
