//! A session's place in its server's row, where one question or one round is decided.

use std::sync::Arc;

use super::{
    Admission, Ask,
    row::{Obstacle, Row, Window, obstacle},
    windows::Windows,
};
use crate::{
    question::QuestionKind,
    refusal::{Cause, Refusal, RetryAfter},
    window::Moment,
};

/// A session's place in its server's row.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) row: Arc<Row>,
    pub(super) windows: Arc<Windows>,
    pub(super) key: usize,
}

impl Seat {
    #[inline(never)] // The refusals before it need none of its registers.
    pub(super) fn admit_one(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        if book.admit_one(at, kind, &self.row, &self.windows) {
            return Ok(Admission { questions: 1 });
        }
        Err(self.refuse_under_lock(at, ask))
    }

    pub(super) fn admit_all(&self, at: Moment, ask: &Ask<'_>) -> Result<Admission, Refusal> {
        let Ok(mut book) = self.row.book.lock() else {
            return Err(Refusal::internal());
        };
        if book.admit_all(at, ask, &self.row, &self.windows) {
            return Ok(Admission {
                questions: ask.total(),
            });
        }
        Err(self.refuse_under_lock(at, ask))
    }

    /// The refusal where a window lacks room, while the book is held.
    #[cold]
    fn refuse_under_lock(&self, at: Moment, ask: &Ask<'_>) -> Refusal {
        match obstacle(at, ask, &self.row, &self.windows) {
            Some(obstacle) => self.refuse(at, obstacle, ask, ask.total()),
            // A state that cannot be (D13).
            None => Refusal::internal(),
        }
    }

    /// Whether a window is full. Takes no lock.
    #[inline]
    pub(super) fn is_full(&self, at: Moment, kind: QuestionKind) -> bool {
        let (server, session) = (self.row.windows.shut(kind), self.windows.shut(kind));
        server.max(session).until(at).is_some()
    }

    /// Refuses one question, unless a change of settings comes in between.
    #[inline(never)]
    pub(super) fn refuse_one(
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

    /// The refusal of one question, if a window is full. Takes no lock.
    #[inline]
    pub(super) fn refuse_if_full(
        &self,
        at: Moment,
        kind: QuestionKind,
        ask: &Ask<'_>,
    ) -> Option<Refusal> {
        let bounds = self.row.bounds.steady()?;
        let server = self.row.windows.shut(kind);
        let session = self.windows.shut(kind);
        // The one that ends last, on a tie the server's.
        let (scope, shut) = if session > server {
            (Window::Session, session)
        } else {
            (Window::Server, server)
        };
        let ends = shut.until(at)?;
        let max = self.row.bounds.of(kind, scope);
        // If the settings changed between the looks, the number may be that of a limit which
        // left room: the lock decides.
        if !self.row.bounds.unchanged_since(bounds) {
            return None;
        }
        let obstacle = Obstacle {
            kind,
            scope,
            max,
            ends: Some(ends),
        };
        Some(self.refuse(at, obstacle, ask, 1))
    }

    /// Counts refused questions at the window that is in the way.
    #[inline]
    fn refuse(&self, at: Moment, obstacle: Obstacle, ask: &Ask<'_>, questions: u32) -> Refusal {
        let before = self
            .windows(obstacle.scope)
            .count_refused(obstacle.kind, questions);
        let cause = Cause::LimitExceeded {
            limit: obstacle.limit(),
            max: obstacle.max,
            retry_after: obstacle
                .ends
                .map(|ends| RetryAfter::from_nanos(ends.to_nanos().saturating_sub(at.to_nanos()))),
        };
        Refusal::new(cause, ask.method(Some(obstacle.kind))).counted(before, questions)
    }

    fn windows(&self, scope: Window) -> &Windows {
        match scope {
            Window::Server => &self.row.windows,
            Window::Session => &self.windows,
        }
    }
}
