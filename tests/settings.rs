//! Settings from a file and from the environment: what is taken, what is refused, and in which
//! words.
#![cfg(feature = "file")]

use mcp_question_throttle::{
    limits::{ProtoSettings, ServerName},
    question::QuestionKind,
    settings::{self, Endpoint, Environment, Fault, Loaded, SettingsError},
};

const EXAMPLE: &str = include_str!("../settings.example.toml");

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

#[test]
fn the_example_has_every_key_at_its_default() {
    let loaded = parse(EXAMPLE).unwrap();
    assert_eq!(*loaded.settings().proto(), ProtoSettings::default());
    assert!(loaded.servers().is_empty());

    let table: toml::Table = EXAMPLE.parse().unwrap();
    let written = serde_json::to_value(&table["proto"]).unwrap();
    assert_eq!(
        written,
        json(&ProtoSettings::default()),
        "written out key for key"
    );
    for setting in loaded.in_force(None) {
        assert!(
            setting.origin.to_string().starts_with("settings.toml:"),
            "{setting:?}"
        );
    }
    let status = table["status"].as_table().unwrap();
    assert_eq!(status.len(), 1);
    assert_eq!(status["muteButton"].as_bool(), Some(false));
    for (_, variable, ..) in SCALARS {
        assert!(EXAMPLE.contains(variable), "{variable} is not mentioned");
    }
}

#[test]
fn what_the_example_only_shows_is_valid_too() {
    let mut shown = String::new();
    for line in EXAMPLE.lines() {
        let code = line.strip_prefix("# ").unwrap_or(line);
        let is_pair = code.split_whitespace().nth(1) == Some("=");
        if code.starts_with('[') || is_pair {
            shown.push_str(code);
        }
        shown.push('\n');
    }
    let loaded = parse(&shown).unwrap();
    let servers: Vec<_> = loaded.servers().keys().map(ServerName::as_str).collect();
    assert_eq!(servers, ["docs", "github"]);
    assert_eq!(loaded.settings().proto().questions.iter().count(), 1);
}

#[test]
fn no_setting_is_forgotten_here() {
    let here = SCALARS.map(|(key, variable, ..)| (format!("proto.{key}"), variable));
    let known = settings::variables().map(|(name, variable)| (name.to_owned(), variable));
    assert_eq!(here.to_vec(), known.collect::<Vec<_>>());
}

#[test]
fn every_setting_takes_effect_from_the_file() {
    for (key, _, value, _) in SCALARS {
        let loaded = parse(&format!("[proto]\n{key} = {value}")).unwrap();
        let found = json(loaded.settings().proto());
        assert_eq!(found[key].to_string(), value, "{key}");
        assert_ne!(found, json(&ProtoSettings::default()), "{key}");
        let origin = loaded.origin(None, &format!("proto.{key}")).unwrap();
        assert_eq!(origin.to_string(), "settings.toml:2");
    }
}

#[test]
fn every_way_to_write_it_in_toml_is_read_alike() {
    for text in [
        "[proto]\nsamplingPerMinute = 16\naskTTL = '2m'",
        "proto.samplingPerMinute = 1_6\nproto.askTTL = \"120s\"",
        "proto = { samplingPerMinute = 0x10, askTTL = '2m' }",
        "['proto']\n\"samplingPerMinute\" = +16\naskTTL = '''2m'''",
        "\"\\u0070roto\".samplingPerMinute = 0b10000\nproto.\"askTTL\" = \"\"\"\n2m\"\"\"",
    ] {
        let loaded = parse(text).unwrap();
        let proto = loaded.settings().proto();
        assert_eq!(proto.sampling_per_minute.get(), 16, "{text}");
        assert_eq!(proto.ask_ttl.to_string(), "2m", "{text}");
    }
}

#[test]
fn every_setting_takes_effect_for_one_server() {
    let github = name("github");
    for (key, _, value, _) in SCALARS {
        let text = format!("[servers.github.proto]\n{key} = {value}\n[servers.other]");
        let loaded = parse(&text).unwrap();
        let own = json(&loaded.settings().for_server(&github));
        assert_eq!(own[key].to_string(), value, "{key}");
        let other = loaded.settings().for_server(&name("other"));
        assert_eq!(other, ProtoSettings::default(), "{key}");
    }
}

#[test]
fn every_variable_takes_effect_above_the_file() {
    for (key, variable, value, written) in SCALARS {
        for text in ["", EXAMPLE] {
            let loaded = with_variables(text, &[(variable, written)]).unwrap();
            let found = json(loaded.settings().proto());
            assert_eq!(found[key].to_string(), value, "{variable}");
            let origin = loaded.origin(None, &format!("proto.{key}")).unwrap();
            assert_eq!(origin.to_string(), variable);
        }
    }
}

#[test]
fn a_servers_own_table_stands_above_a_variable() {
    let loaded = with_variables(
        "[servers.a.proto]\nsamplingPerMinute = 1\n[servers.b]",
        &[("MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE", "2")],
    )
    .unwrap();
    let limit = |server| {
        loaded
            .settings()
            .for_server(&name(server))
            .sampling_per_minute
    };
    assert_eq!(limit("a").get(), 1);
    assert_eq!(limit("b").get(), 2);
    let origin = |server| {
        let origin = loaded.origin(Some(&name(server)), "proto.samplingPerMinute");
        origin.unwrap().to_string()
    };
    assert_eq!(origin("a"), "settings.toml:2");
    assert_eq!(
        origin("b"),
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE"
    );
    let none = loaded.origin(Some(&name("a")), "proto.askTTL").unwrap();
    assert_eq!(none.to_string(), "default");
    assert_eq!(loaded.origin(None, "proto.nonesuch"), None);
}

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

#[test]
fn names_exact() {
    let loaded = parse(
        "[servers.GitHub]\nurl = 'https://a.example'\n[servers.GitHub.proto]\nsamplingPerMinute = 1
[servers.github]\nurl = 'https://b.example'\n[servers.'a.b:c ü'.proto]\nsamplingPerMinute = 3",
    )
    .unwrap();
    let names: Vec<_> = loaded.servers().keys().map(ServerName::as_str).collect();
    assert_eq!(names, ["GitHub", "a.b:c ü", "github"]);
    let limit = |server| {
        loaded
            .settings()
            .for_server(&name(server))
            .sampling_per_minute
    };
    assert_eq!(limit("GitHub").get(), 1);
    assert_eq!(limit("github").get(), 60);
    assert_eq!(limit("a.b:c ü").get(), 3);
}

#[test]
fn a_server_keeps_its_command_to_the_letter() {
    let loaded = parse(
        "[servers.a]\ncommand = 'Run'\nargs = ['--x', 'true', '5', '']\nenv = { Path = '1', PATH = '2' }
[servers.b]\nurl = 'http://127.0.0.1:8080/MCP?x=Y'\n[servers.c.proto]",
    )
    .unwrap();
    let endpoint = |server| loaded.servers()[server].endpoint();
    let Some(Endpoint::Command(command)) = endpoint("a") else {
        panic!("{:?}", endpoint("a"));
    };
    assert_eq!(command.program(), "Run");
    assert_eq!(command.args(), ["--x", "true", "5", ""]);
    let env: Vec<_> = command
        .env()
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(env, [("PATH", "2"), ("Path", "1")]);
    let url = Endpoint::Url("http://127.0.0.1:8080/MCP?x=Y".to_owned());
    assert_eq!(endpoint("b"), Some(&url));
    assert_eq!(endpoint("c"), None);
}

#[test]
fn a_server_is_muted_by_true_and_by_nothing_else() {
    let loaded =
        parse("[servers.a]\nmuted = true\n[servers.b]\nmuted = false\n[servers.c]").unwrap();
    let muted: Vec<_> = loaded.settings().muted().iter().collect();
    assert_eq!(muted, [&name("a")]);
    for (wrong, found) in [
        ("1", "an integer"),
        ("'true'", "a string"),
        ("{}", "a table"),
    ] {
        assert_eq!(
            error(&format!("[servers.a]\nmuted = {wrong}")),
            format!("settings.toml:2:9: servers.a.muted: expected true or false, found {found}")
        );
    }
    assert!(error("[proto]\nmuted = true").contains("unknown name"));
}

#[test]
fn the_mute_button_is_off_unless_it_is_turned_on() {
    let button = |text| parse(text).unwrap().status_page().mute_button;
    assert!(!button("") && !button("[status]") && !button(EXAMPLE));
    assert!(button("[status]\nmuteButton = true"));
    let loaded = parse("[status]\nmuteButton = true").unwrap();
    let origin = loaded.origin(None, "status.muteButton").unwrap();
    assert_eq!(origin.to_string(), "settings.toml:2");
    assert_eq!(
        error("[status]\nmuteButton = 'yes'\nmuteButtons = true"),
        "settings.toml:2:14: status.muteButton: expected true or false, found a string\n\
         settings.toml:3:1: status.muteButtons: unknown name, did you mean muteButton? \
         (valid here: muteButton)"
    );
    assert!(error("status = 1").contains("expected a table"));
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
fn a_servers_table_of_methods_replaces_the_common_one() {
    let loaded = parse(
        "[proto.questions]\n'x/form' = 'elicitation'\n'roots/list' = 'sampling'
[servers.a.proto.questions]\n'x/form' = 'sampling'\n[servers.b.proto.questions]\n[servers.c]",
    )
    .unwrap();
    let kind = |server, method| {
        let proto = loaded.settings().for_server(&name(server));
        proto.questions.classify(method).map(|(kind, _)| kind)
    };
    assert_eq!(kind("a", "x/form"), Some(QuestionKind::Sampling));
    assert_eq!(kind("a", "roots/list"), None);
    assert_eq!(kind("b", "x/form"), None);
    assert_eq!(kind("c", "x/form"), Some(QuestionKind::Elicitation));
    let origin = |server| {
        let setting = r#"proto.questions."x/form""#;
        loaded
            .origin(Some(&name(server)), setting)
            .map(ToString::to_string)
    };
    assert_eq!(origin("a").as_deref(), Some("settings.toml:5"));
    assert_eq!(origin("b"), None);
    assert_eq!(origin("c").as_deref(), Some("settings.toml:2"));
}

#[test]
fn what_is_valid_yet_unwise_is_said() {
    let loaded = parse(
        "[servers.a]\ncommand = 'x'\nargs = ['y']
[servers.b]\ncommand = 'x'\nargs = ['y']\nenv = { A = '1' }
[servers.c]\ncommand = 'x'
[servers.d]\nurl = 'https://d.example/mcp'
[servers.e]\nurl = 'https://d.example/mcp/'
[servers.e.proto]\nsamplingPerMinute = 0\nelicitationPerMinute = 0
[servers.f.proto]\nsamplingPerMinute = 20\nelicitationSessionPerMinute = 31
[servers.g.proto]\nelicitationSessionPerMinute = 29\nsamplingSessionPerMinute = 59
[servers.h]\nmuted = true\n[servers.h.proto]\nthrottleMode = 'observe'",
    )
    .unwrap();
    let warnings: Vec<_> = loaded
        .warnings()
        .iter()
        .map(|warning| format!("{}: {warning}", warning.level().as_str()))
        .collect();
    insta::assert_snapshot!(warnings.join("\n"));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = std::env::temp_dir().join("no-such-dir/settings.toml");
    let error = settings::load(&missing).unwrap_err();
    assert!(matches!(error, SettingsError::Unreadable { .. }));
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
