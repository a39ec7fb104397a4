//! What stops the start, and what the error says.

use mcp_question_throttle::settings::{self, Environment, Fault, SettingsError};

use super::{SCALARS, error, parse, with_variables};

#[test]
fn bad_values() {
    let limits = [
        "-1",
        "1.5",
        "5.0",
        "\"5\"",
        "true",
        "nan",
        "inf",
        "4294967296",
        "18446744073709551616",
        "99999999999999999999999999999999999999999999",
        "1000001",
        "1979-05-27",
        "[5]",
        "{ a = 5 }",
        "''",
    ];
    for (key, ..) in SCALARS {
        for value in limits.into_iter().chain(["\"25h\"", "\"5 m\"", "\"0s\""]) {
            let error = error(&format!("[proto]\n\n{key} = {value}"));
            let expected = format!(":{}: proto.{key}: expected ", 4 + key.len());
            assert!(error.starts_with("settings.toml:3"), "{error}");
            assert!(error.contains(&expected), "{error}");
            let found = match value {
                "[5]" => "an array",
                "{ a = 5 }" => "a table",
                scalar => &scalar[..scalar.len().min(60)],
            };
            assert!(error.contains(&format!(", found {found}")), "{error}");
        }
    }
    for plain in ["300", "5"] {
        assert!(parse(&format!("[proto]\naskTTL = {plain}")).is_err());
    }
}

#[test]
fn bad_values_of_a_variable() {
    for (key, variable, ..) in SCALARS {
        for bad in [
            "",
            " 5",
            "5 ",
            "+5",
            "-1",
            "05",
            "0x10",
            "1_000",
            "5.0",
            "1e3",
            "true",
            "\"5\"",
            "1000001",
            "18446744073709551616",
            "300 s",
        ] {
            let error = with_variables("", &[(variable, bad)]).unwrap_err();
            let error = error.to_string();
            let expected = format!("environment variable {variable}: proto.{key}: expected ");
            assert!(error.starts_with(&expected), "{error}");
            assert!(error.ends_with(&format!(", found \"{bad}\"")), "{error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"\xff");
    let variables = [("MCP_QUESTION_THROTTLE_PROTO_ASK_ROUNDS", value)];
    let error = settings::without_file(&variables.into_iter().collect()).unwrap_err();
    assert!(error.to_string().ends_with("found \"\u{fffd}\""), "{error}");
}

#[test]
fn an_unknown_variable_of_ours_is_refused_and_a_foreign_one_is_not() {
    let text = |variable| {
        let error = with_variables("", &[(variable, "5")]).unwrap_err();
        error.to_string()
    };
    insta::assert_snapshot!(text("MCP_QUESTION_THROTTLE_SAMPLING_PER_MINUTE"));
    assert!(text("MCP_QUESTION_THROTTLE_PROTO_BURST").contains("unknown name (valid here: "));
    assert!(
        text("mcp_question_throttle_proto_ask_ttl")
            .contains("did you mean MCP_QUESTION_THROTTLE_PROTO_ASK_TTL?")
    );
    let foreign = [
        ("MCP_QUESTION", "x"),
        ("PATH", "/bin"),
        (settings::LOG_VARIABLE, "debug"),
    ];
    assert!(with_variables("", &foreign).is_ok());
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    insta::assert_snapshot!(error(
        "samplingPerMinute = 5
[proto]
samplingPerMin = 5
ask_ttl = '5m'
burst = 5
[proto.samplingPerMinute2]
x = 1
[servers.github]
commnd = 'x'
samplingPerMinute = 5
[servers.github.proto]
askTtl = '5m'
[server.github]
"
    ));
}

#[test]
fn wrong_types_are_refused_wherever_they_stand() {
    insta::assert_snapshot!(error(
        "[servers]
a = 5
b.command = ''
b.args = ['x', 5, { }]
b.env = { A = 5, '' = 'x', 'C=D' = 'x' }
c.command = ['x']
c.url = 'https://c.example'
d.url = 'ftp://d.example'
e.args = []
f.url = 'https:///path'
g.proto = 5
\"\" = {}
\"a\\nb\" = {}
[proto.questions]
'x/form' = 'elicit'
'x/ask' = 5
'sampling/createMessage' = 'sampling'
'' = 'sampling'
"
    ));
    insta::assert_snapshot!(error("proto = 5\n[[servers]]\nname = 'x'"));
}

#[test]
fn broken_toml_is_refused_with_its_place() {
    let texts = [
        "[proto",
        "[proto]\nsamplingPerMinute = \n",
        "[proto]\nsamplingPerMinute = 5 per minute",
        "[proto]\nsamplingPerMinute = 007",
        "[proto]\nsamplingPerMinute: 5",
        "[proto]\naskRounds = 1\naskRounds = 2",
        "[proto]\n[proto]",
        "[proto]\r\naskTTL = \"5m\r\n",
        "[proto]\nother = x",
        "[servers.a.proto]\naskTTL = 5m",
        "[servers.a]\ncommand = x --y",
        "ä = 'ö' x",
    ];
    insta::assert_snapshot!(texts.map(error).join("\n"));
}

/// Editors show no byte order mark, and count none.
#[test]
fn a_byte_order_mark_moves_no_place() {
    let bad = "samplingPerMinute = 5";
    let (plain, marked) = (error(bad), error(&format!("\u{feff}{bad}")));
    assert!(plain.starts_with("settings.toml:1:1: "), "{plain}");
    assert_eq!(marked, plain);
}

#[test]
fn no_error_shows_a_secret() {
    let secret = "hunter2";
    for text in [
        "[servers.a]\ncommand = 5\nargs = ['hunter2', 5]",
        "[servers.a]\nargs = ['hunter2']\nenv = { TOKEN = 'hunter2' }",
        "[servers.a]\ncommand = 'x'\nenv = 'hunter2'",
        "[servers.a]\ncommand = 'x'\nargs = 'hunter2'",
        "[servers.a]\nurl = 'hunter2'",
        "[servers.a]\nurl = 'ftp://user:hunter2@a.example'",
        "[servers.a]\ncommand = 'x'\nenv = { TOKEN = 'hunter2 }",
        "[servers.a]\ncommand = 'x'\nenv = { TOKEN = hunter2 }",
        "[servers.a]\nurl = 'https://a.example/?key=hunter2' 5",
        "[servers.a]\ncommand = hunter2 --x",
        "[servers.a]\nargs = ['x', hunter2]",
        "[servers.a.env]\nproto.askTTL = hunter2",
        "[servers.'a.proto']\naskTTL = hunter2",
        "[servers.a]\nheaders = { Authorization = 'hunter2' }",
        "servers = 'hunter2'",
        "[servers]\na = 'hunter2'",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.to_string().contains(secret), "{error}");
        assert!(!format!("{error:?}").contains(secret), "{error:?}");
    }
    let loaded = parse(
        "[servers.a]\ncommand = 'hunter2'\nargs = ['hunter2']\nenv = { A = 'hunter2' }
[servers.b]\nurl = 'https://hunter2.example'",
    )
    .unwrap();
    assert!(!format!("{loaded:?}").contains(secret), "{loaded:?}");
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

#[test]
fn an_unknown_mode_stops_the_start() {
    for wrong in ["'Observe'", "'off'", "''", "true", "0"] {
        let expected = "proto.throttleMode: expected \"enforce\" or \"observe\", found ";
        let text = format!("[proto]\nthrottleMode = {wrong}");
        assert!(error(&text).contains(expected), "{}", error(&text));
    }
    let variable = "MCP_QUESTION_THROTTLE_PROTO_THROTTLE_MODE";
    assert!(with_variables("", &[(variable, "observed")]).is_err());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = std::env::temp_dir().join("no-such-dir/settings.toml");
    let error = settings::load(&missing).unwrap_err();
    assert!(matches!(error, SettingsError::Unreadable { .. }));
    // A report of the whole chain once said "No such file" twice.
    assert!(std::error::Error::source(&error).is_none());
    assert!(
        error.to_string().contains("no-such-dir/settings.toml: "),
        "{error}"
    );

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, b"[proto]\n# \xff\n").unwrap();
    let error = settings::load_with(file.path(), &Environment::empty()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with(":2:3: not UTF-8, which TOML has to be"),
        "{error}"
    );
    assert!(matches!(error.problems()[0].fault(), Fault::Syntax(_)));

    std::fs::write(&file, "\u{feff}[proto]\r\naskRounds = 3\r\n").unwrap();
    let loaded = settings::load_with(file.path(), &Environment::empty()).unwrap();
    assert_eq!(loaded.settings().proto().ask_rounds.get(), 3);
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

/// TOML takes a name with dots for tables within tables, and a newcomer was told of an unknown
/// name alone, at the part behind the first dot.
#[test]
fn a_servers_name_with_dots_is_shown_in_quotes() {
    for table in [
        "[servers.mcp.example.com]\nurl = 'https://localhost'",
        "[servers.mcp.example.com.proto]\nsamplingPerMinute = 5",
    ] {
        let error = error(table);
        assert!(
            error.contains(r#": servers.mcp.example: unknown name, did you mean servers."mcp.example.com"? (valid here: command, "#),
            "{error}"
        );
        assert!(parse(&table.replace("mcp.example.com", "'mcp.example.com'")).is_ok());
    }
    // What holds nothing of a server's is another mistake, and a near miss is one of that key.
    let error = error(
        "[servers.github.limits]\nsamplingPerMinute = 5\n[servers.github.header]\nAccept = 'x'",
    );
    assert!(!error.contains("\"github"), "{error}");
    assert!(error.contains("did you mean headers?"), "{error}");
}
