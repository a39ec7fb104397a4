//! How it starts and how it ends.

use std::{fs, path::Path};

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Wrapped, is_alive};

#[test]
fn the_servers_status_is_ours() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137), ("exit 0", 0)] {
        let mut wrapped = Wrapped::start(&["--", "sh", "-c", script]);
        assert_eq!(wrapped.wait().code(), Some(code), "{script}");
    }
}

#[test]
fn errors_of_our_own_are_told_from_the_servers() {
    let end = |settings: &str, args: &[&str]| {
        let mut wrapped = Wrapped::start_with(settings, args);
        let code = wrapped.wait().code().unwrap();
        (code, wrapped.logged("error:"))
    };
    let (code, error) = end("", &["--", "no-such-program"]);
    assert_eq!(code, 69);
    assert!(
        error.contains("cannot start \"no-such-program\""),
        "{error}"
    );
    let (code, error) = end("[proto]\naskRounds = 0\n", &["--", "true"]);
    assert_eq!(code, 78, "{error}");
    let (code, error) = end("", &[]);
    assert_eq!(code, 2);
    assert!(
        error.contains("no command for server \"github\""),
        "{error}"
    );
    let (code, error) = end("[servers.github]\nurl = \"http://localhost/\"\n", &[]);
    assert_eq!(code, 2);
    assert!(error.contains("reached by URL"), "{error}");
}

#[test]
fn common_mistakes_are_answered_with_what_to_do() {
    let mut spaced = Wrapped::start(&["--", "npx -y server"]);
    spaced.logged("cannot start \"npx -y server\"");
    spaced.logged("give each word by itself");
    assert_eq!(spaced.wait().code(), Some(69));
    for (program, tip) in [
        ("no-such-program", "it is in no folder of PATH"),
        ("./no-such-program", "there is no such file"),
        ("/", "make it one by `chmod +x`"),
        ("--settings", "options of `wrap` stand before the `--`"),
    ] {
        let mut missing = Wrapped::start(&["--", program]);
        missing.logged(&format!("cannot start {program:?}"));
        missing.logged(tip);
        assert_eq!(missing.wait().code(), Some(69));
    }
    let mut bare = Wrapped::start(&["npx", "-y", "server"]);
    bare.logged("stands behind `--`");
    assert_eq!(bare.wait().code(), Some(2));
    // The limits of another name would hold for nobody.
    let settings = "[servers.GitHub.proto]\nelicitationPerMinute = 1\n";
    let mut slip = Wrapped::start_with(settings, &["--", "true"]);
    let said = slip.logged("no [servers.\"github\"] in ");
    assert!(said.contains("the limits of [proto] hold"), "{said}");
    assert!(said.ends_with("was \"GitHub\" meant?"), "{said}");
    assert_eq!(slip.wait().code(), Some(0));
    let unbounded = "[servers.weather]\ncommand = \"weather\"\n";
    let mut none = Wrapped::start_with(unbounded, &["--", "true"]);
    assert_eq!(none.wait().code(), Some(0));
    assert_eq!(none.rest_of_log(), Vec::<String>::new());
}

/// A name that is not even near was not told of, though the file had limits for servers, and none
/// of them held.
#[test]
fn a_name_that_the_settings_do_not_have_is_told_with_those_they_have() {
    let others = "[servers.weather.proto]\nelicitationPerMinute = 1\n[servers.\"my files\"]\n";
    let mut strange = Wrapped::start_with(others, &["--", "true"]);
    let said = strange.logged("no [servers.\"github\"] in ");
    assert!(said.contains("WARN"), "{said}");
    assert!(
        said.contains("limits.toml, so the limits of [proto] hold"),
        "{said}"
    );
    assert!(said.ends_with("it has \"my files\", \"weather\""), "{said}");
    assert_eq!(strange.wait().code(), Some(0));
    let known = "[servers.weather.proto]\nelicitationPerMinute = 1\n[servers.github]\n";
    let mut known = Wrapped::start_with(known, &["--", "true"]);
    assert_eq!(known.wait().code(), Some(0));
    assert_eq!(known.rest_of_log(), Vec::<String>::new());
}

#[test]
fn the_command_can_come_from_the_settings_or_from_a_clients_configuration() {
    let settings = "[servers.github]\ncommand = \"sh\"\nargs = [\"-c\", \"exit $CODE\"]\nenv = { CODE = \"9\" }\n";
    assert_eq!(Wrapped::start_with(settings, &[]).wait().code(), Some(9));

    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    let server = json!({"command": "sh", "args": ["-c", "exit $CODE"], "env": {"CODE": "8"}});
    fs::write(&file, json!({"mcpServers": {"github": server}}).to_string()).unwrap();
    let file = Path::to_str(&file).unwrap();
    assert_eq!(
        Wrapped::start(&["--mcp-config", file]).wait().code(),
        Some(8)
    );
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let mut wrapped = Wrapped::start(&["--", "sh", "-c", &script]);
        assert_eq!(wrapped.receive(), b"ready\n");
        wrapped.signal(signal);
        assert_eq!(wrapped.receive(), format!("got {name}\n").as_bytes());
        assert_eq!(wrapped.wait().code(), Some(3));
    }
}

#[test]
fn a_server_that_ignores_everything_is_killed_when_the_client_goes() {
    let stubborn = r#"
signal.signal(signal.SIGTERM, lambda *_: say("told"))
send({"ready": True})
while True: time.sleep(1)
"#;
    let mut closed = Wrapped::python(stubborn);
    let mut signalled = Wrapped::python(stubborn);
    closed.receive();
    signalled.receive();
    closed.close_input();
    signalled.signal(Signal::SIGTERM);
    signalled.logged("told");
    signalled.logged("sending SIGKILL");
    assert_eq!(signalled.wait().code(), Some(128 + 9));
    closed.logged("told");
    assert_eq!(closed.wait().code(), Some(128 + 9));
}

#[test]
fn a_server_ends_when_nobody_takes_its_output() {
    let mut wrapped = Wrapped::python("while True: send({'method': 'notifications/message'})");
    wrapped.receive();
    wrapped.stdout = None;
    assert_eq!(
        wrapped.wait().code(),
        Some(128 + 15),
        "told to end by a signal"
    );
}

#[test]
fn what_a_server_leaves_behind_is_ended() {
    let mut wrapped = Wrapped::start(&[
        "--",
        "sh",
        "-c",
        "sleep 1000 & echo $!; echo last words; exit 4",
    ]);
    let pid = String::from_utf8(wrapped.receive()).unwrap();
    assert_eq!(wrapped.receive_all(), b"last words\n");
    assert_eq!(wrapped.wait().code(), Some(4));
    assert!(!is_alive(pid.trim()));
}

#[test]
fn what_a_server_leaves_behind_may_end_by_itself() {
    let left =
        "trap 'echo goodbye >&2; exit' TERM; echo ready; exec >&2; while :; do sleep 0.05; done";
    let mut wrapped = Wrapped::start(&["--", "sh", "-c", &format!("({left}) & read line; exit 0")]);
    assert_eq!(wrapped.receive(), b"ready\n");
    wrapped.send(b"\n");
    wrapped.logged("goodbye");
    assert_eq!(wrapped.wait().code(), Some(0));
}
