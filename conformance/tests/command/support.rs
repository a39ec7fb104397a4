//! What the tests of the command share.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

pub(crate) const CONFORMANCE: &str = env!("CARGO_BIN_EXE_conformance");

/// The command of the reference client, which may be wrong.
pub(crate) fn reference_client(wrong: Option<&str>) -> String {
    let wrong = wrong.map(|wrong| format!("--wrong={wrong}"));
    let words = [
        Some(CONFORMANCE),
        Some("reference-client"),
        wrong.as_deref(),
    ];
    shlex::try_join(words.into_iter().flatten()).unwrap()
}

/// Plays one scenario alone.
pub(crate) const BURST: [&str; 2] = ["--scenario", "burst"];

pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(CONFORMANCE).args(arguments).output().unwrap()
}

/// Runs a client whose command is a line of shell; the server's address is its `$1`.
pub(crate) fn run_shell(client: &str, arguments: &[&str]) -> Output {
    let client = shlex::try_join(["sh", "-c", client, "sh"]).unwrap();
    run(&[&["--client", &client], arguments].concat())
}

/// Runs the reference client, which may be wrong.
pub(crate) fn run_reference(wrong: Option<&str>, arguments: &[&str]) -> Output {
    run(&[&["--client", &reference_client(wrong)], arguments].concat())
}

/// All that was printed.
pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

#[track_caller]
pub(crate) fn assert_ends(output: &Output, code: i32, words: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in:\n{said}");
    }
}

/// Waits for the end of the process whose number is in a file.
#[track_caller]
pub(crate) fn assert_is_over(pid: &Path) {
    let pid = fs::read_to_string(pid).unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    // Gone, or a zombie that nobody has waited for. Who is killed takes a moment to die.
    let is_over = |state: &str| state.is_empty() || state.contains(") Z ");
    let begun = Instant::now();
    while !is_over(&state()) && begun.elapsed() < Duration::from_secs(30) {
        thread::yield_now();
    }
    assert!(is_over(&state()), "{}", state());
}
