//! A session, recorded on both sides of the relay in one run.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    client::{Client, Run},
    peers::skipped,
    relay::{EVERYTHING, Relay},
};

const CLIENT: Client = Client {
    peer: "typescript-v1",
    program: "../../conformance/clients/typescript-v1/client.mjs",
    revision: "2025-11-25",
};

/// What passed on one side of the relay.
#[derive(Debug)]
struct Side {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
}

/// The words that run `command` with both directions recorded in `folder`, by `tee` alone.
fn recorded(command: Vec<String>, folder: &Path, side: &str) -> Vec<String> {
    let script =
        r#"to_server=$1 to_client=$2; shift 2; tee "$to_server" | "$@" | tee "$to_client""#;
    let mut words: Vec<String> = ["sh", "-c", script, "recorded"].map(str::to_owned).into();
    for direction in ["server", "client"] {
        let file = folder.join(format!("{side}-to-{direction}"));
        words.push(file.to_str().unwrap().to_owned());
    }
    words.extend(command);
    words
}

fn side(folder: &Path, side: &str) -> Side {
    let read = |direction: &str| fs::read(folder.join(format!("{side}-to-{direction}"))).unwrap();
    Side {
        to_server: read("server"),
        to_client: read("client"),
    }
}

/// Runs a session, and gives back what passed at the client and at the server.
///
/// The client's run ends when all of the processes have closed standard error, so the records
/// are complete then.
async fn record(settings: &str) -> (Run, Side, Side) {
    EVERYTHING.install().await;
    let folder = TempDir::new().unwrap();
    let relay = Relay::new(settings);
    let server = recorded(EVERYTHING.words(), folder.path(), "server");
    let relayed = recorded(relay.wrap(server), folder.path(), "client");
    let run = CLIENT.run_words(&relayed).await;
    (
        run,
        side(folder.path(), "client"),
        side(folder.path(), "server"),
    )
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn json(line: &[u8]) -> Value {
    serde_json::from_slice(line).unwrap()
}

#[tokio::test]
async fn a_session_is_equal_byte_for_byte_on_both_sides() {
    if skipped() {
        return;
    }
    let (run, client, server) = record("").await;
    assert_eq!(run.asked("sampling/createMessage"), 1);
    assert_eq!(run.asked("elicitation/create"), 2);
    assert!(lines(&client.to_server).len() > 20, "a whole session");
    assert!(lines(&client.to_client).len() > 20, "a whole session");
    assert!(client.to_server == server.to_server, "to the server");
    assert!(client.to_client == server.to_client, "to the client");
}

/// Only the questions over the limit are missing, and the server has a refusal for each.
#[tokio::test]
async fn questions_over_the_limit_are_all_that_differs() {
    if skipped() {
        return;
    }
    let (run, client, server) = record("[proto]\nelicitationPerMinute = 1\n").await;
    assert_eq!(run.asked("sampling/createMessage"), 1);
    assert_eq!(run.asked("elicitation/create"), 1);

    let mut refused = BTreeSet::new();
    let mut to_server = Vec::new();
    for line in lines(&server.to_server) {
        let message = json(line);
        if message["error"]["data"]["cause"] == "limit_exceeded" {
            refused.insert(message["id"].to_string());
        } else {
            to_server.extend_from_slice(line);
        }
    }
    assert_eq!(refused.len(), 1, "the second elicitation");
    assert!(client.to_server == to_server, "to the server");

    let mut to_client = Vec::new();
    for line in lines(&server.to_client) {
        let message = json(line);
        let is_refused = message["method"] == "elicitation/create"
            && refused.contains(&message["id"].to_string());
        if !is_refused {
            to_client.extend_from_slice(line);
        }
    }
    assert!(to_client.len() < server.to_client.len());
    assert!(client.to_client == to_client, "to the client");
}
