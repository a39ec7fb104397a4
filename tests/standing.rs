//! Limits that are only observed, and servers that are muted.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use mcp_question_throttle::{
    CallError, ClientSession, Outcome, Pool, clock,
    limits::{Limit, ProtoOverrides, ProtoSettings, ServerName, Settings, ThrottleMode},
    question::{Method, QuestionKind},
    refusal::Cause,
    throttle::{Ask, Entry, KindSnapshot, Session, TaskUse, Throttle},
};
use rmcp::model::CallToolRequestParams;
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, Server, connect, connect_modern, is_refusal, limits, question, round,
};

const SAMPLING: QuestionKind = QuestionKind::Sampling;
const ELICITATION: QuestionKind = QuestionKind::Elicitation;

fn name(name: &str) -> ServerName {
    ServerName::new(name).unwrap()
}

fn observed(settings: ProtoSettings) -> ProtoSettings {
    settings.with_throttle_mode(ThrottleMode::Observe)
}

fn throttle(settings: impl Into<Settings>, now: Instant) -> Arc<Throttle> {
    Arc::new(Throttle::new(settings, now))
}

/// Asks once: admitted, would be refused, or refused.
fn ask(session: &Session, now: Instant, kind: QuestionKind, count: u32) -> Outcome {
    let method = Method::from(kind);
    match session.admit(now, &Ask::new().and(kind, &method, count)) {
        Ok(admission) => {
            assert_eq!(admission.questions(), count);
            match admission.would_refuse() {
                Some(refusal) => {
                    assert_eq!(refusal.questions(), count);
                    Outcome::WouldRefuse
                }
                None => Outcome::Admitted,
            }
        }
        Err(_) => Outcome::Refused,
    }
}

fn counts(throttle: &Throttle, now: Instant, server: &str, kind: QuestionKind) -> KindSnapshot {
    let snapshot = throttle.snapshot(now);
    let row = snapshot
        .servers
        .into_iter()
        .find(|row| row.server.as_str() == server)
        .unwrap();
    match kind {
        SAMPLING => row.sampling,
        ELICITATION => row.elicitation,
    }
}

fn method() -> Method {
    SAMPLING.into()
}

/// The same questions at the same times: what observing would refuse is what enforcing refuses,
/// in every mix of kinds, sizes and sessions.
#[test]
fn observing_counts_what_enforcing_refuses() {
    let start = clock::now();
    let bounds = ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(5).unwrap())
        .with_sampling_session_per_minute(Limit::new(3).unwrap())
        .with_elicitation_per_minute(Limit::new(4).unwrap());
    let enforcing = throttle(bounds.clone(), start);
    let observing = throttle(observed(bounds), start);
    let sessions = |throttle: &Arc<Throttle>| [0, 1].map(|_| throttle.session(name("a")));
    let (ours, theirs) = (sessions(&enforcing), sessions(&observing));
    let mut random = 1_u32;
    let mut next = |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 16) % below
    };
    let mut now = start;
    let mut would = 0;
    for _ in 0..5000 {
        now += Duration::from_secs(u64::from(next(9)));
        let (session, kind, count) = (next(2) as usize, next(2) as usize, 1 + next(7) / 5 * 5);
        let kind = QuestionKind::ALL[kind];
        let enforced = ask(&ours[session], now, kind, count);
        let seen = ask(&theirs[session], now, kind, count);
        match enforced {
            Outcome::Refused => assert_eq!(seen, Outcome::WouldRefuse),
            other => assert_eq!(seen, other),
        }
        would += u64::from(count) * u64::from(seen == Outcome::WouldRefuse);
    }
    assert!(would > 1000, "{would}");
    let mut total = 0;
    for kind in QuestionKind::ALL {
        let (enforced, seen) = (
            counts(&enforcing, now, "a", kind),
            counts(&observing, now, "a", kind),
        );
        assert_eq!(seen.admitted, enforced.admitted);
        assert_eq!(seen.window.used, enforced.window.used);
        assert_eq!(
            seen.would_refuse_by_server_limit,
            enforced.refused_by_server_limit
        );
        assert_eq!(
            seen.would_refuse_by_session_limit,
            enforced.refused_by_session_limit
        );
        assert_eq!(
            seen.refused_by_server_limit + seen.refused_by_session_limit,
            0
        );
        assert_eq!(enforced.would_refuse_by_server_limit, 0);
        total += seen.would_refuse_by_server_limit + seen.would_refuse_by_session_limit;
    }
    assert_eq!(total, would, "exact");
}

#[test]
fn the_mode_changes_while_a_window_is_full() {
    let start = clock::now();
    let enforce = limits(2, 0);
    let throttle = throttle(enforce.clone(), start);
    let session = throttle.session(name("a"));
    for expected in [Outcome::Admitted, Outcome::Admitted, Outcome::Refused] {
        assert_eq!(ask(&session, start, SAMPLING, 1), expected);
    }
    throttle.update(&Settings::new(observed(enforce.clone())));
    assert!(session.refuse_early(start, SAMPLING, &method()).is_none());
    assert_eq!(ask(&session, start, SAMPLING, 1), Outcome::WouldRefuse);
    throttle.update(&Settings::new(enforce));
    assert!(session.refuse_early(start, SAMPLING, &method()).is_some());
    assert_eq!(ask(&session, start, SAMPLING, 1), Outcome::Refused);
    let row = counts(&throttle, start, "a", SAMPLING);
    assert_eq!(row.admitted, 2);
    assert_eq!(row.refused_by_server_limit, 3);
    assert_eq!(row.would_refuse_by_server_limit, 1);
}

#[test]
fn a_full_table_is_observed_too() {
    let start = clock::now();
    let settings = Settings::new(observed(limits(1, 1)));
    let throttle = Arc::new(Throttle::new(settings, start).with_capacity(1));
    let (first, second) = (throttle.session(name("a")), throttle.session(name("b")));
    assert_eq!(ask(&first, start, SAMPLING, 1), Outcome::Admitted);
    for _ in 0..3 {
        assert_eq!(ask(&second, start, SAMPLING, 1), Outcome::WouldRefuse);
    }
    let entry = Entry {
        kind: ELICITATION,
        method: ELICITATION.into(),
        key: "k".to_owned(),
        content: b"?".to_vec(),
    };
    let entries = [entry];
    let taken = second
        .admit_task(start, "t", &entries, TaskUse::Take)
        .unwrap();
    assert_eq!((taken.entries.len(), taken.charged.total()), (1, 1));
    let snapshot = throttle.snapshot(start);
    assert_eq!((snapshot.saturated, snapshot.would_saturate), (0, 4));
}

#[test]
fn a_tasks_entries_are_observed_once() {
    let start = clock::now();
    let throttle = throttle(observed(limits(0, 1)), start);
    let session = throttle.session(name("a"));
    let entries = ["k", "l"].map(|key| Entry {
        kind: ELICITATION,
        method: ELICITATION.into(),
        key: key.to_owned(),
        content: b"?".to_vec(),
    });
    let first = session
        .admit_task(start, "t", &entries, TaskUse::Take)
        .unwrap();
    assert_eq!(first.entries.len(), 2, "shown");
    assert!(first.admission.would_refuse().is_some());
    let again = session
        .admit_task(start, "t", &entries, TaskUse::Take)
        .unwrap();
    assert_eq!((again.entries.len(), again.charged.total()), (0, 0));
    let row = counts(&throttle, start, "a", ELICITATION);
    assert_eq!((row.admitted, row.would_refuse_by_server_limit), (0, 2));
}

async fn flood(server: &mut Server, count: u64) -> Vec<Value> {
    let burst: Vec<String> = (0..count)
        .map(|id| format!("{}\n", question("sampling/createMessage", id)))
        .collect();
    server.send_raw(&burst.concat()).await;
    server.receive_all(burst.len()).await
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn nothing_is_refused_while_observing(#[values(Wrapper, WrapperAndShield)] guard: Guard) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let pool = Pool::new(observed(limits(5, 5))).with_observer(move |verdict| {
        let limit = verdict.would_refuse.and_then(|refusal| refusal.limit());
        assert!(verdict.refusal.is_none());
        sink.lock().unwrap().push((verdict.outcome(), limit));
    });
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (_session, mut server) = guard.connect(pool.wrap("a", handler).unwrap()).await;
    let replies = flood(&mut server, 300).await;
    assert!(replies.iter().all(|reply| reply.get("result").is_some()));
    assert_eq!(log.questions().len(), 300);
    let would = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|(outcome, limit)| *outcome == Outcome::WouldRefuse && limit.is_some())
        .count();
    assert_eq!((seen.lock().unwrap().len(), would), (300, 295));
    let row = &pool.snapshot().servers[0];
    assert_eq!(row.mode, ThrottleMode::Observe);
    assert_eq!((row.sampling.admitted, row.sampling.window.used), (5, 5));
    assert_eq!(row.sampling.would_refuse_by_server_limit, 295);
}

/// `proto.askRounds` ends a call rather than refuse a question, so it holds while observing.
#[tokio::test(start_paused = true)]
async fn observing_answers_wide_rounds_and_still_ends_endless_calls() {
    let pool = Pool::new(observed(limits(1, 1)));
    let (handler, _events) = Handler::open();
    let log = handler.log.clone();
    let (session, mut server) = connect_modern(pool.wrap("a", handler).unwrap()).await;
    let endless = async {
        loop {
            let call = server.request("tools/call").await;
            let entries = [("k", "elicitation/create"), ("l", "elicitation/create")];
            server.answer(&call, round(&entries, None)).await;
        }
    };
    let ended = tokio::select! {
        ended = session.call_tool(CallToolRequestParams::new("t")) => ended,
        () = endless => unreachable!("it never finishes"),
    };
    let Err(CallError::Refused(refused)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(refused.refusal().cause(), Cause::RoundsExceeded { max: 8 });
    assert_eq!(log.questions().len(), 16);
    let row = &pool.snapshot().servers[0];
    assert_eq!(row.elicitation.would_refuse_by_server_limit, 16);
}

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
