//! How many replies are being sent, counted where they end.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::Notify;

/// With this many replies unsent, nothing more is read.
///
/// Only replies count, since those a server can call forth. Were the host's own requests counted,
/// 64 calls over HTTP that each wait for the answer to a question would wait for ever.
pub(super) const MAX_OPEN: usize = 64;

/// The replies whose sending has begun and not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies(Arc<State>);

#[derive(Debug, Default)]
struct State {
    open: AtomicUsize,
    fewer: Notify,
}

impl Replies {
    /// Counts a reply until the guard is dropped: sent, failed or abandoned.
    pub(super) fn open(&self) -> OpenReply {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        OpenReply(Arc::clone(&self.0))
    }

    /// Whether there is room for more.
    pub(super) fn have_room(&self) -> bool {
        self.0.open.load(Ordering::Relaxed) < MAX_OPEN
    }

    /// Waits until there is room. One waiter at a time.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    pub(super) async fn room(&self) {
        while !self.have_room() {
            self.0.fewer.notified().await;
        }
    }
}

/// A reply on its way.
#[derive(Debug)]
pub(super) struct OpenReply(Arc<State>);

impl Drop for OpenReply {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == MAX_OPEN {
            // The notification is kept if nobody waits yet, so none is lost.
            self.0.fewer.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn room_comes_with_the_first_reply_that_ends() {
        let replies = Replies::default();
        let mut open: Vec<_> = (0..MAX_OPEN + 1).map(|_| replies.open()).collect();
        let mut room = Box::pin(replies.room());
        assert_eq!((&mut room).now_or_never(), None);
        open.pop();
        assert_eq!(
            (&mut room).now_or_never(),
            None,
            "{MAX_OPEN} are still open"
        );
        open.pop();
        assert_eq!(room.now_or_never(), Some(()));
        assert!(replies.have_room());
    }
}
