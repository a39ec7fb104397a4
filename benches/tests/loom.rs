//! The core under every interleaving that the memory model allows, checked with loom on the real
//! types: in a build with `--cfg throttle_loom` their locks and atomics are loom's.
//!
//! ```text
//! RUSTFLAGS="--cfg throttle_loom" cargo test -p benches --target-dir target/loom --test loom
//! ```
//!
//! A cfg of our own, since `--cfg loom` changes tokio too, and a target folder of its own, since
//! the flags would throw away the other one's builds. Without the cfg this file is empty.

#![cfg(throttle_loom)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use loom::thread;
use mcp_question_throttle::{
    limits::{Limit, ProtoSettings, ServerName},
    question::{Method, QuestionKind},
    refusal::{Cause, Refusal},
    throttle::{Ask, KindSnapshot, ServerSnapshot, Session, Throttle},
};

/// Explores every interleaving of `model`, without a bound on preemptions.
fn check(model: impl Fn() + Sync + Send + 'static) {
    loom::model(model);
}

/// A throttle, the instant it counts from, and what is asked of it.
#[derive(Clone)]
struct Core {
    throttle: Arc<Throttle>,
    start: Instant,
}

fn limits(server: u32, session: u32) -> ProtoSettings {
    ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(server).unwrap())
        .with_sampling_session_per_minute(Limit::new(session).unwrap())
}

impl Core {
    fn new(server: u32, session: u32) -> Self {
        let start = Instant::now();
        let throttle = Throttle::new(limits(server, session), start).with_capacity(1);
        Self {
            throttle: Arc::new(throttle),
            start,
        }
    }

    fn session(&self, name: &str) -> Session {
        self.throttle.session(ServerName::new(name).unwrap())
    }

    /// A session that has its place in the row, and used one permit for it at second 0.
    fn seated(&self) -> Session {
        let session = self.session("a");
        self.ask(&session, 0).unwrap();
        session
    }

    /// Asks once.
    fn ask(&self, session: &Session, second: u64) -> Result<(), Refusal> {
        self.round(session, second, 1)
    }

    fn round(&self, session: &Session, second: u64, questions: u32) -> Result<(), Refusal> {
        let method = Method::from(QuestionKind::Sampling);
        let ask = Ask::new().and(QuestionKind::Sampling, &method, questions);
        let now = self.start + Duration::from_secs(second);
        session.admit(now, &ask).map(drop)
    }

    fn update(&self, server: u32, session: u32) {
        self.throttle.update(&limits(server, session).into());
    }

    fn row(&self, second: u64) -> ServerSnapshot {
        let now = self.start + Duration::from_secs(second);
        self.throttle.snapshot(now).servers.remove(0)
    }
}

/// Runs both at once.
fn both<A: Send + 'static, B>(
    other: impl FnOnce() -> A + Send + 'static,
    this: impl FnOnce() -> B,
) -> (A, B) {
    let other = thread::spawn(other);
    let here = this();
    (other.join().unwrap(), here)
}

fn max(refusal: &Refusal) -> u32 {
    match refusal.cause() {
        Cause::LimitExceeded { max, .. } => max,
        ref other => panic!("{other:?}"),
    }
}

fn refused(kind: &KindSnapshot) -> u64 {
    kind.refused_by_server_limit + kind.refused_by_session_limit
}

#[test]
fn the_last_permit_goes_to_one() {
    check(|| {
        let core = Core::new(3, 0);
        let (a, b) = (core.seated(), core.seated());
        let other = core.clone();
        let ((a, first), second) = both(
            move || {
                let verdict = other.ask(&a, 1);
                (a, verdict.is_ok())
            },
            || core.ask(&b, 1).is_ok(),
        );
        assert!(first ^ second);
        let row = core.row(1);
        assert_eq!(row.sampling.window.used, 3);
        assert_eq!(refused(&row.sampling), 1);
        drop(a);
    });
}

/// The session's limit stands in the way of one, the server's of the other.
#[test]
fn a_refusal_leaves_both_windows_alone() {
    check(|| {
        let core = Core::new(3, 1);
        let (a, b) = (core.seated(), core.session("a"));
        let other = core.clone();
        let (_a, admitted) = both(
            move || {
                assert!(other.ask(&a, 1).is_err(), "its own window is full");
                a
            },
            || core.ask(&b, 1).is_ok(),
        );
        assert!(admitted);
        assert_eq!(core.row(1).sampling.window.used, 2);
    });
}

#[test]
fn a_round_is_admitted_whole_or_not_at_all() {
    check(|| {
        let core = Core::new(5, 0);
        let (a, b) = (core.seated(), core.seated());
        let other = core.clone();
        let ((_a, first), second) = both(
            move || {
                let verdict = other.round(&a, 1, 2);
                (a, verdict.is_ok())
            },
            || core.round(&b, 1, 3).is_ok(),
        );
        let used = 2 + if first { 2 } else { 0 } + if second { 3 } else { 0 };
        assert!(first ^ second, "3 are left for 2 and 3");
        assert_eq!(core.row(1).sampling.window.used, used);
    });
}

/// A full window ends: both ask at its end, and nobody is refused for what the last one counted.
#[test]
fn a_new_window_has_room_for_all_of_its_limit() {
    check(|| {
        let core = Core::new(2, 1);
        let (a, b) = (core.seated(), core.seated());
        let other = core.clone();
        let ((_a, first), second) = both(
            move || {
                let verdict = other.ask(&a, 60);
                (a, verdict.is_ok())
            },
            || core.ask(&b, 60).is_ok(),
        );
        assert!(first && second);
    });
}

/// One asks before the end of a full window and one at its end. The first is refused in the old
/// window, or, when it comes second, counted in the new one; every refusal is counted once.
#[test]
fn a_window_rolls_while_it_refuses() {
    check(|| {
        let core = Core::new(1, 0);
        let a = core.seated();
        let b = core.session("a");
        assert!(core.ask(&b, 1).is_err());
        let other = core.clone();
        let ((_a, early), at_end) = both(
            move || {
                let verdict = other.ask(&a, 59);
                (a, verdict.is_ok())
            },
            || core.ask(&b, 60).is_ok(),
        );
        assert!(!early && at_end);
        let row = core.row(60);
        assert_eq!(row.sampling.window.used, 1);
        assert_eq!(refused(&row.sampling), 2);
        assert!(core.ask(&b, 60).is_err());
    });
}

/// A limit is turned off, or raised, while a question meets it.
#[test]
fn a_refusal_names_the_limit_that_refused() {
    for new in [0, 5] {
        check(move || {
            let core = Core::new(1, 0);
            let session = core.seated();
            let other = core.clone();
            let (_, verdict) = both(move || other.update(new, 0), || core.ask(&session, 1));
            if let Err(refusal) = verdict {
                assert_eq!(max(&refusal), 1);
            }
            assert!(core.ask(&session, 1).is_ok(), "it is in force now");
        });
    }
}

/// Settings leave room and take it back while a question meets them. The refusal is one of the
/// limit that was full, never of the one that was in force in between.
#[test]
fn a_refusal_never_names_a_limit_that_left_room() {
    check(|| {
        let core = Core::new(1, 0);
        let session = core.seated();
        let other = core.clone();
        let change_and_back = move || {
            other.update(5, 0);
            other.update(1, 0);
        };
        let (_, verdict) = both(change_and_back, || core.ask(&session, 1));
        if let Err(refusal) = verdict {
            assert_eq!(max(&refusal), 1);
        }
    });
}

/// A limit that is lowered below what was used holds for whoever asks after it.
#[test]
fn a_lowered_limit_holds_from_the_next_question() {
    check(|| {
        let core = Core::new(3, 0);
        let (session, _b) = (core.seated(), core.seated());
        let other = core.clone();
        let (_, verdict) = both(move || other.update(2, 0), || core.ask(&session, 1));
        if let Err(refusal) = &verdict {
            assert_eq!(max(refusal), 2);
        }
        let refusal = core.ask(&session, 1).unwrap_err();
        assert_eq!(max(&refusal), 2);
        assert_eq!(
            core.row(1).sampling.window.used,
            2 + u32::from(verdict.is_ok())
        );
    });
}

/// A round meets a change: one lock decides, and all of it counts under one limit.
#[test]
fn a_round_and_a_change_meet() {
    check(|| {
        let core = Core::new(2, 0);
        let session = core.seated();
        let other = core.clone();
        let (_, verdict) = both(move || other.update(4, 0), || core.round(&session, 1, 3));
        match verdict {
            Ok(()) => assert_eq!(core.row(1).sampling.window.used, 4),
            Err(refusal) => {
                assert_eq!((max(&refusal), refusal.retry_after()), (2, None));
                assert_eq!(core.row(1).sampling.window.used, 1);
            }
        }
    });
}

/// The table has room for one row, whose window has ended: a newcomer and the old server meet.
#[test]
fn a_reclaimed_row_is_never_asked() {
    check(|| {
        let core = Core::new(1, 0);
        drop(core.seated());
        let (old, new) = (core.session("a"), core.session("b"));
        let other = core.clone();
        let ((_old, old_admitted), new_admitted) = both(
            move || {
                let verdict = other.ask(&old, 60);
                (old, verdict.is_ok())
            },
            || core.ask(&new, 60).is_ok(),
        );
        assert!(old_admitted ^ new_admitted);
        let row = core.row(60);
        assert_eq!(row.server.as_str(), if old_admitted { "a" } else { "b" });
        assert_eq!(row.sampling.window.used, 1);
    });
}

/// The last session ends while a newcomer looks for room: its end is not overlooked.
#[test]
fn an_ended_session_makes_room() {
    check(|| {
        let core = Core::new(1, 0);
        let (ending, newcomer) = (core.seated(), core.session("b"));
        let ((), first) = both(move || drop(ending), || core.ask(&newcomer, 60).is_ok());
        assert!(first || core.ask(&newcomer, 60).is_ok());
    });
}

#[test]
fn a_session_ends_while_another_asks() {
    check(|| {
        let core = Core::new(3, 1);
        let (ending, stays) = (core.seated(), core.session("a"));
        assert!(core.ask(&ending, 1).is_err());
        let ((), admitted) = both(move || drop(ending), || core.ask(&stays, 1).is_ok());
        assert!(admitted);
        let row = core.row(1);
        assert_eq!(row.sampling.window.used, 2);
        assert_eq!(row.sampling.refused_by_session_limit, 1);
        assert_eq!(row.sessions.len(), 1);
    });
}

#[test]
fn two_first_questions_of_a_session_share_its_place() {
    check(|| {
        let core = Core::new(0, 2);
        let session = Arc::new(core.session("a"));
        let (other, same) = (core.clone(), Arc::clone(&session));
        let (first, second) = both(
            move || other.ask(&same, 0).is_ok(),
            || core.ask(&session, 0).is_ok(),
        );
        assert!(first && second);
        let row = core.row(0);
        assert_eq!(row.sessions.len(), 1);
        assert_eq!(row.sessions[0].sampling.used, 2);
    });
}

#[test]
fn a_snapshot_sees_both_windows_charged_or_neither() {
    check(|| {
        let core = Core::new(5, 5);
        let session = core.seated();
        let other = core.clone();
        let (row, _) = both(move || other.row(1), || core.ask(&session, 1).is_ok());
        assert_eq!(row.sampling.window.used, row.sessions[0].sampling.used);
        assert_eq!(u64::from(row.sampling.window.used), row.sampling.admitted);
    });
}
