//! What the other tests here would not notice: each of these fails when one guard is out.

use serde_json::Value;

use crate::harness::{Answer, Relayed, Response_, Server, call, events, question, soon};

/// That the client gets an error is not enough: the request, with all that it carries, must not
/// have left for the other place.
#[tokio::test]
async fn nothing_is_sent_to_where_a_server_redirects() {
    for status in [301, 302, 303, 307, 308] {
        let mut elsewhere = Server::start(|_| Answer::json("{}")).await;
        let to = elsewhere.url();
        let mut server =
            Server::start(move |_| Answer::new(status, "").with("location", &to)).await;
        let relay = Relayed::start(&server).await;
        let sent = relay.post(&call(1)).header("authorization", "Bearer token");
        let response = Response_::of(soon(sent.send()).await.unwrap()).await;
        assert_eq!(response.status, 502, "{status}");
        let host = elsewhere.address.to_string();
        assert!(response.text().contains(&host), "{}", response.text());
        assert!(!response.headers.contains_key("location"));
        assert_eq!(server.next().await.json(), call(1));
        assert!(server.rest().is_empty(), "{status}");
        assert!(elsewhere.rest().is_empty(), "{status}");
    }
}

/// The stream of a `GET` can be a resumed one. A refusal with its `Last-Event-ID` would be taken
/// for another resumption.
#[tokio::test]
async fn a_refusal_resumes_nothing() {
    let stream = events((1..=6).map(question));
    let mut server = Server::start(move |seen| match seen.body.is_empty() {
        true => Answer::events(stream.clone()),
        false => Answer::new(202, ""),
    })
    .await;
    let relay = Relayed::start(&server).await;
    let opened = relay
        .client
        .get(relay.url())
        .header("accept", "text/event-stream")
        .header("last-event-id", "7")
        .header("mcp-session-id", "s")
        .header("authorization", "Bearer token");
    let response = Response_::of(soon(opened.send()).await.unwrap()).await;
    assert_eq!(response.text(), events((1..=5).map(question)));
    let opening = server.next().await;
    assert_eq!(opening.header("last-event-id"), Some("7"));
    let refusal = server.next().await;
    for (name, value) in [
        ("last-event-id", None),
        ("mcp-session-id", Some("s")),
        ("authorization", Some("Bearer token")),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
    ] {
        assert_eq!(refusal.header(name), value, "{name}");
    }
    assert_eq!(refusal.json()["id"], Value::from(6));
    assert!(server.rest().is_empty());
}
