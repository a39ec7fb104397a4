//! Which questions count together.

use serde_json::{Value, json};

use crate::harness::{Answer, Relayed, Response_, Server, events, question};

/// A server that begins the session that its `initialize` asks for, and asks three questions in
/// answer to anything else.
async fn server() -> Server {
    Server::start(|seen| {
        let Ok(message) = serde_json::from_slice::<Value>(&seen.body) else {
            return Answer::new(200, "");
        };
        match message["method"].as_str() {
            Some("initialize") => {
                let id = message["params"]["give"].as_str().unwrap().to_owned();
                let status = u16::try_from(message["params"]["status"].as_u64().unwrap()).unwrap();
                Answer::new(status, "{}").with("mcp-session-id", &id)
            }
            Some(_) => Answer::events(events((1..=3).map(question))),
            None => Answer::new(202, ""),
        }
    })
    .await
}

/// Two questions a session, and many a server.
async fn relay(server: &Server) -> Relayed {
    Relayed::with_settings(&format!(
        "[proto]\nelicitationPerMinute = 1000\nelicitationSessionPerMinute = 2\n\
         [servers.github]\nurl = {:?}\n",
        server.url()
    ))
    .await
}

async fn initialize(relay: &Relayed, id: &str, status: u16) {
    let message =
        json!({"id": 1, "method": "initialize", "params": {"give": id, "status": status}});
    let response = relay.post(&message).send().await.unwrap();
    assert_eq!(response.status(), status);
    assert_eq!(response.headers()["mcp-session-id"], id);
}

/// How many of three questions pass.
async fn passed(relay: &Relayed, path: &str, id: Option<&str>, version: &str) -> usize {
    let message = json!({"id": 1, "method": "tools/call"}).to_string();
    let url = format!("{}{path}", relay.url());
    let mut request = relay.client.post(url).body(message);
    if let Some(id) = id {
        request = request.header("mcp-session-id", id);
    }
    let request = request.header("mcp-protocol-version", version);
    let response = Response_::of(request.send().await.unwrap()).await;
    response
        .text()
        .matches(r#""params":{"message":"q"}"#)
        .count()
}

#[tokio::test]
async fn a_protocol_session_has_windows_of_its_own() {
    let server = server().await;
    let relay = relay(&server).await;
    initialize(&relay, "a", 200).await;
    initialize(&relay, "b", 200).await;
    for id in ["a", "b"] {
        assert_eq!(passed(&relay, "", Some(id), "2025-11-25").await, 2);
        assert_eq!(passed(&relay, "", Some(id), "2025-11-25").await, 0);
    }
    // An id that is used again begins nothing anew.
    initialize(&relay, "a", 200).await;
    assert_eq!(passed(&relay, "", Some("a"), "2025-11-25").await, 0);
}

#[tokio::test]
async fn sessions_whose_beginning_was_not_seen_share_one() {
    let server = server().await;
    let relay = relay(&server).await;
    initialize(&relay, "failed", 500).await;
    assert_eq!(passed(&relay, "", Some("unseen"), "2025-11-25").await, 2);
    for id in ["unseen", "other", "failed"] {
        assert_eq!(passed(&relay, "", Some(id), "2025-11-25").await, 0, "{id}");
    }
}

#[tokio::test]
async fn a_session_that_ended_is_seen_no_more() {
    let server = server().await;
    let relay = relay(&server).await;
    initialize(&relay, "a", 200).await;
    let delete = relay
        .client
        .delete(relay.url())
        .header("mcp-session-id", "a");
    assert_eq!(delete.send().await.unwrap().status(), 200);
    assert_eq!(passed(&relay, "", Some("unseen"), "2025-11-25").await, 2);
    assert_eq!(passed(&relay, "", Some("a"), "2025-11-25").await, 0);
}

#[tokio::test]
async fn without_protocol_sessions_the_path_is_the_session() {
    let server = server().await;
    let relay = relay(&server).await;
    let version = "2026-07-28";
    // In the new era the first refusal ends the stream, after two questions.
    assert_eq!(passed(&relay, "", None, version).await, 2);
    assert_eq!(passed(&relay, "/", None, version).await, 0);
    // An id means nothing there.
    assert_eq!(passed(&relay, "", Some("a"), version).await, 0);
    assert_eq!(passed(&relay, "/work", None, version).await, 2);
    assert_eq!(passed(&relay, "/w%6Frk", None, version).await, 0);
    assert_eq!(passed(&relay, "/home", None, version).await, 2);
    // Nor has a server of the old era without sessions any but the path.
    assert_eq!(passed(&relay, "", None, "2025-11-25").await, 0);
}
