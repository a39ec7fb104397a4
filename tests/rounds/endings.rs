//! Rounds that fail, are left or go on: what their handlers and the server see.

use std::time::Duration;

use mcp_question_throttle::{CallError, Throttled, service::GRACE};
use rmcp::{model::CallToolRequestParams, service::ServiceError};
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    E, S,
    support::{Handler, Server, connect_modern, done, dropped_after, limits, round},
};

#[tokio::test(start_paused = true)]
async fn round_one_bad_entry() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(9, 9));
    let throttle = throttled.session().throttle().clone();
    let (session, mut server) = connect_modern(throttled).await;
    for malformed in [
        json!({"method": "ping"}),
        json!({"method": "no/such"}),
        json!({"method": E}),
        json!({"method": E, "params": {"message": 5}}),
        json!({"method": S, "params": {"messages": [], "maxTokens": -1}}),
        json!({}),
        json!(null),
        json!([]),
    ] {
        let mut bad = round(&[("a", E), ("b", E), ("c", E), ("d", E), ("e", E)], None);
        bad["inputRequests"]["f"] = malformed.clone();
        let serve = async {
            let call = server.request("tools/call").await;
            let answers = call["params"].get("inputResponses");
            assert!(answers.is_none(), "{answers:?} before {malformed}");
            server.answer(&call, bad).await;
        };
        let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
        assert!(
            matches!(result, Err(CallError::Service(_))),
            "{malformed}: {result:?}"
        );
        assert!(log.all().is_empty(), "{malformed}");
        let snapshot = throttle.snapshot(mcp_question_throttle::clock::now());
        assert!(
            snapshot.servers.is_empty(),
            "nothing charged for {malformed}"
        );
    }
    session.into_inner().cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn round_one_fails() {
    let (mut handler, _events) = Handler::open();
    handler.broken = Some(S);
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 9))).await;
    let serve = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", S), ("c", E)], None))
            .await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    let error = result.unwrap_err();
    assert!(matches!(&error, CallError::Service(_)), "{error:?}");
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(log.questions(), [E, S, E]);
    session.into_inner().cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty(), "no inputResponses");
}

/// The other handlers of a round that has failed are told, and get five seconds to end, whatever
/// they were asked. Roots, which are no question, once held such a call for ever.
#[tokio::test(start_paused = true)]
async fn a_failed_round_waits_five_seconds_for_its_other_handlers() {
    let (mut handler, _events) = Handler::blocked();
    handler.broken = Some(S);
    let (log, ended) = (handler.log.clone(), handler.ended.clone());
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 9))).await;
    let asked_at = mcp_question_throttle::clock::now();
    let serve = async {
        let call = server.request("tools/call").await;
        let entries = [("a", E), ("b", S), ("c", "roots/list")];
        server.answer(&call, round(&entries, None)).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    let error = result.unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    assert_eq!(mcp_question_throttle::clock::now() - asked_at, GRACE);
    assert_eq!(log.all(), [E, S, "roots/list"]);
    for _ in 0..2 {
        ended.wait_for("token fired").await;
        ended.wait_for("dropped").await;
    }
    session.into_inner().cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty(), "no inputResponses");
}

/// rmcp fires no token for a round; its prompts once stayed open for as long as `proto.askTTL`
/// after the connection had gone.
#[tokio::test(start_paused = true)]
async fn a_round_ends_with_its_connection() {
    let (handler, mut entered) = Handler::blocked();
    let ended = handler.ended.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 9))).await;
    let serve = async {
        let call = server.request("tools/call").await;
        server
            .answer(&call, round(&[("a", E), ("b", S)], None))
            .await;
        for _ in 0..2 {
            entered.recv().await.unwrap();
        }
        drop(server);
        mcp_question_throttle::clock::now()
    };
    let (result, gone_at) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    assert!(
        matches!(
            result,
            Err(CallError::Service(ServiceError::TransportClosed))
        ),
        "{result:?}"
    );
    assert!(mcp_question_throttle::clock::now() - gone_at <= Duration::from_secs(1) + GRACE);
    for _ in 0..2 {
        ended.wait_for("token fired").await;
        ended.wait_for("dropped").await;
    }
}

#[tokio::test(start_paused = true)]
async fn state_untouched() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 9))).await;
    // As a server may write it: with escapes where none are needed, and beyond the first plane.
    let long = "x".repeat(64 * 1024);
    let written = format!(r#""\ud83d\ude00 \u0041\u00e9 \"quoted\" \\ \u0007\u0000 \/ {long}""#);
    let state = format!("\u{1F600} A\u{e9} \"quoted\" \\ \u{7}\0 / {long}");
    let serve = async {
        let call = server.request("tools/call").await;
        assert!(
            call["params"].get("requestState").is_none(),
            "never invented"
        );
        let result = round(&[("a", E)], Some("STATE")).to_string();
        let result = result.replace(r#""STATE""#, &written);
        let id = &call["id"];
        server
            .send_raw(&format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"
            ))
            .await;
        let again = server.request("tools/call").await;
        assert_eq!(again["params"]["requestState"], state.as_str());
        server.answer(&again, round(&[("b", E)], None)).await;
        let last = server.request("tools/call").await;
        assert!(
            last["params"].get("requestState").is_none(),
            "the round had none"
        );
        server.answer(&last, done()).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    result.unwrap();
}

#[tokio::test(start_paused = true)]
async fn round_abandoned() {
    let (handler, mut entered) = Handler::blocked();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(0, 0));
    let throttle = throttled.session().throttle().clone();
    let (session, mut server) = connect_modern(throttled).await;
    for _ in 0..1000 {
        let call = session.call_tool(CallToolRequestParams::new("t"));
        let serve = async {
            let call = server.request("tools/call").await;
            server.answer(&call, round(&[("a", E)], None)).await;
            entered.recv().await.unwrap();
        };
        // The call is dropped while its first round waits for a person.
        tokio::select! {
            result = call => panic!("{result:?}"),
            () = serve => {}
        }
    }
    assert_eq!(log.questions().len(), 1000);
    let snapshot = throttle.snapshot(mcp_question_throttle::clock::now());
    assert_eq!(snapshot.servers.len(), 1);
    assert_eq!(
        snapshot.servers[0].sessions.len(),
        1,
        "the state has not grown"
    );
}

/// A server that asks two rounds of every call, and a person who answers each question when it
/// has been shown.
async fn two_rounds(
    server: &mut Server,
    entered: &mut mpsc::UnboundedReceiver<String>,
    gate: &tokio::sync::Semaphore,
) {
    loop {
        let message = tokio::select! {
            message = server.receive() => message,
            _ = entered.recv() => {
                gate.add_permits(1);
                continue;
            }
        };
        if message["method"] == "tools/call" {
            let result = match message["params"]["requestState"].as_str() {
                None => round(&[("a", E), ("b", S)], Some("first")),
                Some("first") => round(&[("c", E), ("r", "roots/list")], Some("second")),
                _ => done(),
            };
            server.answer(&message, result).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn future_dropped() {
    let mut polls = 0;
    loop {
        let (handler, mut entered) = Handler::blocked();
        let (ended, gate) = (handler.ended.clone(), handler.gate.clone());
        let throttled = Throttled::new(handler, limits(0, 0));
        let throttle = throttled.session().throttle().clone();
        let (session, mut server) = connect_modern(throttled).await;
        let call = session.call_tool(CallToolRequestParams::new("t"));
        let finished = tokio::select! {
            finished = dropped_after(polls, call) => finished,
            () = two_rounds(&mut server, &mut entered, &gate) => unreachable!(),
        };
        assert_eq!(ended.open(), 0, "a handler goes on after {polls} polls");

        // What the dropped call left to do is nobody's, and the next call works.
        while entered.try_recv().is_ok() {}
        gate.forget_permits(usize::MAX);
        tokio::select! {
            result = session.call_tool(CallToolRequestParams::new("t")) => drop(result.unwrap()),
            () = two_rounds(&mut server, &mut entered, &gate) => unreachable!(),
        }
        assert_eq!(ended.open(), 0);
        let servers = throttle
            .snapshot(mcp_question_throttle::clock::now())
            .servers;
        assert_eq!((servers.len(), servers[0].sessions.len()), (1, 1));
        if let Some(result) = finished {
            result.unwrap();
            break;
        }
        polls += 1;
    }
    assert!(polls > 5, "{polls} await points of a call of two rounds");
}
