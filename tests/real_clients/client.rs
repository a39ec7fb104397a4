//! A run of a client program, and what it saw.
//!
//! The programs are the conformance suite's clients under test: they make every call that a
//! server offers, answer every question, and note each one as it reaches the handler.

use std::{collections::BTreeMap, fs, process::Stdio, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{peers, relay::Address};

/// Longer than any run here needs; a hang is a failure with a name.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A client program on an SDK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) peer: &'static str,
    pub(crate) program: &'static str,
    pub(crate) revision: &'static str,
}

/// What a client saw.
#[derive(Debug)]
pub(crate) struct Run {
    /// What came of each call, as the client reports it, by the name of the tool, prompt or
    /// resource.
    pub(crate) calls: BTreeMap<String, Value>,
    /// How many questions of a method reached its handlers.
    pub(crate) asked: BTreeMap<String, usize>,
    /// What it and its server said beside that.
    pub(crate) said: String,
}

impl Client {
    /// Makes all calls of the server at `address`.
    pub(crate) async fn run(self, address: &Address) -> Run {
        self.run_words(&address.words).await
    }

    /// Makes all calls of the server that these words start.
    pub(crate) async fn run_words(self, command: &[String]) -> Run {
        peers::install(self.peer).await;
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("questions");
        let mut client = peers::peer(self.peer, self.program, &[&quoted(command)]);
        client
            .env("MCP_CONFORMANCE_PROTOCOL_VERSION", self.revision)
            .env("MCP_CONFORMANCE_CONTEXT", arguments().to_string())
            .env("QUESTION_CONFORMANCE_LOG", &log)
            .stdin(Stdio::null());
        let output = tokio::time::timeout(PATIENCE, client.output())
            .await
            .unwrap_or_else(|_| panic!("{self:?} took longer than {PATIENCE:?}"))
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{self:?}: {said}");

        // The environment, which a server may tell, has this run's folder in it.
        let reports = String::from_utf8(output.stdout)
            .unwrap()
            .replace(folder.path().to_str().unwrap(), "FOLDER");
        let calls = reports.lines().map(|line| {
            let report: Value = serde_json::from_str(line).unwrap();
            (report["name"].as_str().unwrap().to_owned(), report)
        });
        let mut asked = BTreeMap::new();
        // A client that was asked nothing has made no log.
        for line in fs::read_to_string(&log).unwrap_or_default().lines() {
            let (_, method) = line.split_once('\t').unwrap();
            *asked.entry(method.to_owned()).or_default() += 1;
        }
        Run {
            calls: calls.collect(),
            asked,
            said,
        }
    }
}

impl Run {
    /// The text that a tool returned.
    pub(crate) fn text(&self, tool: &str) -> &str {
        let report = &self.calls[tool];
        report["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{report}"))
    }

    /// The JSON that a tool returned as a text.
    pub(crate) fn json(&self, tool: &str) -> Value {
        serde_json::from_str(self.text(tool)).unwrap_or_else(|_| panic!("{}", self.text(tool)))
    }

    pub(crate) fn asked(&self, method: &str) -> usize {
        self.asked.get(method).copied().unwrap_or_default()
    }
}

/// Arguments that keep `server-everything` from waiting for ten seconds, and from the network.
fn arguments() -> Value {
    json!({"toolCalls": [
        {"name": "trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 2}},
        {"name": "gzip-file-as-resource", "arguments": {"name": "a.gz", "data": "data:text/plain,a"}},
    ]})
}

/// Words as one line of a shell.
fn quoted(command: &[String]) -> String {
    let words = command.iter().map(|word| {
        assert!(!word.contains('\''), "{word}");
        format!("'{word}'")
    });
    match command {
        [url] => url.clone(),
        _ => words.collect::<Vec<_>>().join(" "),
    }
}
