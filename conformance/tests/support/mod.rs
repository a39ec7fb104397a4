//! What the tests of the command share.

use std::{
    fs,
    path::Path,
    process::Output,
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
