//! Tasks that are followed to their end: each question is shown once.

use std::time::Duration;

use mcp_question_throttle::{CallError, Pool, Throttled};
use rmcp::{model::CallToolRequestParams, service::ServiceError};
use serde_json::{Value, json};
use tokio::{sync::mpsc::UnboundedReceiver, time::timeout};

use super::{
    E, S,
    support::{Handler, asking, connect_modern, done, dropped_after, limits, refused, task},
};

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
