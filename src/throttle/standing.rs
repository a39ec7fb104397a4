//! What is done with a server's questions, apart from counting them.

use super::Ask;
use crate::{
    limits::ThrottleMode,
    question::QuestionKind,
    sync::{AtomicU32, AtomicU64, Ordering},
};

/// Whether a server's limits hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Those over a limit are refused. Only then are windows ever shut.
    Enforced,
    /// Those over a limit are admitted, and charge nothing.
    Observed,
    /// All are refused.
    Muted,
}

impl Standing {
    pub(super) const fn new(mode: ThrottleMode, muted: bool) -> Self {
        match (mode, muted) {
            (_, true) => Self::Muted,
            (ThrottleMode::Enforce, _) => Self::Enforced,
            (ThrottleMode::Observe, _) => Self::Observed,
        }
    }

    /// The limit under which a window is shut, so that it refuses without the lock.
    pub(super) fn shuts(self, limit: Option<u32>) -> Option<u32> {
        limit.filter(|_| self == Self::Enforced)
    }
}

/// Whether the server is muted. Written under the book's lock; a shield reads it without.
#[derive(Debug)]
pub(super) struct Mute {
    on: AtomicU32,
    /// Refused since it was muted last.
    refused: [AtomicU64; 2],
}

impl Mute {
    pub(super) fn new(on: bool) -> Self {
        Self {
            on: AtomicU32::new(on.into()),
            refused: Default::default(),
        }
    }

    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire) != 0
    }

    /// Mutes the server, or lets it ask again. The caller holds the book's lock.
    pub(super) fn set(&self, on: bool) {
        self.on.store(on.into(), Ordering::Release);
    }

    /// Counts refused questions, and says how many there were before.
    pub(super) fn count_refused(&self, ask: &Ask<'_>) -> u64 {
        let before = QuestionKind::ALL.map(|kind| {
            let questions = u64::from(ask.count(kind));
            self.refused[kind as usize].fetch_add(questions, Ordering::Relaxed)
        });
        before.into_iter().sum()
    }

    /// How many were refused since it was muted last.
    pub(super) fn refused(&self, kind: QuestionKind) -> u64 {
        self.refused[kind as usize].load(Ordering::Relaxed)
    }

    /// Starts a new count, and gives back the last one.
    pub(super) fn take_refused(&self, kind: QuestionKind) -> u64 {
        self.refused[kind as usize].swap(0, Ordering::Relaxed)
    }
}
