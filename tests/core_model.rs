//! The core against a dull reference model: every short history over a small alphabet, and long
//! random ones. Compared are the verdict, the limit named, its number, the retry time, and every
//! number of the snapshot.

mod by_hand;

use std::collections::BTreeMap;

use by_hand::{
    Core,
    model::{Expected, ExpectedWindow, Model, NAMES},
};
use mcp_question_throttle::{
    refusal::Cause,
    throttle::{Session, WindowSnapshot},
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time goes on, in nanoseconds.
    Advance(u64),
    /// Time steps back, in nanoseconds.
    Back(u64),
    /// One of the three clients asks for sampling and elicitation.
    Ask(usize, [u32; 2]),
    /// New limits.
    Limits([u32; 4]),
    /// A client's session ends, and its next one begins.
    Reconnect(usize),
}

/// The server of each client: two share one.
const SERVERS: [&str; 3] = ["a", "a", "b"];

/// Core and model, doing the same.
struct Pair {
    core: Core,
    model: Model,
    sessions: [Session; 3],
    /// By server, whether it has asked; by session, whether it has.
    asked: BTreeMap<&'static str, bool>,
    seated: [bool; 3],
    now: u64,
}

impl Pair {
    fn new(limits: [u32; 4]) -> Self {
        let core = Core::new(limits);
        let sessions = SERVERS.map(|server| core.session(server));
        Self {
            core,
            model: Model::new(limits),
            sessions,
            asked: BTreeMap::new(),
            seated: [false; 3],
            // Far enough from the beginning to step back.
            now: 3600 * SECOND,
        }
    }

    fn run(limits: [u32; 4], history: &[Step]) {
        let mut pair = Self::new(limits);
        for (number, step) in history.iter().enumerate() {
            pair.step(*step, &|| {
                format!("step {number} of {history:?} with {limits:?}")
            });
        }
        pair.compare_snapshots(&|| format!("the end of {history:?} with {limits:?}"));
    }

    fn step(&mut self, step: Step, context: &dyn Fn() -> String) {
        match step {
            Step::Advance(nanos) => self.now += nanos,
            Step::Back(nanos) => self.now = self.now.saturating_sub(nanos),
            Step::Limits(limits) => {
                self.core.update(limits);
                self.model.set_limits(limits);
            }
            Step::Reconnect(client) => {
                self.sessions[client] = self.core.session(SERVERS[client]);
                self.seated[client] = false;
            }
            Step::Ask(client, counts) => {
                let session = &self.sessions[client];
                let [sampling, elicitation] = counts;
                let verdict =
                    by_hand::ask_round(session, self.core.at(self.now), sampling, elicitation);
                let got = match verdict {
                    Ok(admission) => {
                        assert_eq!(admission.questions(), sampling + elicitation);
                        Expected::Admitted
                    }
                    Err(refusal) => match refusal.cause() {
                        Cause::LimitExceeded {
                            limit,
                            max,
                            retry_after,
                        } => Expected::Refused {
                            limit: limit.as_str(),
                            max,
                            retry_after: retry_after.map(|retry| retry.as_secs()),
                        },
                        ref other => panic!("{other:?} at {}", context()),
                    },
                };
                let expected = self
                    .model
                    .ask(SERVERS[client], session.number(), self.now, counts);
                assert_eq!(got, expected, "{}", context());
                self.asked.insert(SERVERS[client], true);
                self.seated[client] = true;
            }
        }
    }

    fn compare_snapshots(&self, context: &dyn Fn() -> String) {
        let snapshot = self.core.throttle.snapshot(self.core.at(self.now));
        let servers: Vec<_> = snapshot.servers.iter().map(|s| s.server.as_str()).collect();
        assert_eq!(servers, self.asked.keys().copied().collect::<Vec<_>>());
        for server in &snapshot.servers {
            let name = server.server.as_str();
            for (kind, got) in [&server.sampling, &server.elicitation]
                .into_iter()
                .enumerate()
            {
                let window = self.model.window(name, None, 2 * kind, self.now);
                assert_eq!(
                    seen(&got.window),
                    window,
                    "{} at {}",
                    NAMES[2 * kind],
                    context()
                );
                assert_eq!(
                    got.admitted,
                    self.model.admitted(name, kind),
                    "{}",
                    context()
                );
                assert_eq!(
                    [got.refused_by_server_limit, got.refused_by_session_limit],
                    [2 * kind, 2 * kind + 1].map(|limit| self.model.refused(name, limit)),
                    "{}",
                    context()
                );
            }
            let mut expected: Vec<_> = (0..3)
                .filter(|client| SERVERS[*client] == name && self.seated[*client])
                .map(|client| self.sessions[client].number())
                .collect();
            expected.sort_unstable();
            let got: Vec<_> = server.sessions.iter().map(|s| s.session).collect();
            assert_eq!(got, expected, "the sessions at {}", context());
            for session in &server.sessions {
                for (limit, got) in [(1, &session.sampling), (3, &session.elicitation)] {
                    let window = self
                        .model
                        .window(name, Some(session.session), limit, self.now);
                    assert_eq!(seen(got), window, "{} at {}", NAMES[limit], context());
                }
            }
        }
    }
}

fn seen(window: &WindowSnapshot) -> ExpectedWindow {
    ExpectedWindow {
        used: window.used,
        limit: window.limit,
        remaining: window.remaining,
        time_left_ms: window.time_left_ms,
        refused: window.refused,
    }
}

/// Runs every sequence of `length` steps.
fn exhaust(limits: [u32; 4], alphabet: &[Step], length: u32) {
    let mut history = Vec::with_capacity(length as usize);
    for number in 0..alphabet.len().pow(length) {
        history.clear();
        let mut rest = number;
        for _ in 0..length {
            history.push(alphabet[rest % alphabet.len()]);
            rest /= alphabet.len();
        }
        Pair::run(limits, &history);
    }
}

#[test]
fn every_short_history_around_the_edges_of_windows() {
    let alphabet = [
        Step::Ask(0, [1, 0]),
        Step::Ask(1, [1, 0]),
        Step::Advance(1),
        Step::Advance(30 * SECOND),
        Step::Advance(59 * SECOND + 999_000_000),
        Step::Advance(60 * SECOND),
        Step::Back(30 * SECOND),
    ];
    exhaust([2, 1, 0, 0], &alphabet, 6);
    exhaust([1, 0, 0, 0], &alphabet, 5);
    exhaust([0, 1, 0, 0], &alphabet, 5);
}

#[test]
fn every_short_history_of_rounds_and_kinds() {
    let alphabet = [
        Step::Ask(0, [1, 0]),
        Step::Ask(0, [0, 1]),
        Step::Ask(1, [2, 0]),
        Step::Ask(1, [1, 1]),
        Step::Ask(0, [1, 3]),
        Step::Ask(2, [1, 1]),
        Step::Advance(30 * SECOND),
        Step::Advance(30 * SECOND + 1),
    ];
    exhaust([3, 2, 2, 1], &alphabet, 5);
    exhaust([3, 1, 3, 2], &alphabet, 5);
}

#[test]
fn every_short_history_of_changing_limits_and_sessions() {
    let alphabet = [
        Step::Ask(0, [1, 0]),
        Step::Ask(1, [1, 1]),
        Step::Ask(0, [0, 2]),
        Step::Advance(30 * SECOND),
        Step::Limits([2, 1, 1, 0]),
        Step::Limits([0, 2, 0, 1]),
        Step::Limits([1, 0, 2, 0]),
        Step::Reconnect(0),
        Step::Reconnect(1),
    ];
    exhaust([2, 1, 1, 0], &alphabet, 5);
}

fn limits() -> impl Strategy<Value = [u32; 4]> {
    [0..4_u32, 0..4_u32, 0..4_u32, 0..4_u32]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_usize, 0..4_u32, 0..3_u32)
            .prop_filter("a round of nothing is no question", |(_, s, e)| s + e > 0)
            .prop_map(|(client, s, e)| Step::Ask(client, [s, e])),
        4 => (0..3_usize).prop_map(|client| Step::Ask(client, [1, 0])),
        3 => prop_oneof![
            Just(0),
            Just(1),
            Just(SECOND),
            Just(60 * SECOND - 1),
            Just(60 * SECOND),
            0..70 * SECOND,
        ]
        .prop_map(Step::Advance),
        1 => (0..100 * SECOND).prop_map(Step::Back),
        1 => limits().prop_map(Step::Limits),
        1 => (0..3_usize).prop_map(Step::Reconnect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_histories(limits in limits(), history in prop::collection::vec(step(), 1..300)) {
        Pair::run(limits, &history);
    }
}
