//! The sends that have begun and not ended, so that reading can wait for them, and closing need
//! not.
//!
//! Reading cannot wait for them without end: rmcp's HTTP transport sends nothing while it holds a
//! message that is not read. So a little is read all the same while no reply ends.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// With this many replies unsent, no more is read than [`MAX_BEYOND`] allows.
///
/// Only replies count, since those a server can call forth. Were the host's own requests counted,
/// 64 calls over HTTP that each wait for the answer to a question would wait for ever.
const MAX_REPLIES: usize = 64;

/// How many messages are read beyond that while no reply ends. Each gives a transport that sends
/// and reads in turns a turn, of which any may be for sending.
const MAX_BEYOND: usize = 64;
/// How long each of them is waited for a reply to end.
const STALL: Duration = Duration::from_millis(5);

/// All open sends of one transport.
#[derive(Debug, Default)]
pub(super) struct Sends {
    state: Arc<State>,
    stall: Stall,
}

/// What was read while there was no room.
#[derive(Debug, Default)]
struct Stall {
    /// How many replies had ended then.
    ended: usize,
    read: usize,
    /// One more may be read.
    is_due: bool,
}

#[derive(Debug, Default)]
struct State {
    replies: AtomicUsize,
    /// How many have ended while there was no room.
    ended: AtomicUsize,
    fewer: Notify,
    closed: CancellationToken,
}

impl Sends {
    /// Counts a reply until it is sent, has failed or is given up.
    pub(super) fn begin_reply(&self) -> OpenSend {
        self.state.replies.fetch_add(1, Ordering::Relaxed);
        OpenSend {
            state: Arc::clone(&self.state),
            is_reply: true,
        }
    }

    /// A request or notification of the host.
    pub(super) fn begin(&self) -> OpenSend {
        OpenSend {
            state: Arc::clone(&self.state),
            is_reply: false,
        }
    }

    /// Whether there is room for more replies.
    pub(super) fn have_room(&self) -> bool {
        self.state.replies.load(Ordering::Relaxed) < MAX_REPLIES
    }

    async fn room(&self) {
        while !self.have_room() {
            self.state.fewer.notified().await;
        }
    }

    /// Whether one message may be read although there is no room. It is to be told of.
    pub(super) const fn may_read_beyond(&self) -> bool {
        self.stall.is_due
    }

    /// One was read that way.
    pub(super) const fn read_beyond(&mut self) {
        self.stall.is_due = false;
        self.stall.read += 1;
    }

    /// Waits until there is room, or one message more may be read if `reads` at all. One waiter at
    /// a time.
    ///
    /// # Cancel safety
    ///
    /// Safe: it waits anew.
    pub(super) async fn room_or_stall(&mut self, reads: bool) {
        let ended = self.state.ended.load(Ordering::Relaxed);
        if ended != self.stall.ended {
            self.stall = Stall {
                ended,
                ..Stall::default()
            };
        }
        if !reads || self.stall.is_due {
            return self.room().await;
        }
        if self.stall.read >= MAX_BEYOND {
            // With a reply that ends, it goes on.
            return self.state.fewer.notified().await;
        }
        tokio::select! {
            biased;
            () = self.room() => return,
            () = tokio::time::sleep(STALL) => {}
        }
        self.stall.is_due = true;
    }

    /// Has all open sends let go of the transport.
    pub(super) fn close(&self) {
        self.state.closed.cancel();
    }
}

/// A send on its way.
#[derive(Debug)]
pub(super) struct OpenSend {
    state: Arc<State>,
    is_reply: bool,
}

impl OpenSend {
    /// Waits for the send. If the transport is closed meanwhile, the send is dropped and this
    /// never returns: there is no result to give, and the service is gone that asked for it.
    pub(super) const fn finish<F: Future>(self, send: F) -> Finish<F> {
        Finish {
            send: Some(send),
            open: self,
            closed: None,
        }
    }
}

pin_project! {
    /// A send on its way, written by hand: an `async` block would hold the message twice, and rmcp
    /// moves it for every reply.
    pub(super) struct Finish<F> {
        #[pin]
        send: Option<F>,
        open: OpenSend,
        // Most transports take a message at once, and then nothing needs to be waited for.
        closed: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    }
}

impl<F: Future> Future for Finish<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(send) = this.send.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        if let Poll::Ready(sent) = send.poll(context) {
            return Poll::Ready(sent);
        }
        let state = &this.open.state;
        let closed = this
            .closed
            .get_or_insert_with(|| Box::pin(state.closed.clone().cancelled_owned()));
        if closed.as_mut().poll(context).is_ready() {
            this.send.set(None);
        }
        Poll::Pending
    }
}

impl Drop for OpenSend {
    fn drop(&mut self) {
        if !self.is_reply {
            return;
        }
        if self.state.replies.fetch_sub(1, Ordering::Relaxed) >= MAX_REPLIES {
            self.state.ended.fetch_add(1, Ordering::Relaxed);
            // The notification is kept if nobody waits yet, so none is lost.
            self.state.fewer.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn room_comes_with_the_first_reply_that_ends() {
        let sends = Sends::default();
        let _requests: Vec<_> = (0..100).map(|_| sends.begin()).collect();
        assert!(sends.have_room(), "only replies count");
        let mut open: Vec<_> = (0..=MAX_REPLIES).map(|_| sends.begin_reply()).collect();
        let mut room = Box::pin(sends.room());
        assert_eq!((&mut room).now_or_never(), None);
        open.pop();
        assert_eq!(
            (&mut room).now_or_never(),
            None,
            "{MAX_REPLIES} are still open"
        );
        open.pop();
        assert_eq!(room.now_or_never(), Some(()));
        assert!(sends.have_room());
    }
}
