//! Ids, cancellation, and how questions and sessions end: nothing is refunded, nothing leaks.

mod support;

use std::time::Duration;

use mcp_question_throttle::{Pool, Throttled, clock, limits::AskTtl, service::GRACE};
use rmcp::{
    model::{ClientConfig, ClientResult, ErrorData, ServerNotification, ServerRequest},
    service::{NotificationContext, RequestContext, RoleClient, Service},
};
use serde_json::{Value, json};
use support::{Handler, connect, is_refusal, limits, question};
use tokio::sync::mpsc;

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

fn cancel(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

#[tokio::test(start_paused = true)]
async fn id_reused_later() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(5, 5))).await;
    for _ in 0..2 {
        server.send(&question(S, 7)).await;
        assert_eq!(server.receive().await["id"], 7);
    }
    assert_eq!(log.questions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn id_types() {
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(Throttled::new(handler, limits(1, 1))).await;
    server.send(&question(E, "first")).await;
    server.receive().await;
    let ids = [
        json!(0),
        json!(-1),
        json!(""),
        json!("0"),
        json!(4_294_967_296_u64),
        json!("1"),
        json!(1),
    ];
    for id in &ids {
        server.send(&question(E, id.clone())).await;
    }
    let mut echoed: Vec<Value> = Vec::new();
    for reply in server.receive_all(ids.len()).await {
        assert!(is_refusal(&reply));
        echoed.push(reply["id"].clone());
    }
    for id in ids {
        assert_eq!(
            echoed.iter().filter(|echoed| **echoed == id).count(),
            1,
            "{id}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_admitted() {
    let (handler, mut entered) = Handler::blocked();
    let ended = handler.ended.clone();
    let pool = Pool::new(limits(2, 2));
    let (_session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    server.send(&cancel(1)).await;
    ended.wait_for("token fired").await;
    server
        .send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        .await;
    assert_eq!(
        server.receive().await["id"],
        2,
        "no reply to the cancelled one"
    );
    assert_eq!(
        pool.snapshot().servers[0].elicitation.window.used,
        1,
        "the charge stays"
    );
}

#[tokio::test(start_paused = true)]
async fn cancel_to_be_free() {
    let (handler, _entered) = Handler::blocked();
    let log = handler.log.clone();
    let pool = Pool::new(limits(5, 5));
    let (_session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    for id in 0..100 {
        server
            .send_raw(&format!("{}\n{}\n", question(S, id), cancel(id)))
            .await;
    }
    server
        .send(&json!({"jsonrpc": "2.0", "id": "end", "method": "ping"}))
        .await;
    while server.receive().await["id"] != "end" {}
    // Every question was dispatched before the ping was.
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(log.questions().len(), 5);
    assert_eq!(pool.snapshot().servers[0].sampling.admitted, 5);
}

#[tokio::test(start_paused = true)]
async fn transport_gone() {
    let (handler, mut entered) = Handler::blocked();
    let ended = handler.ended.clone();
    let pool = Pool::new(limits(5, 5));
    let (session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    for id in 0..3 {
        server.send(&question(E, id)).await;
        entered.recv().await.unwrap();
    }
    let gone_at = clock::now();
    drop(server);
    for _ in 0..3 {
        ended.wait_for("token fired").await;
    }
    assert!((clock::now() - gone_at) <= Duration::from_secs(5) + Duration::from_millis(100));
    // This handler does not listen to its token; it is ended for it.
    for _ in 0..3 {
        ended.wait_for("dropped").await;
    }
    assert!(
        (clock::now() - gone_at) <= Duration::from_secs(5) + GRACE + Duration::from_millis(100)
    );
    session.waiting().await.unwrap();
    let snapshot = pool.snapshot();
    assert!(
        snapshot.servers[0].sessions.is_empty(),
        "the session's row has gone"
    );
    assert_eq!(
        snapshot.servers[0].elicitation.window.used, 3,
        "the server's window stays"
    );
    // Until its end, and no longer: 50 s of it are left at most.
    tokio::time::advance(Duration::from_secs(40)).await;
    assert_eq!(pool.snapshot().servers[0].elicitation.window.used, 3);
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(pool.snapshot().servers[0].elicitation.window.used, 0);
}

#[tokio::test(start_paused = true)]
async fn future_dropped() {
    let (handler, mut entered) = Handler::blocked();
    let ended = handler.ended.clone();
    let pool = Pool::new(limits(5, 5));
    let (session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    drop(session);
    ended.wait_for("dropped").await;
    while server.line().await.is_some() {}
    assert!(pool.snapshot().servers[0].sessions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn handler_fails() {
    let (mut handler, _events) = Handler::open();
    handler.fail_with = Some(rmcp::ErrorData::internal_error("no", None));
    let log = handler.log.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(5, 5))).await;
    for id in 0..100 {
        server.send(&question(S, id)).await;
    }
    let replies = server.receive_all(100).await;
    assert!(replies.iter().all(|reply| reply["error"]["code"] == -32603));
    assert_eq!(replies.iter().filter(|reply| is_refusal(reply)).count(), 95);
    assert_eq!(log.questions().len(), 5, "no refund");
}

#[tokio::test(start_paused = true)]
async fn slow_person() {
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let settings = limits(2, 2).with_ask_ttl(AskTtl::new(Duration::from_secs(3600)).unwrap());
    let pool = Pool::new(settings);
    let (_session, mut server) = connect(pool.wrap("s", handler).unwrap()).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(600)).await;
    gate.add_permits(1);
    assert_eq!(server.receive().await["result"]["action"], "accept");
    assert_eq!(
        pool.snapshot().servers[0].elicitation.window.used,
        0,
        "later windows start full"
    );
    gate.add_permits(2);
    for id in 2..5 {
        server.send(&question(E, id)).await;
    }
    let replies = server.receive_all(3).await;
    assert_eq!(replies.iter().filter(|reply| is_refusal(reply)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn question_expires() {
    let (handler, mut entered) = Handler::blocked();
    let (ended, gate) = (handler.ended.clone(), handler.gate.clone());
    let settings = limits(5, 5).with_ask_ttl(AskTtl::new(Duration::from_secs(90)).unwrap());
    let (_session, mut server) = connect(Throttled::new(handler, settings)).await;
    server.send(&question(E, 1)).await;
    entered.recv().await.unwrap();
    let asked_at = clock::now();
    let reply = server.receive().await;
    assert_eq!((clock::now() - asked_at).as_secs(), 90);
    assert_eq!(
        reply["error"]["data"],
        json!({"cause": "question_expired", "limit": "proto.askTTL", "scope": "question", "method": E, "ttlSeconds": 90})
    );
    ended.wait_for("token fired").await;
    ended.wait_for("dropped").await;
    // The late answer finds nobody, and the next question is answered as ever.
    gate.add_permits(1);
    server.send(&question(E, 2)).await;
    assert_eq!(server.receive().await["result"]["action"], "accept");
}

/// A handler that always has something to do, and tells once that it has begun.
struct Busy(mpsc::UnboundedSender<()>);

/// Sends when the handler's future is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

impl Service<RoleClient> for Busy {
    async fn handle_request(
        &self,
        _request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let _dropped = Dropped(self.0.clone());
        let _ = self.0.send(());
        loop {
            tokio::task::consume_budget().await;
        }
    }

    async fn handle_notification(
        &self,
        _notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}

/// A handler that is never idle uses up all that tokio lets a task do in one go, and the timers
/// beside it found nothing left to look at the clock with: it ran on for ever.
#[tokio::test(start_paused = true)]
async fn a_question_expires_and_is_cancelled_while_its_handler_is_busy() {
    let (told, mut events) = mpsc::unbounded_channel();
    let settings = limits(5, 5).with_ask_ttl(AskTtl::new(Duration::from_secs(90)).unwrap());
    let (_session, mut server) = connect(Throttled::new(Busy(told), settings)).await;
    server.send(&question(E, 1)).await;
    events.recv().await.unwrap();
    tokio::time::advance(Duration::from_secs(91)).await;
    let reply = server.receive().await;
    assert_eq!(reply["error"]["data"]["cause"], "question_expired");
    events.recv().await.unwrap();

    server.send(&question(E, 2)).await;
    events.recv().await.unwrap();
    server.send(&cancel(2)).await;
    // The cancellation arrives in one of these turns.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(GRACE + Duration::from_secs(1)).await;
    events.recv().await.unwrap();
}
