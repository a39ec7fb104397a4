//! URL elicitations, and questions through several doors: the same windows.

use mcp_question_throttle::{CallError, ClientSession, Pool};
use rmcp::{model::CallToolRequestParams, service::ServiceError};
use serde_json::{Value, json};

use super::{
    E, poll,
    support::{
        Handler, Server, asking, connect, connect_modern, done, is_refusal, limits, log_in_first,
        question, refused, round,
    },
};

async fn call(session: &ClientSession<Handler>, server: &mut Server, error: Value) -> CallError {
    let serve = async {
        let call = server.request("tools/call").await;
        server.answer_error(&call, error).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    result.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn url_required() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 2));
    let (session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    refused(call(&session, &mut server, log_in_first(3)).await);
    assert_eq!(
        pool.snapshot().servers[0].elicitation.admitted,
        0,
        "nothing charged"
    );
    assert!(log.all().is_empty(), "nothing shown");
    // Two fit, and the error is handed on as it came.
    let error = call(&session, &mut server, log_in_first(2)).await;
    let CallError::Service(ServiceError::McpError(error)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(serde_json::to_value(error).unwrap(), log_in_first(2));
    // A list that is missing still sends the person somewhere.
    let missing = json!({"code": -32042, "message": "log in first"});
    refused(call(&session, &mut server, missing).await);
}

#[tokio::test(start_paused = true)]
async fn url_loop() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect(Pool::new(limits(9, 3)).wrap("s", handler).unwrap()).await;
    for round in 0..6 {
        let error = call(&session, &mut server, log_in_first(1)).await;
        assert_eq!(
            matches!(error, CallError::Service(_)),
            round < 3,
            "{round}: {error:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn three_doors() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 4));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    // A round of one, in which a legacy question comes as well: a pipe lets it through.
    let serve = async {
        let call = server.request("tools/call").await;
        server.send(&question(E, "legacy")).await;
        assert_eq!(server.receive().await["result"]["action"], "accept");
        server.answer(&call, round(&[("a", E)], None)).await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    result.unwrap();
    poll(&session, &mut server, asking("t", &[("k", E)]))
        .await
        .unwrap();
    let error = call(&session, &mut server, log_in_first(1)).await;
    assert!(matches!(error, CallError::Service(_)), "{error:?}");
    assert_eq!(pool.snapshot().servers[0].elicitation.admitted, 4);
    assert_eq!(log.questions().len(), 2);

    // Now every door is shut.
    refused(call(&session, &mut server, log_in_first(1)).await);
    refused(
        poll(&session, &mut server, asking("t", &[("l", E)]))
            .await
            .unwrap_err(),
    );
    let serve = async {
        let call = server.request("tools/call").await;
        server.send(&question(E, "legacy")).await;
        assert!(is_refusal(&server.receive().await));
        server
            .send(&json!({"jsonrpc": "2.0", "method": E, "params": {"message": "m"}}))
            .await;
        server.answer(&call, round(&[("b", E)], None)).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    refused(result.unwrap_err());
    assert_eq!(log.questions().len(), 2);
}

/// Vendor methods count as the kind that the embedder or the settings say.
#[tokio::test(start_paused = true)]
async fn a_vendor_question_is_held_as_a_request_and_as_a_notification() {
    use mcp_question_throttle::question::QuestionKind;
    let (handler, mut entered) = Handler::open();
    let log = handler.log.clone();
    let throttled = Pool::new(limits(9, 2))
        .wrap("s", handler)
        .unwrap()
        .with_question_method("openai/form", QuestionKind::Elicitation)
        .unwrap();
    let (_session, mut server) = connect(throttled).await;
    server
        .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "openai/form", "params": {}}))
        .await;
    server.receive().await;
    server
        .send(&json!({"jsonrpc": "2.0", "method": "openai/form", "params": {}}))
        .await;
    for _ in 0..2 {
        assert_eq!(entered.recv().await.unwrap(), "openai/form");
    }
    server
        .send(&json!({"jsonrpc": "2.0", "method": "openai/form", "params": {}}))
        .await;
    server
        .send(&json!({"jsonrpc": "2.0", "id": 2, "method": "openai/form", "params": {}}))
        .await;
    let reply = server.receive().await;
    assert!(is_refusal(&reply));
    assert_eq!(reply["error"]["data"]["method"], "openai/form");
    server
        .send(&json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}))
        .await;
    server.receive().await;
    assert_eq!(log.all(), ["openai/form", "openai/form", "ping"]);
}
