//! What a refusal needs of a window without taking the lock.

use crate::{
    question::QuestionKind,
    sync::{AtomicU64, Ordering},
    window::Moment,
};

/// One window's outside. Written under the row's lock, read without it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Until when the window has no room at all; in the past if it has.
    full_until: AtomicU64,
    /// Refused since the window opened.
    refused: AtomicU64,
}

impl Gate {
    /// The end of the window, if it is full at `at`.
    pub(super) fn full_until(&self, at: Moment) -> Option<Moment> {
        let until = Moment::from_nanos(self.full_until.load(Ordering::Acquire));
        (at < until).then_some(until)
    }

    /// Sets until when the window is full. The caller holds the row's lock.
    pub(super) fn set_full_until(&self, until: Moment) {
        self.full_until.store(until.to_nanos(), Ordering::Release);
    }

    /// Counts refused questions, and says how many there were in this window before.
    pub(super) fn count_refused(&self, questions: u32) -> u64 {
        self.refused
            .fetch_add(u64::from(questions), Ordering::Relaxed)
    }

    /// How many were refused since the window opened.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Starts a new window's count, and gives back the last one's.
    pub(super) fn take_refused(&self) -> u64 {
        self.refused.swap(0, Ordering::Relaxed)
    }
}

/// The gates of a session's windows, or of a server's.
#[derive(Debug)]
pub(super) struct Gates {
    session: u64,
    gates: [Gate; 2],
}

impl Gates {
    pub(super) fn new(session: u64) -> Self {
        Self {
            session,
            gates: [Gate::default(), Gate::default()],
        }
    }

    /// The session's number; 0 for a server's gates.
    pub(super) const fn session(&self) -> u64 {
        self.session
    }

    pub(super) const fn of(&self, kind: QuestionKind) -> &Gate {
        &self.gates[kind as usize]
    }
}
