//! Floods of server requests over a pipe: what reaches the handler, and what goes over the wire.

mod support;

use mcp_question_throttle::{
    Pool, Throttled,
    limits::{Limit, ProtoSettings},
};
use rstest::rstest;
use serde_json::Value;
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, Server, is_refusal, limits, question,
};

async fn flood(server: &mut Server, method: &str, ids: impl Iterator<Item = u64>) -> Vec<Value> {
    let burst: Vec<String> = ids
        .map(|id| format!("{}\n", question(method, id)))
        .collect();
    server.send_raw(&burst.concat()).await;
    server.receive_all(burst.len()).await
}

fn refusals(replies: &[Value]) -> usize {
    replies.iter().filter(|reply| is_refusal(reply)).count()
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_burst(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(5, 5))).await;
    let replies = flood(&mut server, "sampling/createMessage", 0..1000).await;

    let mut ids: Vec<_> = replies
        .iter()
        .map(|reply| reply["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>(), "each id once");
    assert_eq!(refusals(&replies), 995);
    assert_eq!(log.questions().len(), 5);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_blocked_handler(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, mut entered) = Handler::blocked();
    let (log, gate) = (handler.log.clone(), handler.gate.clone());
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(3, 3))).await;
    let burst: String = (0..50)
        .map(|id| format!("{}\n", question("elicitation/create", id)))
        .collect();
    server.send_raw(&burst).await;
    let refused = server.receive_all(47).await;
    assert_eq!(
        refusals(&refused),
        47,
        "refused while the person still thinks"
    );
    for _ in 0..3 {
        entered.recv().await.unwrap();
    }
    assert_eq!(log.questions().len(), 3);
    assert_eq!(gate.available_permits(), 0, "nobody has answered yet");

    gate.add_permits(3);
    let answers = server.receive_all(3).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer["result"]["action"] == "accept")
    );
}

/// The same with a thousand: issue a flood against a person who never answers.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_thousand_are_refused_while_the_admitted_ones_wait(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
) {
    let (handler, _entered) = Handler::blocked();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(7, 7))).await;
    let burst: String = (0..1000)
        .map(|id| format!("{}\n", question("sampling/createMessage", id)))
        .collect();
    server.send_raw(&burst).await;
    assert_eq!(refusals(&server.receive_all(993).await), 993);
    assert_eq!(log.questions().len(), 7);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_identical(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(9, 4))).await;
    let replies = flood(&mut server, "elicitation/create", 0..100).await;
    assert_eq!(refusals(&replies), 96);
    assert_eq!(log.questions().len(), 4, "no hidden deduplication");
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_neighbour(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let pool = Pool::new(limits(5, 5));
    let (a, _a_events) = Handler::open();
    let (b, _b_events) = Handler::open();
    let (a_log, b_log) = (a.log.clone(), b.log.clone());
    let (_a, mut a_server) = guard.connect(pool.wrap("a", a).unwrap()).await;
    let (_b, mut b_server) = guard.connect(pool.wrap("b", b).unwrap()).await;
    let replies = flood(&mut a_server, "sampling/createMessage", 0..100).await;
    assert_eq!(refusals(&replies), 95);
    let replies = flood(&mut b_server, "sampling/createMessage", 0..1).await;
    assert_eq!(refusals(&replies), 0);
    assert_eq!((a_log.questions().len(), b_log.questions().len()), (5, 1));
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_mixed_kinds(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(6, 4))).await;
    let burst: String = (0..20)
        .flat_map(|id| {
            [
                format!("{}\n", question("sampling/createMessage", id)),
                format!("{}\n", question("elicitation/create", 100 + id)),
            ]
        })
        .collect();
    server.send_raw(&burst).await;
    let replies = server.receive_all(40).await;
    let count = |method: &str| log.questions().iter().filter(|m| *m == method).count();
    assert_eq!(count("sampling/createMessage"), 6);
    assert_eq!(count("elicitation/create"), 4);
    for reply in replies {
        let id = reply["id"].as_u64().unwrap();
        if is_refusal(&reply) {
            let method = if id < 100 {
                "sampling/createMessage"
            } else {
                "elicitation/create"
            };
            assert_eq!(reply["error"]["data"]["method"], method);
        } else {
            assert_eq!(reply["result"]["model"].is_string(), id < 100, "{reply}");
            assert_eq!(reply["result"]["action"].is_string(), id >= 100, "{reply}");
        }
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_reconnect(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let settings = ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(10).unwrap())
        .with_sampling_session_per_minute(Limit::new(5).unwrap());
    let pool = Pool::new(settings);
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    for _ in 0..50 {
        let (session, mut server) = guard
            .connect(pool.wrap("again", handler.clone()).unwrap())
            .await;
        flood(&mut server, "sampling/createMessage", 0..5).await;
        session.into_inner().cancel().await.unwrap();
    }
    assert_eq!(log.questions().len(), 10, "never 250");
    let snapshot = pool.snapshot();
    assert_eq!(snapshot.servers.len(), 1);
    assert_eq!(snapshot.servers[0].sampling.admitted, 10);
    assert!(
        snapshot.servers[0].sessions.is_empty(),
        "rows of dead sessions are gone"
    );
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_no_model_cost(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let (handler, _events) = Handler::open();
    // The handler's log stands for calls of a model provider.
    let provider = handler.log.clone();
    let (_session, mut server) = guard.connect(Throttled::new(handler, limits(1, 1))).await;
    let replies = flood(&mut server, "sampling/createMessage", 0..2).await;
    assert_eq!(refusals(&replies), 1);
    assert_eq!(provider.questions().len(), 1);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn malformed_lane(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let bad = [
        r#""method":"elicitation/create""#,
        r#""method":"elicitation/create","params":null"#,
        r#""method":"elicitation/create","params":{"mode":"mind-reading","message":"q","requestedSchema":{"type":"object","properties":{}}}"#,
        r#""method":"elicitation/create","params":{"mode":"url","message":"q"}"#,
        r#""method":"sampling/createMessage","params":{"maxTokens":5}"#,
        r#""method":"sampling/createMessage","params":{"messages":[],"maxTokens":-1}"#,
    ];
    for body in bad {
        let (handler, _events) = Handler::open();
        let log = handler.log.clone();
        let (_session, mut server) = guard.connect(Throttled::new(handler, limits(5, 5))).await;
        let burst: String = (0..1000)
            .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}\n"))
            .collect();
        server.send_raw(&burst).await;
        let replies = server.receive_all(1000).await;
        assert_eq!(refusals(&replies), 995, "{body}");
        assert_eq!(log.questions().len(), 5, "{body}");
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn name_rewritten(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    // The scripted server calls itself what it likes; only the configured name counts.
    let pool = Pool::new(limits(3, 3));
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    for round in 0..5 {
        let throttled = pool.wrap("configured", handler.clone()).unwrap();
        let name = format!("name-{round}");
        let (_session, mut server) = guard.connect_as(throttled, &name).await;
        flood(&mut server, "elicitation/create", 0..2).await;
    }
    assert_eq!(log.questions().len(), 3);
}
