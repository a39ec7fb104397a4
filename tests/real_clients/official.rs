//! The official MCP conformance suite, with the HTTP relay in the middle and without: no check
//! of it tells them apart.

use std::{process::Stdio, time::Duration};

use tokio::time;

use crate::{
    peers::{self, skipped, words},
    relay::{Relay, Server, Transport},
};

/// It plays two revisions, each scenario with a new process of the client.
const PATIENCE: Duration = Duration::from_secs(240);
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

fn passed(checks: &str) -> usize {
    checks
        .lines()
        .filter(|check| check.contains("\tSUCCESS\t"))
        .count()
}

async fn client_gets_the_same_results(peer: &str, program: &str) {
    if skipped() {
        return;
    }
    peers::install(peer).await;
    let client = words(peer, program, &[]).join(" ");
    let relayed = format!("{THROUGH} {RELAY} {client}");
    let (direct, relayed) = tokio::join!(play("client", &client), play("client", &relayed));
    assert!(passed(&direct) > 20, "{direct}");
    assert_eq!(direct, relayed);
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
    assert!(passed(&direct) > 20, "{direct}");
    assert_eq!(direct, relayed);
}
