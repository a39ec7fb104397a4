//! The settings as values: the common ones, and what single servers change of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{AskRounds, AskTtl, Limit, LimitName, ServerName, ThrottleMode};
use crate::question::QuestionMethods;

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
    /// `proto.samplingPerMinute`: sampling questions admitted per configured server in 60 s, over
    /// all its sessions. Default 60.
    pub sampling_per_minute: Limit,
    /// `proto.samplingSessionPerMinute`: the same for each session by itself. Default 20.
    pub sampling_session_per_minute: Limit,
    /// `proto.elicitationPerMinute`: elicitation questions admitted per configured server in 60 s,
    /// over all its sessions. Default 30.
    pub elicitation_per_minute: Limit,
    /// `proto.elicitationSessionPerMinute`: the same for each session by itself. Default off.
    pub elicitation_session_per_minute: Limit,
    /// `proto.askRounds`: how many `input_required` rounds of one call are answered. Default 8.
    pub ask_rounds: AskRounds,
    /// `proto.askTTL`: how long one question may stay open. Default 5 minutes.
    #[serde(rename = "askTTL")]
    pub ask_ttl: AskTtl,
    /// `proto.throttleMode`: whether what is over a limit is refused. Default `enforce`.
    pub throttle_mode: ThrottleMode,
    /// `[proto.questions]`: vendor methods that are questions. Default none.
    pub questions: QuestionMethods,
}

impl Default for ProtoSettings {
    fn default() -> Self {
        Self {
            sampling_per_minute: const { Limit::default_of(60) },
            sampling_session_per_minute: const { Limit::default_of(20) },
            elicitation_per_minute: const { Limit::default_of(30) },
            elicitation_session_per_minute: Limit::OFF,
            ask_rounds: AskRounds::DEFAULT,
            ask_ttl: AskTtl::DEFAULT,
            throttle_mode: ThrottleMode::Enforce,
            questions: QuestionMethods::new(),
        }
    }
}

impl ProtoSettings {
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
    /// See [`ProtoSettings::throttle_mode`].
    pub throttle_mode: Option<ThrottleMode>,
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
            throttle_mode: self.throttle_mode.unwrap_or(base.throttle_mode),
            questions: self
                .questions
                .clone()
                .unwrap_or_else(|| base.questions.clone()),
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $with:ident($field:ident: $type:ty);)*) => {
        impl ProtoSettings {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $with(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*

            /// Sets which vendor methods are questions.
            #[must_use]
            pub fn with_questions(mut self, questions: QuestionMethods) -> Self {
                self.questions = questions;
                self
            }
        }

        impl ProtoOverrides {
            $(
                $(#[$doc])*
                #[must_use]
                pub const fn $with(mut self, $field: $type) -> Self {
                    self.$field = Some($field);
                    self
                }
            )*

            /// Sets which vendor methods are questions: these, and none of the common ones.
            #[must_use]
            pub fn with_questions(mut self, questions: QuestionMethods) -> Self {
                self.questions = Some(questions);
                self
            }
        }
    };
}

setters! {
    /// Sets the bound on sampling per configured server.
    with_sampling_per_minute(sampling_per_minute: Limit);
    /// Sets the bound on sampling per session.
    with_sampling_session_per_minute(sampling_session_per_minute: Limit);
    /// Sets the bound on elicitation per configured server.
    with_elicitation_per_minute(elicitation_per_minute: Limit);
    /// Sets the bound on elicitation per session.
    with_elicitation_session_per_minute(elicitation_session_per_minute: Limit);
    /// Sets how many rounds of one call are answered.
    with_ask_rounds(ask_rounds: AskRounds);
    /// Sets how long one question may stay open.
    with_ask_ttl(ask_ttl: AskTtl);
    /// Sets whether what is over a limit is refused.
    with_throttle_mode(throttle_mode: ThrottleMode);
}

/// The settings of a pool: the `[proto]` table, and the servers that differ from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    proto: ProtoSettings,
    servers: BTreeMap<ServerName, ProtoOverrides>,
    muted: BTreeSet<ServerName>,
}

impl Settings {
    /// The same settings for every server.
    #[must_use]
    pub const fn new(proto: ProtoSettings) -> Self {
        Self {
            proto,
            servers: BTreeMap::new(),
            muted: BTreeSet::new(),
        }
    }

    /// Changes settings for one server, in the place of what was changed for it before.
    #[must_use]
    pub fn with_server(mut self, name: ServerName, overrides: ProtoOverrides) -> Self {
        self.servers.insert(name, overrides);
        self
    }

    /// Refuses every question of one server, whatever its limits: `[servers.NAME] muted = true`.
    #[must_use]
    pub fn with_muted(mut self, name: ServerName) -> Self {
        self.muted.insert(name);
        self
    }

    /// The servers of which every question is refused.
    #[must_use]
    pub const fn muted(&self) -> &BTreeSet<ServerName> {
        &self.muted
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
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_key_is_refused() {
        let error =
            serde_json::from_value::<ProtoSettings>(json!({"samplingPerMin": 5})).unwrap_err();
        assert!(error.to_string().contains("samplingPerMin"), "{error}");
        assert!(serde_json::from_value::<ProtoOverrides>(json!({"askTtl": "5m"})).is_err());
    }

    /// What is set by values is what the same file says, for all servers and for one.
    #[test]
    fn values_set_what_a_table_sets() {
        let questions = || {
            QuestionMethods::new()
                .with("acme/ask", crate::question::QuestionKind::Sampling)
                .unwrap()
        };
        macro_rules! all_of {
            ($from:expr) => {
                $from
                    .with_sampling_per_minute(Limit::new(1).unwrap())
                    .with_sampling_session_per_minute(Limit::new(2).unwrap())
                    .with_elicitation_per_minute(Limit::new(3).unwrap())
                    .with_elicitation_session_per_minute(Limit::new(4).unwrap())
                    .with_ask_rounds(AskRounds::new(5).unwrap())
                    .with_ask_ttl(AskTtl::new(Duration::from_secs(6)).unwrap())
                    .with_throttle_mode(ThrottleMode::Observe)
                    .with_questions(questions())
            };
        }
        let table = json!({
            "samplingPerMinute": 1, "samplingSessionPerMinute": 2, "elicitationPerMinute": 3,
            "elicitationSessionPerMinute": 4, "askRounds": 5, "askTTL": "6s",
            "throttleMode": "observe", "questions": {"acme/ask": "sampling"},
        });
        let common = all_of!(ProtoSettings::default());
        let own = all_of!(ProtoOverrides::default());
        assert_eq!(serde_json::to_value(&common).unwrap(), table);
        assert_eq!(serde_json::to_value(&own).unwrap(), table);
        assert_eq!(own.over(&ProtoSettings::default()), common);
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
        assert_eq!(own.elicitation_per_minute, Limit::new(30).unwrap());
        let other = settings.for_server(&ServerName::new("GitHub").unwrap());
        assert_eq!(other, ProtoSettings::default());
    }
}
