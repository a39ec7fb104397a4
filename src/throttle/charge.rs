//! What admitting would charge, and the limit in the way where it cannot be.

use super::{Ask, row::Row, standing::Standing, windows::Windows};
use crate::{
    question::QuestionKind,
    window::{FixedWindow, Full, Moment, Owner},
};

/// What a question, or a round's questions of one kind, will have charged.
///
/// Made and put in place while the caller holds the row's lock.
#[derive(Debug)]
pub(super) struct Charge {
    pub(super) kind: QuestionKind,
    pub(super) asked: u32,
    server: Charged,
    session: Charged,
}

/// One window, charged.
#[derive(Debug)]
enum Charged {
    /// What is admitted while a limit is off is not counted (D11).
    Off,
    Counted {
        before: FixedWindow,
        after: FixedWindow,
        bound: u32,
    },
}

impl Charge {
    /// `None` if a window lacks room.
    #[inline]
    pub(super) fn new(
        at: Moment,
        kind: QuestionKind,
        asked: u32,
        row: &Row,
        session: &Windows,
    ) -> Option<Self> {
        let at = row.counts_at(at);
        let charged = |owner, windows: &Windows| {
            let bound = row.bounds.of(kind, owner);
            if bound == 0 {
                return Some(Charged::Off);
            }
            let before = windows.window(kind);
            let after = before.charged(at, bound, asked).ok()?;
            Some(Charged::Counted {
                before,
                after,
                bound,
            })
        };
        Some(Self {
            kind,
            asked,
            server: charged(Owner::Server, &row.windows)?,
            session: charged(Owner::Session, session)?,
        })
    }

    /// Puts both windows in their places. `refused` takes the refusals, by the server's and by
    /// the sessions' limits, of windows that ended.
    #[inline]
    pub(super) fn make(
        &self,
        standing: Standing,
        row: &Row,
        session: &Windows,
        refused: &mut [u64; 2],
    ) {
        let [by_server, by_session] = refused;
        self.server
            .make(standing, self.kind, &row.windows, by_server);
        self.session.make(standing, self.kind, session, by_session);
    }
}

impl Charged {
    /// Puts the charged window in its place. `refused` takes the refusals of a window that ended.
    #[inline]
    fn make(&self, standing: Standing, kind: QuestionKind, windows: &Windows, refused: &mut u64) {
        let Self::Counted {
            before,
            after,
            bound,
        } = *self
        else {
            return;
        };
        let opens = after.last_ends() != before.last_ends();
        if opens {
            *refused += windows.take_refused(kind);
        }
        // Most questions neither open a window nor take its last room, which is all that is to be
        // seen without the lock.
        if opens || after.is_full(bound) {
            windows.set(kind, after, standing.shuts(Some(bound)));
        } else {
            windows.set_used(kind, after.last_used());
        }
    }
}

/// A limit that stands in the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Obstacle {
    pub(super) kind: QuestionKind,
    pub(super) owner: Owner,
    /// The limit.
    pub(super) max: u32,
    /// `None` if the ask can never fit.
    pub(super) ends: Option<Moment>,
}

impl Obstacle {
    /// The limit to name where a window lacks room: there always is one. The caller holds the
    /// row's lock.
    #[cold]
    pub(super) fn find(at: Moment, ask: &Ask<'_>, row: &Row, session: &Windows) -> Option<Self> {
        let at = row.counts_at(at);
        let mut worst: Option<Self> = None;
        for kind in QuestionKind::ALL {
            let asked = ask.count(kind);
            // A kind that is not asked for can be over a lowered limit and is in nobody's way.
            if asked == 0 {
                continue;
            }
            for (owner, windows) in [(Owner::Server, &row.windows), (Owner::Session, session)] {
                let Some(max) = row.bounds.bound(kind, owner) else {
                    continue;
                };
                let Err(Full { ends }) = windows.window(kind).charged(at, max, asked) else {
                    continue;
                };
                let obstacle = Self {
                    kind,
                    owner,
                    max,
                    ends,
                };
                if worst.is_none_or(|worst| obstacle.outlasts(&worst)) {
                    worst = Some(obstacle);
                }
            }
        }
        worst
    }

    /// Whether this one is named rather than `other`, which comes before it in the settings
    /// table: what can never fit wins, then what ends last.
    fn outlasts(&self, other: &Self) -> bool {
        match (self.ends, other.ends) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(mine), Some(others)) => mine > others,
        }
    }
}
