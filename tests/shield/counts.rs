//! What is refused, of whatever form, and that it is counted and told once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_question_throttle::{
    Door, Pool, Throttled,
    limits::Limit,
    question::QuestionKind::{self, Elicitation},
};
use rmcp::{
    model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::json;

use super::{
    ELICITATION, SAMPLING, elicitations, lines, refused, shield,
    support::{Guard, Handler, connect, connect_modern, is_refusal, limits, pipe_of, question},
};

#[tokio::test(start_paused = true)]
async fn every_verdict_is_counted_and_told_once() {
    for guard in [Guard::Wrapper, Guard::WrapperAndShield] {
        let told = Arc::new([const { AtomicU64::new(0) }; 2]);
        let counter = Arc::clone(&told);
        let pool = Pool::new(limits(5, 5)).with_observer(move |verdict| {
            assert_eq!(verdict.door, Door::ServerRequest);
            let refused = usize::from(verdict.refusal.is_some());
            counter[refused].fetch_add(1, Ordering::Relaxed);
        });
        let (handler, _entered) = Handler::open();
        let (_session, mut server) = guard.connect(pool.wrap("a", handler).unwrap()).await;
        let all: Vec<_> = (0..500).map(|id| question(SAMPLING, id)).collect();
        server.send_raw(&lines(&all)).await;
        let replies = server.receive_all(500).await;
        assert_eq!(refused(&replies), 495);
        let sampling = &pool.snapshot().servers[0].sampling;
        assert_eq!(
            (sampling.admitted, sampling.refused_by_server_limit),
            (5, 495)
        );
        assert_eq!(told[0].load(Ordering::Relaxed), 5, "{guard:?}");
        assert_eq!(told[1].load(Ordering::Relaxed), 495, "{guard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_slips_past_is_refused_by_the_wrapper() {
    // A session that has not asked before has no place in its server's row yet, so the shield
    // sees no full window at its first question.
    let pool = Pool::new(limits(2, 2));
    let (handler, _entered) = Handler::open();
    let log = handler.log.clone();
    let (_one, mut one) = connect(pool.wrap("a", handler.clone()).unwrap()).await;
    let (_two, mut two) = connect(pool.wrap("a", handler).unwrap()).await;
    let all: Vec<_> = (0..10).map(|id| question(SAMPLING, id)).collect();
    one.send_raw(&lines(&all)).await;
    assert_eq!(refused(&one.receive_all(10).await), 8);
    two.send_raw(&lines(&all)).await;
    assert_eq!(refused(&two.receive_all(10).await), 10);
    assert_eq!(log.questions().len(), 2);
    let sampling = &pool.snapshot().servers[0].sampling;
    assert_eq!(
        (sampling.admitted, sampling.refused_by_server_limit),
        (2, 18)
    );
}

#[tokio::test(start_paused = true)]
async fn questions_without_an_id_are_dropped_and_counted() {
    let (mut shield, throttled, mut server) = shield(1 << 16);
    let mut question = question(ELICITATION, 0);
    question.as_object_mut().unwrap().remove("id");
    server.send_raw(&lines(&vec![question; 100])).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    server.send(&changed).await;
    let Some(ServerJsonRpcMessage::Notification(handed_on)) = shield.receive().await else {
        panic!("other notifications pass");
    };
    assert_eq!(
        serde_json::to_value(handed_on).unwrap()["method"],
        changed["method"]
    );
    assert_eq!(elicitations(&throttled), (1, 100));
}

#[tokio::test(start_paused = true)]
async fn vendor_questions_are_refused_as_well() {
    let throttled = Throttled::new((), limits(1, 1))
        .with_question_method("acme/form", QuestionKind::Elicitation)
        .unwrap();
    drop(throttled.admit_kind(Elicitation).unwrap());
    let (client, mut server) = pipe_of(1 << 16);
    let mut shield = throttled.shield(client);
    let forms = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "acme/form"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "acme/other"}),
    ];
    server.send_raw(&lines(&forms)).await;
    let Some(JsonRpcMessage::Request(other)) = shield.receive().await else {
        panic!("no question, so it passes");
    };
    assert_eq!(other.id, RequestId::Number(2));
    let refusal = server.receive().await;
    assert_eq!(refusal["id"], 1);
    assert_eq!(refusal["error"]["data"]["method"], "acme/form");
}

#[tokio::test(start_paused = true)]
async fn a_new_window_opens_the_shield_again() {
    let (handler, _entered) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    for _ in 0..3 {
        let both = [question(SAMPLING, 1), question(SAMPLING, 2)];
        server.send_raw(&lines(&both)).await;
        let replies = server.receive_all(2).await;
        assert_eq!(refused(&replies), 1);
        tokio::time::advance(Duration::from_secs(60)).await;
    }
}

/// rmcp's own refusal of a question outside of any call (SEP-2260) stands while there is room.
#[tokio::test(start_paused = true)]
async fn legacy_questions_in_a_modern_session() {
    let (handler, _entered) = Handler::open();
    let limits = limits(1, 1).with_elicitation_session_per_minute(Limit::new(1).unwrap());
    let (session, mut server) = connect_modern(Throttled::new(handler, limits)).await;
    let call = session.list_tools(None);
    let script = async {
        let request = server.request("tools/list").await;
        server
            .send_raw(&lines(&[
                question(ELICITATION, 1),
                question(ELICITATION, 2),
            ]))
            .await;
        assert_eq!(refused(&server.receive_all(2).await), 1);
        let list =
            json!({"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"});
        server.answer(&request, list).await;
    };
    let (listed, ()) = tokio::join!(call, script);
    listed.unwrap();
    server.send(&question(ELICITATION, 3)).await;
    assert!(
        is_refusal(&server.receive().await),
        "the window is asked first"
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    server.send(&question(ELICITATION, 4)).await;
    assert_eq!(server.receive().await["error"]["code"], -32602);
}
