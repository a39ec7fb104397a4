//! Floods of server requests over a pipe: what reaches the handler, and what goes over the wire.

#![expect(deprecated, reason = "servers ask for sampling today")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use mcp_question_throttle::{
    Pool, Throttled,
    limits::{Limit, ProtoSettings},
};
use rmcp::{
    ClientHandler, ErrorData,
    model::{CreateMessageRequestParams, CreateMessageResult, SamplingMessage},
    service::{RequestContext, RoleClient},
};
use rstest::rstest;
use serde_json::{Value, json};
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

fn ids(replies: &[Value]) -> Vec<u64> {
    let ids = replies.iter().map(|reply| reply["id"].as_u64().unwrap());
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids
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

    assert_eq!(ids(&replies), (0..1000).collect::<Vec<_>>(), "each once");
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

/// Under one and the same id the wrapper alone still delivers 4, though rmcp loses replies of
/// requests that share an id. With the shield, in its own tests, each gets its reply.
#[tokio::test(start_paused = true)]
async fn flood_identical_with_one_id_and_no_shield() {
    let (handler, mut entered) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = Wrapper.connect(Throttled::new(handler, limits(9, 4))).await;
    let question = format!("{}\n", question("elicitation/create", "same"));
    server.send_raw(&question.repeat(100)).await;
    for _ in 0..4 {
        entered.recv().await.unwrap();
    }
    // Every question was dispatched before the ping was.
    server
        .send(&json!({"jsonrpc": "2.0", "id": "end", "method": "ping"}))
        .await;
    while server.receive().await["id"] != "end" {}
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
        session.cancel().await.unwrap();
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

/// What one session is refused takes nothing from the server's window (D4).
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_refusal_leaves_the_other_sessions_their_room(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
) {
    let settings = ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(2).unwrap())
        .with_sampling_session_per_minute(Limit::new(1).unwrap());
    let pool = Pool::new(settings);
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_a, mut a) = guard
        .connect(pool.wrap("s", handler.clone()).unwrap())
        .await;
    let (_b, mut b) = guard.connect(pool.wrap("s", handler).unwrap()).await;
    let replies = flood(&mut a, "sampling/createMessage", 0..50).await;
    assert_eq!(refusals(&replies), 49);
    let replies = flood(&mut b, "sampling/createMessage", 0..1).await;
    assert_eq!(refusals(&replies), 0);
    assert_eq!(log.questions().len(), 2);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn flood_no_model_cost(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let provider = Provider::default();
    let throttled = Throttled::new(provider.clone(), limits(1, 1));
    let (_session, mut server) = guard.connect(throttled).await;
    let replies = flood(&mut server, "sampling/createMessage", 0..2).await;
    assert_eq!(refusals(&replies), 1);
    let answered = replies.iter().find(|reply| !is_refusal(reply)).unwrap();
    assert_eq!(answered["result"]["model"], "dear");
    assert_eq!(provider.0.load(Ordering::Relaxed), 1);
}

/// A client handler as most are written, which pays for every call of a model.
#[derive(Clone, Default)]
struct Provider(Arc<AtomicU32>);

impl ClientHandler for Provider {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let message = SamplingMessage::assistant_text("4");
        Ok(CreateMessageResult::new(message, "dear".to_owned()))
    }
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
        assert_eq!(ids(&replies), (0..1000).collect::<Vec<_>>(), "{body}");
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
