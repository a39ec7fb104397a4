//! Facts about the requests and notifications of a server.

use rmcp::{ServiceExt, model::ErrorData};
use serde_json::{Value, json};

use crate::{
    E, Probe, S, bare, bare_modern,
    support::{Handler, pipe, question},
    until_quiet,
};

fn request(id: u64, body: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}\n")
}

/// Why questions are known by their method, never by their type.
#[tokio::test(start_paused = true)]
async fn a_malformed_question_is_a_custom_request() {
    let probe = Probe::default();
    let (_running, mut server) = bare(probe.clone()).await;
    for (method, params) in [
        (E, ""),
        (E, r#","params":null"#),
        (E, r#","params":{}"#),
        (E, r#","params":{"message":5}"#),
        (E, r#","params":{"message":"m"}"#),
        (E, r#","params":{"mode":"url","message":"m"}"#),
        (S, ""),
        (S, r#","params":{"messages":[]}"#),
        (S, r#","params":{"messages":[],"maxTokens":"4"}"#),
        (S, r#","params":{"messages":[],"maxTokens":-1}"#),
        (S, r#","params":{"maxTokens":4}"#),
    ] {
        server
            .send_raw(&request(1, &format!("\"method\":\"{method}\"{params}")))
            .await;
        assert_eq!(server.receive().await["id"], 1);
        assert_eq!(probe.take(), [format!("custom {method}")], "{params}");
    }
}

/// What the typed handlers of rmcp make of it, for a client without the throttle.
#[tokio::test(start_paused = true)]
async fn a_malformed_question_is_an_unknown_method_to_a_client_handler() {
    let (_running, mut server) = bare(()).await;
    server
        .send_raw(&request(7, &format!("\"method\":\"{E}\"")))
        .await;
    let reply = server.receive().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!(7), &json!(-32601))
    );
}

#[tokio::test(start_paused = true)]
async fn odd_questions_that_parse_are_ordinary_ones() {
    let probe = Probe::default();
    let (_running, mut server) = bare(probe.clone()).await;
    let form = r#""message":"m","requestedSchema":{"type":"object","properties":{}}"#;
    for (body, method) in [
        (
            format!(r#""method":"{E}","params":{{"mode":"mind-reading",{form}}}"#),
            E,
        ),
        (
            format!(r#""method":"{E}","params":{{"task":{{"ttl":5}},{form}}}"#),
            E,
        ),
        (
            format!(r#""method":"\u0065licitation/create","params":{{{form}}}"#),
            E,
        ),
        (
            format!(r#""method":"{S}","params":{{"messages":[],"maxTokens":4}}"#),
            S,
        ),
    ] {
        server.send_raw(&request(1, &body)).await;
        server.receive().await;
        assert_eq!(probe.take(), [format!("typed {method}")], "{body}");
    }
    for method in [
        "Elicitation/create",
        "elicitation/create ",
        "sampling/createmessage",
    ] {
        server
            .send_raw(&request(1, &format!("\"method\":\"{method}\"")))
            .await;
        server.receive().await;
        assert_eq!(probe.take(), [format!("custom {method}")]);
    }
}

/// What rmcp rejects before any service is neither charged nor counted.
#[tokio::test(start_paused = true)]
async fn what_is_no_request_at_all_reaches_no_service() {
    let probe = Probe::default();
    let (_running, mut server) = bare(probe.clone()).await;
    for line in [
        request(1, &format!(r#""method":"{E}","params":"text""#)),
        request(1, &format!(r#""method":"{E}","params":[1]"#)),
        request(1, r#""method":5"#),
        request(1, &format!(r#""method":"ping","method":"{E}""#)),
        format!("[{}]\n", request(1, &format!("\"method\":\"{E}\"")).trim()),
        format!("[{},{}]\n", question(S, 1), question(E, 2)),
    ] {
        server.send_raw(&line).await;
        let replies = until_quiet(&mut server).await;
        assert_eq!(replies.len(), 1, "{line}{replies:?}");
        assert_eq!(replies[0]["error"]["code"], -32600, "{line}");
        assert!(replies[0].get("id").is_none_or(Value::is_null), "{line}");
        assert_eq!(probe.take(), [] as [&str; 0], "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_id_is_a_custom_notification() {
    let probe = Probe::default();
    let (_running, mut server) = bare(probe.clone()).await;
    for method in [E, S] {
        let mut asked = question(method, 1);
        asked.as_object_mut().unwrap().remove("id");
        server.send(&asked).await;
        assert_eq!(until_quiet(&mut server).await, [] as [Value; 0]);
        assert_eq!(probe.take(), [format!("custom notification {method}")]);
    }
}

#[tokio::test(start_paused = true)]
async fn ids_are_echoed_in_type_and_value() {
    let (_running, mut server) = bare(Probe::default()).await;
    let long = format!("\"{}\"", "x".repeat(100_000));
    for id in [
        "0",
        "-1",
        "7",
        "\"7\"",
        "\"\"",
        "4294967296",
        "9223372036854775807",
        &long,
    ] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        server.send_raw(&line).await;
        let reply = server.line().await.unwrap();
        assert!(reply.contains(&format!("\"id\":{id},")), "{id}: {reply}");
    }
    server
        .send_raw("{\"jsonrpc\":\"2.0\",\"id\":2.0,\"method\":\"ping\"}\n")
        .await;
    assert_eq!(server.receive().await["id"].to_string(), "2");
    for id in ["1.5", "null", "true", "[]", "{}", "9223372036854775808"] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{E}\"}}\n");
        server.send_raw(&line).await;
        let reply = server.receive().await;
        assert_eq!(reply["error"]["code"], -32600, "{id}");
        assert!(reply.get("id").is_none_or(Value::is_null), "{id}: {reply}");
    }
}

/// Why the shield hands on a request whose id is taken under another.
#[tokio::test(start_paused = true)]
async fn of_requests_with_one_id_in_flight_one_is_answered() {
    let (handler, mut entered) = Handler::blocked();
    let (log, gate) = (handler.log.clone(), handler.gate.clone());
    let (_running, mut server) = bare(handler).await;
    for method in [S, E, S] {
        server.send(&question(method, 7)).await;
        entered.recv().await.unwrap();
    }
    gate.add_permits(3);
    let replies = until_quiet(&mut server).await;
    assert_eq!(log.questions(), [S, E, S], "each reaches the handler");
    assert_eq!(replies.len(), 1, "{replies:?}");
}

/// Why an admitted question that is cancelled has a grace of ours, and no refund.
#[tokio::test(start_paused = true)]
async fn a_cancellation_fires_the_token_and_the_handler_runs_on() {
    let (handler, mut entered) = Handler::blocked();
    let (ended, gate) = (handler.ended.clone(), handler.gate.clone());
    let (_running, mut server) = bare(handler).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    server
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    ended.wait_for("token fired").await;
    assert_eq!(ended.open(), 1, "it runs on");
    gate.add_permits(1);
    assert_eq!(
        until_quiet(&mut server).await,
        [] as [Value; 0],
        "its answer is dropped"
    );
    assert_eq!(ended.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn questions_before_the_handshake_are_dropped() {
    let probe = Probe::default();
    let (client, mut server) = pipe();
    let serve = async {
        let initialize = server.receive().await;
        server.send(&question(E, "early")).await;
        server
            .answer(
                &initialize,
                json!({
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "scripted", "version": "1.0.0"},
                }),
            )
            .await;
        // After the result, and before the client has said that it is ready.
        server.send(&question(E, "soon")).await;
        server
    };
    let (running, mut server) = tokio::join!(probe.clone().serve(client), serve);
    let _running = running.unwrap();
    let mut written = until_quiet(&mut server).await;
    written.retain(|message| message.get("id").is_some());
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(written[0]["id"], "soon");
    assert_eq!(probe.take(), [format!("typed {E}")]);
}

/// Why a modern session needs the door of server requests, too.
#[tokio::test(start_paused = true)]
async fn a_modern_session_takes_legacy_questions_while_a_call_is_in_flight() {
    let probe = Probe::default();
    let (running, mut server) = bare_modern(probe.clone()).await;
    let serve = async {
        let list = server.request("tools/list").await;
        server.send(&question(E, "during")).await;
        assert!(server.receive().await["result"].is_object());
        server
            .answer_error(&list, json!({"code": -32603, "message": "enough"}))
            .await;
    };
    let (listed, ()) = tokio::join!(running.list_tools(None), serve);
    assert!(listed.is_err());
    assert_eq!(probe.take(), [format!("typed {E}")]);
    server.send(&question(E, "after")).await;
    let reply = server.receive().await;
    assert_eq!(
        (&reply["id"], &reply["error"]["code"]),
        (&json!("after"), &json!(-32602))
    );
    assert_eq!(probe.take(), [] as [&str; 0], "no service has seen it");
}

/// Why a handler's errors are known by where they come from, never by what they hold.
#[tokio::test(start_paused = true)]
async fn a_handlers_error_goes_out_as_it_is() {
    let (mut handler, _events) = Handler::open();
    let error = ErrorData::internal_error("no", Some(json!({"cause": "limit_exceeded"})));
    handler.fail_with = Some(error.clone());
    let (_running, mut server) = bare(handler).await;
    server.send(&question(E, 1)).await;
    assert_eq!(
        server.receive().await["error"],
        serde_json::to_value(error).unwrap()
    );
}
