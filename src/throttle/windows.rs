//! The windows of one owner, and what a refusal needs of them without taking the lock.

use crate::{
    question::QuestionKind,
    sync::{AtomicU32, AtomicU64, Ordering},
    window::{FixedWindow, Moment},
};

/// A server's or a session's windows, one of each kind.
///
/// Written under the row's lock only, so a reader under the lock sees whole windows. Without the
/// lock there is one question to ask, [`Shut`], and one count to raise, that of refusals.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// When each window ends, with [`Shut::FULL`].
    ends: [AtomicU64; 2],
    /// Refused since each window opened.
    refused: [AtomicU64; 2],
    used: [AtomicU32; 2],
}

impl Windows {
    /// A whole window. The caller holds the row's lock.
    #[inline]
    pub(super) fn window(&self, kind: QuestionKind) -> FixedWindow {
        let shut = Shut(self.ends[kind as usize].load(Ordering::Relaxed));
        let used = self.used[kind as usize].load(Ordering::Relaxed);
        FixedWindow::ending(shut.ends(), used)
    }

    /// How many were admitted in the last window, whether it is open or not. Without the lock it
    /// is a hint.
    #[inline]
    pub(super) fn last_used(&self, kind: QuestionKind) -> u32 {
        self.used[kind as usize].load(Ordering::Relaxed)
    }

    /// Stores a window, shut if it is full under `limit`. The caller holds the row's lock.
    #[inline]
    pub(super) fn set(&self, kind: QuestionKind, window: FixedWindow, limit: Option<u32>) {
        self.used[kind as usize].store(window.last_used(), Ordering::Relaxed);
        let full = limit.is_some_and(|limit| window.is_full(limit));
        let shut = Shut::new(window.last_ends(), full);
        self.ends[kind as usize].store(shut.0, Ordering::Release);
    }

    /// Stores how many a window has admitted that neither opened nor filled up. The caller holds
    /// the row's lock.
    #[inline]
    pub(super) fn set_used(&self, kind: QuestionKind, used: u32) {
        self.used[kind as usize].store(used, Ordering::Relaxed);
    }

    /// Whether the window is full, and until when.
    #[inline]
    pub(super) fn shut(&self, kind: QuestionKind) -> Shut {
        Shut(self.ends[kind as usize].load(Ordering::Acquire))
    }

    /// Counts refused questions, and says how many there were in this window before.
    #[inline]
    pub(super) fn count_refused(&self, kind: QuestionKind, questions: u32) -> u64 {
        self.refused[kind as usize].fetch_add(u64::from(questions), Ordering::Relaxed)
    }

    /// How many were refused since the window opened.
    pub(super) fn refused(&self, kind: QuestionKind) -> u64 {
        self.refused[kind as usize].load(Ordering::Relaxed)
    }

    /// Starts a new window's count, and gives back the last one's.
    pub(super) fn take_refused(&self, kind: QuestionKind) -> u64 {
        self.refused[kind as usize].swap(0, Ordering::Relaxed)
    }
}

/// A window's end, and whether it has no room left until then, in one word.
///
/// The greater of two is the one that stays full for longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shut(u64);

impl Shut {
    /// No moment has this bit: time ends long before.
    const FULL: u64 = 1 << 63;

    const fn new(ends: Moment, full: bool) -> Self {
        let ends = ends.to_nanos() & !Self::FULL;
        Self(if full { ends | Self::FULL } else { ends })
    }

    /// How long the window stays full, in nanoseconds, if it is full at `at`.
    #[inline]
    pub(super) const fn wait(self, at: Moment) -> Option<u64> {
        // One comparison asks both: a word without the bit is less than any with it.
        let at = at.to_nanos() | Self::FULL;
        if self.0 > at { Some(self.0 - at) } else { None }
    }

    #[inline]
    const fn ends(self) -> Moment {
        Moment::kept(self.0 & !Self::FULL)
    }
}
