//! Tasks that their server tells of by itself.

use mcp_question_throttle::Pool;
use serde_json::{Value, json};

use super::{
    E, S, a_whole_life, poll,
    support::{Handler, asking, connect_modern, limits, log_in_first, refused, task},
};

/// The memory of a task's entries goes when the task ends, also if nobody polls it. It once
/// stayed, and filled up with the entries of tasks that only notifications told of.
#[tokio::test(start_paused = true)]
async fn a_task_that_ended_by_notification_is_forgotten() {
    let (handler, mut entered) = Handler::open();
    let pool = Pool::new(limits(9, 9));
    let (_session, mut server) = connect_modern(pool.wrap("s", handler).unwrap()).await;
    let notify = |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
    for (state, admitted) in a_whole_life() {
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
