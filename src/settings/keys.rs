//! The one list of settings by name: a new setting gets a line here and a field in `limits`.

use serde::de::DeserializeOwned;

use crate::limits::{AskRounds, AskTtl, Limit, LimitName, ThrottleMode};

/// A setting of `[proto]` with one value, which an environment variable can give as well.
#[derive(Debug)]
pub(super) struct Scalar {
    /// The full name, as `proto.askTTL`.
    pub(super) name: &'static str,
    /// The environment variable for it.
    pub(super) variable: &'static str,
    /// What is valid.
    pub(super) expected: &'static str,
    accepts: fn(toml::Value) -> bool,
}

impl Scalar {
    const fn of<T: DeserializeOwned>(
        name: &'static str,
        variable: &'static str,
        expected: &'static str,
    ) -> Self {
        Self {
            name,
            variable,
            expected,
            accepts: |value| T::deserialize(value).is_ok(),
        }
    }

    /// The name within the table `[proto]`.
    pub(super) fn key(&self) -> &'static str {
        self.name.strip_prefix("proto.").unwrap_or(self.name)
    }

    /// Whether `value` is valid: the type in `limits` decides, and nothing else.
    pub(super) fn accepts(&self, value: toml::Value) -> bool {
        (self.accepts)(value)
    }
}

/// In the order of the settings table.
pub(super) const SCALARS: &[Scalar] = &[
    Scalar::of::<Limit>(
        LimitName::SamplingPerMinute.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE",
        Limit::EXPECTED,
    ),
    Scalar::of::<Limit>(
        LimitName::SamplingSessionPerMinute.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_SESSION_PER_MINUTE",
        Limit::EXPECTED,
    ),
    Scalar::of::<Limit>(
        LimitName::ElicitationPerMinute.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_ELICITATION_PER_MINUTE",
        Limit::EXPECTED,
    ),
    Scalar::of::<Limit>(
        LimitName::ElicitationSessionPerMinute.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_ELICITATION_SESSION_PER_MINUTE",
        Limit::EXPECTED,
    ),
    Scalar::of::<AskRounds>(
        LimitName::AskRounds.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS",
        AskRounds::EXPECTED,
    ),
    Scalar::of::<AskTtl>(
        LimitName::AskTtl.as_str(),
        "MCP_QUESTION_THROTTLE_PROTO_ASK_TTL",
        AskTtl::EXPECTED,
    ),
    Scalar::of::<ThrottleMode>(
        ThrottleMode::SETTING,
        "MCP_QUESTION_THROTTLE_PROTO_THROTTLE_MODE",
        ThrottleMode::EXPECTED,
    ),
];

pub(super) const PROTO: &str = "proto";
pub(super) const SERVERS: &str = "servers";
pub(super) const QUESTIONS: &str = "questions";
pub(super) const COMMAND: &str = "command";
pub(super) const ARGS: &str = "args";
pub(super) const ENV: &str = "env";
pub(super) const URL: &str = "url";
pub(super) const HEADERS: &str = "headers";
pub(super) const MUTED: &str = "muted";

pub(super) const STATUS: &str = "status";
pub(super) const MUTE_BUTTON: &str = "muteButton";

/// The keys of the file itself.
pub(super) const TOP: &[&str] = &[PROTO, SERVERS, STATUS];
/// The keys of `[status]`.
pub(super) const STATUS_PAGE: &[&str] = &[MUTE_BUTTON];
/// The keys of `[servers.NAME]`.
pub(super) const SERVER: &[&str] = &[COMMAND, ARGS, ENV, URL, HEADERS, MUTED, PROTO];

/// The keys of `[proto]` and of `[servers.NAME.proto]`.
pub(super) fn proto() -> Vec<&'static str> {
    SCALARS.iter().map(Scalar::key).chain([QUESTIONS]).collect()
}

/// The full name of a vendor method's setting.
pub(super) fn question(method: &str) -> String {
    join(&join(PROTO, QUESTIONS), method)
}

/// `parent.key`, with `key` quoted where TOML would need it.
pub(super) fn join(parent: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let key = if bare {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if parent.is_empty() {
        key
    } else {
        format!("{parent}.{key}")
    }
}

/// What stands beside the name that `found` was probably meant to be: the same but for case, `_`
/// and `-`, or at most a third of its letters away.
pub(super) fn nearest<'a, T>(
    found: &str,
    valid: impl IntoIterator<Item = (&'a str, T)>,
) -> Option<T> {
    let letters = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let found = letters(found);
    valid
        .into_iter()
        .map(|(name, meant)| (letters(name), meant))
        .map(|(name, meant)| (strsim::damerau_levenshtein(&found, &name), name, meant))
        .filter(|(distance, name, _)| distance * 3 <= name.len())
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., meant)| meant)
}

/// A text to show in an error: on one line, nothing in it that could move the cursor or reorder
/// what is around it, and not too long.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown = String::new();
    for (nth, c) in text.chars().enumerate() {
        match c {
            _ if nth == LONGEST => return shown + "...",
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_recognised() {
        let near = |found| nearest(found, proto().into_iter().map(|name| (name, name)));
        assert_eq!(near("askTtl"), Some("askTTL"));
        assert_eq!(near("sampling_per_minute"), Some("samplingPerMinute"));
        assert_eq!(near("samplingPerMin"), Some("samplingPerMinute"));
        assert_eq!(near("question"), Some("questions"));
        assert_eq!(near("burst"), None);
        assert_eq!(near(""), None);
    }

    #[test]
    fn a_shown_text_is_short_and_on_one_line() {
        assert_eq!(shown("\"5\""), "\"5\"");
        assert_eq!(shown("a\nb\u{202e}c"), r"a\nb\u{202e}c");
        assert_eq!(shown(&"9".repeat(61)), "9".repeat(60) + "...");
    }

    #[test]
    fn keys_are_quoted_where_toml_needs_it() {
        assert_eq!(join("servers", "git_hub-2"), "servers.git_hub-2");
        assert_eq!(join("servers", "a.b"), r#"servers."a.b""#);
        assert_eq!(join("", "proto"), "proto");
        assert_eq!(join("servers", ""), r#"servers."""#);
    }
}
