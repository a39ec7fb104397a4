//! The embedder's observer: what it hears, and that nothing it does changes a verdict.

mod support;

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use mcp_question_throttle::{Door, Outcome, Pool, Throttled, limits::AskTtl};
use rmcp::model::{CallToolRequestParams, GetTaskParams};
use serde_json::json;
use support::{
    Handler, asking, connect, connect_modern, is_refusal, limits, log_in_first, question, round,
};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

/// A sink that fails changes no verdict (D13).
#[tokio::test(start_paused = true)]
async fn a_panicking_observer_changes_no_verdict() {
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let throttled = Throttled::new(handler, limits(1, 1)).with_observer(|_| panic!("observer"));
    let (_session, mut server) = connect(throttled).await;
    for id in 0..3 {
        server.send(&question(S, id)).await;
    }
    let replies = server.receive_all(3).await;
    assert_eq!(replies.iter().filter(|reply| is_refusal(reply)).count(), 2);
    assert_eq!(log.questions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_observer_hears_every_verdict_and_nothing_a_server_wrote() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (handler, _events) = Handler::open();
    let pool = Pool::new(limits(1, 1)).with_observer({
        let heard = Arc::clone(&heard);
        move |verdict| heard.lock().unwrap().push(format!("{verdict:?}"))
    });
    let (_session, mut server) = connect(pool.wrap("github", handler).unwrap()).await;
    let mut asked = question(S, "ID-MARKER");
    asked["params"]["messages"][0]["content"]["text"] = json!("TEXT-MARKER");
    server.send(&asked).await;
    server.receive().await;
    server.send(&asked).await;
    server.receive().await;
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    assert!(
        heard.iter().all(|verdict| verdict.contains("github")),
        "{heard:?}"
    );
    assert!(
        heard.iter().all(|verdict| !verdict.contains("MARKER")),
        "{heard:?}"
    );
}

/// It is called outside of every lock: what it asks of the pool is answered, at each door.
#[tokio::test(start_paused = true)]
async fn an_observer_may_use_the_pool_it_observes() {
    let settings = limits(2, 4).with_ask_ttl(AskTtl::new(Duration::from_secs(1)).unwrap());
    let observed = Arc::new(OnceLock::<Pool>::new());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let pool = Pool::new(settings.clone()).with_observer({
        let (observed, heard) = (Arc::clone(&observed), Arc::clone(&heard));
        move |verdict| {
            let pool = observed.get().unwrap();
            assert!(!pool.snapshot().servers.is_empty());
            pool.mute("s").unwrap();
            pool.unmute("s").unwrap();
            pool.update(&settings.clone().into());
            heard
                .lock()
                .unwrap()
                .push((verdict.door, verdict.outcome()));
        }
    });
    observed.set(pool.clone()).unwrap();
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let throttled = pool.wrap("s", handler).unwrap();
    let (session, mut server) = connect_modern(throttled).await;
    let call = session.call_tool(CallToolRequestParams::new("t"));
    let serve = async {
        let call = server.request("tools/call").await;
        server.send(&question(S, 1)).await;
        entered.recv().await.unwrap();
        assert!(is_refusal(&server.receive().await), "it expires");
        gate.add_permits(9);
        for id in 2..4 {
            server.send(&question(S, id)).await;
            server.receive().await;
        }
        server.answer(&call, round(&[("a", E)], Some("s"))).await;
        let call = server.request("tools/call").await;
        server.answer_error(&call, log_in_first(1)).await;
    };
    tokio::join!(call, serve).0.unwrap_err();
    for entries in [&[("a", E)][..], &[("a", E), ("b", E), ("c", E)]] {
        let poll = session.get_task(GetTaskParams::new("t"));
        let serve = async {
            let get = server.request("tasks/get").await;
            server.answer(&get, asking("t", entries)).await;
        };
        let (polled, ()) = tokio::join!(poll, serve);
        assert_eq!(polled.is_ok(), entries.len() == 1);
    }
    assert_eq!(
        *heard.lock().unwrap(),
        [
            (Door::ServerRequest, Outcome::Admitted),
            (Door::ServerRequest, Outcome::Refused),
            (Door::ServerRequest, Outcome::Admitted),
            (Door::ServerRequest, Outcome::Refused),
            (Door::Round, Outcome::Admitted),
            (Door::UrlElicitationRequired, Outcome::Admitted),
            (Door::Task, Outcome::Admitted),
            (Door::Task, Outcome::Refused),
        ]
    );
}
