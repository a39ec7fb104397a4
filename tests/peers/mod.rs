//! Pinned peers as processes, for the tests that run them.

use std::path::Path;

use tokio::process::Command;

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");

/// Whether tests with peers are not wanted, which is said aloud.
pub(crate) fn skipped() -> bool {
    let skip = std::env::var_os("SKIP_REAL_MCP_SERVERS").is_some();
    if skip {
        eprintln!("SKIPPED: SKIP_REAL_MCP_SERVERS is set");
    }
    skip
}

/// Installs a peer outside of the time that its program is given.
pub(crate) async fn install(name: &str) {
    let installed = Command::new(format!("{PEERS}/install"))
        .arg(name)
        .output()
        .await
        .expect("tests/peers/install can be run");
    assert!(
        installed.status.success(),
        "{name} could not be installed; to do without, set \
         SKIP_REAL_MCP_SERVERS=1\n{}",
        String::from_utf8_lossy(&installed.stderr)
    );
}

/// The words that run a peer's program: a path from `tests/peers`, or `-` for the peer's own, and
/// `-COMMAND` for another of its own.
pub(crate) fn words(name: &str, program: &str, arguments: &[&str]) -> Vec<String> {
    let is_own = program.starts_with('-');
    let program = match is_own {
        true => program.to_owned(),
        false => format!("{PEERS}/{program}"),
    };
    assert!(
        is_own || Path::new(&program).exists(),
        "there is no {program}"
    );
    let mut words = vec![format!("{PEERS}/run"), name.to_owned(), program];
    words.extend(arguments.iter().map(|&argument| argument.to_owned()));
    words
}

/// The command of [`words`], which ends with the test.
pub(crate) fn peer(name: &str, program: &str, arguments: &[&str]) -> Command {
    let words = words(name, program, arguments);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).kill_on_drop(true);
    command
}
