//! A server that does not read.

use std::{io::Write, time::Duration};

use futures::FutureExt;
use mcp_question_throttle::{ClientSession, Throttled, clock};
use rmcp::{model::ClientJsonRpcMessage, transport::Transport};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{
    ELICITATION, MAX_UNSENT, elicitations, lines, refused, shield,
    support::{Handler, is_refusal, limits, pipe_of, question},
};

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
async fn with_64_replies_open_64_messages_more_are_read_in_steps() {
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
    for id in 0..128 {
        let before = clock::now();
        assert!(shield.receive().await.is_some());
        let step = if id < 64 { 0 } else { 5 };
        assert_eq!((clock::now() - before).as_millis(), step, "{id}");
        let mut send = Box::pin(shield.send(reply(id)));
        let _pending = (&mut send).now_or_never();
        open.push(send);
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let call = shield.send(serde_json::from_value(call).unwrap());
    let idle = tokio::time::timeout(Duration::from_secs(1), shield.receive()).await;
    assert!(idle.is_err(), "128 are open, and none ends");
    drop(call);
    // One that ends lets it go on in steps; and it wakes a receive that waits already.
    let before = clock::now();
    let (received, ()) = tokio::join!(shield.receive(), async { drop(open.pop()) });
    assert!(received.is_some());
    assert_eq!((clock::now() - before).as_millis(), 5);
    // Where there is room, nothing is waited for.
    open.truncate(63);
    let before = clock::now();
    assert!(shield.receive().await.is_some());
    assert_eq!(clock::now(), before);
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
    let from = clock::now();
    assert!(shield.receive().await.is_none());
    let waited = clock::now() - from;
    assert_eq!(waited.as_secs(), 5);
    shield.close().await.unwrap();
    drop(write);
}
