//! What a settings file may say, beyond the values of its limits.
#![cfg(feature = "file")]

use mcp_question_throttle::settings::{self, Environment, Loaded, SettingsError};

fn parse(text: &str) -> Result<Loaded, SettingsError> {
    settings::parse("settings.toml", text, &Environment::empty())
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// `"ping" = "sampling"` was called valid, and the relay refused pings then: the server took its
/// client for dead.
#[test]
fn the_protocols_own_messages_are_refused_as_vendor_questions() {
    for method in [
        "ping",
        "tools/call",
        "notifications/progress",
        "tasks/result",
    ] {
        for table in ["proto", "servers.github.proto"] {
            let found = error(&format!("[{table}.questions]\n{method:?} = \"sampling\"\n"));
            assert!(found.starts_with("settings.toml:2:1: "), "{found}");
            assert!(found.contains(&format!("{table}.questions.")), "{found}");
            let reason = format!("{method:?} is a message of the protocol itself and no question");
            assert!(found.contains(&reason), "{found}");
        }
    }
    assert!(parse("[proto.questions]\n\"roots/list\" = \"elicitation\"\n").is_ok());
}
