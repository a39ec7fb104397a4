//! The runner as its users meet it: what it says, and how it ends, when something is wrong with the
//! client, with the command line, or with a file.

use std::{fs, path::Path, process::Command};

use crate::support::{
    BURST, CONFORMANCE, assert_ends, assert_is_over, run, run_reference, run_shell, said,
};
use serde_json::Value;

#[test]
fn a_right_client_meets_everything_and_a_wrong_one_is_told_what_to_fix() {
    assert_ends(
        &run_reference(None, &BURST),
        0,
        &["playing burst (1 of 1)", "0 unmet"],
    );
    let wrong = run_reference(Some("no-data"), &BURST);
    assert_ends(
        &wrong,
        1,
        &[
            "UNMET         sampling-data",
            "required by refusal-names-limit",
            "conformance explain NAME says where a requirement comes from",
            "wanted: data.limit is \"proto.samplingSessionPerMinute\"",
        ],
    );
}

#[test]
fn a_client_that_hangs_is_ended_with_what_it_did_and_said() {
    let hangs = run_shell(
        "echo looking for the server >&2; sleep 600",
        &[&BURST[..], &["--time-limit", "2"]].concat(),
    );
    assert_ends(
        &hangs,
        3,
        &[
            "it was ended after 1 s in which it did not connect (half of --time-limit)",
            "it connected to no server: their addresses are in MCP_CONFORMANCE_SERVERS",
            "| looking for the server",
        ],
    );
    let hangs = run_reference(
        Some("hangs"),
        &[&BURST[..], &["--time-limit", "3"]].concat(),
    );
    assert_ends(
        &hangs,
        3,
        &[
            "it did not end within 3 s, and was ended",
            "its last call was both-again of the server alpha",
        ],
    );
}

#[test]
fn a_client_that_prints_without_end_is_ended_like_any_other() {
    let prints = run_shell(
        "yes a long complaint >&2",
        &[&BURST[..], &["--time-limit", "1"]].concat(),
    );
    assert_ends(
        &prints,
        3,
        &["it was ended after 0.5 s", "| a long complaint\n"],
    );
}

#[test]
fn what_a_client_left_running_is_ended_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let client = format!("sleep 600 & echo $! > {}; wait", pid.display());
    run_shell(&client, &[&BURST[..], &["--time-limit", "2"]].concat());
    assert_is_over(&pid);
}

#[test]
fn a_client_that_dies_fails_with_its_exit_code_or_signal_and_its_last_words() {
    let dies = run_shell("echo no such option >&2; exit 7", &BURST);
    assert_ends(
        &dies,
        3,
        &["it ended with the exit code 7", "| no such option"],
    );
    let killed = run_shell("kill -KILL $$", &BURST);
    assert_ends(&killed, 3, &["it was ended by the signal 9"]);
}

#[test]
fn a_client_that_does_nothing_passes_nothing() {
    let nothing = run_shell("true", &[]);
    assert_ends(
        &nothing,
        3,
        &[
            "not testable  all 14 checks\n                  the client connected to no server\n",
            "0 met, 0 unmet",
            "nothing could be tested",
        ],
    );
}

#[test]
fn a_client_that_connects_and_leaves_passes_nothing() {
    // It starts the server, which is its last argument, and closes at once.
    let leaves = run_shell("eval \"$1\" < /dev/null > /dev/null", &BURST);
    assert_ends(
        &leaves,
        3,
        &[
            "the client made no handshake of 2025-11-25",
            "0 met, 0 unmet",
        ],
    );
}

#[test]
fn who_takes_no_part_is_not_asked_again_in_every_scenario() {
    for client in ["sleep 600", "exit 7", "true"] {
        let nothing = run_shell(client, &["--time-limit", "1"]);
        let why =
            "more scenarios of 2025-11-25 and 2026-07-28 were not played: the client made no call";
        assert_ends(&nothing, 3, &[why, "0 met, 0 unmet"]);
        let played = said(&nothing).matches("playing ").count();
        assert!(played <= 6, "{client}: {played} were played");
    }
    // Who speaks one revision is played all of it.
    let client = format!(
        "test $MCP_CONFORMANCE_PROTOCOL_VERSION = 2025-11-25 && exec '{CONFORMANCE}' reference-client"
    );
    let one = run_shell(&client, &["--jobs", "4"]);
    assert_ends(&one, 3, &["scenarios of 2026-07-28 were not played"]);
    let of_2025 = said(&one).matches(" (2025-11-25 over stdio").count();
    let all = said(&run(&["list"])).matches(" (2025-11-25, stdio").count();
    // The slow one is not asked for.
    assert_eq!(of_2025, all - 1);
}

#[test]
fn whoever_refuses_nothing_is_asked_for_his_limits() {
    let hint = "no question was refused: the client has no limits, or others than those";
    let none = run_reference(Some("no-limit"), &BURST);
    assert_ends(&none, 1, &[hint]);
    let one_more = run_reference(Some("one-more"), &BURST);
    assert!(!said(&one_more).contains(hint), "{}", said(&one_more));
    // Rounds are refused by silence.
    let rounds = run_reference(Some("no-limit"), &["--scenario", "rounds"]);
    assert!(!said(&rounds).contains(hint), "{}", said(&rounds));
}

#[test]
fn a_program_that_is_not_there_is_said_once() {
    let missing = run(&["--client", "no-such-client --option"]);
    assert_ends(
        &missing,
        2,
        &[
            "there is no program \"no-such-client\"",
            "looked up in PATH",
        ],
    );
    assert_eq!(missing.stdout, b"", "nothing was played");
    let open = run(&["--client", "python3 'client.py"]);
    assert_ends(&open, 2, &["--client: a quote or a backslash is left open"]);
}

#[test]
fn what_cannot_be_started_fails_as_a_client() {
    let folder = tempfile::tempdir().unwrap();
    let client = folder.path().join("client");
    fs::write(&client, "not to be executed").unwrap();
    let client = client.to_str().unwrap();
    let output = run(&[&["--client", client], &BURST[..]].concat());
    assert_ends(&output, 3, &["it did not start", "ermission denied"]);
}

#[test]
fn a_log_that_is_none_is_said_and_not_passed_over() {
    for line in [
        "elicitation/create",
        "beta\\televitation/create",
        "beta\\tsampling/createMessage",
    ] {
        let wrong = format!(
            "printf '{line}\\n' >> $QUESTION_CONFORMANCE_LOG; exec '{CONFORMANCE}' reference-client"
        );
        assert_ends(
            &run_shell(&wrong, &BURST),
            3,
            &[
                "to QUESTION_CONFORMANCE_LOG, where a line is a server's name (alpha), a tab,",
                "not testable  sampling-handled",
                "met           sampling-exact",
            ],
        );
    }
}

#[test]
fn limits_come_from_a_file_and_size_the_bursts() {
    let folder = tempfile::tempdir().unwrap();
    let limits = folder.path().join("limits.toml");
    let text = "[proto]\nsamplingPerMinute = 9\nsamplingSessionPerMinute = 4\nelicitationPerMinute = 7\nelicitationSessionPerMinute = 3\n";
    fs::write(&limits, text).unwrap();
    let limits = limits.to_str().unwrap();
    let tight = run_reference(None, &["--limits", limits]);
    assert_ends(&tight, 0, &["0 unmet"]);
    // The runner holds a client to the file, not to the defaults.
    let loose = run_shell(
        &format!("unset QUESTION_CONFORMANCE_LIMITS; exec '{CONFORMANCE}' reference-client"),
        &[&BURST[..], &["--limits", limits]].concat(),
    );
    assert_ends(
        &loose,
        1,
        &["(proto.samplingPerMinute = 9, proto.samplingSessionPerMinute = 4)"],
    );
}

#[test]
fn what_has_no_limit_is_not_testable() {
    let folder = tempfile::tempdir().unwrap();
    let limits = folder.path().join("limits.toml");
    fs::write(
        &limits,
        "[proto]\nsamplingPerMinute = 0\nsamplingSessionPerMinute = 0\n",
    )
    .unwrap();
    let half = run_reference(
        None,
        &[&BURST[..], &["--limits", limits.to_str().unwrap()]].concat(),
    );
    assert_ends(
        &half,
        0,
        &[
            "not testable  sampling-exact",
            "no limit on sampling is set",
            "not testable  still-refused-in-the-next-call",
            "met           elicitation-exact",
        ],
    );
    let limits = [
        "--scenario",
        "cancelled",
        "--limits",
        limits.to_str().unwrap(),
    ];
    let nothing = run_reference(None, &limits);
    assert_ends(
        &nothing,
        3,
        &["nothing could be tested: why, stands beside the checks"],
    );
}

#[test]
fn wrong_limits_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let limits = folder.path().join("limits.toml");
    for (text, named) in [
        ("[proto]\nsamplingPerMinutes = 9\n", "samplingPerMinutes"),
        (
            "[proto]\nsamplingPerMinute = \"9\"\n",
            "samplingPerMinute = \"9\"",
        ),
        ("[proto\n", "line 1"),
    ] {
        fs::write(&limits, text).unwrap();
        let wrong = run_reference(None, &["--limits", limits.to_str().unwrap()]);
        assert_ends(&wrong, 2, &["limits.toml", named]);
    }
    let missing = run_reference(None, &["--limits", "no-such-file.toml"]);
    assert_ends(
        &missing,
        2,
        &["cannot read the limits in no-such-file.toml"],
    );
}

fn read_report(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_report_has_every_check_with_what_it_proves_and_why_it_is_unmet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let report = ["--report", path.to_str().unwrap()];
    run_reference(Some("loses-id"), &[&BURST[..], &report].concat());
    let written = read_report(&path);
    assert_eq!(written[0]["scenario"], "burst");
    assert_eq!(written[0]["revision"], "2025-11-25");
    assert_eq!(written[0]["transport"], "stdio");
    let checks = written[0]["checks"].as_array().unwrap();
    let ids = checks
        .iter()
        .find(|check| check["check"] == "each-id-once")
        .unwrap();
    assert_eq!(ids["outcome"], "unmet");
    assert_eq!(ids["requires"][0], "refusal-keeps-id");
    assert!(
        ids["why"]
            .as_str()
            .unwrap()
            .contains("belongs to no question"),
        "{ids}"
    );

    // What a client printed is kept, on both its outputs.
    run_shell(
        "echo one; echo two >&2; exit 3",
        &[&BURST[..], &report].concat(),
    );
    let written = read_report(&path);
    assert_eq!(written[0]["printed"], "one\ntwo\n");
    let why = written[0]["client_failed"].as_str().unwrap();
    assert!(why.contains("the exit code 3"), "{why}");
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_anything_is_played() {
    let nowhere = run_reference(None, &["--report", "/no/such/folder/report.json"]);
    assert_ends(&nowhere, 2, &["--report: /no/such/folder/report.json"]);
    assert!(!said(&nowhere).contains("playing"), "{}", said(&nowhere));
}

#[test]
fn a_scenario_that_does_not_exist_or_fit_is_named() {
    let unknown = run_reference(None, &["--scenario", "bursts"]);
    assert_ends(&unknown, 2, &["no \"bursts\", there are burst, cancelled"]);
    let elsewhere = run_reference(None, &["--scenario", "reconnects", "--transport", "http"]);
    assert_ends(
        &elsewhere,
        2,
        &["reconnects is played in 2025-11-25 and over stdio"],
    );
}

#[test]
fn a_client_of_the_official_suite_takes_part_by_its_contract_alone() {
    // It is given nothing but a URL, the scenario and the revision.
    let client = format!(
        "test \"$MCP_CONFORMANCE_SCENARIO\" = elicitation-sep1034-client-defaults && \
         test \"$MCP_CONFORMANCE_PROTOCOL_VERSION\" = 2025-11-25 && \
         test -z \"$MCP_CONFORMANCE_SERVERS$QUESTION_CONFORMANCE_LOG\" && \
         exec '{CONFORMANCE}' reference-client \"$1\""
    );
    let right = run_shell(&client, &["--official-client"]);
    assert_ends(
        &right,
        0,
        &[
            "met           elicitation-exact",
            "judged by success replies",
            "0 unmet, 0 not testable",
        ],
    );
    let absent = run_shell("exit 1", &["--official-client"]);
    assert_ends(&absent, 3, &["the URL is its last argument"]);
    let wrong = run_reference(Some("no-limit"), &["--official-client"]);
    assert_ends(
        &wrong,
        1,
        &[
            "UNMET         elicitation-exact",
            "judged by success replies",
        ],
    );
}

#[test]
fn official_clients_are_reached_by_http_alone() {
    let pipe = run_reference(None, &["--official-client", "--transport", "stdio"]);
    assert_ends(&pipe, 2, &["official clients are reached by http"]);
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let line = format!(
        "'{CONFORMANCE}' --client \"'{CONFORMANCE}' reference-client\" --jobs 1 --report '{}' | head -n 1",
        report.display()
    );
    let piped = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&piped.stdout).lines().count(), 1);
    let scenarios = read_report(&report).as_array().unwrap().len();
    assert!(scenarios > 10, "{scenarios}");
}
