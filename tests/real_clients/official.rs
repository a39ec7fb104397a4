//! The official MCP conformance suite, with the HTTP relay in the middle and without: no check
//! of it tells them apart.

use std::{collections::BTreeSet, process::Stdio, time::Duration};

use tokio::time;

use crate::{
    peers::{self, skipped, words},
    relay::{Relay, Server, Transport},
};

/// Longer than two revisions take, with a new process of the client for each scenario.
const PATIENCE: Duration = Duration::from_secs(600);
/// The one check that the relay makes pass: it refuses a foreign Host or Origin itself, which the
/// server under test does not.
const REBINDING: &str = "\tlocalhost-host-rebinding-rejected\t";
const THROUGH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/through");
const RELAY: &str = env!("CARGO_BIN_EXE_mcp-question-throttle");

/// One line a check, in an order of its own.
async fn play(role: &str, whom: &str) -> String {
    peers::install("conformance-official").await;
    let mut suite = peers::peer("conformance-official", "official.mjs", &[role, whom]);
    suite.stdin(Stdio::null());
    let output = time::timeout(PATIENCE, suite.output())
        .await
        .unwrap_or_else(|_| panic!("{role} {whom} took longer than {PATIENCE:?}"))
        .unwrap();
    // 1 says that a check failed, which is the client's or the server's own affair.
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{log}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that the checks came out the same, and names those that did not.
fn assert_same(direct: &str, relayed: &str) {
    let checks = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (without, with) = (checks(direct), checks(relayed));
    let lost: Vec<_> = without.difference(&with).collect();
    let new: Vec<_> = with.difference(&without).collect();
    assert!(
        lost.is_empty() && new.is_empty(),
        "without the relay {lost:#?}, with it {new:#?}"
    );
    // The same check can be there more than once.
    assert_eq!(direct, relayed);
    let passed = direct.lines().filter(|check| check.contains("\tSUCCESS\t"));
    assert!(passed.count() > 20, "{direct}");
}

async fn client_gets_the_same_results(peer: &str, program: &str) {
    if skipped() {
        return;
    }
    peers::install(peer).await;
    let client = words(peer, program, &[]).join(" ");
    let relayed = format!("{THROUGH} {RELAY} {client}");
    let (direct, relayed) = tokio::join!(play("client", &client), play("client", &relayed));
    assert_same(&direct, &relayed);
}

#[tokio::test]
async fn a_python_client_gets_the_same_results() {
    client_gets_the_same_results("python-v2", "../../conformance/clients/python-v2/client.py")
        .await;
}

#[tokio::test]
async fn a_typescript_client_gets_the_same_results() {
    let program = "../../conformance/clients/typescript-v2/client.mjs";
    client_gets_the_same_results("typescript-v2", program).await;
}

#[tokio::test]
async fn a_server_gets_the_same_results() {
    if skipped() {
        return;
    }
    const SERVER: Server = Server {
        peer: "typescript-v2",
        program: "typescript-v2/suite_server.mjs",
    };
    let relay = Relay::new("");
    let direct = SERVER.direct(Transport::Http).await;
    let relayed = SERVER.behind(&relay, Transport::Http).await;
    let (direct, relayed) = tokio::join!(
        play("server", &direct.words[0]),
        play("server", &relayed.words[0])
    );
    let (direct, relayed) = (
        protected(&direct, "FAILURE"),
        protected(&relayed, "SUCCESS"),
    );
    assert_same(&direct, &relayed);
}

/// The checks with that of [`REBINDING`], which must have been `status`, as passed.
fn protected(checks: &str, status: &str) -> String {
    assert!(checks.contains(REBINDING), "{checks}");
    let line = |check: &str| {
        if !check.contains(REBINDING) {
            return check.to_owned();
        }
        assert!(check.contains(status), "{check}");
        check.replace("FAILURE", "SUCCESS")
    };
    checks.lines().map(line).collect::<Vec<_>>().join("\n")
}
