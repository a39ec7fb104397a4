//! The table of servers beside a dull model of it: any order of questions, endings and late
//! threads, told by hand what time it is (D5, D6, D10).

mod by_hand;

use std::collections::BTreeMap;

use by_hand::{Core, ELICITATION, SAMPLING, admitted, ask};
use mcp_question_throttle::{refusal::Cause, throttle::Session};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const CAPACITY: usize = 2;
const LIMIT: u32 = 2;
const SERVERS: [&str; 4] = ["a", "b", "c", "d"];

/// A thread took its time at 59.9 s and went to sleep. Meanwhile the row of its server was
/// reclaimed, at 60 s. Counted from 59.9 s, the new window would overlap the old one.
#[test]
fn a_reclaimed_row_gives_nothing_back_to_an_older_time() {
    let core = Core::with_capacity([1, 0, 1, 0], 2);
    let (first, second) = (core.session("a"), core.session("b"));
    assert!(admitted(&first, core.at(0), SAMPLING));
    assert!(admitted(&second, core.at(0), SAMPLING));
    drop((first, second));
    assert!(admitted(&core.session("c"), core.at(MINUTE), SAMPLING));

    // It counts as asked when the old window ended, so its own ends a full minute after that:
    // for the session's first question, which takes its place in the row, and for later ones.
    let session = core.session("a");
    for kind in [SAMPLING, ELICITATION] {
        assert!(admitted(&session, core.at(MINUTE - 1), kind));
        let refusal = ask(&session, core.at(2 * MINUTE - 1), kind).unwrap_err();
        assert_eq!(refusal.retry_after().unwrap().as_secs(), 1);
    }
    for kind in [SAMPLING, ELICITATION] {
        assert!(admitted(&session, core.at(2 * MINUTE), kind));
    }
}

/// What the table should do, in as few words as it can be said.
#[derive(Default)]
struct Model {
    rows: BTreeMap<usize, ModelRow>,
    /// The latest end of a window of a row that was reclaimed.
    reclaimed_until: u64,
    /// Per server, when each admitted question counted.
    admitted: BTreeMap<usize, Vec<u64>>,
}

#[derive(Default)]
struct ModelRow {
    sessions: usize,
    ends: u64,
    used: u32,
    since: u64,
}

impl ModelRow {
    const fn can_go_at(&self) -> Option<u64> {
        if self.sessions == 0 {
            Some(self.ends)
        } else {
            None
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Admitted,
    Full { retry_after: u64 },
    Saturated { retry_after: Option<u64> },
}

/// Whole seconds, rounded up, at least 1 and at most 60.
fn seconds(wait: u64) -> u64 {
    wait.div_ceil(SECOND).clamp(1, 60)
}

impl Model {
    /// A question of a session that has, or has not, its place in the row.
    fn ask(&mut self, server: usize, at: u64, seated: bool) -> Verdict {
        if !seated && !self.rows.contains_key(&server) {
            if self.rows.len() >= CAPACITY {
                let reclaimed = &mut self.reclaimed_until;
                self.rows.retain(|_, row| match row.can_go_at() {
                    Some(ends) if ends <= at => {
                        *reclaimed = ends.max(*reclaimed);
                        false
                    }
                    _ => true,
                });
            }
            if self.rows.len() >= CAPACITY {
                let first = self.rows.values().filter_map(ModelRow::can_go_at).min();
                return Verdict::Saturated {
                    retry_after: first.map(|first| seconds(first.saturating_sub(at))),
                };
            }
            let row = ModelRow {
                since: self.reclaimed_until,
                ..ModelRow::default()
            };
            self.rows.insert(server, row);
        }
        let row = self.rows.get_mut(&server).unwrap();
        row.sessions += usize::from(!seated);
        let counts_at = at.max(row.since);
        if counts_at >= row.ends {
            row.ends = counts_at + MINUTE;
            row.used = 0;
        }
        if row.used == LIMIT {
            return Verdict::Full {
                retry_after: seconds(row.ends - at),
            };
        }
        row.used += 1;
        self.admitted.entry(server).or_default().push(counts_at);
        Verdict::Admitted
    }

    fn end(&mut self, server: usize) {
        self.rows.get_mut(&server).unwrap().sessions -= 1;
    }
}

fn verdict(session: &Session, now: std::time::Instant) -> Verdict {
    let Err(refusal) = ask(session, now, SAMPLING) else {
        return Verdict::Admitted;
    };
    let retry_after = refusal.retry_after().map(|wait| wait.as_secs());
    match refusal.cause() {
        Cause::LimitExceeded { .. } => Verdict::Full {
            retry_after: retry_after.unwrap(),
        },
        Cause::LimiterSaturated { .. } => Verdict::Saturated { retry_after },
        other => panic!("{other:?}"),
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The clock goes on by so many half seconds.
    Pass(u64),
    /// A server asks through a session of its own, with a time so many half seconds old.
    Ask { server: usize, late: u64 },
    /// A server's session ends.
    End { server: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let server = 0..SERVERS.len();
    let step = prop_oneof![
        2 => prop_oneof![Just(0), Just(1), Just(59), Just(119), Just(120), 0..130_u64].prop_map(Step::Pass),
        5 => (server.clone(), prop_oneof![3 => Just(0), 1 => 0..130_u64])
            .prop_map(|(server, late)| Step::Ask { server, late }),
        2 => server.prop_map(|server| Step::End { server }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_model_does(steps in steps()) {
        let core = Core::with_capacity([LIMIT, 0, LIMIT, 0], CAPACITY);
        let mut model = Model::default();
        let mut sessions: [Option<Session>; SERVERS.len()] = Default::default();
        let mut clock = 0;
        for step in steps {
            match step {
                Step::Pass(halves) => clock += halves * SECOND / 2,
                Step::Ask { server, late } => {
                    let at = clock - (late * SECOND / 2).min(clock);
                    let seated = sessions[server].is_some();
                    let session = sessions[server].take().unwrap_or_else(|| core.session(SERVERS[server]));
                    let expected = model.ask(server, at, seated);
                    let found = verdict(&session, core.at(at));
                    prop_assert_eq!(&found, &expected, "server {} at {}", server, at);
                    // A session that found no row has no place in one.
                    if !matches!(found, Verdict::Saturated { .. }) {
                        sessions[server] = Some(session);
                    }
                }
                Step::End { server } => {
                    if sessions[server].take().is_some() {
                        model.end(server);
                    }
                }
            }
            prop_assert!(core.throttle.snapshot(core.at(clock)).servers.len() <= CAPACITY);
        }
        for times in model.admitted.values() {
            prop_assert!(never_more_than_the_limit(times), "{:?}", times);
        }
    }
}

/// Recounts from the log alone: windows open with the first admission after the last one's end.
fn never_more_than_the_limit(times: &[u64]) -> bool {
    let (mut ends, mut used) = (0, 0);
    times.iter().all(|&at| {
        if at >= ends {
            (ends, used) = (at + MINUTE, 0);
        }
        used += 1;
        used <= LIMIT
    })
}
