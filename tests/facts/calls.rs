//! Facts about what a client's own calls bring back: rounds, tasks, errors -32042.

use std::sync::{Arc, Mutex};

use rmcp::{
    model::{
        CallToolRequestParams, CallToolResponse, ClientConfig, ClientResult, ErrorData,
        NumberOrString, ServerNotification, ServerRequest, SubscriptionFilter,
    },
    service::{NotificationContext, RequestContext, RoleClient, Service, ServiceError},
};
use serde_json::{Value, json};

use crate::{
    E, Probe, S, bare, bare_modern,
    support::{Handler, Server, done, round},
    until_quiet,
};

fn call() -> CallToolRequestParams {
    CallToolRequestParams::new("t")
}

async fn answer_call(server: &mut Server, result: Value) {
    let call = server.request("tools/call").await;
    server.answer(&call, result).await;
}

tokio::task_local! {
    static CALLER: &'static str;
}

/// What a handler can see of where it runs.
#[derive(Clone, Default)]
struct Context(Arc<Mutex<Vec<(NumberOrString, bool)>>>);

impl Service<RoleClient> for Context {
    async fn handle_request(
        &self,
        _request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let in_caller = CALLER.try_with(|caller| *caller == "me").unwrap_or(false);
        self.0.lock().unwrap().push((context.id, in_caller));
        let answer = json!({"action": "accept", "content": {}});
        Ok(serde_json::from_value(answer).unwrap())
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}

/// Why a round's handlers run in the caller's task here, and a key is no id to tell questions by.
#[tokio::test(start_paused = true)]
async fn handlers_of_a_round_run_in_the_callers_task_in_byte_order_of_the_keys() {
    let context = Context::default();
    let (running, mut server) = bare_modern(context.clone()).await;
    let serve = async {
        for _ in 0..2 {
            let entries = [("b", E), ("a", E), ("B", E), ("é", E), ("10", E), ("9", E)];
            answer_call(&mut server, round(&entries, None)).await;
        }
        answer_call(&mut server, done()).await;
    };
    let called = CALLER.scope("me", running.call_tool(call()));
    let (result, ()) = tokio::join!(called, serve);
    result.unwrap();
    let seen = context.0.lock().unwrap();
    let keys: Vec<_> = seen.iter().map(|(id, _)| id.to_string()).collect();
    let sorted = ["10", "9", "B", "a", "b", "é"];
    assert_eq!(keys, [sorted, sorted].concat(), "the same in both rounds");
    assert!(seen.iter().all(|(_, in_caller)| *in_caller));
}

/// Why a round is admitted whole: rmcp's own driver starts all, and drops those that are open.
#[tokio::test(start_paused = true)]
async fn the_first_error_of_a_round_drops_its_open_siblings() {
    let (mut handler, _events) = Handler::blocked();
    handler.broken = Some(S);
    let (log, ended) = (handler.log.clone(), handler.ended.clone());
    let (running, mut server) = bare_modern(handler).await;
    let entries = [("a", E), ("b", E), ("c", S), ("d", E)];
    let serve = answer_call(&mut server, round(&entries, None));
    let (result, ()) = tokio::join!(running.call_tool(call()), serve);
    assert!(
        matches!(result, Err(ServiceError::McpError(_))),
        "{result:?}"
    );
    assert_eq!(log.questions()[..3], [E, E, S]);
    assert_eq!(ended.open(), 0, "dropped in the middle");
    for _ in 0..2 {
        ended.wait_for("dropped").await;
    }
    running.cancel().await.unwrap();
    let sent = server.until_gone().await;
    assert_eq!(sent, [] as [Value; 0], "the server hears nothing of it");
}

#[tokio::test(start_paused = true)]
async fn a_bad_entry_fails_the_round_before_any_handler() {
    let probe = Probe::default();
    let (running, mut server) = bare_modern(probe.clone()).await;
    let mut bad: Vec<Value> = [
        json!({"method": "no/such"}),
        json!({"method": "ping"}),
        json!({"method": E, "params": {"message": 5}}),
        json!(null),
        json!([]),
    ]
    .into_iter()
    .map(|entry| {
        let mut input = round(&[("a", E)], None);
        input["inputRequests"]["b"] = entry;
        input
    })
    .collect();
    bad.push(json!({"resultType": "input_required", "inputRequests": {}}));
    for input in bad {
        let serve = answer_call(&mut server, input.clone());
        let (result, ()) = tokio::join!(running.call_tool(call()), serve);
        assert!(
            matches!(result, Err(ServiceError::UnexpectedResponse)),
            "{input}: {result:?}"
        );
        assert_eq!(probe.take(), [] as [&str; 0], "{input}");
    }
}

/// The pace that the session keeps as well, and the only bound that rmcp has.
#[tokio::test(start_paused = true)]
async fn rounds_of_state_alone_are_paced_and_end_after_ten_calls() {
    let (running, mut server) = bare_modern(Probe::default()).await;
    let serve = async {
        let mut at = Vec::new();
        loop {
            let call = tokio::select! {
                call = server.request("tools/call") => call,
                () = tokio::time::sleep(std::time::Duration::from_secs(60)) => break at,
            };
            at.push(mcp_question_throttle::clock::now());
            server.answer(&call, round(&[], Some("s"))).await;
        }
    };
    let (result, at) = tokio::join!(running.call_tool(call()), serve);
    assert!(result.is_err());
    assert_eq!(at.len(), 10);
    let pauses: Vec<_> = at
        .windows(2)
        .map(|two| (two[1] - two[0]).as_millis())
        .collect();
    assert!(
        pauses.iter().all(|pause| (50..=260).contains(pause)),
        "{pauses:?}"
    );
    assert!(pauses.is_sorted(), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_round_reaches_no_service_when_it_was_fetched_once() {
    let probe = Probe::default();
    let (running, mut server) = bare_modern(probe.clone()).await;
    let serve = answer_call(&mut server, round(&[("a", E)], Some("s")));
    let (result, ()) = tokio::join!(running.peer().call_tool_once(call()), serve);
    assert!(
        matches!(result, Ok(CallToolResponse::InputRequired(_))),
        "{result:?}"
    );
    assert_eq!(probe.take(), [] as [&str; 0]);
}

fn task(status: &str) -> Value {
    json!({
        "taskId": "t", "status": status, "ttlMs": null,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
    })
}

/// Why the session follows tasks itself.
#[tokio::test(start_paused = true)]
async fn a_task_is_an_unexpected_response_to_a_call() {
    let (handler, _events) = Handler::open();
    let (running, mut server) = bare_modern(handler).await;
    let mut created = task("working");
    created["resultType"] = json!("task");
    let serve = answer_call(&mut server, created.clone());
    let (result, ()) = tokio::join!(running.call_tool(call()), serve);
    assert!(
        matches!(result, Err(ServiceError::UnexpectedResponse)),
        "{result:?}"
    );
    let serve = answer_call(&mut server, created);
    let (result, ()) = tokio::join!(running.peer().call_tool_once(call()), serve);
    assert!(
        matches!(result, Ok(CallToolResponse::Task(_))),
        "{result:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_notification_is_typed_and_reaches_the_service() {
    let probe = Probe::default();
    let (_running, mut server) = bare_modern(probe.clone()).await;
    let mut asking = task("input_required");
    asking["inputRequests"] = round(&[("a", E)], None)["inputRequests"].clone();
    server
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": asking}))
        .await;
    until_quiet(&mut server).await;
    assert_eq!(probe.take(), ["task notification "]);
}

/// Why a subscription is no door for a task's questions in this version: such a notification ends
/// it, and reaches neither reader nor service.
#[tokio::test(start_paused = true)]
async fn a_subscription_brings_no_task_notifications() {
    let probe = Probe::default();
    let (running, mut server) = bare_modern(probe.clone()).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let serve = async {
        let listen = server.request("subscriptions/listen").await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        let mut asking = task("input_required");
        asking["_meta"] = meta.clone();
        asking["inputRequests"] = round(&[("a", E)], None)["inputRequests"].clone();
        let acknowledged = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
        for (method, params) in [
            ("notifications/subscriptions/acknowledged", acknowledged),
            ("notifications/tasks", asking),
        ] {
            server
                .send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
                .await;
        }
    };
    let read = async {
        let mut subscription = running.peer().listen(filter).await.unwrap();
        subscription.next().await
    };
    let (read, ()) = tokio::join!(read, serve);
    assert!(
        matches!(read, Err(ServiceError::UnexpectedResponse)),
        "{read:?}"
    );
    assert_eq!(probe.take(), [] as [&str; 0]);
}

/// Why every error of a call is looked at.
#[tokio::test(start_paused = true)]
async fn a_url_elicitation_error_comes_with_its_data_as_sent() {
    let probe = Probe::default();
    let (running, mut server) = bare(probe.clone()).await;
    for data in [
        json!({"elicitations": [{"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"}]}),
        json!({"elicitations": "many"}),
        json!([1, {"a": null}]),
        Value::Null,
    ] {
        let mut error = json!({"code": -32042, "message": "log in first"});
        if !data.is_null() {
            error["data"] = data;
        }
        let serve = async {
            let call = server.request("tools/call").await;
            server.answer_error(&call, error.clone()).await;
        };
        let (result, ()) = tokio::join!(running.call_tool(call()), serve);
        let Err(ServiceError::McpError(got)) = result else {
            panic!("{result:?}")
        };
        assert_eq!(serde_json::to_value(got).unwrap(), error);
    }
    assert_eq!(probe.take(), [] as [&str; 0], "no service hears of it");
}
