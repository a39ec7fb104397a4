//! The shield: what it refuses on reading, what it holds for a server that does not read, and
//! that nothing is lost, counted twice or answered to the wrong request.

mod support;

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use mcp_question_throttle::{
    ClientSession, Door, Pool, Shield, Throttled,
    limits::Limit,
    question::QuestionKind::{self, Elicitation},
};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use support::{
    Guard, Handler, Server, connect, connect_modern, is_refusal, limits, pipe_of, question,
};
use tokio::io::AsyncWriteExt;

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";
/// What the queue of unsent refusals may hold.
const MAX_UNSENT: usize = 4 << 20;

fn lines<'a>(messages: impl IntoIterator<Item = &'a Value>) -> String {
    messages
        .into_iter()
        .map(|message| format!("{message}\n"))
        .collect()
}

fn refused(replies: &[Value]) -> usize {
    replies.iter().filter(|reply| is_refusal(reply)).count()
}

/// A throttle whose elicitation window is full, and a shield of it around a pipe of `bytes`.
fn shield(bytes: usize) -> (Shield<impl Transport<RoleClient>>, Throttled<()>, Server) {
    let throttled = Throttled::new((), limits(1, 1));
    drop(throttled.admit_kind(Elicitation).unwrap());
    let (client, server) = pipe_of(bytes);
    (throttled.shield(client), throttled, server)
}

fn elicitations(throttled: &Throttled<impl Sized>) -> (u64, u64) {
    let snapshot = throttled
        .session()
        .throttle()
        .snapshot(mcp_question_throttle::clock::now());
    let kind = &snapshot.servers[0].elicitation;
    (
        kind.admitted,
        kind.refused_by_server_limit + kind.refused_by_session_limit,
    )
}

// Ids.

#[tokio::test(start_paused = true)]
async fn flood_identical_with_one_id() {
    let (handler, mut entered) = Handler::blocked();
    let (log, gate) = (handler.log.clone(), handler.gate.clone());
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    server
        .send_raw(&lines(&vec![question(ELICITATION, "same"); 100]))
        .await;
    let replies = server.receive_all(96).await;
    assert_eq!(refused(&replies), 96);
    for _ in 0..4 {
        entered.recv().await.unwrap();
    }
    gate.add_permits(4);
    let answers = server.receive_all(4).await;
    assert_eq!(log.questions().len(), 4, "no hidden deduplication");
    for reply in replies.iter().chain(&answers) {
        assert_eq!(reply["id"], "same");
    }
    assert!(
        answers
            .iter()
            .all(|answer| answer["result"]["action"] == "accept")
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_share_an_id_each_get_an_answer_of_their_kind() {
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let all = [question(SAMPLING, 7), ping, question(ELICITATION, 7)];
    server.send_raw(&lines(&all)).await;
    for _ in 0..3 {
        entered.recv().await.unwrap();
    }
    gate.add_permits(3);
    let replies = server.receive_all(3).await;
    assert!(replies.iter().all(|reply| reply["id"] == 7), "{replies:?}");
    let count = |field: &str| {
        let has = |reply: &&Value| reply["result"][field].is_string();
        replies.iter().filter(has).count()
    };
    assert_eq!((count("model"), count("action")), (1, 1), "{replies:?}");

    // The id is free again, and another type of id is another id.
    server
        .send_raw(&lines(&[question(SAMPLING, 7), question(SAMPLING, "7")]))
        .await;
    gate.add_permits(2);
    let mut ids: Vec<_> = server
        .receive_all(2)
        .await
        .iter()
        .map(|reply| reply["id"].to_string())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["\"7\"", "7"]);
}

/// rmcp answered a question with what the handler of an earlier, cancelled one under the same id
/// had to say: it tells its open requests apart by nothing but the id.
#[tokio::test(start_paused = true)]
async fn a_cancelled_question_never_answers_for_another() {
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 7}});
    server
        .send_raw(&lines(&vec![question(ELICITATION, 7); 2]))
        .await;
    for _ in 0..2 {
        entered.recv().await.unwrap();
    }
    server
        .send_raw(&lines(&[cancel, question(SAMPLING, 7)]))
        .await;
    while entered.recv().await.unwrap() != SAMPLING {}
    // The cancelled handlers wait in front of the other one, and take the first permits.
    gate.add_permits(3);
    let reply = server.receive().await;
    assert_eq!(reply["id"], 7);
    assert!(reply["result"]["model"].is_string(), "{reply}");
    server
        .send(&json!({"jsonrpc": "2.0", "id": 8, "method": "ping"}))
        .await;
    gate.add_permits(1);
    assert_eq!(server.receive().await["id"], 8, "and nothing in between");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_free_is_handed_on_as_it_is() {
    let throttled = Throttled::new((), limits(9, 9));
    let (client, mut server) = pipe_of(1 << 16);
    let mut shield = throttled.shield(client);
    for id in [json!("a"), json!(-1), json!("")] {
        server.send(&question(ELICITATION, id.clone())).await;
        let Some(JsonRpcMessage::Request(request)) = shield.receive().await else {
            panic!("the question is handed on");
        };
        assert_eq!(request.id.clone().into_json_value(), id);
    }
}

// A server that does not read.

#[tokio::test(start_paused = true)]
async fn a_server_may_write_16384_questions_before_it_reads() {
    const MANY: u64 = 16_384;
    let (handler, _entered) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(3, 3));
    let (client, mut server) = pipe_of(1 << 16);
    let (session, ()) = tokio::join!(
        ClientSession::connect(throttled, client),
        server.handshake_as("eager")
    );
    let _session = session.unwrap();
    for id in 0..MANY {
        server.send(&question(ELICITATION, id.to_string())).await;
    }
    let replies = server.receive_all(MANY as usize).await;
    let mut ids: Vec<u64> = replies
        .iter()
        .map(|reply| reply["id"].as_str().unwrap().parse().unwrap())
        .collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..MANY), "each id once");
    assert_eq!(refused(&replies) as u64, MANY - 3);
    assert_eq!(log.questions().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_reads_blocks_itself_in_bounded_memory() {
    let (mut shield, throttled, server) = shield(1 << 12);
    let (mut reader, mut writer) = server.split();
    let writes = tokio::spawn(async move {
        let mut written = 0;
        let mut text = Vec::new();
        loop {
            text.clear();
            writeln!(text, "{}", question(ELICITATION, written)).unwrap();
            // Ends when the test drops the client's end.
            if writer.write_all(&text).await.is_err() {
                return;
            }
            written += 1;
        }
    });
    // The paused clock moves on when nothing else can happen.
    let idle = tokio::time::timeout(Duration::from_secs(1), shield.receive()).await;
    assert!(idle.is_err(), "nothing is handed on");
    let unsent = shield.unsent_bytes();
    assert!(unsent <= MAX_UNSENT && unsent > MAX_UNSENT / 2, "{unsent}");
    let (_, refused) = elicitations(&throttled);
    assert!(refused >= 16_384, "{refused}");

    // Once it reads, everything goes on, and nothing was lost.
    let reads = tokio::spawn(async move {
        let mut next = 0;
        while next < 2 * refused {
            let reply = reader.receive().await;
            assert_eq!(reply["id"], next, "in order");
            assert!(is_refusal(&reply));
            next += 1;
        }
    });
    tokio::select! {
        read = reads => read.unwrap(),
        message = shield.receive() => panic!("nothing is handed on: {message:?}"),
    }
    writes.abort();
}

#[tokio::test(start_paused = true)]
async fn long_ids_fill_the_queue_as_well() {
    let (mut shield, throttled, mut server) = shield(1 << 12);
    let long = "x".repeat(100_000);
    let writes = tokio::spawn(async move {
        for n in 0..1000 {
            server
                .send(&question(ELICITATION, format!("{n}{long}")))
                .await;
        }
    });
    let idle = tokio::time::timeout(Duration::from_secs(1), shield.receive()).await;
    assert!(idle.is_err());
    let unsent = shield.unsent_bytes();
    assert!(unsent < MAX_UNSENT + 110_000, "and one message: {unsent}");
    assert!(elicitations(&throttled).1 < 100);
    writes.abort();
}

#[tokio::test(start_paused = true)]
async fn with_64_replies_open_nothing_is_read() {
    let (mut shield, _throttled, mut server) = shield(16);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    tokio::spawn(async move {
        loop {
            server.send(&ping).await;
        }
    });
    let reply = |id| -> ClientJsonRpcMessage {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    };
    let mut open = Vec::new();
    for id in 0..64 {
        assert!(shield.receive().await.is_some());
        let mut send = Box::pin(shield.send(reply(id)));
        let _pending = (&mut send).now_or_never();
        open.push(send);
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let call = shield.send(serde_json::from_value(call).unwrap());
    let idle = tokio::time::timeout(Duration::from_secs(1), shield.receive()).await;
    assert!(idle.is_err(), "64 are open");
    drop(call);
    // However a reply ends, there is room again; and it wakes a receive that waits already.
    let (received, ()) = tokio::join!(shield.receive(), async { drop(open.pop()) });
    assert!(received.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_while_its_server_does_not_read() {
    let (handler, _entered) = Handler::open();
    let throttled = Throttled::new(handler, limits(1, 1));
    let (client, mut server) = pipe_of(1 << 10);
    let (session, ()) = tokio::join!(
        ClientSession::connect(throttled, client),
        server.handshake_as("deaf")
    );
    let flood = tokio::spawn(async move {
        for id in 0..1000 {
            server.send(&question(ELICITATION, id)).await;
        }
        server
    });
    let _server = flood.await.unwrap();
    session.unwrap().into_inner().cancel().await.unwrap();
}

// Nothing is lost.

#[tokio::test(start_paused = true)]
async fn dropped_receive_futures_lose_nothing() {
    const EACH: usize = 300;
    let (mut shield, _throttled, server) = shield(37);
    let (mut reader, mut writer) = server.split();
    let all: Vec<_> = (0..EACH)
        .flat_map(|n| {
            [
                question(ELICITATION, n),
                json!({"jsonrpc": "2.0", "id": format!("ping {n}"), "method": "ping"}),
            ]
        })
        .collect();
    let writes = tokio::spawn(async move {
        for message in all {
            let text = format!("{message}\n");
            writer.write_all(text.as_bytes()).await.unwrap();
        }
        writer
    });
    let reads = tokio::spawn(async move {
        for n in 0..EACH {
            let reply = reader.receive().await;
            assert_eq!(reply["id"], n);
            assert!(is_refusal(&reply), "{reply}");
        }
    });
    // Every receive is polled once, and dropped wherever it stands then.
    let mut handed_on = Vec::new();
    while handed_on.len() < EACH || !reads.is_finished() {
        match shield.receive().now_or_never() {
            Some(Some(JsonRpcMessage::Request(request))) => handed_on.push(request.id),
            Some(other) => panic!("{other:?}"),
            None => tokio::task::yield_now().await,
        }
    }
    reads.await.unwrap();
    let pings = (0..EACH).map(|n| RequestId::String(format!("ping {n}").into()));
    assert!(handed_on.into_iter().eq(pings));
    drop(writes.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_is_unsent_is_still_written_after_the_server_has_stopped_writing() {
    let (handler, _entered) = Handler::open();
    let throttled = Throttled::new(handler, limits(1, 1));
    let (client, mut server) = pipe_of(1 << 10);
    let (session, ()) = tokio::join!(
        ClientSession::connect(throttled, client),
        server.handshake_as("brief")
    );
    let _session = session.unwrap();
    let (mut reader, mut writer) = server.split();
    let all: Vec<_> = (0..1000).map(|id| question(ELICITATION, id)).collect();
    writer.write_all(lines(&all).as_bytes()).await.unwrap();
    writer.shutdown().await.unwrap();
    for _ in 0..1000 {
        reader.receive().await;
    }
    assert_eq!(reader.line().await, None, "and then it ends");
}

#[tokio::test(start_paused = true)]
async fn a_deaf_server_that_has_stopped_writing_is_left_after_5_seconds() {
    let (mut shield, _throttled, server) = shield(1 << 10);
    let (_reader, mut writer) = server.split();
    let all: Vec<_> = (0..100).map(|id| question(ELICITATION, id)).collect();
    let write = tokio::spawn(async move {
        writer.write_all(lines(&all).as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let from = mcp_question_throttle::clock::now();
    assert!(shield.receive().await.is_none());
    let waited = mcp_question_throttle::clock::now() - from;
    assert_eq!(waited.as_secs(), 5);
    shield.close().await.unwrap();
    drop(write);
}

#[tokio::test(start_paused = true)]
async fn ordinary_traffic_passes_while_a_flood_is_refused() {
    let (handler, _entered) = Handler::open();
    let (session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    let mut all = Vec::new();
    for n in 0..1000 {
        all.push(question(SAMPLING, n));
        all.push(question(ELICITATION, 1000 + n));
        all.push(json!({"jsonrpc": "2.0", "id": 2000 + n, "method": "ping"}));
        all.push(json!({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": 1, "progress": n}}));
    }
    let script = async {
        server.send_raw(&lines(&all)).await;
        let mut replies = Vec::new();
        while replies.len() < 3000 {
            let message = server.receive().await;
            if message["method"] == "tools/list" {
                server.answer(&message, json!({"tools": []})).await;
            } else {
                replies.push(message);
            }
        }
        replies
    };
    let calls = async {
        for _ in 0..20 {
            session.list_tools(None).await.unwrap();
        }
    };
    let (replies, ()) = tokio::join!(script, calls);
    assert_eq!(refused(&replies), 1998);
    let pongs =
        |reply: &&Value| reply["id"].as_u64().unwrap() >= 2000 && reply["result"] == json!({});
    assert_eq!(replies.iter().filter(pongs).count(), 1000);
    // The last of them is on its way into the handler.
    let progress = || {
        let seen = session.service().get_ref().log.all();
        let count = |m: &&String| *m == "notifications/progress";
        seen.iter().filter(count).count()
    };
    while progress() < 1000 {
        tokio::task::yield_now().await;
    }
}

// Counted once.

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

// The later era.

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

// The log.

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn rmcp_logs_nothing_of_what_is_refused() {
    let sink = Sink::default();
    let output = sink.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || output.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (handler, _entered) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(5, 5))).await;
    let all: Vec<_> = (0..1005).map(|id| question(SAMPLING, id)).collect();
    server.send_raw(&lines(&all)).await;
    assert_eq!(refused(&server.receive_all(1005).await), 1000);
    let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let ours = |line: &&str| line.contains("mcp_question_throttle");
    assert_eq!(
        log.lines().filter(ours).count(),
        4,
        "1st, 10th, 100th, 1000th"
    );
    assert_eq!(log.lines().count(), 4, "{log}");
}
