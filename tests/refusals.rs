//! What a refusal means: an error with our data, under the request's own id, and true.

mod support;

use std::time::Duration;

use mcp_question_throttle::{
    CallError, ClientSession, Pool, Throttled, limits::ProtoSettings, question::QuestionKind,
};
use rmcp::{
    ErrorData, ServiceExt,
    model::{
        CallToolRequestParams, ErrorCode, GetPromptRequestParams, GetTaskParams,
        ReadResourceRequestParams,
    },
};
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, Server, connect, connect_modern, inputs, is_refusal, limits, pipe, question, round,
};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

#[rstest]
#[tokio::test(start_paused = true)]
async fn never_decline(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(1, 1))).await;
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
#[rstest]
#[tokio::test(start_paused = true)]
async fn never_accept(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(1, 1))
        .with_question_method("acme/ask", QuestionKind::Elicitation)
        .unwrap();
    let (_session, mut server) = guard.connect(throttled).await;
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
        json!({"jsonrpc": "2.0", "id": 6, "method": "acme/ask"}),
        json!({"jsonrpc": "2.0", "method": E, "params": {"message": "m"}}),
        json!({"jsonrpc": "2.0", "method": "acme/ask"}),
    ];
    for message in &shut {
        server.send(message).await;
    }
    server
        .send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
        .await;
    let mut replies = server.receive_all(7).await;
    replies.retain(|reply| reply["id"] != "ping");
    assert_eq!(replies.len(), 6);
    assert!(replies.iter().all(is_refusal), "{replies:?}");
    assert_eq!(log.all(), [S, E, "ping"]);
}

/// The same of what calls bring back: the caller gets a refusal, and the server no answer.
#[tokio::test(start_paused = true)]
async fn never_accept_what_a_call_brings() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(1, 1));
    for kind in QuestionKind::ALL {
        drop(throttled.admit_kind(kind).unwrap());
    }
    let (session, mut server) = connect_modern(throttled).await;
    let url = json!({"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"});
    let task = |status: &str| {
        json!({"taskId": "t", "status": status, "ttlMs": null,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z"})
    };
    let mut created = task("working");
    created["resultType"] = json!("task");
    let mut asking = task("input_required");
    asking["resultType"] = json!("complete");
    asking["inputRequests"] = inputs(&[("k", E)]);
    let login = json!({"code": -32042, "message": "m", "data": {"elicitations": [url]}});
    let serve = async {
        for method in ["tools/call", "prompts/get", "resources/read"] {
            let call = server.request(method).await;
            server
                .answer(&call, round(&[("k", S), ("r", "roots/list")], None))
                .await;
            let call = server.request(method).await;
            server.answer_error(&call, login.clone()).await;
        }
        let call = server.request("tools/call").await;
        server.answer(&call, created).await;
        for _ in 0..2 {
            let get = server.request("tasks/get").await;
            server.answer(&get, asking.clone()).await;
        }
    };
    let calls = async {
        let mut refused = Vec::new();
        for _ in 0..2 {
            let call = CallToolRequestParams::new("t");
            refused.push(session.call_tool(call).await.unwrap_err());
        }
        for _ in 0..2 {
            let get = GetPromptRequestParams::new("p");
            refused.push(session.get_prompt(get).await.unwrap_err());
        }
        for _ in 0..2 {
            let read = ReadResourceRequestParams::new("file:///r");
            refused.push(session.read_resource(read).await.unwrap_err());
        }
        let call = CallToolRequestParams::new("makes a task");
        refused.push(session.call_tool(call).await.unwrap_err());
        let get = GetTaskParams::new("t");
        refused.push(session.get_task(get).await.unwrap_err());
        refused
    };
    let (refused, ()) = tokio::join!(calls, serve);
    for error in refused {
        assert!(matches!(error, CallError::Refused(_)), "{error:?}");
    }
    assert!(log.all().is_empty(), "nobody was asked");
    session.cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty(), "and nothing answered");
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

/// A refusal that comes from below, as from a throttle within a throttle, is a handler's error
/// like any other: it is not wrapped again.
#[tokio::test(start_paused = true)]
async fn handler_error_kept_where_it_is_a_refusal() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let inner = Throttled::new(handler, limits(9, 1));
    let (_session, mut server) = connect(Throttled::new(inner, limits(9, 2))).await;
    let mut replies = Vec::new();
    for id in 1..=3 {
        server.send(&question(E, id)).await;
        replies.push(server.receive().await);
    }
    let max = |reply: &Value| reply["error"]["data"]["max"].clone();
    assert_eq!(max(&replies[1]), 1, "the inner one's own");
    assert_eq!(max(&replies[2]), 2, "the outer one's");
    let keys = |reply: &Value| reply["error"].as_object().unwrap().len();
    assert_eq!((keys(&replies[1]), keys(&replies[2])), (3, 3));
    assert_eq!(log.questions().len(), 1);
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
    // The handshake ends after the client's first line, and with it the client.
    let first_line = |mut server: Server| async move { server.line().await.unwrap() };
    let (handler, _events) = Handler::open();
    let (client, server) = pipe();
    let (_, bare) = tokio::join!(handler.clone().serve(client), first_line(server));
    assert!(
        bare.contains("sampling") && bare.contains("elicitation"),
        "{bare}"
    );

    let exhausted = limits(1, 1);
    let all = [
        limits(0, 0),
        limits(5, 5),
        ProtoSettings::default(),
        exhausted,
    ];
    for settings in all {
        let throttled = || {
            let throttled = Throttled::new(handler.clone(), settings.clone());
            for kind in QuestionKind::ALL {
                drop(throttled.admit_kind(kind).unwrap());
            }
            throttled
        };
        let (client, server) = pipe();
        let (_, line) = tokio::join!(throttled().serve(client), first_line(server));
        assert_eq!(line, bare, "byte for byte");
        let (client, server) = pipe();
        let connected = ClientSession::connect(throttled(), client);
        let (_, line) = tokio::join!(connected, first_line(server));
        assert_eq!(line, bare, "byte for byte, through the shield");
    }
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

/// It spoke of a "round" also where an error -32042 asked, and named no number.
#[tokio::test(start_paused = true)]
async fn what_can_never_fit_is_told_with_its_number() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect(Throttled::new(handler, limits(9, 2))).await;
    let serve = async {
        let call = server.request("tools/call").await;
        let page = json!({"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"});
        let error =
            json!({"code": -32042, "message": "m", "data": {"elicitations": vec![page; 3]}});
        server.answer_error(&call, error).await;
    };
    let call = session.call_tool(CallToolRequestParams::new("t"));
    let (called, ()) = tokio::join!(call, serve);
    let CallError::Refused(refused) = called.unwrap_err() else {
        panic!("not refused");
    };
    let error = serde_json::to_value(refused.refusal()).unwrap();
    assert_eq!(
        error["message"],
        "question refused: proto.elicitationPerMinute allows 2 per minute, which 3 questions at \
         once can never fit; do not retry, ask for fewer"
    );
    assert_eq!(error["data"].get("retryAfterSeconds"), None);
}
