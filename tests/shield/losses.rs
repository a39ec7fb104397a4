//! Nothing is lost, whatever is refused beside it.

use futures::FutureExt;
use mcp_question_throttle::{ClientSession, Throttled};
use rmcp::{
    model::{JsonRpcMessage, RequestId},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{
    ELICITATION, SAMPLING, lines, refused, shield,
    support::{Handler, connect, is_refusal, limits, pipe_of, question},
};

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
