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

/// The name began at the last table: `askRounds` of whom?
#[test]
fn a_key_that_stands_twice_is_named_in_full() {
    for (text, expected) in [
        (
            "[proto]\naskRounds = 1\naskRounds = 2",
            "3:1: proto.askRounds: ",
        ),
        (
            "[servers.\"a b\".proto]\naskTTL = \"5m\"\n\n  askTTL = \"6m\"",
            "4:3: servers.\"a b\".proto.askTTL: ",
        ),
        (
            "proto.askRounds = 1\nproto.askRounds = 2",
            "2:7: proto.askRounds: ",
        ),
        ("[servers.a]\n[servers.a]", "2:10: servers.a: "),
        ("[proto]\n[ proto ]", "2:3: proto: "),
        (
            "[servers.a]\nargs = [\n  'x',\n  ['y'],\n]\ncommand = 'x'\ncommand = 'y'",
            "7:1: servers.a.command: ",
        ),
    ] {
        let found = error(text);
        assert_eq!(
            found,
            format!("settings.toml:{expected}duplicate key"),
            "{text}"
        );
    }
}

/// It said the reverse: "not a header that is neither ...".
#[test]
fn a_header_of_the_connection_is_refused_in_words_that_say_so() {
    let found = error("[servers.a]\nurl = 'https://a.example'\nheaders = { Host = 'x' }");
    let expected = "servers.a.headers.Host: expected a header name that is not one of the \
                    connection, the body or the protocol";
    assert!(found.ends_with(expected), "{found}");
}

/// A relay cannot hold to either, and `check` printed both as in force.
#[test]
fn settings_that_a_relay_does_not_hold_to_are_told_of() {
    let notes = |text: &str| -> Vec<String> {
        let warnings = parse(text).unwrap().warnings();
        let notes = warnings.iter().map(ToString::to_string);
        notes.filter(|it| it.contains("relay")).collect()
    };
    let server = "[servers.a]\ncommand = 'x'\n";
    let common = "[proto]\naskTTL = '1m'\n";
    assert_eq!(
        notes(&format!("{common}{server}")),
        [
            "[proto]: proto.askTTL does nothing in a relay (`wrap` and `serve`), which can neither \
          close a client's prompt nor tell which rounds are one call's"
        ]
    );
    assert_eq!(notes(common), Vec::<String>::new(), "no relay is in sight");
    assert_eq!(notes(server), Vec::<String>::new(), "as by default");
    let both = "[servers.a]\nurl = 'http://a'\n[servers.a.proto]\naskTTL = '1m'\naskRounds = 3";
    let both = notes(both);
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(
        both[0].starts_with("server \"a\": proto.askRounds and proto.askTTL do nothing in a relay"),
        "{both:?}"
    );
    let elsewhere = "[servers.a.proto]\naskTTL = '1m'\n[servers.b]\nurl = 'http://b'";
    assert_eq!(
        notes(elsewhere),
        Vec::<String>::new(),
        "its host connects it"
    );
}
