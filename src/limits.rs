//! Limits and settings as values that cannot be wrong: checked once, then trusted.
//!
//! Everything here is plain data with strict `serde` implementations. Reading it from files and
//! from the environment is the job of the module `settings` (feature `file`).

use std::{borrow::Borrow, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::question::{QuestionKind, QuestionMethods};

/// A setting that stands in the way of a question, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LimitName {
    /// `proto.samplingPerMinute`: sampling per configured server.
    SamplingPerMinute,
    /// `proto.samplingSessionPerMinute`: sampling per session.
    SamplingSessionPerMinute,
    /// `proto.elicitationPerMinute`: elicitation per configured server.
    ElicitationPerMinute,
    /// `proto.elicitationSessionPerMinute`: elicitation per session.
    ElicitationSessionPerMinute,
    /// `proto.askRounds`: rounds per call.
    AskRounds,
    /// `proto.askTTL`: life of one question.
    AskTtl,
}

impl LimitName {
    /// The limits of windows, in the order of the settings table, which decides ties.
    pub const WINDOWS: [Self; 4] = [
        Self::SamplingPerMinute,
        Self::SamplingSessionPerMinute,
        Self::ElicitationPerMinute,
        Self::ElicitationSessionPerMinute,
    ];

    /// The full name of the setting.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SamplingPerMinute => "proto.samplingPerMinute",
            Self::SamplingSessionPerMinute => "proto.samplingSessionPerMinute",
            Self::ElicitationPerMinute => "proto.elicitationPerMinute",
            Self::ElicitationSessionPerMinute => "proto.elicitationSessionPerMinute",
            Self::AskRounds => "proto.askRounds",
            Self::AskTtl => "proto.askTTL",
        }
    }

    /// What the setting bounds.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::SamplingPerMinute | Self::ElicitationPerMinute => Scope::Server,
            Self::SamplingSessionPerMinute | Self::ElicitationSessionPerMinute => Scope::Session,
            Self::AskRounds => Scope::Call,
            Self::AskTtl => Scope::Question,
        }
    }

    /// The kind of question it bounds, if it bounds one kind.
    #[must_use]
    pub const fn kind(self) -> Option<QuestionKind> {
        match self {
            Self::SamplingPerMinute | Self::SamplingSessionPerMinute => {
                Some(QuestionKind::Sampling)
            }
            Self::ElicitationPerMinute | Self::ElicitationSessionPerMinute => {
                Some(QuestionKind::Elicitation)
            }
            Self::AskRounds | Self::AskTtl => None,
        }
    }

    pub(crate) const fn per_server(kind: QuestionKind) -> Self {
        match kind {
            QuestionKind::Sampling => Self::SamplingPerMinute,
            QuestionKind::Elicitation => Self::ElicitationPerMinute,
        }
    }

    pub(crate) const fn per_session(kind: QuestionKind) -> Self {
        match kind {
            QuestionKind::Sampling => Self::SamplingSessionPerMinute,
            QuestionKind::Elicitation => Self::ElicitationSessionPerMinute,
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for LimitName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// One configured server, over all its sessions.
    Server,
    /// One session.
    Session,
    /// One call of the client.
    Call,
    /// One question.
    Question,
    /// The limiter itself.
    Limiter,
}

impl Scope {
    /// The word used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Session => "session",
            Self::Call => "call",
            Self::Question => "question",
            Self::Limiter => "limiter",
        }
    }
}

/// A value outside its range, with the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    expected: &'static str,
    found: String,
}

impl Invalid {
    fn new(expected: &'static str, found: impl fmt::Debug) -> Self {
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

/// The name of a configured server: the key of its budget (D2).
///
/// It comes from the settings, never from the server. 1 to 128 bytes, kept byte for byte, without
/// control or bidirectional characters, so that it can be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(Arc<Name>);

/// Behind one pointer, not the two words of an `Arc<str>`: every session keeps a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Name(Box<str>);

impl ServerName {
    /// What is valid.
    pub const EXPECTED: &str =
        "a server name of 1 to 128 bytes without control or bidirectional characters";

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is empty, longer than 128 bytes, or has a control or bidirectional
    /// character.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self, Invalid> {
        let name = name.into();
        let reorders = |c: char| matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let valid =
            (1..=128).contains(&name.len()) && !name.chars().any(|c| c.is_control() || reorders(c));
        if valid {
            Ok(Self(Arc::new(Name(name))))
        } else {
            Err(Invalid::new(Self::EXPECTED, name))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<&str> for ServerName {
    type Error = Invalid;

    fn try_from(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl Serialize for ServerName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ServerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(name).map_err(de::Error::custom)
    }
}

/// The `proto.*` settings of one server.
///
/// ```
/// use mcp_question_throttle::limits::{Limit, ProtoSettings};
///
/// let strict = ProtoSettings::default().with_sampling_per_minute(Limit::new(5)?);
/// assert_eq!(strict.elicitation_per_minute.get(), 30);
/// # Ok::<(), mcp_question_throttle::limits::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProtoSettings {
    /// Sampling per configured server and minute. Default 60.
    pub sampling_per_minute: Limit,
    /// Sampling per session and minute. Default 20.
    pub sampling_session_per_minute: Limit,
    /// Elicitation per configured server and minute. Default 30.
    pub elicitation_per_minute: Limit,
    /// Elicitation per session and minute. Default off.
    pub elicitation_session_per_minute: Limit,
    /// Rounds per call. Default 8.
    pub ask_rounds: AskRounds,
    /// Life of one question. Default 5 minutes.
    #[serde(rename = "askTTL")]
    pub ask_ttl: AskTtl,
    /// Vendor methods that are questions. Default none.
    pub questions: QuestionMethods,
}

impl Default for ProtoSettings {
    fn default() -> Self {
        Self {
            sampling_per_minute: Limit(60),
            sampling_session_per_minute: Limit(20),
            elicitation_per_minute: Limit(30),
            elicitation_session_per_minute: Limit::OFF,
            ask_rounds: AskRounds(8),
            ask_ttl: AskTtl(5 * 60),
            questions: QuestionMethods::new(),
        }
    }
}

impl ProtoSettings {
    /// Sets the bound on sampling per configured server.
    #[must_use]
    pub const fn with_sampling_per_minute(mut self, limit: Limit) -> Self {
        self.sampling_per_minute = limit;
        self
    }

    /// Sets the bound on sampling per session.
    #[must_use]
    pub const fn with_sampling_session_per_minute(mut self, limit: Limit) -> Self {
        self.sampling_session_per_minute = limit;
        self
    }

    /// Sets the bound on elicitation per configured server.
    #[must_use]
    pub const fn with_elicitation_per_minute(mut self, limit: Limit) -> Self {
        self.elicitation_per_minute = limit;
        self
    }

    /// Sets the bound on elicitation per session.
    #[must_use]
    pub const fn with_elicitation_session_per_minute(mut self, limit: Limit) -> Self {
        self.elicitation_session_per_minute = limit;
        self
    }

    /// Sets how many rounds of one call are answered.
    #[must_use]
    pub const fn with_ask_rounds(mut self, rounds: AskRounds) -> Self {
        self.ask_rounds = rounds;
        self
    }

    /// Sets how long one question may stay open.
    #[must_use]
    pub const fn with_ask_ttl(mut self, ttl: AskTtl) -> Self {
        self.ask_ttl = ttl;
        self
    }

    /// Sets which vendor methods are questions.
    #[must_use]
    pub fn with_questions(mut self, questions: QuestionMethods) -> Self {
        self.questions = questions;
        self
    }

    /// The limit of that name, if it is one of a window.
    #[must_use]
    pub const fn window_limit(&self, name: LimitName) -> Option<Limit> {
        match name {
            LimitName::SamplingPerMinute => Some(self.sampling_per_minute),
            LimitName::SamplingSessionPerMinute => Some(self.sampling_session_per_minute),
            LimitName::ElicitationPerMinute => Some(self.elicitation_per_minute),
            LimitName::ElicitationSessionPerMinute => Some(self.elicitation_session_per_minute),
            LimitName::AskRounds | LimitName::AskTtl => None,
        }
    }
}

/// What one server's table `[servers.NAME.proto]` changes of the `[proto]` settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ProtoOverrides {
    /// See [`ProtoSettings::sampling_per_minute`].
    pub sampling_per_minute: Option<Limit>,
    /// See [`ProtoSettings::sampling_session_per_minute`].
    pub sampling_session_per_minute: Option<Limit>,
    /// See [`ProtoSettings::elicitation_per_minute`].
    pub elicitation_per_minute: Option<Limit>,
    /// See [`ProtoSettings::elicitation_session_per_minute`].
    pub elicitation_session_per_minute: Option<Limit>,
    /// See [`ProtoSettings::ask_rounds`].
    pub ask_rounds: Option<AskRounds>,
    /// See [`ProtoSettings::ask_ttl`].
    #[serde(rename = "askTTL")]
    pub ask_ttl: Option<AskTtl>,
    /// See [`ProtoSettings::questions`]; the whole table is replaced.
    pub questions: Option<QuestionMethods>,
}

impl ProtoOverrides {
    /// The settings in force for a server: `base`, with what this table changes.
    #[must_use]
    pub fn over(&self, base: &ProtoSettings) -> ProtoSettings {
        ProtoSettings {
            sampling_per_minute: self.sampling_per_minute.unwrap_or(base.sampling_per_minute),
            sampling_session_per_minute: self
                .sampling_session_per_minute
                .unwrap_or(base.sampling_session_per_minute),
            elicitation_per_minute: self
                .elicitation_per_minute
                .unwrap_or(base.elicitation_per_minute),
            elicitation_session_per_minute: self
                .elicitation_session_per_minute
                .unwrap_or(base.elicitation_session_per_minute),
            ask_rounds: self.ask_rounds.unwrap_or(base.ask_rounds),
            ask_ttl: self.ask_ttl.unwrap_or(base.ask_ttl),
            questions: self
                .questions
                .clone()
                .unwrap_or_else(|| base.questions.clone()),
        }
    }
}

/// The settings of a pool: the `[proto]` table, and the servers that differ from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    proto: ProtoSettings,
    servers: BTreeMap<ServerName, ProtoOverrides>,
}

impl Settings {
    /// The same settings for every server.
    #[must_use]
    pub const fn new(proto: ProtoSettings) -> Self {
        Self {
            proto,
            servers: BTreeMap::new(),
        }
    }

    /// Changes settings for one server.
    #[must_use]
    pub fn with_server(mut self, name: ServerName, overrides: ProtoOverrides) -> Self {
        self.servers.insert(name, overrides);
        self
    }

    /// The settings for servers without a table of their own.
    #[must_use]
    pub const fn proto(&self) -> &ProtoSettings {
        &self.proto
    }

    /// The servers with a table of their own.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerName, &ProtoOverrides)> {
        self.servers.iter()
    }

    /// The settings in force for `server`.
    #[must_use]
    pub fn for_server(&self, server: &ServerName) -> ProtoSettings {
        match self.servers.get(server) {
            Some(overrides) => overrides.over(&self.proto),
            None => self.proto.clone(),
        }
    }
}

impl From<ProtoSettings> for Settings {
    fn from(proto: ProtoSettings) -> Self {
        Self::new(proto)
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

    #[test]
    fn an_unknown_key_is_refused() {
        let error =
            serde_json::from_value::<ProtoSettings>(json!({"samplingPerMin": 5})).unwrap_err();
        assert!(error.to_string().contains("samplingPerMin"), "{error}");
        assert!(serde_json::from_value::<ProtoOverrides>(json!({"askTtl": "5m"})).is_err());
    }

    #[test]
    fn names_exact() {
        let name = |name: &str| ServerName::new(name).unwrap();
        assert_ne!(name("GitHub"), name("github"));
        assert_eq!(name(" a:b ").as_str(), " a:b ");
        for bad in ["", "a\nb", "a\u{202e}b", "a\u{7f}", &"x".repeat(129)] {
            assert!(ServerName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ServerName::new("x".repeat(128)).is_ok());
    }

    #[test]
    fn a_server_overrides_only_what_it_names() {
        let github = ServerName::new("github").unwrap();
        let overrides: ProtoOverrides =
            serde_json::from_value(json!({"samplingPerMinute": 0, "askTTL": "1m"})).unwrap();
        let settings =
            Settings::new(ProtoSettings::default()).with_server(github.clone(), overrides);
        let own = settings.for_server(&github);
        assert_eq!(own.sampling_per_minute, Limit::OFF);
        assert_eq!(own.ask_ttl.get(), Duration::from_secs(60));
        assert_eq!(own.elicitation_per_minute, Limit(30));
        let other = settings.for_server(&ServerName::new("GitHub").unwrap());
        assert_eq!(other, ProtoSettings::default());
    }
}
