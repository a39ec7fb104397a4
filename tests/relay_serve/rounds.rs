//! What a server asks through the answer to a call, in both eras.

use std::sync::Mutex;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::harness::{
    Answer, Relayed, Response_, Server, call, chunk, events, question, rest, result, soon,
};

fn round(id: impl Into<Value>, questions: usize) -> Value {
    let entries: serde_json::Map<_, _> = (0..questions)
        .map(|key| {
            let entry = json!({"method": "elicitation/create", "params": {"message": "q"}});
            (key.to_string(), entry)
        })
        .collect();
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {
        "resultType": "input_required", "inputRequests": entries, "requestState": "s"
    }})
}

fn urls(id: impl Into<Value>, count: usize) -> Value {
    let elicitations = vec![json!({"mode": "url", "url": "https://a.example"}); count];
    json!({"jsonrpc": "2.0", "id": id.into(), "error": {
        "code": -32042, "message": "m", "data": {"elicitations": elicitations}
    }})
}

fn refused(answer: &[u8], id: &Value) {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    assert_eq!(&answer["id"], id);
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(answer["error"]["data"]["cause"], "limit_exceeded");
    assert!(answer.get("result").is_none());
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_replaced_by_our_error() {
    for body in [round("c", 6), urls("c", 6)] {
        let body = body.to_string();
        let mut server = Server::start(move |_| {
            Answer::new(400, body.clone())
                .with("content-type", "application/json")
                .with("mcp-session-id", "s")
                .with("etag", "\"e\"")
                .with("content-digest", "sha-256=:x:")
                .with("digest", "x")
        })
        .await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert_eq!(response.status, 400);
        assert_eq!(response.headers["mcp-session-id"], "s");
        assert_eq!(response.headers["content-type"], "application/json");
        for gone in ["etag", "content-digest", "digest", "retry-after"] {
            assert!(!response.headers.contains_key(gone), "{gone}");
        }
        assert_eq!(
            response.headers["content-length"],
            response.body.len().to_string()
        );
        refused(&response.body, &json!("c"));
        server.next().await;
        assert!(server.rest().is_empty(), "nothing is sent to the server");
    }
}

#[tokio::test]
async fn a_round_that_fits_passes_and_is_charged() {
    let body = round("c", 3).to_string();
    let sent = body.clone();
    let server = Server::start(move |_| Answer::json(sent.clone())).await;
    let relay = Relayed::start(&server).await;
    assert_eq!(relay.call().await.text(), body);
    refused(&relay.call().await.body, &json!("c"));
    let snapshot = relay.throttle.snapshot(mcp_question_throttle::clock::now());
    assert_eq!(snapshot.servers[0].elicitation.admitted, 3);
}

#[tokio::test]
async fn an_event_that_does_not_fit_keeps_its_fields() {
    let stream = format!(
        "id: 9\r\nevent: message\r\ndata: {}\r\nretry: 5\r\n\r\ndata: {}\n\n",
        round(json!(1.5), 6),
        result(2)
    );
    let server = Server::start(move |_| Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    let response = relay.call().await;
    let text = response.text();
    let rest = text
        .strip_prefix("id: 9\r\nevent: message\r\ndata: ")
        .unwrap();
    let (error, rest) = rest.split_once('\n').unwrap();
    refused(error.as_bytes(), &json!(1.5));
    assert_eq!(rest, format!("retry: 5\r\n\ndata: {}\n\n", result(2)));
}

#[tokio::test]
async fn polls_of_a_task_are_charged_once() {
    let server = Server::start(move |seen| {
        let mut state = round(seen.json()["id"].clone(), 4);
        state["result"]["status"] = json!("input_required");
        Answer::json(state.to_string())
    })
    .await;
    let relay = Relayed::start(&server).await;
    for id in 1..=3 {
        let poll =
            json!({"jsonrpc": "2.0", "id": id, "method": "tasks/get", "params": {"taskId": "t"}});
        let response = Response_::of(relay.post(&poll).send().await.unwrap()).await;
        assert!(
            response.text().contains("inputRequests"),
            "{id}: {}",
            response.text()
        );
    }
    refused(&relay.call().await.body, &json!(1));
}

/// A server of 2026-07-28 with one stream, written by the test.
async fn modern() -> (tokio::sync::mpsc::UnboundedSender<Bytes>, Server) {
    let (writer, answer) = Answer::written();
    let answer = Mutex::new(Some(answer));
    let server = Server::start(move |seen| match answer.lock().unwrap().take() {
        Some(answer) => answer,
        // Then a session of the earlier era asks once.
        None if seen.body == call("earlier").to_string() => Answer::events(events([question(7)])),
        None => Answer::new(202, ""),
    })
    .await;
    (writer, server)
}

/// Asserts that the server saw one request, and no refusal before one that has to come.
async fn nothing_is_posted(relay: &Relayed, server: &mut Server) {
    server.next().await;
    let earlier = soon(relay.post(&call("earlier")).send()).await.unwrap();
    assert_eq!(soon(earlier.bytes()).await.unwrap(), "");
    assert_eq!(server.next().await.json()["id"], "earlier");
    assert_eq!(server.next().await.json()["id"], 7, "and nothing before");
    assert!(server.rest().is_empty());
}

#[tokio::test]
async fn a_server_request_of_the_new_era_ends_the_call_it_came_with() {
    let (writer, mut server) = modern().await;
    let relay = Relayed::start(&server).await;
    let sent = relay
        .post(&call("c"))
        .header("mcp-protocol-version", "2026-07-28");
    let response = soon(sent.send()).await.unwrap();
    let asked = events((1..=5).map(question));
    writer.send(asked.clone().into()).unwrap();
    writer
        .send(format!("id: 6\ndata: {}\n\ndata: {}\n\n", question(6), result("c")).into())
        .unwrap();
    let all = String::from_utf8(rest(response).await).unwrap();
    let left = all.strip_prefix(&asked).unwrap();
    let error = left.strip_prefix("id: 6\ndata:\n\ndata: ").unwrap();
    refused(error.trim_end().as_bytes(), &json!("c"));
    // Its response is closed, which cancels.
    soon(writer.closed()).await;
    nothing_is_posted(&relay, &mut server).await;
}

#[tokio::test]
async fn on_a_subscription_it_is_only_withheld() {
    let (writer, mut server) = modern().await;
    let relay = Relayed::start(&server).await;
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    }});
    let mut response = soon(relay.post(&listen).send()).await.unwrap();
    let asked = events((1..=6).map(question));
    writer.send(asked.into()).unwrap();
    let note = "data: {\"method\":\"notifications/tools/list_changed\"}\n\n";
    let expected = events((1..=5).map(question)) + note;
    writer.send(Bytes::from_static(note.as_bytes())).unwrap();
    let mut got = Vec::new();
    while got.len() < expected.len() {
        got.extend_from_slice(&chunk(&mut response).await);
    }
    assert_eq!(String::from_utf8(got).unwrap(), expected);
    drop(response);
    soon(writer.closed()).await;
    nothing_is_posted(&relay, &mut server).await;
}

#[tokio::test]
async fn a_task_notification_that_does_not_fit_is_withheld_whole() {
    let note = |count: usize| {
        json!({"method": "notifications/tasks", "params": {
            "taskId": "t", "status": "input_required",
            "inputRequests": round(0, count)["result"]["inputRequests"]
        }})
    };
    let stream = format!("{}id: 2\ndata: {}\n\n", events([note(5)]), note(6));
    let server = Server::start(move |_| Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    let expected = format!("{}id: 2\ndata:\n\n", events([note(5)]));
    assert_eq!(relay.call().await.text(), expected);
}
