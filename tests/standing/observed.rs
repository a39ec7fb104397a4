//! Limits that are only observed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_question_throttle::{
    CallError, Outcome, Pool, clock,
    limits::{Limit, ProtoSettings, Settings, ThrottleMode},
    question::QuestionKind,
    refusal::Cause,
    throttle::{Entry, TaskUse, Throttle},
};
use rmcp::model::CallToolRequestParams;
use rstest::rstest;

use super::{
    ELICITATION, SAMPLING, ask, counts, flood, method, name, observed,
    support::{
        Guard::{self, Wrapper, WrapperAndShield},
        Handler, connect_modern, limits, round,
    },
    throttle,
};

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
