//! Tasks that are polled by their caller, who shows what they ask.

use mcp_question_throttle::Pool;

use super::{
    E, a_whole_life, poll,
    support::{Handler, asking, connect_modern, limits, refused},
};

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

/// What an embedder polls by itself is forgotten at the task's end as well. It once stayed, until
/// there was no room left and every poll of any task was charged anew.
#[tokio::test(start_paused = true)]
async fn a_task_polled_by_an_embedder_is_forgotten_when_it_has_ended() {
    let pool = Pool::new(limits(9, 9));
    let throttled = pool.wrap("s", ()).unwrap();
    for (state, admitted) in a_whole_life() {
        let state = serde_json::from_value(state).unwrap();
        throttled.charge_task(&state).unwrap();
        assert_eq!(pool.snapshot().servers[0].elicitation.admitted, admitted);
    }
}
