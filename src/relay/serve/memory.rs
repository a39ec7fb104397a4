//! How much of messages is held, over all connections.
//!
//! Nobody waits for room here: two that hold half a message each would wait for one another. What
//! finds no room goes another way at once.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::events::KEPT;
use crate::limits::ServerName;

/// The bytes of messages that a relay holds at once, unless it is told otherwise.
pub const DEFAULT_MEMORY: usize = 256 * 1024 * 1024;
/// What every holder has without asking: what is small passes in any case.
pub(super) const FREE: usize = KEPT;

/// What one server's messages may take, of its own share and of what all servers have.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    all: Arc<Semaphore>,
    share: Arc<Semaphore>,
    shortages: Arc<AtomicU64>,
}

impl Memory {
    /// For each of `servers` servers, so that none can take all of `bytes`: half, or the whole if
    /// there is one.
    pub(super) fn shared(bytes: usize, servers: usize) -> impl Fn() -> Self {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        let share = if servers > 1 { bytes / 2 } else { bytes };
        let all = Arc::new(Semaphore::new(bytes));
        move || Self {
            all: Arc::clone(&all),
            share: Arc::new(Semaphore::new(share)),
            shortages: Arc::default(),
        }
    }

    /// Nothing yet, with so much free that is small.
    pub(super) fn hold(&self) -> Held {
        self.hold_beyond(FREE)
    }

    /// Nothing yet, with so many bytes free.
    pub(super) fn hold_beyond(&self, free: usize) -> Held {
        Held {
            memory: self.clone(),
            free,
            permits: None,
        }
    }

    /// How often there was no room.
    pub(super) fn shortages(&self) -> u64 {
        self.shortages.load(Ordering::Relaxed)
    }

    /// Says that there was no room, and what comes of it.
    pub(super) fn tell(&self, server: &ServerName, outcome: &dyn fmt::Display) {
        let count = self.shortages.fetch_add(1, Ordering::Relaxed) + 1;
        // The 1st, 10th, 100th, ...
        if count == 10_u64.pow(count.ilog10()) {
            tracing::warn!(
                server = server.as_str(),
                shortages = count,
                "too much of messages is held at once (--memory): {outcome}"
            );
        }
    }

    fn take(&self, bytes: usize) -> Option<Permits> {
        let bytes = u32::try_from(bytes).ok()?;
        Some(Permits {
            share: Arc::clone(&self.share).try_acquire_many_owned(bytes).ok()?,
            all: Arc::clone(&self.all).try_acquire_many_owned(bytes).ok()?,
        })
    }
}

/// What one message takes; nothing any more once it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    memory: Memory,
    free: usize,
    permits: Option<Permits>,
}

impl Held {
    /// Counts `bytes` from now on, whether it was more before or less. If there is no room for
    /// more, all stays as it was, and it is `false`.
    #[must_use]
    pub(super) fn cover(&mut self, bytes: usize) -> bool {
        let (needed, has) = (bytes.saturating_sub(self.free), self.size());
        if needed > has {
            let Some(more) = self.memory.take(needed - has) else {
                return false;
            };
            match &mut self.permits {
                Some(permits) => permits.merge(more),
                None => self.permits = Some(more),
            }
        } else if needed < has {
            drop(self.split(has - needed));
        }
        true
    }

    /// What was counted for `bytes` goes with them, until the last copy of them is dropped.
    pub(super) fn give(&mut self, bytes: Vec<u8>) -> Bytes {
        match self.split(bytes.capacity().saturating_sub(self.free)) {
            Some(permits) => Bytes::from_owner(Counted {
                bytes,
                _permits: permits,
            }),
            None => bytes.into(),
        }
    }

    fn size(&self) -> usize {
        self.permits.as_ref().map_or(0, Permits::size)
    }

    /// So many, or all that there are.
    fn split(&mut self, bytes: usize) -> Option<Permits> {
        if bytes >= self.size() {
            return self.permits.take();
        }
        self.permits.as_mut()?.split(bytes)
    }
}

#[derive(Debug)]
struct Permits {
    share: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Permits {
    fn size(&self) -> usize {
        self.all.num_permits()
    }

    fn merge(&mut self, more: Self) {
        self.share.merge(more.share);
        self.all.merge(more.all);
    }

    fn split(&mut self, bytes: usize) -> Option<Self> {
        if bytes == 0 {
            return None;
        }
        Some(Self {
            share: self.share.split(bytes)?,
            all: self.all.split(bytes)?,
        })
    }
}

/// Bytes with what is counted for them.
struct Counted {
    bytes: Vec<u8>,
    _permits: Permits,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn bytes(capacity: usize) -> Vec<u8> {
        Vec::with_capacity(capacity)
    }

    #[test]
    fn what_is_small_needs_no_room() {
        let memory = Memory::shared(0, 1)();
        let mut held = memory.hold();
        assert!(held.cover(FREE));
        assert!(!held.cover(FREE + 1));
        assert_eq!(held.give(vec![b'x'; FREE]).len(), FREE);
    }

    #[test]
    fn room_that_is_given_back_is_there_for_others() {
        let memory = Memory::shared(100 * KIB, 1)();
        let (mut one, mut two) = (memory.hold(), memory.hold());
        assert!(one.cover(FREE + 60 * KIB));
        assert!(!two.cover(FREE + 60 * KIB));
        assert!(two.cover(FREE + 40 * KIB));
        assert!(!one.cover(FREE + 60 * KIB + 1), "all of it is taken");
        assert!(one.cover(FREE + 10 * KIB));
        assert!(two.cover(FREE + 90 * KIB));
        drop(two);
        assert!(one.cover(FREE + 100 * KIB));
    }

    #[test]
    fn bytes_are_counted_until_their_last_copy_is_gone() {
        let memory = Memory::shared(100 * KIB, 1)();
        let (mut one, mut two) = (memory.hold(), memory.hold());
        assert!(one.cover(FREE + 100 * KIB));
        let given = one.give(bytes(FREE + 80 * KIB));
        let copy = given.clone();
        assert!(one.cover(0));
        drop((one, given));
        assert!(two.cover(FREE + 20 * KIB));
        assert!(!two.cover(FREE + 21 * KIB));
        drop(copy);
        assert!(two.cover(FREE + 100 * KIB));
    }

    #[test]
    fn one_of_several_servers_gets_half() {
        let memory = Memory::shared(100 * KIB, 3);
        let (mut one, mut two, mut three) = (memory().hold(), memory().hold(), memory().hold());
        assert!(!one.cover(FREE + 50 * KIB + 1));
        assert!(one.cover(FREE + 50 * KIB));
        assert!(two.cover(FREE + 40 * KIB));
        assert!(!three.cover(FREE + 11 * KIB), "all servers share the rest");
        assert!(three.cover(FREE + 10 * KIB));
    }
}
