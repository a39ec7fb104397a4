//! Ten thousand windows of mixed questions, reconnects and reloads, a week's worth in seconds:
//! every verdict is compared with a count kept beside it.

mod by_hand;

use std::collections::HashMap;

use by_hand::{Core, model::NAMES};
use mcp_question_throttle::{refusal::Cause, throttle::Session};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const WINDOWS: u64 = 10_000;
const SERVERS: [&str; 4] = ["github", "files", "search", "mail"];

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the log says of one window: when it opened and how many it admitted.
type Windows = HashMap<(usize, Option<u64>, usize), (u64, u32)>;

/// The name of the limit that refuses, and its retry time; or nothing, and the charge is made.
fn expected(
    windows: &mut Windows,
    limits: [u32; 4],
    (server, session): (usize, u64),
    at: u64,
    counts: [u32; 2],
) -> Option<(&'static str, Option<u64>)> {
    let key = |limit: usize| (server, (limit % 2 == 1).then_some(session), limit);
    let concerned = |limit: &usize| counts[limit / 2] > 0 && limits[*limit] > 0;
    let mut worst: Option<(usize, u64)> = None;
    for limit in (0..4).filter(concerned) {
        let asked = counts[limit / 2];
        let (opened, used) = windows.get(&key(limit)).copied().unwrap_or((0, 0));
        let open = used > 0 && at < opened + MINUTE;
        let ends = match open {
            _ if asked > limits[limit] => u64::MAX,
            true if used + asked > limits[limit] => opened + MINUTE,
            _ => continue,
        };
        if worst.is_none_or(|(_, last)| ends > last) {
            worst = Some((limit, ends));
        }
    }
    if let Some((limit, ends)) = worst {
        let retry = (ends != u64::MAX).then(|| (ends - at).div_ceil(SECOND));
        return Some((NAMES[limit], retry));
    }
    for limit in (0..4).filter(concerned) {
        let window = windows.entry(key(limit)).or_default();
        if window.1 == 0 || at >= window.0 + MINUTE {
            *window = (at, 0);
        }
        window.1 += counts[limit / 2];
    }
    None
}

#[test]
fn ten_thousand_windows() {
    let mut random = Random(2026);
    let mut limits = [6, 3, 4, 0];
    let core = Core::new(limits);
    let connect = |server: usize| core.session(SERVERS[server]);
    let mut sessions: Vec<(usize, Session)> = (0..12).map(|i| (i % 4, connect(i % 4))).collect();
    let mut windows = Windows::new();
    let mut totals = [0_u64; 2];
    let mut at = 0;
    while at < WINDOWS * MINUTE {
        at += match random.below(50) {
            0..8 => 0,
            8 => 1,
            9 => MINUTE - 1,
            _ => random.below(4 * SECOND),
        };
        match random.below(1000) {
            0..20 => {
                let client = random.below(12) as usize;
                let server = sessions[client].0;
                let number = sessions[client].1.number();
                sessions[client].1 = connect(server);
                windows.retain(|(_, session, _), _| *session != Some(number));
            }
            20..25 => {
                limits = [6, 3, 4, 2].map(|most| random.below(most + 1) as u32);
                core.update(limits);
            }
            _ => {}
        }
        let (server, session) = &sessions[random.below(12) as usize];
        let counts = match random.below(8) {
            0 => [2, 0],
            1 => [1, 2],
            2..5 => [0, 1],
            _ => [1, 0],
        };
        let expected = expected(
            &mut windows,
            limits,
            (*server, session.number()),
            at,
            counts,
        );
        let got = by_hand::ask_round(session, core.at(at), counts[0], counts[1])
            .err()
            .map(|refusal| match refusal.cause() {
                Cause::LimitExceeded {
                    limit, retry_after, ..
                } => (limit.as_str(), retry_after.map(|retry| retry.as_secs())),
                ref other => panic!("{other:?}"),
            });
        assert_eq!(got, expected, "{counts:?} at {at} with {limits:?}");
        totals[usize::from(got.is_some())] += u64::from(counts[0] + counts[1]);
    }
    let snapshot = core.throttle.snapshot(core.at(at));
    let counted = snapshot.servers.iter().fold([0, 0], |sum, server| {
        [&server.sampling, &server.elicitation].into_iter().fold(
            sum,
            |[admitted, refused], kind| {
                [
                    admitted + kind.admitted,
                    refused + kind.refused_by_server_limit + kind.refused_by_session_limit,
                ]
            },
        )
    });
    assert_eq!(counted, totals);
    assert!(totals.iter().all(|total| *total > 10_000), "{totals:?}");
}
