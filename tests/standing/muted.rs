//! Muted servers.

use std::sync::Arc;

use mcp_question_throttle::{
    CallError, ClientSession, Outcome, Pool, clock,
    limits::{ProtoOverrides, Settings, ThrottleMode},
    refusal::Cause,
    throttle::{Ask, Entry, TaskUse, Throttle},
};
use rmcp::model::CallToolRequestParams;
use rstest::rstest;
use serde_json::json;

use super::{
    ELICITATION, SAMPLING, ask, counts, flood, method, name,
    support::{
        Guard::{self, Wrapper, WrapperAndShield},
        Handler, connect, connect_modern, is_refusal, limits, question, round,
    },
    throttle,
};

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_muted_server_is_refused_until_unmuted(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
    #[values(ThrottleMode::Enforce, ThrottleMode::Observe)] mode: ThrottleMode,
) {
    let pool = Pool::new(limits(5, 5).with_throttle_mode(mode));
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(pool.wrap("a", handler).unwrap()).await;
    let (other, _events) = Handler::open();
    let (_other_session, mut neighbour) = guard.connect(pool.wrap("b", other).unwrap()).await;
    assert_eq!(
        flood(&mut server, 2)
            .await
            .iter()
            .filter(|it| is_refusal(it))
            .count(),
        0
    );

    pool.mute("a").unwrap();
    for reply in flood(&mut server, 100).await {
        assert_eq!(
            reply["error"]["data"],
            json!({"cause": "server_muted", "scope": "server", "method": "sampling/createMessage"})
        );
    }
    assert_eq!(log.questions().len(), 2);
    let row = &pool.snapshot().servers[0];
    assert!(row.muted);
    assert_eq!((row.sampling.admitted, row.sampling.window.used), (2, 2));
    assert_eq!(row.sampling.refused_while_muted, 100);
    assert!(
        !flood(&mut neighbour, 1).await.iter().any(is_refusal),
        "only the one"
    );

    pool.unmute("a").unwrap();
    let replies = flood(&mut server, 3).await;
    assert!(!replies.iter().any(is_refusal), "its window is as it was");
    assert_eq!(log.questions().len(), 5);
    let row = &pool.snapshot().servers[0];
    assert!(!row.muted);
    assert_eq!(row.sampling.refused_while_muted, 100, "totals stay");
}

/// With a shield, a muted server's flood costs rmcp nothing: it is refused as it is read.
#[test]
fn a_shield_refuses_a_muted_server_early() {
    let start = clock::now();
    let throttle = throttle(limits(5, 5), start);
    let session = throttle.session(name("a"));
    assert_eq!(ask(&session, start, SAMPLING, 1), Outcome::Admitted);
    throttle.mute(&name("a"));
    let refusal = session.refuse_early(start, SAMPLING, &method()).unwrap();
    assert_eq!(refusal.cause(), Cause::ServerMuted);
    assert_eq!(refusal.retry_after(), None);
    assert_eq!(refusal.refused_in_window(), 1);
    assert_eq!(ask(&session, start, SAMPLING, 3), Outcome::Refused);
    assert_eq!(
        counts(&throttle, start, "a", SAMPLING).refused_while_muted,
        4
    );
    throttle.unmute(&name("a"));
    assert!(session.refuse_early(start, SAMPLING, &method()).is_none());
}

#[test]
fn a_muted_server_is_told_so_even_where_the_table_is_full() {
    let start = clock::now();
    let settings = Settings::new(limits(5, 5)).with_muted(name("b"));
    let throttle = Arc::new(Throttle::new(settings, start).with_capacity(1));
    let (first, second) = (throttle.session(name("a")), throttle.session(name("b")));
    assert_eq!(ask(&first, start, SAMPLING, 1), Outcome::Admitted);
    let refusal = second
        .admit(start, &Ask::one(SAMPLING, &method()))
        .unwrap_err();
    assert_eq!(refusal.cause(), Cause::ServerMuted);
    assert_eq!(throttle.snapshot(start).saturated, 0);
    assert_eq!(
        counts(&throttle, start, "b", SAMPLING).refused_while_muted,
        1
    );
}

#[test]
fn what_was_charged_before_is_not_shown_by_a_muted_server() {
    let start = clock::now();
    let throttle = throttle(limits(5, 5), start);
    let session = throttle.session(name("a"));
    let entries = [Entry {
        kind: ELICITATION,
        method: ELICITATION.into(),
        key: "k".to_owned(),
        content: b"?".to_vec(),
    }];
    let charged = session
        .admit_task(start, "t", &entries, TaskUse::Charge)
        .unwrap();
    assert_eq!(charged.charged.total(), 1);
    throttle.mute(&name("a"));
    assert!(
        session
            .admit_task(start, "t", &entries, TaskUse::Take)
            .is_err()
    );
    throttle.unmute(&name("a"));
    let taken = session
        .admit_task(start, "t", &entries, TaskUse::Take)
        .unwrap();
    assert_eq!((taken.entries.len(), taken.charged.total()), (1, 0));
}

#[test]
fn reading_the_same_settings_again_unmutes_nobody() {
    let start = clock::now();
    let plain = Settings::new(limits(5, 5));
    let strict = plain.clone().with_muted(name("a"));
    let throttle = throttle(plain.clone(), start);
    let muted = || {
        let muted = throttle.muted();
        muted
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    throttle.mute(&name("b"));
    throttle.update(&plain);
    assert_eq!(muted(), ["b"]);
    throttle.update(&strict);
    assert_eq!(muted(), ["a", "b"]);
    throttle.unmute(&name("a"));
    throttle.update(
        &strict
            .clone()
            .with_server(name("c"), ProtoOverrides::default()),
    );
    assert_eq!(muted(), ["b"]);
    throttle.update(&plain);
    throttle.update(&strict);
    assert_eq!(muted(), ["a", "b"], "the settings changed, and say so");
}

/// A round is refused whole, and its caller is told why.
#[tokio::test(start_paused = true)]
async fn a_muted_servers_call_ends() {
    let pool = Pool::new(Settings::new(limits(5, 5)).with_muted(name("a")));
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server): (ClientSession<_>, _) =
        connect_modern(pool.wrap("a", handler).unwrap()).await;
    let asks = async {
        let call = server.request("tools/call").await;
        let input = round(&[("k", "elicitation/create"), ("r", "roots/list")], None);
        server.answer(&call, input).await;
    };
    let (ended, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), asks);
    let Err(CallError::Refused(refused)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(refused.refusal().cause(), Cause::ServerMuted);
    assert!(log.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_muted_server_may_still_do_all_else() {
    let pool = Pool::new(Settings::new(limits(5, 5)).with_muted(name("a")));
    let (handler, _events) = Handler::open();
    let (_session, mut server) = connect(pool.wrap("a", handler).unwrap()).await;
    server
        .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        .await;
    assert_eq!(server.receive().await["result"], json!({}));
    server.send(&question("elicitation/create", 2)).await;
    assert!(is_refusal(&server.receive().await));
}
