//! A session's place in its server's row, where one question or one round is decided.

use std::sync::Arc;

use super::{
    Admission, Ask,
    book::{Book, Decision},
    charge::Obstacle,
    row::Row,
    windows::{Shut, Windows},
};
use crate::{
    question::QuestionKind,
    refusal::{Cause, Refusal},
    window::{Moment, Owner},
};

/// A session's place in its server's row.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) row: Arc<Row>,
    pub(super) windows: Arc<Windows>,
    pub(super) key: usize,
}

impl Seat {
    /// For how many questions there is room, even if the last windows are still open.
    pub(super) fn room(&self, kind: QuestionKind) -> u32 {
        if self.row.mute.is_on() {
            return 0;
        }
        let room = |owner, windows: &Windows| match self.row.bounds.of(kind, owner) {
            0 => u32::MAX,
            bound => bound.saturating_sub(windows.last_used(kind)),
        };
        room(Owner::Server, &self.row.windows).min(room(Owner::Session, &self.windows))
    }

    /// Refuses one question where a window is full, or else asks for room under the lock.
    #[inline(always)]
    pub(super) fn decide_one(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Result<Admission, Refusal> {
        match self.refuse_if_full(at, kind, ask) {
            Some(refusal) => Err(refusal),
            None => self.admit_one(at, kind, ask),
        }
    }

    #[inline(never)] // The refusals before it need none of its registers.
    fn admit_one(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        match book.admit_one(at, kind, &self.row, &self.windows) {
            Decision::Admit => Ok(Admission::of(1)),
            other => self.decide_under_lock(other, at, ask, &mut book),
        }
    }

    pub(super) fn admit_all(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        match book.admit_all(at, ask, &self.row, &self.windows) {
            Decision::Admit => Ok(Admission::of(ask.total())),
            other => self.decide_under_lock(other, at, ask, &mut book),
        }
    }

    /// What is not simply admitted, while the book is held.
    #[cold]
    fn decide_under_lock(
        &self,
        decision: Decision,
        at: Moment,
        ask: &Ask<'_>,
        book: &mut Book,
    ) -> Result<Admission, Refusal> {
        if decision == Decision::Mute {
            return Err(self.refuse_muted(ask));
        }
        let Some(obstacle) = Obstacle::find(at, ask, &self.row, &self.windows) else {
            // A state that cannot be (D13).
            return Err(Refusal::internal());
        };
        let Obstacle {
            kind,
            owner,
            max,
            ends,
        } = obstacle;
        let wait = ends.map(|ends| ends.to_nanos().saturating_sub(at.to_nanos()));
        let questions = ask.total();
        if decision == Decision::Observe {
            let before = book.count_observed(at, &obstacle, questions);
            let method = ask.method(kind);
            let refusal = Refusal::by_limit(kind, owner, max, wait, method, before, questions);
            return Ok(Admission::observed(questions, refusal));
        }
        Err(self.refuse(kind, owner, max, wait, ask, questions))
    }

    /// The refusal of a muted server.
    #[cold]
    pub(super) fn refuse_muted(&self, ask: &Ask<'_>) -> Refusal {
        let before = self.row.mute.count_refused(ask);
        Refusal::new(Cause::ServerMuted, ask.first_method()).counted(before, ask.total())
    }

    /// The refusal of one question, if a window is full. Takes no lock.
    #[inline(always)]
    pub(super) fn refuse_if_full(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Option<Refusal> {
        let changes = self.row.bounds.changes();
        let server = self.row.windows.shut(kind);
        let session = self.windows.shut(kind);
        // The one that ends last is named, on a tie the server's. Each is compiled by itself, so
        // that it finds its window and its limit at fixed places.
        if session > server {
            self.refuse_by(Owner::Session, session, changes, at, kind, ask)
        } else {
            self.refuse_by(Owner::Server, server, changes, at, kind, ask)
        }
    }

    #[inline(always)]
    fn refuse_by(
        &self,
        owner: Owner,
        shut: Shut,
        changes: u32,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Option<Refusal> {
        let wait = shut.wait(at)?;
        let max = self.row.bounds.of(kind, owner);
        // If the settings changed between the looks, the number may be that of a limit which
        // left room: the lock decides.
        if !self.row.bounds.unchanged_since(changes) {
            return None;
        }
        Some(self.refuse(kind, owner, max, Some(wait), ask, 1))
    }

    /// Counts refused questions at the window that is in the way.
    #[inline(always)]
    fn refuse(
        &self,
        kind: QuestionKind,
        owner: Owner,
        max: u32,
        wait: Option<u64>,
        ask: &Ask<'_>,
        questions: u32,
    ) -> Refusal {
        let before = self.windows(owner).count_refused(kind, questions);
        Refusal::by_limit(kind, owner, max, wait, ask.method(kind), before, questions)
    }

    fn windows(&self, owner: Owner) -> &Windows {
        match owner {
            Owner::Server => &self.row.windows,
            Owner::Session => &self.windows,
        }
    }
}
