//! What a refusal means: an error with our data, under the request's own id, and true.

mod support;

use std::{sync::Arc, time::Duration};

use mcp_question_throttle::{Pool, Throttled};
use rmcp::{ErrorData, ServiceExt, model::ErrorCode};
use serde_json::{Value, json};
use support::{Handler, connect, is_refusal, limits, pipe, question};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

#[tokio::test(start_paused = true)]
async fn never_decline() {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    for id in 0..20 {
        server.send(&question(E, id)).await;
        let line = server.line().await.unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        if id > 0 {
            assert!(is_refusal(&reply), "{line}");
        }
        assert!(
            !line.contains("decline") && !line.contains("cancel"),
            "{line}"
        );
    }
}

/// With every path shut, nothing that looks like success goes out.
#[tokio::test(start_paused = true)]
async fn never_accept() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    for method in [S, E] {
        server.send(&question(method, 0)).await;
        server.receive().await;
    }
    let shut = [
        question(S, 1),
        question(E, 2),
        json!({"jsonrpc": "2.0", "id": 3, "method": S}),
        json!({"jsonrpc": "2.0", "id": 4, "method": E, "params": {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"}}),
        json!({"jsonrpc": "2.0", "id": 5, "method": E, "params": {"message": 5}}),
        json!({"jsonrpc": "2.0", "method": E, "params": {"message": "m"}}),
    ];
    for message in &shut {
        server.send(message).await;
    }
    server
        .send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
        .await;
    let mut replies = server.receive_all(6).await;
    replies.retain(|reply| reply["id"] != "ping");
    assert_eq!(replies.len(), 5);
    assert!(replies.iter().all(is_refusal), "{replies:?}");
    assert_eq!(log.questions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn handler_error_kept() {
    let (mut handler, _events) = Handler::open();
    // It even copies our data; it is passed through as any other error.
    let own = ErrorData::new(
        ErrorCode::INTERNAL_ERROR,
        "the model is down",
        Some(json!({"cause": "limit_exceeded", "mine": true})),
    );
    handler.fail_with = Some(own);
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    server.send(&question(S, 1)).await;
    let reply = server.receive().await;
    assert_eq!(reply["error"]["message"], "the model is down");
    assert_eq!(
        reply["error"]["data"],
        json!({"cause": "limit_exceeded", "mine": true})
    );
    server.send(&question(S, 2)).await;
    let reply = server.receive().await;
    assert!(reply["error"]["data"].get("mine").is_none(), "{reply}");
    assert_eq!(reply["error"]["data"]["limit"], "proto.samplingPerMinute");
}

#[tokio::test(start_paused = true)]
async fn data_on_the_wire() {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(0, 1))).await;
    server.send(&question(E, 1)).await;
    server.receive().await;
    tokio::time::advance(Duration::from_millis(22_500)).await;
    server.send(&question(E, "seven")).await;
    let line = server.line().await.unwrap();
    let reply: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        reply,
        json!({"jsonrpc": "2.0", "id": "seven", "error": {
            "code": -32603,
            "message": "question refused: proto.elicitationPerMinute allows 1 per minute; retry in 38 s",
            "data": {
                "cause": "limit_exceeded", "limit": "proto.elicitationPerMinute",
                "scope": "server", "method": E, "max": 1, "windowSeconds": 60,
                "retryAfterSeconds": 38,
            },
        }})
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_at_the_promised_time_is_admitted() {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    server.send(&question(S, 1)).await;
    server.receive().await;
    server.send(&question(S, 2)).await;
    let retry = server.receive().await["error"]["data"]["retryAfterSeconds"]
        .as_u64()
        .unwrap();
    tokio::time::advance(Duration::from_secs(retry - 1)).await;
    server.send(&question(S, 3)).await;
    assert!(is_refusal(&server.receive().await));
    tokio::time::advance(Duration::from_secs(1)).await;
    server.send(&question(S, 4)).await;
    assert!(!is_refusal(&server.receive().await));
}

#[tokio::test(start_paused = true)]
async fn no_leak() {
    let (handler, _events) = Handler::open();
    let pool = Pool::new(limits(1, 1));
    let throttled = pool.wrap("CONFIGURED-MARKER", handler).unwrap();
    let (_session, mut server) = connect(throttled).await;
    let mut asked = question(E, 1);
    asked["params"]["message"] = json!("TEXT-MARKER");
    server.send(&asked).await;
    server.receive().await;
    asked["id"] = json!(2);
    server.send(&asked).await;
    let line = server.line().await.unwrap();
    assert!(line.contains("limit_exceeded"), "{line}");
    assert!(!line.contains("MARKER"), "{line}");
    let snapshot = serde_json::to_string(&pool.snapshot()).unwrap();
    assert!(!snapshot.contains("TEXT-MARKER"), "{snapshot}");
}

#[tokio::test(start_paused = true)]
async fn capabilities_untouched() {
    let mut lines = Vec::new();
    for throttled in [false, true] {
        let (handler, _events) = Handler::open();
        let (client, mut server) = pipe();
        let first_line = async {
            let line = server.line().await.unwrap();
            // The handshake ends here, and with it the client.
            drop(server);
            line
        };
        let line = if throttled {
            // Off, on, and exhausted limits declare the same.
            let service = Throttled::new(handler, limits(0, 0));
            tokio::join!(service.serve(client), first_line).1
        } else {
            tokio::join!(handler.serve(client), first_line).1
        };
        lines.push(line);
    }
    assert_eq!(lines[0], lines[1], "byte for byte");
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_service_is_held_as_well() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler.into_dyn(), limits(2, 2));
    let (_session, mut server) = connect(throttled).await;
    for id in 0..5 {
        server.send(&question(S, id)).await;
    }
    server.receive_all(5).await;
    assert_eq!(log.questions().len(), 2);
}

/// A sink that fails changes no verdict (D13).
#[tokio::test(start_paused = true)]
async fn a_panicking_observer_changes_no_verdict() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(1, 1)).with_observer(|_| panic!("observer"));
    let (_session, mut server) = connect(throttled).await;
    for id in 0..3 {
        server.send(&question(S, id)).await;
    }
    let replies = server.receive_all(3).await;
    assert_eq!(replies.iter().filter(|reply| is_refusal(reply)).count(), 2);
    assert_eq!(log.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_every_verdict_and_nothing_a_server_wrote() {
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (handler, _events) = Handler::open();
    let pool = Pool::new(limits(1, 1)).with_observer({
        let heard = Arc::clone(&heard);
        move |verdict| heard.lock().unwrap().push(format!("{verdict:?}"))
    });
    let (_session, mut server) = connect(pool.wrap("github", handler).unwrap()).await;
    let mut asked = question(S, "ID-MARKER");
    asked["params"]["messages"][0]["content"]["text"] = json!("TEXT-MARKER");
    server.send(&asked).await;
    server.receive().await;
    server.send(&asked).await;
    server.receive().await;
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    assert!(
        heard.iter().all(|verdict| verdict.contains("github")),
        "{heard:?}"
    );
    assert!(
        heard.iter().all(|verdict| !verdict.contains("MARKER")),
        "{heard:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_window_does_not_slide_on_the_wire() {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(2, 2))).await;
    for (id, wait) in [(1, 0), (2, 59), (3, 1)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        server.send(&question(S, id)).await;
        assert!(!is_refusal(&server.receive().await), "question {id}");
    }
}
