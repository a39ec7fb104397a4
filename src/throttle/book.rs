//! A row's book, which its lock guards: its sessions, whether its limits hold, and its totals.

use std::sync::Arc;

use slab::Slab;

use super::{
    Ask,
    charge::{Charge, Obstacle},
    row::Row,
    snapshot::{KindSnapshot, ServerSnapshot, SessionSnapshot, WindowSnapshot},
    standing::Standing,
    windows::Windows,
};
use crate::{
    limits::{ServerName, ThrottleMode},
    question::QuestionKind,
    window::{Moment, Owner, WINDOW},
};

/// What the row's lock guards, besides all the windows.
#[derive(Debug)]
pub(super) struct Book {
    mode: ThrottleMode,
    standing: Standing,
    /// Made when it is needed: hardly any server is observed or muted.
    rare: Option<Box<Rare>>,
    /// Since the row was made.
    admitted: [u64; 2],
    /// By the server's and by the sessions' limits, in windows that are over.
    refused: [[u64; 2]; 2],
    sessions: Slab<Place>,
}

/// A session's place in the book.
#[derive(Debug)]
struct Place {
    number: u64,
    windows: Arc<Windows>,
}

/// What is counted of a server that is, or was, observed or muted.
#[derive(Debug, Default)]
struct Rare {
    /// Would have been refused by the server's and by the sessions' limits.
    observed: [[Observed; 2]; 2],
    /// Refused while it was muted, before it was muted last.
    muted: [u64; 2],
}

/// Questions that would have been refused.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    total: u64,
    /// When the first of the last minute came.
    since: Moment,
    in_window: u64,
}

/// What came of asking the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Admitted and charged.
    Admit,
    /// A window lacks room, so it is refused.
    Refuse,
    /// A window lacks room, which is only observed.
    Observe,
    /// The server is muted.
    Mute,
}

impl Book {
    pub(super) const fn new(mode: ThrottleMode, muted: bool) -> Self {
        Self {
            mode,
            standing: Standing::new(mode, muted),
            rare: None,
            admitted: [0; 2],
            refused: [[0; 2]; 2],
            sessions: Slab::new(),
        }
    }

    pub(super) const fn set_mode(&mut self, mode: ThrottleMode) {
        self.mode = mode;
    }

    /// What is done with questions from now on.
    pub(super) const fn set_standing(&mut self, muted: bool) -> Standing {
        self.standing = Standing::new(self.mode, muted);
        self.standing
    }

    /// Keeps what was refused the last time the server was muted.
    pub(super) fn keep_muted(&mut self, refused: [u64; 2]) {
        let rare = self.rare.get_or_insert_default();
        for kind in QuestionKind::ALL {
            rare.muted[kind as usize] += refused[kind as usize];
        }
    }

    pub(super) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(super) fn session_windows(&self) -> impl Iterator<Item = &Windows> {
        self.sessions.iter().map(|(_, place)| &*place.windows)
    }

    pub(super) fn add_session(&mut self, number: u64, windows: Arc<Windows>) -> usize {
        // A vector that doubles could hold twice what its sessions need.
        if self.sessions.len() == self.sessions.capacity() {
            self.sessions.reserve_exact(1 + self.sessions.len() / 8);
        }
        self.sessions.insert(Place { number, windows })
    }

    /// Takes a session out, and says whether it was the last one.
    pub(super) fn remove_session(&mut self, key: usize) -> bool {
        let Some(place) = self.sessions.try_remove(key) else {
            return false;
        };
        for kind in QuestionKind::ALL {
            self.refused[kind as usize][Owner::Session as usize] +=
                place.windows.take_refused(kind);
        }
        let was_last = self.sessions.is_empty();
        if was_last {
            self.sessions.shrink_to_fit();
        }
        was_last
    }

    /// Admits and charges one question, or charges nothing.
    #[inline]
    pub(super) fn admit_one(
        &mut self,
        at: Moment,
        kind: QuestionKind,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing != Standing::Enforced {
            let method = kind.into();
            return self.admit_otherwise(at, &Ask::one(kind, &method), row, session);
        }
        match Charge::new(at, kind, 1, row, session) {
            Some(charge) => {
                self.make(Standing::Enforced, &charge, row, session);
                Decision::Admit
            }
            None => Decision::Refuse,
        }
    }

    /// Admits and charges all of `ask`, or charges nothing.
    pub(super) fn admit_all(
        &mut self,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing != Standing::Enforced {
            return self.admit_otherwise(at, ask, row, session);
        }
        if self.charge_all(Standing::Enforced, at, ask, row, session) {
            Decision::Admit
        } else {
            Decision::Refuse
        }
    }

    /// The decision where limits are not enforced.
    #[cold]
    #[inline(never)] // What is admitted by itself needs none of its registers.
    fn admit_otherwise(
        &mut self,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> Decision {
        if self.standing == Standing::Muted {
            return Decision::Mute;
        }
        if self.charge_all(Standing::Observed, at, ask, row, session) {
            Decision::Admit
        } else {
            Decision::Observe
        }
    }

    /// Charges all of `ask`, or charges nothing and says `false`.
    #[inline]
    fn charge_all(
        &mut self,
        standing: Standing,
        at: Moment,
        ask: &Ask<'_>,
        row: &Row,
        session: &Windows,
    ) -> bool {
        let mut charges = [None, None];
        for kind in QuestionKind::ALL {
            let asked = ask.count(kind);
            // A kind that is not asked for can be over a lowered limit and is in nobody's way.
            if asked > 0 {
                let Some(charge) = Charge::new(at, kind, asked, row, session) else {
                    return false;
                };
                charges[kind as usize] = Some(charge);
            }
        }
        for charge in charges.iter().flatten() {
            self.make(standing, charge, row, session);
        }
        true
    }

    #[inline]
    fn make(&mut self, standing: Standing, charge: &Charge, row: &Row, session: &Windows) {
        let kind = charge.kind as usize;
        self.admitted[kind] += u64::from(charge.asked);
        charge.make(standing, row, session, &mut self.refused[kind]);
    }

    /// Counts questions that a window lacks room for, and says how many there were in the last
    /// minute before.
    pub(super) fn count_observed(
        &mut self,
        at: Moment,
        obstacle: &Obstacle,
        questions: u32,
    ) -> u64 {
        let rare = self.rare.get_or_insert_default();
        let observed = &mut rare.observed[obstacle.kind as usize][obstacle.owner as usize];
        if observed.in_window == 0 || observed.since.until(at) >= WINDOW {
            observed.since = at;
            observed.in_window = 0;
        }
        let before = observed.in_window;
        observed.in_window += u64::from(questions);
        observed.total += u64::from(questions);
        before
    }

    pub(super) fn snapshot(&self, row: &Row, server: ServerName, at: Moment) -> ServerSnapshot {
        let [sampling, elicitation] = QuestionKind::ALL.map(|kind| self.kind(row, kind, at));
        let mut sessions: Vec<_> = self
            .sessions
            .iter()
            .map(|(_, place)| {
                let [sampling, elicitation] = QuestionKind::ALL
                    .map(|kind| window(row, kind, Owner::Session, &place.windows, at));
                SessionSnapshot {
                    session: place.number,
                    sampling,
                    elicitation,
                }
            })
            .collect();
        sessions.sort_unstable_by_key(|session| session.session);
        ServerSnapshot {
            server,
            mode: self.mode,
            muted: self.standing == Standing::Muted,
            sampling,
            elicitation,
            sessions,
            usage: None,
        }
    }

    fn kind(&self, row: &Row, kind: QuestionKind, at: Moment) -> KindSnapshot {
        let [by_server, by_sessions] = self.refused[kind as usize];
        let by_open_sessions: u64 = self.session_windows().map(|it| it.refused(kind)).sum();
        let rare = self.rare.as_deref();
        let [observed_server, observed_session] = rare.map_or([0; 2], |rare| {
            rare.observed[kind as usize].map(|it| it.total)
        });
        let muted_before = rare.map_or(0, |rare| rare.muted[kind as usize]);
        KindSnapshot {
            window: window(row, kind, Owner::Server, &row.windows, at),
            admitted: self.admitted[kind as usize],
            would_refuse_by_server_limit: observed_server,
            would_refuse_by_session_limit: observed_session,
            refused_while_muted: muted_before + row.mute.refused(kind),
            refused_by_server_limit: by_server + row.windows.refused(kind),
            refused_by_session_limit: by_sessions + by_open_sessions,
        }
    }
}

fn window(
    row: &Row,
    kind: QuestionKind,
    owner: Owner,
    windows: &Windows,
    at: Moment,
) -> WindowSnapshot {
    let bound = row.bounds.bound(kind, owner);
    WindowSnapshot::new(&windows.window(kind), bound, windows.refused(kind), at)
}
