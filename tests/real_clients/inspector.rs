//! The MCP Inspector's command line, started from a configuration as clients have it. It answers no
//! questions: it declares no support for them, and no option of it does. So what was admitted is
//! counted at the server, by whose error it got: the Inspector's own for each question that
//! reached it, ours for the rest. In [`inspector_answers`](crate::inspector_answers) it answers.

use std::{fs, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    peers::{self, skipped},
    relay::{Address, EVERYTHING, Relay, Server, Transport},
};

const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT: usize = 3;
/// How much the flooding servers ask by their own default.
const ASKED: usize = 30;

const FLOOD: Server = Server {
    peer: "python-v2",
    program: "python-v2/flood_server.py",
};

/// Has the Inspector do one thing with the server at `address`, and gives back what it prints: a
/// result on standard output or an error on standard error, in JSON.
async fn inspect(address: &Address, era: &str, arguments: &[&str]) -> Value {
    peers::install("inspector").await;
    let folder = TempDir::new().unwrap();
    let config = folder.path().join("mcp.json");
    let server = match &address.words[..] {
        [url] => json!({"type": "streamable-http", "url": url}),
        words => json!({"command": words[0], "args": words[1..]}),
    };
    fs::write(&config, json!({"mcpServers": {"peer": server}}).to_string()).unwrap();
    let mut inspector = peers::peer("inspector", "-", &["--cli", "--config"]);
    inspector
        .arg(config)
        .args(["--server", "peer", "--protocol-era", era])
        .args(["--format", "json", "--quiet"])
        .args(arguments)
        // It would look for a keychain.
        .env("MCP_INSPECTOR_SECRET_STORE", "memory")
        .env("HOME", folder.path())
        .stdin(Stdio::null());
    let output = tokio::time::timeout(PATIENCE, inspector.output())
        .await
        .unwrap_or_else(|_| panic!("{arguments:?} took longer than {PATIENCE:?}"))
        .unwrap();
    let printed = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    serde_json::from_slice(&printed)
        .unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&printed)))
}

fn relay() -> Relay {
    Relay::new(&format!("[proto]\nsamplingPerMinute = {LIMIT}\n"))
}

async fn lists_and_calls_the_same(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let direct = EVERYTHING.direct(transport).await;
    let relayed = EVERYTHING.behind(&relay, transport).await;
    for arguments in [
        &["--method", "tools/list"] as &[_],
        &["--method", "prompts/list"],
        &["--method", "resources/list"],
        &[
            "--method",
            "tools/call",
            "--tool-name",
            "get-sum",
            "--tool-args-json",
            r#"{"a":1,"b":2}"#,
        ],
    ] {
        let direct = inspect(&direct, "legacy", arguments).await;
        let relayed = inspect(&relayed, "legacy", arguments).await;
        assert!(direct["result"].is_object(), "{direct}");
        assert_eq!(direct, relayed);
    }
}

async fn lists_the_same_in_the_later_era(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let list = ["--method", "tools/list"];
    let direct = FLOOD.direct(transport).await;
    let relayed = FLOOD.behind(&relay, transport).await;
    let direct = inspect(&direct, "modern", &list).await;
    let relayed = inspect(&relayed, "modern", &list).await;
    assert_eq!(direct["result"]["tools"].as_array().unwrap().len(), 5);
    assert_eq!(direct, relayed);
}

async fn a_flood_ends_at_the_limit(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let relayed = FLOOD.behind(&relay, transport).await;
    let call = ["--method", "tools/call", "--tool-name", "flood_sampling"];
    let called = inspect(&relayed, "legacy", &call).await;
    let report = called["result"]["content"][0]["text"].as_str().unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!(report["asked"], ASKED, "{report}");
    assert_eq!(
        report["other"], LIMIT,
        "the Inspector's own answers: {report}"
    );
    assert_eq!(report["refused"], ASKED - LIMIT, "{report}");
}

async fn a_round_over_the_limit_ends_its_call(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let relayed = FLOOD.behind(&relay, transport).await;
    let call = ["--method", "tools/call", "--tool-name", "rounds_sampling"];
    let called = inspect(&relayed, "modern", &call).await;
    let message = called["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("question refused: proto.samplingPerMinute"),
        "{message}"
    );
}

both! {
    lists_and_calls_the_same,
    lists_the_same_in_the_later_era,
    a_flood_ends_at_the_limit,
    a_round_over_the_limit_ends_its_call,
}
