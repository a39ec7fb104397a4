//! Many threads and one throttle. The clock stands still or is told by hand, so every count is
//! exact, whatever the threads do.

mod by_hand;

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use by_hand::{Core, ELICITATION, SAMPLING, admitted, ask, ask_round};
use mcp_question_throttle::{
    refusal::{Cause, Refusal},
    throttle::Snapshot,
};

const THREADS: usize = 16;
const MINUTE: u64 = 60_000_000_000;

/// Runs `work` on all threads at once, and adds up what it gives.
fn race(work: impl Fn(usize) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(number)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    })
}

/// Runs `work` over and over on a thread of its own while `body` runs, at least once.
fn meanwhile<T>(work: impl Fn() + Sync, body: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            loop {
                work();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let result = body();
        done.store(true, Ordering::Relaxed);
        other.join().unwrap();
        result
    })
}

fn max_of(refusal: &Refusal) -> u32 {
    match refusal.cause() {
        Cause::LimitExceeded { max, .. } => max,
        ref other => panic!("{other:?}"),
    }
}

fn assert_sound(snapshot: &Snapshot) {
    for server in &snapshot.servers {
        let sessions = server
            .sessions
            .iter()
            .flat_map(|session| [&session.sampling, &session.elicitation]);
        for window in [&server.sampling.window, &server.elicitation.window]
            .into_iter()
            .chain(sessions)
        {
            let limit = window.limit.unwrap();
            assert!(window.used <= limit, "{window:?}");
            assert_eq!(window.remaining, Some(limit - window.used));
        }
    }
}

#[test]
fn last_permit() {
    for _ in 0..5 {
        race_for_the_last_permit();
    }
}

fn race_for_the_last_permit() {
    let core = Core::new([100, 50, 1, 1]);
    let sessions: Vec<_> = (0..4).map(|_| core.session("github")).collect();
    let now = core.at(0);
    let total = race(|thread| {
        (0..10_000)
            .filter(|_| admitted(&sessions[thread % 4], now, SAMPLING))
            .count() as u64
    });
    assert_eq!(total, 100);
    let sampling = &core.throttle.snapshot(now).servers[0].sampling;
    assert_eq!(sampling.admitted, 100);
    assert_eq!(
        sampling.refused_by_server_limit + sampling.refused_by_session_limit,
        159_900
    );
}

#[test]
fn snapshot_while_racing() {
    let core = Core::new([100, 30, 1, 1]);
    let sessions: Vec<_> = (0..4).map(|_| core.session("github")).collect();
    let now = core.at(0);
    let total = meanwhile(
        || {
            let snapshot = core.throttle.snapshot(now);
            assert_sound(&snapshot);
            for server in &snapshot.servers {
                let used: u32 = server.sessions.iter().map(|s| s.sampling.used).sum();
                assert_eq!(
                    used, server.sampling.window.used,
                    "both windows are charged in one step"
                );
            }
        },
        || {
            race(|thread| {
                (0..10_000)
                    .filter(|_| admitted(&sessions[thread % 4], now, SAMPLING))
                    .count() as u64
            })
        },
    );
    assert_eq!(total, 100);
}

#[test]
fn a_round_is_whole_under_a_race() {
    // 100 is not a multiple of 3: one permit must be left over, and no round be split.
    let core = Core::new([100, 0, 100, 0]);
    let session = core.session("github");
    let now = core.at(0);
    let total = race(|_| {
        (0..1_000)
            .filter(|_| ask_round(&session, now, 3, 2).is_ok())
            .count() as u64
    });
    assert_eq!(total, 33);
    let server = &core.throttle.snapshot(now).servers[0];
    assert_eq!(server.sampling.window.used, 99);
    assert_eq!(server.elicitation.window.used, 66);
}

/// Threads arrive from both sides of the edge, in any order. Together they ask for no more than
/// the limit, so no window can be full and nobody may be refused.
#[test]
fn nobody_is_refused_at_the_edge_while_there_is_room() {
    for _ in 0..200 {
        let core = Core::new([160, 10, 0, 0]);
        let sessions: Vec<_> = (0..THREADS).map(|_| core.session("github")).collect();
        let total = race(|thread| {
            [0, MINUTE - 1, MINUTE, MINUTE - 1, MINUTE]
                .into_iter()
                .flat_map(|at| [core.at(at); 2])
                .filter(|at| admitted(&sessions[thread], *at, SAMPLING))
                .count() as u64
        });
        assert_eq!(total, 160);
    }
}

/// The window was full and ends. Whoever asks from then on is admitted, however the threads see
/// the turn.
#[test]
fn nobody_is_refused_when_a_full_window_has_ended() {
    for _ in 0..200 {
        let core = Core::new([160, 10, 0, 0]);
        let sessions: Vec<_> = (0..THREADS).map(|_| core.session("github")).collect();
        for session in &sessions {
            assert!(ask_round(session, core.at(0), 10, 0).is_ok());
        }
        let total = race(|thread| {
            (0..10)
                .filter(|_| admitted(&sessions[thread], core.at(MINUTE), SAMPLING))
                .count() as u64
        });
        assert_eq!(total, 160);
    }
}

#[test]
fn no_window_is_exceeded_across_the_edge() {
    for _ in 0..50 {
        let core = Core::new([100, 0, 0, 0]);
        let session = core.session("github");
        assert!(admitted(&session, core.at(0), SAMPLING));
        let total = race(|thread| {
            let now = core.at(if thread % 2 == 0 { MINUTE - 1 } else { MINUTE });
            (0..200)
                .filter(|_| admitted(&session, now, SAMPLING))
                .count() as u64
        });
        let server = &core.throttle.snapshot(core.at(MINUTE)).servers[0];
        assert_eq!(server.sampling.window.used, 100, "the second was asked for");
        assert_eq!(server.sampling.admitted, total + 1);
        assert!((100..200).contains(&total), "{total}");
    }
}

/// A refusal made without the lock read its number after the verdict; when the settings changed
/// in between, it named a limit that had refused nothing, even 0.
#[test]
fn a_refusal_names_the_limit_that_refused() {
    let core = Core::new([10, 0, 1, 1]);
    let session = core.session("github");
    let now = core.at(0);
    for _ in 0..10 {
        assert!(admitted(&session, now, SAMPLING));
    }
    meanwhile(
        || {
            // Room under 20, which is therefore never named.
            core.update([20, 0, 1, 1]);
            core.update([10, 0, 1, 1]);
            core.update([0, 0, 1, 1]);
            core.update([10, 0, 1, 1]);
        },
        || {
            race(|_| {
                for _ in 0..5_000 {
                    if let Some(refusal) = session.refuse_early(now, SAMPLING, &SAMPLING.into()) {
                        assert_eq!(max_of(&refusal), 10);
                    }
                }
                0
            })
        },
    );
}

#[test]
fn settings_change_while_racing() {
    let core = Core::new([50, 0, 1, 1]);
    let session = core.session("github");
    let now = core.at(0);
    let total = meanwhile(
        || {
            core.update([100, 0, 1, 1]);
            core.update([50, 0, 1, 1]);
        },
        || {
            race(|_| {
                (0..2_000)
                    .filter(|_| match ask(&session, now, SAMPLING) {
                        Ok(_) => true,
                        Err(refusal) => {
                            assert!([50, 100].contains(&max_of(&refusal)));
                            false
                        }
                    })
                    .count() as u64
            })
        },
    );
    assert!((50..=100).contains(&total), "{total}");
    core.update([100, 0, 1, 1]);
    let rest = (0..200)
        .filter(|_| admitted(&session, now, SAMPLING))
        .count();
    assert_eq!(total + rest as u64, 100);
    let sampling = &core.throttle.snapshot(now).servers[0].sampling;
    assert_eq!(
        sampling.admitted + sampling.refused_by_server_limit,
        2_000 * THREADS as u64 + 200
    );
}

#[test]
fn connections_come_and_go_while_racing() {
    let core = Core::with_capacity([100, 2, 1, 1], 4);
    let now = core.at(0);
    let total = meanwhile(
        || {
            assert_sound(&core.throttle.snapshot(now));
            core.update([100, 2, 1, 1]);
        },
        || {
            race(|thread| {
                (0..500)
                    .map(|_| {
                        let session = core.session(["a", "b"][thread % 2]);
                        (0..3).filter(|_| admitted(&session, now, SAMPLING)).count() as u64
                    })
                    .sum()
            })
        },
    );
    assert_eq!(total, 200);
    let snapshot = core.throttle.snapshot(now);
    for server in &snapshot.servers {
        assert!(server.sessions.is_empty());
        let sampling = &server.sampling;
        assert_eq!(
            sampling.admitted
                + sampling.refused_by_server_limit
                + sampling.refused_by_session_limit,
            500 * 3 * THREADS as u64 / 2,
            "what ended sessions were refused is not lost"
        );
    }
    // When their windows have ended, the rows make room for others.
    let others: Vec<_> = ["c", "d", "e", "f"].map(|name| core.session(name)).into();
    for other in &others {
        assert!(admitted(other, core.at(MINUTE), SAMPLING));
    }
    let names: Vec<_> = core
        .throttle
        .snapshot(core.at(MINUTE))
        .servers
        .into_iter()
        .map(|server| server.server.to_string())
        .collect();
    assert_eq!(names, ["c", "d", "e", "f"]);
}

#[test]
fn the_table_is_never_over_its_bound_under_a_race() {
    let core = Core::with_capacity([100, 0, 1, 1], 8);
    let now = core.at(0);
    let total = race(|thread| {
        (0..8)
            .filter(|number| {
                let session = core.session(&format!("{thread} {number}"));
                admitted(&session, now, SAMPLING)
            })
            .count() as u64
    });
    assert_eq!(total, 8, "no row with an open window made room");
    let snapshot = core.throttle.snapshot(now);
    assert_eq!(snapshot.servers.len(), 8);
    assert_eq!(snapshot.saturated, 8 * THREADS as u64 - 8);
}

/// Two threads arrive with times in the wrong order: the late one gives nothing back.
#[test]
fn times_in_the_wrong_order_refill_nothing() {
    let core = Core::new([10, 0, 10, 0]);
    let session = core.session("github");
    let total = race(|thread| {
        (0..100)
            .rev()
            .filter(|step| {
                let at = core.at(MINUTE / 2 + step * 1_000 + thread as u64);
                admitted(&session, at, ELICITATION)
            })
            .count() as u64
    });
    assert_eq!(total, 10);
}
