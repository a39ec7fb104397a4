//! The MCP Inspector that keeps its connections (`mcpdo`), and has elicitations answered: what it
//! shows is counted here, what came back is counted at the server.
//!
//! Sampling cannot be seen to work in this way: this version of the Inspector declares no support
//! for it on any command line, only in its windows.

use std::{fs, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    peers::{self, skipped},
    relay::{Address, Relay, Server, Transport},
};

const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT: usize = 3;
/// How much a flooding server asks by its own default.
const ASKED: usize = 30;

const FLOOD: Server = Server {
    peer: "python-v2",
    program: "python-v2/flood_server.py",
};

/// An Inspector with one connection, which a daemon of its own keeps for it.
struct Connected {
    folder: TempDir,
}

impl Connected {
    async fn to(address: &Address, era: &str) -> Self {
        peers::install("inspector").await;
        let folder = TempDir::new().unwrap();
        let server = match &address.words[..] {
            [url] => json!({"type": "streamable-http", "url": url}),
            words => json!({"command": words[0], "args": words[1..]}),
        };
        let config = json!({"mcpServers": {"peer": server}}).to_string();
        fs::write(folder.path().join("mcp.json"), config).unwrap();
        let connected = Self { folder };
        let config = connected.folder.path().join("mcp.json");
        let config = config.to_str().unwrap();
        let connection = connected
            .command(&["--config", config, "connect", "peer", "--era", era])
            .await;
        assert_eq!(connection["protocolEra"], era, "{connection}");
        connected
    }

    /// What a command prints, on whichever output.
    async fn command(&self, arguments: &[&str]) -> Value {
        let mut inspector = peers::peer("inspector", "-mcpdo", &["--format", "json"]);
        inspector
            .args(arguments)
            .env("HOME", self.folder.path())
            // It would look for a keychain.
            .env("MCP_INSPECTOR_SECRET_STORE", "file")
            .stdin(Stdio::null());
        let output = tokio::time::timeout(PATIENCE, inspector.output())
            .await
            .unwrap_or_else(|_| panic!("{arguments:?} took longer than {PATIENCE:?}"))
            .unwrap();
        let printed = match output.status.success() {
            true => output.stdout,
            false => output.stderr,
        };
        serde_json::from_slice(&printed)
            .unwrap_or_else(|_| panic!("{arguments:?}: {}", String::from_utf8_lossy(&printed)))
    }

    /// Calls a tool and answers whatever it asks. Gives back what was asked, and what came of it.
    async fn call(&self, tool: &str, arguments: &[&str]) -> (Vec<String>, Value) {
        let call = ["--connection", "peer", "tools/call", tool];
        let mut came = self.command(&[&call, arguments].concat()).await;
        let mut shown = Vec::new();
        while let Some(id) = came["elicitationPending"]["elicitationId"].as_str() {
            let message = came["elicitationPending"]["message"].as_str();
            shown.push(message.unwrap().to_owned());
            let answer = ["elicitation/respond", id, "answer:=yes"];
            came = self.command(&answer).await;
        }
        (shown, came)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // The daemon would outlive the test, and its server with it.
        let words = peers::words("inspector", "-mcpdo", &["daemon", "stop"]);
        let stopped = std::process::Command::new(&words[0])
            .args(&words[1..])
            .env("HOME", self.folder.path())
            .output();
        let is_stopped = stopped.is_ok_and(|output| output.status.success());
        assert!(is_stopped || std::thread::panicking(), "the daemon runs on");
    }
}

fn relay() -> Relay {
    Relay::new(&format!("[proto]\nelicitationPerMinute = {LIMIT}\n"))
}

/// The JSON that a tool returned as a text.
fn report(called: &Value) -> Value {
    let text = called["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{called}"))).unwrap()
}

async fn a_flood_is_answered_up_to_the_limit(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let relayed = FLOOD.behind(&relay, transport).await;
    let inspector = Connected::to(&relayed, "legacy").await;
    let (shown, called) = inspector.call("flood_elicitation", &[]).await;
    assert_eq!(shown, ["question 0", "question 1", "question 2"]);
    let report = report(&called);
    let limit = &report["firstRefusal"]["data"]["limit"];
    assert_eq!(limit, "proto.elicitationPerMinute", "{report}");
    for (count, expected) in [
        ("asked", ASKED),
        ("answered", LIMIT),
        ("refused", ASKED - LIMIT),
        ("other", 0),
    ] {
        assert_eq!(report[count], expected, "{count}: {report}");
    }
}

async fn rounds_are_answered_up_to_the_limit(transport: Transport) {
    if skipped() {
        return;
    }
    let relay = relay();
    let relayed = FLOOD.behind(&relay, transport).await;
    let inspector = Connected::to(&relayed, "modern").await;
    // A round that can never fit is shown to nobody, and leaves the window as it is.
    let (shown, called) = inspector.call("rounds_elicitation", &[]).await;
    assert!(shown.is_empty(), "{shown:?}");
    assert_refused(&called);
    let one_by_one = ["rounds:=5", "width:=1"];
    let (shown, called) = inspector.call("rounds_elicitation", &one_by_one).await;
    assert_eq!(shown.len(), LIMIT, "{shown:?}");
    assert_refused(&called);
    // Two rounds were refused, and nothing came back for them.
    let (_, counters) = inspector.call("counters", &[]).await;
    assert_eq!(
        report(&counters),
        json!({"roundsSent": LIMIT + 2, "answersSeen": LIMIT})
    );
}

fn assert_refused(called: &Value) {
    let message = called["error"]["message"].as_str();
    let message = message.unwrap_or_else(|| panic!("{called}"));
    assert!(
        message.contains("question refused: proto.elicitationPerMinute"),
        "{message}"
    );
}

both! {
    a_flood_is_answered_up_to_the_limit,
    rounds_are_answered_up_to_the_limit,
}
