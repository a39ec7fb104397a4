//! One test for each door through which a question can come (section 3 of the design), and each
//! alone: it uses its own door only, and no test uses two. `.ci/sabotage` unhooks the doors one
//! at a time, and asks that the test of that door fails, and that of no other.
//!
//! That of a subscription stands beside its code: rmcp lets nothing through it that an embedder
//! could name a question, so a question has to be made there that no public function makes.

mod support;

use std::time::Duration;

use mcp_question_throttle::{
    CallError, ClientSession, Pool, Throttled,
    limits::ProtoSettings,
    question::{QuestionKind, QuestionMethods},
};
use rmcp::{
    model::{
        CallToolRequestParams, GetPromptRequestParams, GetTaskParams, InputRequiredResult,
        ReadResourceRequestParams,
    },
    service::ServiceError,
};
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, Server, asking, connect, connect_modern, is_refusal, limits, log_in_first, refused,
    round, task,
};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

/// A call and its server's part. One that has not ended after an hour of the paused clock waits
/// for what never comes.
async fn within_an_hour<T>(call: impl Future<Output = T>, serve: impl Future<Output = ()>) -> T {
    let both = async { tokio::join!(call, serve).0 };
    tokio::time::timeout(Duration::from_secs(3600), both)
        .await
        .expect("the call goes on")
}

/// Asks three times as a request where there is room for two, and takes the kind of the question
/// from the limit that refuses.
async fn asked_three_times(guard: Guard, throttled: Throttled<Handler>, request: &Value) -> String {
    let log = throttled.get_ref().log.clone();
    let (_session, mut server) = guard.connect(throttled).await;
    for id in 1..=3 {
        let mut request = request.clone();
        request["jsonrpc"] = json!("2.0");
        request["id"] = json!(id);
        server.send(&request).await;
    }
    let replies = server.receive_all(3).await;
    let refusals: Vec<_> = replies.iter().filter(|reply| is_refusal(reply)).collect();
    assert_eq!(log.all(), [request["method"].as_str().unwrap(); 2]);
    let [refusal] = refusals.as_slice() else {
        panic!("one of three is refused: {replies:?}")
    };
    refusal["error"]["data"]["limit"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn server_request(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let message = json!({"role": "user", "content": {"type": "text", "text": "2 + 2?"}});
    let tool = json!({"name": "add", "inputSchema": {"type": "object"}});
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    for (method, params) in [
        (S, json!({"messages": [message], "maxTokens": 16})),
        (
            S,
            json!({"messages": [message], "maxTokens": 16, "tools": [tool]}),
        ),
        (
            S,
            json!({"messages": [message], "maxTokens": 16, "task": {"ttl": 60_000}}),
        ),
        (E, json!({"message": "Name?", "requestedSchema": form})),
        (
            E,
            json!({"mode": "form", "message": "Name?", "requestedSchema": form, "task": {}}),
        ),
        (
            E,
            json!({"mode": "url", "message": "Log in", "url": "https://x", "elicitationId": "e"}),
        ),
    ] {
        let (handler, _events) = Handler::open();
        let limit = asked_three_times(
            guard,
            Throttled::new(handler, limits(2, 2)),
            &json!({"method": method, "params": params}),
        )
        .await;
        let kind = if method == S {
            "proto.samplingPerMinute"
        } else {
            "proto.elicitationPerMinute"
        };
        assert_eq!(limit, kind, "{params}");
    }
}

/// rmcp hands them past the typed handlers, as custom requests.
#[rstest]
#[tokio::test(start_paused = true)]
async fn malformed_server_request(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    for (method, params) in [
        (E, None),
        (E, Some(json!(null))),
        (E, Some(json!({"message": 5}))),
        (E, Some(json!({"mode": "url", "message": "Log in"}))),
        (S, None),
        (S, Some(json!({"messages": []}))),
        (S, Some(json!({"messages": [], "maxTokens": -1}))),
    ] {
        let (handler, _events) = Handler::open();
        let mut request = json!({"method": method});
        if let Some(params) = &params {
            request["params"] = params.clone();
        }
        let limit = asked_three_times(guard, Throttled::new(handler, limits(2, 2)), &request).await;
        assert_eq!(limit.starts_with("proto.sampling"), method == S);
    }
}

/// Three notifications of a method where there is room for two: the third reaches nobody, and
/// nothing of it is on the wire.
async fn notified_three_times(guard: Guard, throttled: Throttled<Handler>, method: &str) {
    let log = throttled.get_ref().log.clone();
    let (_session, mut server) = guard.connect(throttled).await;
    for _ in 0..3 {
        server
            .send(&json!({"jsonrpc": "2.0", "method": method, "params": {"message": "m"}}))
            .await;
    }
    // Each message is handled in a task of its own; the ping comes back after those before it.
    server
        .send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
        .await;
    let reply = server.receive().await;
    assert_eq!(reply["id"], "ping", "a notification has no reply");
    assert_eq!(log.all(), [method, method, "ping"]);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn question_without_id(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    for method in [S, E] {
        let (handler, _events) = Handler::open();
        notified_three_times(guard, Throttled::new(handler, limits(2, 2)), method).await;
    }
}

/// A call whose server asks a round of two where there is room for two, and another of one.
#[rstest]
#[case::tools("tools/call")]
#[case::prompts("prompts/get")]
#[case::resources("resources/read")]
#[tokio::test(start_paused = true)]
async fn round_of_a_call(#[case] method: &str) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let call = async {
        match method {
            "tools/call" => session
                .call_tool(CallToolRequestParams::new("t"))
                .await
                .map(drop),
            "prompts/get" => session
                .get_prompt(GetPromptRequestParams::new("p"))
                .await
                .map(drop),
            _ => session
                .read_resource(ReadResourceRequestParams::new("file:///r"))
                .await
                .map(drop),
        }
    };
    let serve = async {
        let first = server.request(method).await;
        server
            .answer(&first, round(&[("a", E), ("b", E)], None))
            .await;
        let second = server.request(method).await;
        let answers = second["params"]["inputResponses"].as_object().unwrap();
        assert_eq!(answers.len(), 2);
        server.answer(&second, round(&[("c", E)], None)).await;
    };
    let result = within_an_hour(call, serve).await;
    let refused = refused(result.unwrap_err());
    assert_eq!(
        refused.into_round().unwrap().input_requests.unwrap().len(),
        1
    );
    assert_eq!(log.all(), [E, E]);
    session.cancel().await.unwrap();
    assert!(server.until_gone().await.is_empty(), "nothing more is sent");
}

/// The same round in the hands of an embedder who drives rounds on a `Peer`.
#[tokio::test(start_paused = true)]
async fn round_answered_by_an_embedder() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, _server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let input = |entries: &[(&str, &str)]| -> InputRequiredResult {
        serde_json::from_value(round(entries, Some("s"))).unwrap()
    };
    let throttled = session.service();
    let answered = throttled
        .answer_round(input(&[("a", E), ("b", E)]), session.peer())
        .await
        .unwrap();
    assert_eq!(answered.input_responses.unwrap().len(), 2);
    let third = throttled
        .answer_round(input(&[("c", E)]), session.peer())
        .await;
    refused(third.unwrap_err());
    assert_eq!(log.all(), [E, E]);
}

async fn poll(
    session: &ClientSession<Handler>,
    server: &mut Server,
    state: Value,
) -> Result<(), CallError> {
    let serve = async {
        let get = server.request("tasks/get").await;
        server.answer(&get, state).await;
    };
    let result = within_an_hour(session.get_task(GetTaskParams::new("t")), serve).await;
    result.map(drop)
}

#[tokio::test(start_paused = true)]
async fn task_input_polled() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let two = asking("t", &[("a", E), ("b", E)]);
    poll(&session, &mut server, two).await.unwrap();
    let third = poll(&session, &mut server, asking("t", &[("c", E)])).await;
    let refused = refused(third.unwrap_err());
    assert_eq!(refused.task_id(), Some("t"), "it stays the caller's");
}

#[tokio::test(start_paused = true)]
async fn task_input_followed() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let serve = async {
        let get = server.request("tasks/get").await;
        server
            .answer(&get, asking("t", &[("a", E), ("b", E)]))
            .await;
        let update = server.request("tasks/update").await;
        let answers = update["params"]["inputResponses"].as_object().unwrap();
        assert_eq!(answers.len(), 2);
        server
            .answer(&update, json!({"resultType": "complete"}))
            .await;
        let get = server.request("tasks/get").await;
        server.answer(&get, asking("t", &[("c", E)])).await;
    };
    let result = within_an_hour(session.follow_task("t"), serve).await;
    refused(result.unwrap_err());
    assert_eq!(log.all(), [E, E]);
}

/// Two questions fit, the third is withheld, and what asks nothing goes through.
async fn tasks_notified(change: impl Fn(&mut Value)) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    for mut state in [
        asking("t", &[("a", E), ("b", E)]),
        asking("t", &[("c", E)]),
        task("t", "working"),
    ] {
        change(&mut state);
        server
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": state}))
            .await;
    }
    server
        .send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
        .await;
    server.receive().await;
    let told = "notifications/tasks";
    assert_eq!(log.all(), [told, told, "ping"], "the second is withheld");
}

#[tokio::test(start_paused = true)]
async fn task_input_notified() {
    tasks_notified(|_| {}).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_task_input_notified() {
    tasks_notified(|state| state["createdAt"] = json!(5)).await;
}

#[tokio::test(start_paused = true)]
async fn url_elicitation_required() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect(Throttled::new(handler, limits(9, 2))).await;
    for fits in [true, false] {
        let serve = async {
            let call = server.request("tools/call").await;
            server.answer_error(&call, log_in_first(2)).await;
        };
        let result =
            within_an_hour(session.call_tool(CallToolRequestParams::new("t")), serve).await;
        match result.unwrap_err() {
            CallError::Service(ServiceError::McpError(error)) if fits => {
                assert_eq!(serde_json::to_value(error).unwrap(), log_in_first(2));
            }
            error => drop(refused(error)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn url_elicitation_of_a_failed_task() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 2))).await;
    let failed = |count| {
        let mut failed = task("t", "failed");
        failed["error"] = log_in_first(count);
        failed
    };
    poll(&session, &mut server, failed(2)).await.unwrap();
    let third = poll(&session, &mut server, failed(1)).await;
    refused(third.unwrap_err());
}

/// `acme/ask` is the embedder's, `acme/form` stands in the settings.
fn with_vendor_methods(settings: ProtoSettings) -> Throttled<Handler> {
    let methods = QuestionMethods::new()
        .with("acme/form", QuestionKind::Elicitation)
        .unwrap();
    let (handler, _events) = Handler::open();
    Throttled::new(handler, settings.with_questions(methods))
        .with_question_method("acme/ask", QuestionKind::Elicitation)
        .unwrap()
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn vendor_request(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    for method in ["acme/ask", "acme/form"] {
        let throttled = with_vendor_methods(limits(9, 2));
        let limit = asked_three_times(guard, throttled, &json!({"method": method})).await;
        assert_eq!(limit, "proto.elicitationPerMinute");
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn vendor_notification(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    for method in ["acme/ask", "acme/form"] {
        notified_three_times(guard, with_vendor_methods(limits(9, 2)), method).await;
    }
}

/// rmcp knows three kinds of entries; the one that is no question can be made one.
#[tokio::test(start_paused = true)]
async fn vendor_entry_of_a_round() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(9, 2))
        .with_question_method("roots/list", QuestionKind::Elicitation)
        .unwrap();
    let (session, mut server) = connect_modern(throttled).await;
    let serve = async {
        for entries in [&["a", "b"] as &[_], &["c"]] {
            let call = server.request("tools/call").await;
            let entries: Vec<_> = entries.iter().map(|key| (*key, "roots/list")).collect();
            server.answer(&call, round(&entries, None)).await;
        }
    };
    let result = within_an_hour(session.call_tool(CallToolRequestParams::new("t")), serve).await;
    refused(result.unwrap_err());
    assert_eq!(log.all(), ["roots/list", "roots/list"]);
}

/// The shield asked the embedder's table before that of the settings, and the wrapper the other
/// way round: of a method in both, with two kinds, each held a flood to another window.
#[rstest]
#[tokio::test(start_paused = true)]
async fn the_embedders_kind_holds_where_the_settings_name_another(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
) {
    let methods = QuestionMethods::new()
        .with("acme/ask", QuestionKind::Sampling)
        .unwrap();
    let pool = Pool::new(limits(1, 2).with_questions(methods));
    let (handler, _events) = Handler::open();
    let throttled = pool
        .wrap("s", handler)
        .unwrap()
        .with_question_method("acme/ask", QuestionKind::Elicitation)
        .unwrap();
    let limit = asked_three_times(guard, throttled, &json!({"method": "acme/ask"})).await;
    assert_eq!(limit, "proto.elicitationPerMinute");
    let server = &pool.snapshot().servers[0];
    assert_eq!(
        (server.elicitation.admitted, server.sampling.admitted),
        (2, 0)
    );
    assert_eq!(server.sampling.refused_by_server_limit, 0);
    assert_eq!(server.elicitation.refused_by_server_limit, 1);
}
