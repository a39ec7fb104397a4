//! The limits that a client under test is expected to hold.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use crate::protocol::{Kind, Scope};

/// The limits of one client, as its settings file has them under `[proto]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Limits {
    sampling_per_minute: u32,
    sampling_session_per_minute: u32,
    elicitation_per_minute: u32,
    elicitation_session_per_minute: u32,
    /// Rounds per call.
    pub(crate) ask_rounds: u32,
    /// Accepted, since it stands in the same table; no scenario waits that long.
    #[serde(rename = "askTTL")]
    ask_ttl: Option<String>,
    /// Accepted for the same reason; no scenario asks vendor questions.
    questions: BTreeMap<String, Kind>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sampling_per_minute: 60,
            sampling_session_per_minute: 20,
            elicitation_per_minute: 30,
            elicitation_session_per_minute: 0,
            ask_rounds: 8,
            ask_ttl: None,
            questions: BTreeMap::new(),
        }
    }
}

impl Limits {
    /// Reads the table `[proto]` of a TOML file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            proto: Limits,
        }
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the limits in {}: {error}", path.display()))?;
        let file: File = toml::from_str(&text)
            .map_err(|error| format!("limits in {}: {error}", path.display()))?;
        Ok(file.proto)
    }

    /// A limit; `None` if it is turned off.
    pub(crate) const fn get(&self, kind: Kind, scope: Scope) -> Option<u32> {
        let limit = match (kind, scope) {
            (Kind::Sampling, Scope::Server) => self.sampling_per_minute,
            (Kind::Sampling, Scope::Session) => self.sampling_session_per_minute,
            (Kind::Elicitation, Scope::Server) => self.elicitation_per_minute,
            (Kind::Elicitation, Scope::Session) => self.elicitation_session_per_minute,
        };
        if limit == 0 { None } else { Some(limit) }
    }

    /// The lowest limit of a kind: what one fresh session of a fresh server may ask.
    pub(crate) fn lowest(&self, kind: Kind) -> Option<u32> {
        Scope::ALL
            .into_iter()
            .filter_map(|scope| self.get(kind, scope))
            .min()
    }
}

/// The name of a limit's setting, as a refusal names it.
pub(crate) const fn name(kind: Kind, scope: Scope) -> &'static str {
    match (kind, scope) {
        (Kind::Sampling, Scope::Server) => "proto.samplingPerMinute",
        (Kind::Sampling, Scope::Session) => "proto.samplingSessionPerMinute",
        (Kind::Elicitation, Scope::Server) => "proto.elicitationPerMinute",
        (Kind::Elicitation, Scope::Session) => "proto.elicitationSessionPerMinute",
    }
}
