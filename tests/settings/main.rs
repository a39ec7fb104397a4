//! Settings from a file and from the environment: what is taken, what is refused, and in which
//! words.
#![cfg(feature = "file")]

mod any_text;
mod effect;
mod refused;
mod servers;

use mcp_question_throttle::{
    limits::{ProtoSettings, ServerName},
    settings::{self, Environment, Loaded, SettingsError},
};

const EXAMPLE: &str = include_str!("../../settings.example.toml");

/// Every setting of `[proto]` with its variable, a value that is not the default, and how that is
/// written in a variable.
const SCALARS: [(&str, &str, &str, &str); 7] = [
    (
        "samplingPerMinute",
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE",
        "61",
        "61",
    ),
    (
        "samplingSessionPerMinute",
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_SESSION_PER_MINUTE",
        "21",
        "21",
    ),
    (
        "elicitationPerMinute",
        "MCP_QUESTION_THROTTLE_PROTO_ELICITATION_PER_MINUTE",
        "31",
        "31",
    ),
    (
        "elicitationSessionPerMinute",
        "MCP_QUESTION_THROTTLE_PROTO_ELICITATION_SESSION_PER_MINUTE",
        "1",
        "1",
    ),
    (
        "askRounds",
        "MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS",
        "9",
        "9",
    ),
    (
        "askTTL",
        "MCP_QUESTION_THROTTLE_PROTO_ASK_TTL",
        "\"90s\"",
        "90s",
    ),
    (
        "throttleMode",
        "MCP_QUESTION_THROTTLE_PROTO_THROTTLE_MODE",
        "\"observe\"",
        "observe",
    ),
];

fn parse(text: &str) -> Result<Loaded, SettingsError> {
    settings::parse("settings.toml", text, &Environment::empty())
}

fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
    let environment = variables.iter().copied().collect();
    settings::parse("settings.toml", text, &environment)
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

/// The proto settings as JSON, to look a setting up by its name.
fn json(proto: &ProtoSettings) -> serde_json::Value {
    serde_json::to_value(proto).unwrap()
}
