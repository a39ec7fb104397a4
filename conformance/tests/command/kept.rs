//! What a run leaves behind for its reader: a wire log, and a baseline.

use std::fs;

use serde_json::Value;

use crate::support::{BURST, assert_ends, run_reference, run_shell, said};

#[test]
fn a_wire_log_has_every_message_with_its_time_server_connection_and_side() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("logs");
    for (transport, scenario) in [("stdio", "burst"), ("http", "neighbours")] {
        let logs = ["--wire-log", logs.to_str().unwrap()];
        let played = ["--scenario", scenario, "--transport", transport];
        run_reference(None, &[&played[..], &logs].concat());
    }
    let read = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(logs.join(name)).unwrap();
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    };
    let burst = read("burst.jsonl");
    assert_eq!(burst[0]["from"], "client");
    assert_eq!(burst[0]["server"], "alpha");
    assert_eq!(burst[0]["connection"], 1);
    assert_eq!(burst[0]["message"]["method"], "initialize");
    assert!(burst[0]["at"].is_f64(), "{}", burst[0]);
    let count = |log: &[Value], is_meant: &dyn Fn(&Value) -> bool| {
        log.iter().filter(|line| is_meant(line)).count()
    };
    // 20 and 25 more, 30 and 25 more, then 3 of each.
    let asked = |line: &Value| {
        let method = line["message"]["method"].as_str().unwrap_or_default();
        line["from"] == "server"
            && matches!(method, "sampling/createMessage" | "elicitation/create")
    };
    let refused =
        |line: &Value| line["from"] == "client" && line["message"]["error"]["code"] == -32603;
    assert_eq!(count(&burst, &asked), 106);
    assert_eq!(count(&burst, &refused), 56);
    let neighbours = read("neighbours.jsonl");
    for server in ["alpha", "beta", "gamma"] {
        let here = |line: &Value| line["server"] == server && asked(line);
        assert!(count(&neighbours, &here) > 0, "{server} asked nothing");
    }
}

#[test]
fn a_wire_log_shows_what_was_no_json() {
    let folder = tempfile::tempdir().unwrap();
    let logs = ["--wire-log", folder.path().to_str().unwrap()];
    run_shell("echo garbage | eval \"$1\"", &[&BURST[..], &logs].concat());
    let text = fs::read_to_string(folder.path().join("burst.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["message"], "garbage");
}

#[test]
fn a_wire_log_that_cannot_be_written_is_said() {
    let nowhere = run_reference(None, &[&BURST[..], &["--wire-log", "/dev/null/x"]].concat());
    assert_ends(&nowhere, 2, &["--wire-log: /dev/null/x/burst.jsonl: "]);
}

#[test]
fn a_baseline_is_strict_both_ways_and_never_excuses_a_client_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known.toml");
    let file = file.to_str().unwrap();
    let saved = run_reference(
        Some("no-data"),
        &[&BURST[..], &["--save-baseline", file]].concat(),
    );
    assert_ends(
        &saved,
        0,
        &["UNMET         sampling-data", "what is unmet stands in"],
    );
    let text = fs::read_to_string(file).unwrap();
    let known = "burst = [\"elicitation-data\", \"sampling-data\", \"waiting-time\"]";
    assert!(text.contains(known), "{text}");

    let against = |wrong: Option<&str>, more: &[&str]| {
        run_reference(wrong, &[&["--baseline", file], more].concat())
    };
    let same = against(Some("no-data"), &BURST);
    assert_ends(&same, 0, &["all as the baseline has it"]);
    let worse = against(Some("no-limit"), &BURST);
    let new = "sampling-exact of burst is unmet, which the baseline does not have";
    assert_ends(&worse, 1, &[new]);
    let better = against(None, &BURST);
    let gone = "sampling-data of burst is not unmet any more: take it out of the baseline";
    assert_ends(&better, 1, &[gone]);
    // What was not played is not compared.
    let other = against(None, &["--scenario", "ids"]);
    assert_ends(&other, 0, &["all as the baseline has it"]);
    let fails = run_shell("exit 7", &[&BURST[..], &["--baseline", file]].concat());
    assert_ends(&fails, 3, &["it ended with the exit code 7"]);
}

#[test]
fn a_baseline_that_cannot_be_read_is_said_before_anything_is_played() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known.toml");
    fs::write(&file, "burst = 5\n").unwrap();
    for path in [file.to_str().unwrap(), "/no/such/file"] {
        let wrong = run_reference(None, &[&BURST[..], &["--baseline", path]].concat());
        assert_ends(&wrong, 2, &["--baseline: ", path]);
        assert!(!said(&wrong).contains("playing"), "{}", said(&wrong));
    }
    fs::write(&file, "burst = [\"no-such-check\"]\n").unwrap();
    let baseline = ["--baseline", file.to_str().unwrap()];
    let old = run_reference(None, &[&BURST[..], &baseline].concat());
    assert_ends(&old, 1, &["burst has no check no-such-check"]);
}
