//! The limits of a configured server, which a refusal reads without its lock.

use crate::{
    limits::{Limit, ProtoSettings},
    question::QuestionKind,
    refusal::limit_of,
    sync::{AtomicU32, Ordering},
    window::Owner,
};

/// The limits in force, per kind, for the server and for each session; 0 is off. Written under
/// the book's lock; a refusal reads the number it names without it.
#[derive(Debug)]
pub(super) struct Bounds {
    limits: [[AtomicU32; 2]; 2],
    /// How often they changed. It goes up after the windows that the old limits shut were opened,
    /// and before the new limits are there: a window that is found shut, and a limit that is read
    /// after it, belong together if this is the same before and after both.
    changes: AtomicU32,
}

impl Bounds {
    pub(super) fn new(settings: &ProtoSettings) -> Self {
        Self {
            limits: limits_in(settings).map(|owners| owners.map(AtomicU32::new)),
            changes: AtomicU32::new(0),
        }
    }

    /// Puts new limits in force. The caller holds the book's lock, and has opened the windows
    /// that the old ones shut.
    pub(super) fn replace(&self, settings: &ProtoSettings) {
        self.changes.fetch_add(1, Ordering::Release);
        let new = limits_in(settings);
        for (limit, new) in self.limits.iter().flatten().zip(new.into_iter().flatten()) {
            limit.store(new, Ordering::Release);
        }
    }

    /// How often the limits changed.
    #[inline]
    pub(super) fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether a window found shut since [`changes`](Self::changes) was asked, and the limit read
    /// after it, belong together.
    #[inline]
    pub(super) fn unchanged_since(&self, changes: u32) -> bool {
        // The reads in between acquire: whichever of them met a change's release sees its count.
        self.changes.load(Ordering::Relaxed) == changes
    }

    /// The limit as a plain number: 0 is off.
    pub(super) fn of(&self, kind: QuestionKind, owner: Owner) -> u32 {
        self.limits[kind as usize][owner as usize].load(Ordering::Acquire)
    }

    /// The limit, unless it is off.
    pub(super) fn bound(&self, kind: QuestionKind, owner: Owner) -> Option<u32> {
        match self.of(kind, owner) {
            0 => None,
            bound => Some(bound),
        }
    }
}

fn limits_in(settings: &ProtoSettings) -> [[u32; 2]; 2] {
    QuestionKind::ALL.map(|kind| {
        [Owner::Server, Owner::Session].map(|owner| {
            settings
                .window_limit(limit_of(kind, owner))
                .map_or(0, Limit::get)
        })
    })
}
