//! Clients behind relays: how a relay is started, told, judged and ended.

use std::process::{Command, Output};

use crate::support::{CONFORMANCE, assert_ends, assert_is_over, reference_client};

/// Plays to the reference client, which may be wrong, behind a relay.
fn run(wrong: Option<&str>, relay: &[&str], arguments: &[&str]) -> Output {
    run_client(&reference_client(wrong), relay, arguments)
}

fn run_client(client: &str, relay: &[&str], arguments: &[&str]) -> Output {
    let relay = shlex::try_join(relay.iter().copied()).unwrap();
    Command::new(CONFORMANCE)
        .args(["--client", client, "--behind", &relay])
        .args(arguments)
        .output()
        .unwrap()
}

/// Passes everything on, so that what the client counts is what the relay counts.
const PASS: [&str; 2] = [CONFORMANCE, "reference-relay"];
const BURST: [&str; 4] = ["--scenario", "burst", "--transport", "http"];
const ROUNDS: [&str; 4] = ["--scenario", "rounds", "--transport", "http"];

#[test]
fn a_relay_that_bounds_nothing_is_seen_through() {
    assert_ends(&run(None, &PASS, &BURST), 0, &["0 unmet"]);
    let bare = run(Some("no-limit"), &PASS, &BURST);
    assert_ends(&bare, 1, &["UNMET         elicitation-exact"]);
}

#[test]
fn of_what_a_client_cannot_read_a_relay_counts_each_question_and_nothing_else() {
    let right = run(Some("charges-unreadable"), &PASS, &ROUNDS);
    assert_ends(&right, 0, &["met           unreadable-charged-by-method"]);
    for wrong in [
        None,
        Some("charges-readable-part"),
        Some("charges-every-entry"),
    ] {
        let wrong = run(wrong, &PASS, &ROUNDS);
        assert_ends(&wrong, 1, &["UNMET         unreadable-charged-by-method"]);
    }
}

/// What the client leaves without a reply is no miscount of the relay's, and what the relay refuses
/// without a word is.
#[test]
fn a_relay_that_drops_what_it_refuses_is_not_taken_for_a_client_that_says_nothing() {
    let malformed = ["--scenario", "malformed", "--transport", "http"];
    assert_ends(&run(None, &PASS, &malformed), 0, &["0 unmet"]);
    let drops = run(Some("drops-silently"), &PASS, &malformed);
    let unmet = [
        "UNMET         unreadable-refused",
        "UNMET         each-id-once",
    ];
    assert_ends(&drops, 1, &unmet);
}

#[test]
fn windows_that_end_with_their_process_are_told_from_none_and_must_be_declared() {
    let reconnects = ["--scenario", "reconnects"];
    let declared = ["--scenario", "reconnects", "--windows-by-process"];
    let forgets = Some("forgets-on-reconnect");
    assert_ends(
        &run(forgets, &["env"], &declared),
        0,
        &[
            "by process    servers-window-goes-on",
            "65 sampling questions of the server alpha reached the handler, where the limits let 60 pass",
            "3 met by each process",
        ],
    );
    let undeclared = run(forgets, &["env"], &reconnects);
    assert_ends(&undeclared, 1, &["UNMET         servers-window-goes-on"]);
    let bare = run(Some("no-limit"), &["env"], &declared);
    assert_ends(&bare, 1, &["UNMET         servers-window-goes-on"]);
    assert_ends(&run(None, &["env"], &declared), 0, &["8 met, 0 unmet"]);
    let one_process = run(
        None,
        &PASS,
        &[&BURST[..], &["--windows-by-process"]].concat(),
    );
    assert_ends(&one_process, 2, &["over http there is one process"]);
}

#[test]
fn a_relay_that_does_not_start_is_said_and_no_client_is() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let client = format!("touch {}", mark.display());
    let dies = ["sh", "-c", "echo no port >&2; exit 7"];
    assert_ends(
        &run_client(&client, &dies, &BURST),
        3,
        &[
            "the client failed: the relay named no URL of alpha, and it ended with the exit code 7",
            "a line with the name and the URL",
            "| no port",
        ],
    );
    assert!(!mark.exists(), "the client was started");
    let missing = run_client(&client, &["no-such-relay"], &BURST);
    assert_ends(
        &missing,
        2,
        &["--behind: there is no program \"no-such-relay\""],
    );
}

#[test]
fn a_relay_that_goes_before_the_client_ends_the_run() {
    let why = ["the relay was gone before the client: it ended with the exit code 3"];
    let dies = ["sh", "-c", "echo alpha http://127.0.0.1:9/; exit 3"];
    // What the server is stands behind the client's words.
    let hangs = run_client("sh -c 'sleep 600' sh", &dies, &BURST);
    assert_ends(&hangs, 3, &why);

    // The relay goes while the client looks on, and the client gives up for that.
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let line = "echo $$ > \"$1\"; echo alpha http://127.0.0.1:9/; kill -STOP $$; exit 3";
    let stops = ["sh", "-c", line, "sh", pid.to_str().unwrap()];
    let state = "cut -d ' ' -f 3 /proc/$p/stat";
    let waits = format!(
        "p=$(cat {}); until test \"$({state})\" = T; do :; done; kill -CONT $p; \
         until test \"$({state})\" = Z; do :; done; exit 1",
        pid.display()
    );
    let client = shlex::try_join(["sh", "-c", &waits, "sh"]).unwrap();
    assert_ends(&run_client(&client, &stops, &BURST), 3, &why);
}

#[test]
fn a_relay_is_ended_with_all_that_it_started_however_stubborn() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let stubborn = "trap '' TERM; echo $$ > \"$1\"; sleep 600";
    let written = pid.display();
    let line = format!(
        "sh -c {} sh {written} & until test -s {written}; do :; done; exec {}",
        shlex::try_quote(stubborn).unwrap(),
        shlex::try_join(PASS).unwrap()
    );
    assert_ends(&run(None, &["sh", "-c", &line], &BURST), 0, &["0 unmet"]);
    assert_is_over(&pid);
}
