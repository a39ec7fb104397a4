//! Tasks and URL elicitations: the same windows, whatever door the question comes through.

mod support;

use std::time::Duration;

use mcp_question_throttle::{CallError, ClientSession, Pool, Throttled};
use rmcp::{
    model::{CallToolRequestParams, GetTaskParams},
    service::ServiceError,
};
use serde_json::{Value, json};
use support::{
    Handler, Server, asking, connect, connect_modern, done, dropped_after, is_refusal, limits,
    question, refused, round, task,
};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

async fn poll(
    session: &ClientSession<Handler>,
    server: &mut Server,
    state: Value,
) -> Result<(), CallError> {
    let serve = async {
        let request = server.request("tasks/get").await;
        server.answer(&request, state).await;
    };
    let (result, ()) = tokio::join!(session.get_task(GetTaskParams::new("t")), serve);
    result.map(drop)
}

#[tokio::test(start_paused = true)]
async fn task_polled() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 3));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    for _ in 0..10 {
        poll(&session, &mut server, asking("t", &[("a", E), ("b", E)]))
            .await
            .unwrap();
    }
    assert_eq!(
        pool.snapshot().servers[0].elicitation.admitted,
        2,
        "once per key"
    );
    // Two more do not fit beside them: none is charged, and none is marked as seen.
    let more = asking("t", &[("a", E), ("b", E), ("c", E), ("d", E)]);
    refused(poll(&session, &mut server, more).await.unwrap_err());
    poll(&session, &mut server, asking("t", &[("c", E)]))
        .await
        .unwrap();
    assert_eq!(pool.snapshot().servers[0].elicitation.admitted, 3);
    assert!(log.questions().is_empty(), "showing them is the caller's");
}

#[tokio::test(start_paused = true)]
async fn a_followed_task_shows_each_question_once() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 9));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let serve = async {
        let call = server.request("tools/call").await;
        let mut created = task("t", "working");
        created["resultType"] = json!("task");
        server.answer(&call, created).await;
        let first = server.request("tasks/get").await;
        server
            .answer(&first, asking("t", &[("a", E), ("b", S)]))
            .await;
        let update = server.request("tasks/update").await;
        assert_eq!(update["params"]["inputResponses"]["a"]["action"], "accept");
        assert_eq!(
            update["params"]["inputResponses"]["b"]["model"],
            "test-model"
        );
        server
            .answer(&update, json!({"resultType": "complete"}))
            .await;
        // The server takes its time, and repeats what it asked.
        for _ in 0..3 {
            let again = server.request("tasks/get").await;
            server
                .answer(&again, asking("t", &[("a", E), ("b", S)]))
                .await;
        }
        let last = server.request("tasks/get").await;
        let mut completed = task("t", "completed");
        completed["result"] = done();
        server.answer(&last, completed).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    assert_eq!(
        serde_json::to_value(result.unwrap()).unwrap()["content"][0]["text"],
        "done"
    );
    assert_eq!(log.questions(), [E, S]);
}

/// The server's interval is its own number: one of 285 000 years once put the call to sleep for
/// good. It holds from 50 ms to a minute, and without it a second goes by.
#[tokio::test(start_paused = true)]
async fn a_task_is_polled_again_within_a_minute_whatever_its_server_says() {
    let (handler, _events) = Handler::open();
    let (session, mut server) = connect_modern(Throttled::new(handler, limits(9, 9))).await;
    let intervals = [
        (json!(1_u64 << 53), 60_000),
        (json!(u64::MAX), 60_000),
        (json!(60_001), 60_000),
        (json!(59_999), 59_999),
        (json!(0), 50),
        (Value::Null, 1_000),
    ];
    let serve = async {
        let mut poll = server.request("tasks/get").await;
        for (suggested, waited) in intervals {
            let mut working = task("t", "working");
            working["pollIntervalMs"] = suggested.clone();
            server.answer(&poll, working).await;
            let waited = Duration::from_millis(waited);
            let early = waited.checked_sub(Duration::from_millis(2)).unwrap();
            let early = timeout(early, server.line()).await;
            assert!(early.is_err(), "{suggested}: {early:?}");
            poll = timeout(Duration::from_millis(4), server.request("tasks/get"))
                .await
                .unwrap_or_else(|_| panic!("{suggested}: no poll after {waited:?}"));
        }
        let mut completed = task("t", "completed");
        completed["result"] = done();
        server.answer(&poll, completed).await;
    };
    let (result, ()) = tokio::join!(session.follow_task("t"), serve);
    result.unwrap();
}

/// A server that hands out one task for many calls gets no second prompt for one charge.
#[tokio::test(start_paused = true)]
async fn a_question_of_a_shared_task_is_shown_to_one_follower() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 9));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let serve = async {
        let (mut polls, mut updates) = (0, 0);
        while polls < 6 {
            let request = server.receive().await;
            match request["method"].as_str().unwrap() {
                "tasks/get" => {
                    polls += 1;
                    server.answer(&request, asking("t", &[("a", E)])).await;
                }
                "tasks/update" => {
                    updates += 1;
                    server
                        .answer(&request, json!({"resultType": "complete"}))
                        .await;
                }
                other => panic!("{other}"),
            }
        }
        updates
    };
    let followers = async {
        let (a, b) = tokio::join!(session.follow_task("t"), session.follow_task("t"));
        panic!("{a:?} {b:?}")
    };
    let updates: i32 = tokio::select! {
        updates = serve => updates,
        () = followers => unreachable!(),
    };
    assert_eq!(updates, 1);
    assert_eq!(log.questions(), [E]);
}

/// What was taken by a follower who went away, or whose handler failed, was once shown to nobody
/// ever after, and the next follower polled for ever. It is asked again, and paid for again.
#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_asked_again_by_the_next_follower() {
    let (handler, mut entered) = Handler::blocked();
    let (log, gate) = (handler.log.clone(), handler.gate.clone());
    let pool = Pool::new(limits(9, 2));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let ask = async {
        let get = server.request("tasks/get").await;
        server.answer(&get, asking("t", &[("a", E)])).await;
        entered.recv().await.unwrap();
    };
    tokio::select! {
        ended = session.follow_task("t") => panic!("{ended:?}"),
        () = ask => {}
    }

    gate.add_permits(1);
    let serve = async {
        let get = server.request("tasks/get").await;
        server.answer(&get, asking("t", &[("a", E)])).await;
        let update = server.request("tasks/update").await;
        assert_eq!(update["params"]["inputResponses"]["a"]["action"], "accept");
        let lost = json!({"code": -32603, "message": "lost"});
        server.answer_error(&update, lost).await;
    };
    let (ended, ()) = tokio::join!(session.follow_task("t"), serve);
    assert!(
        matches!(ended, Err(CallError::Service(ServiceError::McpError(_)))),
        "{ended:?}"
    );
    assert_eq!(pool.snapshot().servers[0].elicitation.admitted, 2);
    assert_eq!(log.questions().len(), 2, "never more than were paid for");

    let serve = async {
        let get = server.request("tasks/get").await;
        server.answer(&get, asking("t", &[("a", E)])).await;
    };
    let (ended, ()) = tokio::join!(session.follow_task("t"), serve);
    assert_eq!(refused(ended.unwrap_err()).task_id(), Some("t"));
    assert_eq!(log.questions().len(), 2);
}

/// Wherever a follower stops, the next one brings the task to its end.
#[tokio::test(start_paused = true)]
async fn future_dropped_by_a_follower() {
    let mut polls = 0;
    loop {
        let (handler, mut entered) = Handler::blocked();
        let (ended, gate) = (handler.ended.clone(), handler.gate.clone());
        let (session, mut server) =
            connect_modern(Pool::new(limits(0, 0)).wrap("s", handler).unwrap()).await;
        let mut answered = false;
        let mut serve = async |entered: &mut UnboundedReceiver<String>| {
            loop {
                let message = tokio::select! {
                    message = server.receive() => message,
                    _ = entered.recv() => {
                        gate.add_permits(1);
                        continue;
                    }
                };
                match message["method"].as_str().unwrap() {
                    "tasks/get" if answered => {
                        let mut completed = task("t", "completed");
                        completed["result"] = done();
                        server.answer(&message, completed).await;
                    }
                    "tasks/get" => {
                        let asking = asking("t", &[("a", E), ("b", S)]);
                        server.answer(&message, asking).await;
                    }
                    "tasks/update" => {
                        answered = true;
                        let ok = json!({"resultType": "complete"});
                        server.answer(&message, ok).await;
                    }
                    _ => {}
                }
            }
        };
        let finished = tokio::select! {
            finished = dropped_after(polls, session.follow_task("t")) => finished,
            () = serve(&mut entered) => unreachable!(),
        };
        assert_eq!(ended.open(), 0, "a handler goes on after {polls} polls");
        while entered.try_recv().is_ok() {}
        gate.forget_permits(usize::MAX);
        tokio::select! {
            result = session.follow_task("t") => drop(result.unwrap()),
            () = serve(&mut entered) => unreachable!(),
        }
        if let Some(result) = finished {
            result.unwrap();
            break;
        }
        polls += 1;
    }
    assert!(polls > 5, "{polls} await points of a followed task");
}

/// The task of a call stays the caller's when it is refused, who needs its id for that.
#[tokio::test(start_paused = true)]
async fn a_refused_task_of_a_call_can_be_followed_later() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) =
        connect_modern(Pool::new(limits(9, 2)).wrap("s", handler).unwrap()).await;
    let serve = async {
        let call = server.request("tools/call").await;
        let mut created = task("made-here", "working");
        created["resultType"] = json!("task");
        server.answer(&call, created).await;
        let get = server.request("tasks/get").await;
        let entries = [("a", E), ("b", E), ("c", E)];
        server.answer(&get, asking("made-here", &entries)).await;
    };
    let (result, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), serve);
    let refused = refused(result.unwrap_err());
    assert_eq!(refused.task_id(), Some("made-here"));
    assert!(log.questions().is_empty());
}

/// The memory of a task's entries goes when the task ends, also if nobody polls it. It once
/// stayed, and filled up with the entries of tasks that only notifications told of.
#[tokio::test(start_paused = true)]
async fn a_task_that_ended_by_notification_is_forgotten() {
    let (handler, mut entered) = Handler::open();
    let pool = Pool::new(limits(9, 9));
    let (_session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let notify = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
    let mut completed = task("t", "completed");
    completed["result"] = done();
    for (state, admitted) in [
        (asking("t", &[("a", E)]), 1),
        (asking("t", &[("a", E)]), 1),
        (completed, 1),
        (asking("t", &[("a", E)]), 2),
    ] {
        server.send(&notify(state)).await;
        entered.recv().await.unwrap();
        assert_eq!(pool.snapshot().servers[0].elicitation.admitted, admitted);
    }
}

/// A task that failed for want of a login is charged for it once, told and polled.
#[tokio::test(start_paused = true)]
async fn a_failed_task_is_charged_once_for_its_urls() {
    let (handler, mut entered) = Handler::open();
    let pool = Pool::new(limits(9, 2));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let mut failed = task("t", "failed");
    failed["error"] = log_in_first(2);
    server
        .send(&json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": failed}))
        .await;
    entered.recv().await.unwrap();
    poll(&session, &mut server, failed.clone()).await.unwrap();
    assert_eq!(pool.snapshot().servers[0].elicitation.admitted, 2);
    // It has ended, and is forgotten: the same again is another one.
    refused(poll(&session, &mut server, failed).await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn a_task_notification_is_forwarded_or_withheld_whole() {
    let (handler, mut entered) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 2));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let notify = |id: &str, entries: &[(&str, &str)]| json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": asking(id, entries)});
    server.send(&notify("t", &[("a", E), ("b", E)])).await;
    assert_eq!(entered.recv().await.unwrap(), "notifications/tasks");
    // A repetition is seen and free; another one does not fit and reaches nobody.
    server.send(&notify("t", &[("a", E)])).await;
    assert_eq!(entered.recv().await.unwrap(), "notifications/tasks");
    server.send(&notify("t", &[("c", E)])).await;
    poll(&session, &mut server, task("t", "working"))
        .await
        .unwrap();
    assert_eq!(log.all().len(), 2);
    assert_eq!(
        pool.snapshot().servers[0]
            .elicitation
            .refused_by_server_limit,
        1
    );
}

/// rmcp hands a notification that it cannot parse to the handler of custom ones, which may well
/// know how to read it. It went there uncharged.
#[tokio::test(start_paused = true)]
async fn a_task_notification_that_rmcp_cannot_parse_is_charged_as_well() {
    let (handler, mut entered) = Handler::open();
    let log = handler.log.clone();
    let pool = Pool::new(limits(9, 3));
    let (session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let notify = |params: &Value| json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
    let mut broken = asking("t", &[("a", E), ("b", S)]);
    broken["inputRequests"]["a"]["params"]["message"] = json!(5);
    let listed =
        json!({"taskId": "t", "inputRequests": [{"method": E}, {"method": "roots/list"}, 5]});
    let mut failed = task("t", "failed");
    failed["error"] = log_in_first(1);
    failed["createdAt"] = json!(5);
    for (state, admitted) in [(&broken, 1), (&broken, 1), (&listed, 2), (&failed, 3)] {
        server.send(&notify(state)).await;
        assert_eq!(entered.recv().await.unwrap(), "notifications/tasks");
        assert_eq!(pool.snapshot().servers[0].elicitation.admitted, admitted);
    }
    assert_eq!(pool.snapshot().servers[0].sampling.admitted, 1);
    broken["inputRequests"]["a"]["params"]["message"] = json!(6);
    server.send(&notify(&broken)).await;
    poll(&session, &mut server, task("t", "working"))
        .await
        .unwrap();
    assert_eq!(log.all().len(), 4, "the last one is withheld");
}

/// What an embedder polls by itself is forgotten at the task's end as well. It once stayed, until
/// there was no room left and every poll of any task was charged anew.
#[tokio::test(start_paused = true)]
async fn a_task_polled_by_an_embedder_is_forgotten_when_it_has_ended() {
    let pool = Pool::new(limits(9, 9));
    let throttled = pool.wrap("s", ()).unwrap();
    let mut completed = task("t", "completed");
    completed["result"] = done();
    for (state, admitted) in [
        (asking("t", &[("a", E)]), 1),
        (asking("t", &[("a", E)]), 1),
        (completed, 1),
        (asking("t", &[("a", E)]), 2),
    ] {
        let state = serde_json::from_value(state).unwrap();
        throttled.charge_task(&state).unwrap();
        assert_eq!(pool.snapshot().servers[0].elicitation.admitted, admitted);
    }
}

fn log_in_first(count: usize) -> Value {
    let elicitations: Vec<Value> = (0..count)
        .map(|n| json!({"mode": "url", "message": "log in", "url": "https://x", "elicitationId": n.to_string()}))
        .collect();
    json!({"code": -32042, "message": "log in first", "data": {"elicitations": elicitations}})
}

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
