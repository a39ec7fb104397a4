//! Cases from the field that the core alone decides, each named after its case.

mod by_hand;

use std::time::Duration;

use by_hand::{Core, ELICITATION, SAMPLING, admitted, ask, ask_round, name, settings};
use mcp_question_throttle::{
    limits::{Limit, LimitName, ProtoOverrides, Scope, Settings},
    question::{Method, QuestionKind},
    refusal::Cause,
    throttle::{Ask, Entry, Session, TaskUse},
    window::Moment,
};

const MINUTE: u64 = 60_000_000_000;

/// Asks until the first refusal, at most 1000 times.
fn exhaust(core: &Core, session: &Session, at: u64) -> usize {
    (0..1000)
        .take_while(|_| admitted(session, core.at(at), SAMPLING))
        .count()
}

#[test]
fn flood_neighbour() {
    let core = Core::new([5, 0, 5, 0]);
    let (a, b) = (core.session("a"), core.session("b"));
    let of_a = (0..100)
        .filter(|_| admitted(&a, core.at(0), SAMPLING))
        .count();
    assert!(admitted(&b, core.at(0), SAMPLING));
    assert_eq!(of_a, 5);
}

#[test]
fn flood_reconnect() {
    let core = Core::new([10, 5, 5, 0]);
    let total: usize = (0..50)
        .map(|connection| {
            let session = core.session("github");
            exhaust(&core, &session, connection * 1_000_000_000)
        })
        .sum();
    assert_eq!(total, 10);
    let server = &core.throttle.snapshot(core.at(0)).servers[0];
    assert!(server.sessions.is_empty(), "dead sessions are gone");
}

#[test]
fn retry_is_true() {
    for opened in [0, 1, 999_999_999, 37_200_000_000] {
        for wait in [0, 1, 1_000_000_000, 22_500_000_001, 59_999_999_999] {
            let core = Core::new([2, 1, 2, 1]);
            let session = core.session("github");
            assert!(admitted(&session, core.at(opened), SAMPLING));
            let asked = opened + wait;
            let refusal = ask(&session, core.at(asked), SAMPLING).unwrap_err();
            let retry = refusal.retry_after().unwrap().as_secs();
            assert!((1..=60).contains(&retry));
            assert!(!admitted(&session, core.at(opened + MINUTE - 1), SAMPLING));
            assert!(asked + retry * 1_000_000_000 < opened + MINUTE + 1_000_000_000);
            assert!(admitted(
                &session,
                core.at(asked + retry * 1_000_000_000),
                SAMPLING
            ));
        }
    }
}

/// Both limits are in the way; the time is that of the window which ends last.
#[test]
fn retry_is_true_where_two_limits_are_in_the_way() {
    let core = Core::new([2, 1, 2, 1]);
    let (first, second) = (core.session("github"), core.session("github"));
    assert!(admitted(&first, core.at(0), SAMPLING));
    assert!(admitted(&second, core.at(20_000_000_000), SAMPLING));
    let refusal = ask(&second, core.at(30_000_000_000), SAMPLING).unwrap_err();
    assert_eq!(refusal.limit(), Some(LimitName::SamplingSessionPerMinute));
    assert_eq!(refusal.retry_after().unwrap().as_secs(), 50);
    assert!(admitted(&second, core.at(80_000_000_000), SAMPLING));

    // On a tie it is the first of the settings table.
    let core = Core::new([1, 1, 1, 1]);
    let session = core.session("github");
    assert!(ask_round(&session, core.at(0), 1, 1).is_ok());
    for (sampling, elicitation, limit) in [
        (1, 0, LimitName::SamplingPerMinute),
        (0, 1, LimitName::ElicitationPerMinute),
        (1, 1, LimitName::SamplingPerMinute),
    ] {
        let refusal = ask_round(&session, core.at(1), sampling, elicitation).unwrap_err();
        assert_eq!(refusal.limit(), Some(limit));
    }
}

/// A clock that steps back gives nothing away, and promises no more than a window's length.
#[test]
fn clock_backwards() {
    const HOUR: u64 = 60 * MINUTE;
    let core = Core::new([2, 0, 2, 0]);
    let session = core.session("github");
    assert!(admitted(&session, core.at(2 * HOUR), SAMPLING));
    assert!(admitted(&session, core.at(HOUR), SAMPLING), "room is left");
    for at in [HOUR, 0, 2 * HOUR - 1, HOUR + MINUTE] {
        let refusal = ask(&session, core.at(at), SAMPLING).unwrap_err();
        assert_eq!(refusal.retry_after().unwrap().as_secs(), 60, "at {at}");
        let window = &core.throttle.snapshot(core.at(at)).servers[0]
            .sampling
            .window;
        assert_eq!((window.used, window.time_left_ms), (2, Some(60_000)));
    }
    assert!(!admitted(
        &session,
        core.at(2 * HOUR + MINUTE - 1),
        SAMPLING
    ));
    assert!(admitted(&session, core.at(2 * HOUR + MINUTE), SAMPLING));
}

/// After 292 years the bit that shuts a window was taken for a part of the time, and every
/// question was admitted. Time stands still there, and what is full stays so.
#[test]
fn time_that_ends_gives_nothing_away() {
    let core = Core::new([2, 0, 2, 0]);
    let last = i64::MAX as u64;
    let mut times: Vec<_> = (0..=180)
        .map(|seconds| last - seconds * 1_000_000_000)
        .map(Moment::from_nanos)
        .collect();
    times.extend([1 << 63, u64::MAX - MINUTE, u64::MAX].map(Moment::from_nanos));
    let years = |years: u64| Duration::from_secs(years * 366 * 24 * 60 * 60);
    times.extend([300, 600, 10_000].map(|count| core.throttle.moment(core.at(0) + years(count))));
    for (nth, at) in times.into_iter().enumerate() {
        let session = core.session(&nth.to_string());
        let method = SAMPLING.into();
        let admitted = (0..10)
            .filter(|_| session.admit_at(at, &Ask::one(SAMPLING, &method)).is_ok())
            .count();
        assert_eq!(admitted, 2, "{at:?}");
    }
}

#[test]
fn other_window_uncharged() {
    let core = Core::new([10, 1, 10, 1]);
    let session = core.session("github");
    for _ in 0..5 {
        let _ = ask(&session, core.at(0), SAMPLING);
    }
    let server = &core.throttle.snapshot(core.at(0)).servers[0];
    assert_eq!(server.sampling.window.used, 1);
    assert_eq!(server.sampling.refused_by_session_limit, 4);
}

#[test]
fn names_joined() {
    let core = Core::new([1, 0, 1, 0]);
    // Sessions have numbers, not names; what could be joined is the server's.
    for server in ["a", "a:b", "a:b:c", "a/b", "a b", "A"] {
        let session = core.session(server);
        assert!(admitted(&session, core.at(0), SAMPLING), "{server}");
        assert!(!admitted(&session, core.at(0), SAMPLING), "{server}");
    }
    assert_eq!(core.throttle.snapshot(core.at(0)).servers.len(), 6);
}

#[test]
fn table_full() {
    let core = Core::with_capacity([1, 0, 1, 0], 3);
    let second = 1_000_000_000;
    for (server, opened) in [("a", 20), ("b", 10), ("c", 30)] {
        assert!(admitted(
            &core.session(server),
            core.at(opened * second),
            SAMPLING
        ));
    }
    let newcomer = core.session("d");
    let refusal = ask(&newcomer, core.at(40 * second), SAMPLING).unwrap_err();
    assert_eq!(refusal.cause().as_str(), "limiter_saturated");
    assert_eq!(refusal.scope(), Some(Scope::Limiter));
    assert_eq!(refusal.retry_after().unwrap().as_secs(), 30);
    for server in ["a", "b", "c"] {
        assert!(
            !admitted(&core.session(server), core.at(69 * second), SAMPLING),
            "{server} lost its window"
        );
    }
    assert!(!admitted(&newcomer, core.at(70 * second - 1), SAMPLING));
    assert!(admitted(&newcomer, core.at(70 * second), SAMPLING));
    let rows = core.throttle.snapshot(core.at(70 * second)).servers;
    assert!(rows.iter().all(|row| row.server != name("b")));
}

/// The only row that could have been reclaimed got a session again, and the old time was still
/// promised.
#[test]
fn a_saturated_table_promises_no_time_while_every_row_has_a_session() {
    let core = Core::with_capacity([5, 0, 5, 0], 2);
    let keeps = core.session("a");
    assert!(admitted(&keeps, core.at(0), SAMPLING));
    let newcomer = core.session("c");
    let retry = |at: u64| match ask(&newcomer, core.at(at), SAMPLING).unwrap_err().cause() {
        Cause::LimiterSaturated { retry_after } => retry_after.map(|retry| retry.as_secs()),
        ref other => panic!("{other:?}"),
    };
    let leaves = core.session("b");
    assert!(admitted(&leaves, core.at(0), SAMPLING));
    assert_eq!(retry(0), None);
    drop(leaves);
    assert_eq!(retry(10_000_000_000), Some(50));
    let again = core.session("b");
    assert!(admitted(&again, core.at(20_000_000_000), SAMPLING));
    assert_eq!(retry(20_000_000_000), None);
    drop(again);
    assert_eq!(retry(20_000_000_000), Some(40));
    assert_eq!(retry(MINUTE - 1), Some(1));
    assert!(admitted(&newcomer, core.at(MINUTE), SAMPLING));
}

#[test]
fn reload_same() {
    let core = Core::new([5, 0, 5, 0]);
    let session = core.session("github");
    assert_eq!(exhaust(&core, &session, 0), 5);
    for _ in 0..10 {
        core.update([5, 0, 5, 0]);
        assert!(!admitted(&session, core.at(1), SAMPLING));
    }
    assert_eq!(exhaust(&core, &session, MINUTE), 5);
}

#[test]
fn reload_raised() {
    let core = Core::new([5, 0, 5, 0]);
    let session = core.session("github");
    assert_eq!(exhaust(&core, &session, 0), 5);
    core.update([10, 0, 5, 0]);
    assert_eq!(exhaust(&core, &session, 1), 5);
}

#[test]
fn reload_lowered() {
    let core = Core::new([10, 0, 5, 0]);
    let session = core.session("github");
    for _ in 0..5 {
        assert!(admitted(&session, core.at(0), SAMPLING));
    }
    core.update([3, 0, 5, 0]);
    assert!(!admitted(&session, core.at(MINUTE - 1), SAMPLING));
    let window = &core.throttle.snapshot(core.at(1)).servers[0]
        .sampling
        .window;
    assert_eq!(
        (window.used, window.limit, window.remaining),
        (5, Some(3), Some(0))
    );
    assert_eq!(exhaust(&core, &session, MINUTE), 3);
}

#[test]
fn reload_off_and_on() {
    let core = Core::new([5, 0, 5, 0]);
    let session = core.session("github");
    assert_eq!(exhaust(&core, &session, 0), 5);
    core.update([0, 0, 5, 0]);
    assert_eq!(exhaust(&core, &session, 1), 1000);
    core.update([6, 0, 5, 0]);
    assert_eq!(
        exhaust(&core, &session, 2),
        1,
        "the window counts on, without what came between"
    );
    core.update([0, 0, 5, 0]);
    core.update([5, 0, 5, 0]);
    assert!(!admitted(&session, core.at(MINUTE - 1), SAMPLING));
}

/// A client that looked for the first refused question told nobody where a round was refused first.
#[test]
fn one_refusal_of_a_window_is_the_first() {
    let core = Core::new([2, 0, 0, 0]);
    let session = core.session("github");
    let method = Method::from(SAMPLING);
    let ask = |at, count| {
        let ask = Ask::new().and(SAMPLING, &method, count);
        session.admit(core.at(at), &ask)
    };
    for minute in [0, MINUTE] {
        assert!(ask(minute, 2).is_ok());
        let [round, one] = [2, 1].map(|count| ask(minute, count).unwrap_err());
        assert!(round.is_first_in_window());
        assert!(!one.is_first_in_window());
        assert_eq!((round.refused_in_window(), one.refused_in_window()), (2, 3));
    }
}

/// A server taken out of the settings keeps its row, and is held to the limits for all.
#[test]
fn reload_without_a_server() {
    let mut overrides = ProtoOverrides::default();
    overrides.sampling_per_minute = Some(Limit::new(9).unwrap());
    let everyone = settings([5, 0, 5, 0]);
    let core = Core::new([5, 0, 5, 0]);
    core.throttle
        .update(&Settings::new(everyone.clone()).with_server(name("github"), overrides));
    let (github, other) = (core.session("github"), core.session("other"));
    assert_eq!(exhaust(&core, &other, 0), 5);
    for _ in 0..7 {
        assert!(admitted(&github, core.at(0), SAMPLING));
    }
    core.throttle.update(&everyone.into());
    drop(github);
    let again = core.session("github");
    assert!(!admitted(&again, core.at(MINUTE - 1), SAMPLING));
    assert_eq!(exhaust(&core, &again, MINUTE), 5);
}

#[test]
fn round_too_big() {
    let core = Core::new([3, 2, 3, 0]);
    let session = core.session("github");
    assert!(admitted(&session, core.at(0), SAMPLING));
    let before = core.throttle.snapshot(core.at(0)).servers.remove(0);
    let refusal = ask_round(&session, core.at(0), 2, 1).unwrap_err();
    assert_eq!(refusal.limit(), Some(LimitName::SamplingSessionPerMinute));
    assert_eq!(refusal.questions(), 3);
    let after = core.throttle.snapshot(core.at(0)).servers.remove(0);
    assert_eq!(before.sampling.window, after.sampling.window);
    assert_eq!(before.elicitation.window, after.elicitation.window);
    // One that never fits says so, though another limit is full.
    assert!(admitted(&session, core.at(0), SAMPLING));
    let refusal = ask_round(&session, core.at(0), 1, 4).unwrap_err();
    assert_eq!(refusal.limit(), Some(LimitName::ElicitationPerMinute));
    assert_eq!(refusal.retry_after(), None);
}

/// A round without questions once made a row, and was refused where there was no room for one.
#[test]
fn nothing_asked_makes_no_row() {
    let core = Core::with_capacity([1, 1, 1, 1], 1);
    let session = core.session("github");
    assert_eq!(
        ask_round(&session, core.at(0), 0, 0).unwrap().questions(),
        0
    );
    assert!(
        session
            .admit_task(core.at(0), "task", &[], TaskUse::Take)
            .unwrap()
            .entries
            .is_empty()
    );
    assert!(core.throttle.snapshot(core.at(0)).servers.is_empty());
    assert!(admitted(&core.session("other"), core.at(0), SAMPLING));
    assert!(ask_round(&session, core.at(0), 0, 0).is_ok());
}

fn entries(count: usize) -> Vec<Entry> {
    (0..count)
        .map(|number| Entry {
            kind: QuestionKind::Elicitation,
            method: ELICITATION.into(),
            key: number.to_string(),
            content: b"name?".to_vec(),
        })
        .collect()
}

#[test]
fn task_polled() {
    let core = Core::new([1, 1, 3, 0]);
    let session = core.session("github");
    let mut shown = 0;
    for _ in 0..10 {
        let input = entries(2);
        let input = session
            .admit_task(core.at(0), "task", &input, TaskUse::Take)
            .unwrap();
        shown += input.entries.len();
    }
    assert_eq!(shown, 2);
    let server = &core.throttle.snapshot(core.at(0)).servers[0];
    assert_eq!(server.elicitation.window.used, 2);
}

#[test]
fn a_refused_task_is_charged_when_it_is_admitted() {
    let core = Core::new([1, 1, 3, 0]);
    let session = core.session("github");
    assert!(ask_round(&session, core.at(0), 0, 2).is_ok());
    let input = entries(2);
    for _ in 0..2 {
        assert!(
            session
                .admit_task(core.at(0), "task", &input, TaskUse::Take)
                .is_err()
        );
    }
    let admitted = session
        .admit_task(core.at(MINUTE), "task", &input, TaskUse::Take)
        .unwrap();
    assert_eq!(admitted.charged.total(), 2);
    assert_eq!(admitted.entries.len(), 2);
}
