//! The reference: a log of what was admitted, counted anew for every question.
//!
//! It shares nothing with the throttle but the rules (D4, D5, D7, D11 and section 5 of the
//! design) and is as slow as they are plain.

use std::collections::BTreeMap;

const MINUTE: u64 = 60_000_000_000;

/// The four limits by number, in the order of the settings table: the server's and the session's
/// for sampling, the server's and the session's for elicitation.
pub const NAMES: [&str; 4] = [
    "proto.samplingPerMinute",
    "proto.samplingSessionPerMinute",
    "proto.elicitationPerMinute",
    "proto.elicitationSessionPerMinute",
];

/// Whose window it is: a server's (no session) or a session's.
type Owner = (String, Option<u64>);

/// One line of the log: a question that a limit counted when it was admitted.
struct Line {
    owner: Owner,
    limit: usize,
    at: u64,
}

#[derive(Default)]
pub struct Model {
    limits: [u32; 4],
    log: Vec<Line>,
    /// Who was refused by which limit, and after how many lines of the log.
    refused: Vec<(Owner, usize, u32, usize)>,
    admitted: BTreeMap<(String, usize), u64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    Admitted,
    Refused {
        limit: &'static str,
        max: u32,
        retry_after: Option<u64>,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedWindow {
    pub used: u32,
    pub limit: Option<u32>,
    pub remaining: Option<u32>,
    pub time_left_ms: Option<u64>,
    pub refused: u64,
}

/// The window that a recount of the log ends with.
struct Recount {
    opened: u64,
    used: u32,
    /// The line that opened it.
    since: usize,
}

impl Model {
    pub fn new(limits: [u32; 4]) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    pub fn set_limits(&mut self, limits: [u32; 4]) {
        self.limits = limits;
    }

    /// Recounts a window from the log. Every line lies in the window that was open or opens one;
    /// a line from before the window's opening counts as if it came at the opening.
    fn recount(&self, owner: &Owner, limit: usize) -> Option<Recount> {
        let mut window: Option<Recount> = None;
        for (number, line) in self.log.iter().enumerate() {
            if line.owner != *owner || line.limit != limit {
                continue;
            }
            match &mut window {
                Some(open) if line.at < open.opened + MINUTE => open.used += 1,
                _ => {
                    window = Some(Recount {
                        opened: line.at,
                        used: 1,
                        since: number,
                    });
                }
            }
        }
        window
    }

    fn open(&self, owner: &Owner, limit: usize, at: u64) -> Option<Recount> {
        self.recount(owner, limit)
            .filter(|window| at < window.opened + MINUTE)
    }

    /// Asks `counts` of sampling and elicitation at once.
    pub fn ask(&mut self, server: &str, session: u64, at: u64, counts: [u32; 2]) -> Expected {
        let owners = [
            (server.to_owned(), None),
            (server.to_owned(), Some(session)),
        ];
        // The limits in the way: which, and when its window ends; `None` for never.
        let mut in_the_way: Vec<(usize, Option<u64>)> = Vec::new();
        for limit in 0..4 {
            let (asked, max) = (counts[limit / 2], self.limits[limit]);
            if asked == 0 || max == 0 {
                continue;
            }
            let open = self.open(&owners[limit % 2], limit, at);
            if asked > max {
                in_the_way.push((limit, None));
            } else if let Some(window) = open
                && window.used + asked > max
            {
                in_the_way.push((limit, Some(window.opened + MINUTE)));
            }
        }
        let never = in_the_way.iter().find(|(_, ends)| ends.is_none());
        let last = in_the_way.iter().filter_map(|(_, ends)| *ends).max();
        let named = never.or_else(|| in_the_way.iter().find(|(_, ends)| *ends == last));
        if let Some(&(limit, ends)) = named {
            let owner = owners[limit % 2].clone();
            let lines = self.log.len();
            self.refused
                .push((owner, limit, counts[0] + counts[1], lines));
            return Expected::Refused {
                limit: NAMES[limit],
                max: self.limits[limit],
                retry_after: ends.map(|ends| (ends - at).div_ceil(1_000_000_000).clamp(1, 60)),
            };
        }
        for limit in 0..4 {
            if self.limits[limit] == 0 {
                continue;
            }
            for _ in 0..counts[limit / 2] {
                self.log.push(Line {
                    owner: owners[limit % 2].clone(),
                    limit,
                    at,
                });
            }
        }
        for (kind, count) in counts.into_iter().enumerate() {
            *self.admitted.entry((server.to_owned(), kind)).or_default() += u64::from(count);
        }
        Expected::Admitted
    }

    pub fn admitted(&self, server: &str, kind: usize) -> u64 {
        self.admitted
            .get(&(server.to_owned(), kind))
            .copied()
            .unwrap_or_default()
    }

    /// Refused of a server by one limit, over all windows and sessions, ended ones too.
    pub fn refused(&self, server: &str, limit: usize) -> u64 {
        self.refused
            .iter()
            .filter(|(owner, by, ..)| owner.0 == server && *by == limit)
            .map(|(.., questions, _)| u64::from(*questions))
            .sum()
    }

    pub fn window(
        &self,
        server: &str,
        session: Option<u64>,
        limit: usize,
        at: u64,
    ) -> ExpectedWindow {
        let owner = (server.to_owned(), session);
        let open = self.open(&owner, limit, at);
        let used = open.as_ref().map_or(0, |window| window.used);
        let max = (self.limits[limit] > 0).then_some(self.limits[limit]);
        // The refusals are those since the last window was opened, open still or not.
        let since = self
            .recount(&owner, limit)
            .map_or(0, |window| window.since + 1);
        ExpectedWindow {
            used,
            limit: max,
            remaining: max.map(|max| max.saturating_sub(used)),
            time_left_ms: open
                .map(|window| (window.opened + MINUTE - at.max(window.opened)) / 1_000_000),
            refused: self
                .refused
                .iter()
                .filter(|(who, by, _, lines)| *who == owner && *by == limit && *lines >= since)
                .map(|(_, _, questions, _)| u64::from(*questions))
                .sum(),
        }
    }
}
