//! The servers of a file, and what is said of them.

use mcp_question_throttle::{limits::ServerName, question::QuestionKind, settings::Endpoint};

use super::{EXAMPLE, error, name, parse};

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
