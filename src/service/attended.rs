//! A handler at work: until it answers, its time is up, or its grace after a cancellation is.
//!
//! Written by hand, because the size of this future is paid for with every question: rmcp moves
//! it several times, and an `async` block holds its arguments twice.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::{task::unconstrained, time::sleep};
use tokio_util::sync::CancellationToken;

/// How long a handler may go on after its token has fired (D9).
pub const GRACE: Duration = Duration::from_secs(5);

pin_project! {
    /// A handler's future, which is dropped as soon as nobody waits for its answer any more.
    #[derive(Debug)]
    pub(super) struct Attended<F> {
        #[pin]
        handler: Option<F>,
        token: CancellationToken,
        // Only a handler that is not ready at once has one: nearly all of a question's time is
        // spent there, and hardly any of its instructions.
        watch: Option<Watch>,
    }
}

/// Waits for what ends a handler.
struct Watch(Pin<Box<dyn Future<Output = Unready> + Send>>);

/// How a handler ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending<T> {
    /// By itself.
    Ready(T),
    /// In any other way.
    Unready(Unready),
}

/// Why a handler was not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unready {
    /// Its token had fired, and [`GRACE`] has passed.
    Cancelled,
    /// It had this long. Its token fires now.
    Expired(Duration),
}

impl<F> Attended<F> {
    /// Drops the handler, if it is still there.
    pub(super) fn abandon(self: Pin<&mut Self>) {
        self.project().handler.set(None);
    }
}

impl<F: Future> Attended<F> {
    /// A handler whose context holds `token`.
    #[inline]
    pub(super) const fn new(handler: F, token: CancellationToken) -> Self {
        Self {
            handler: Some(handler),
            token,
            watch: None,
        }
    }

    /// Polls the handler, which may take as long as `ttl` says when it turns out that it is not
    /// ready at once. Not to be called again after the ending.
    #[inline]
    pub(super) fn poll_ending(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        ttl: impl FnOnce() -> Option<Duration>,
    ) -> Poll<Ending<F::Output>> {
        let mut this = self.project();
        if let Some(handler) = this.handler.as_mut().as_pin_mut()
            && let Poll::Ready(answer) = handler.poll(context)
        {
            return Poll::Ready(Ending::Ready(answer));
        }
        let watch = this
            .watch
            .get_or_insert_with(|| Watch::new(this.token.clone(), ttl()));
        let why = ready!(watch.0.as_mut().poll(context));
        if let Unready::Expired(_) = why {
            // The handler, and what it has spawned, can see why its future is dropped.
            this.token.cancel();
        }
        this.handler.set(None);
        Poll::Ready(Ending::Unready(why))
    }
}

impl Watch {
    fn new(token: CancellationToken, ttl: Option<Duration>) -> Self {
        // A handler that is never idle uses up what tokio lets its task do in one go, and the watch
        // has to see the time all the same.
        Self(Box::pin(unconstrained(async move {
            tokio::select! {
                // A token that has fired by then means that the grace is running.
                biased;
                () = token.cancelled() => {}
                ttl = expiry(ttl) => return Unready::Expired(ttl),
            }
            sleep(GRACE).await;
            Unready::Cancelled
        })))
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

async fn expiry(ttl: Option<Duration>) -> Duration {
    match ttl {
        Some(ttl) => {
            sleep(ttl).await;
            ttl
        }
        None => std::future::pending().await,
    }
}

pin_project! {
    /// A handler that may take any time as long as its token has not fired.
    pub(super) struct WithGrace<F> {
        #[pin]
        handler: Attended<F>,
    }
}

impl<F: Future> WithGrace<F> {
    pub(super) const fn new(handler: F, token: CancellationToken) -> Self {
        Self {
            handler: Attended::new(handler, token),
        }
    }
}

impl<F: Future> Future for WithGrace<F> {
    /// `None` if the handler had to be given up.
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ending = ready!(self.project().handler.poll_ending(context, || None));
        Poll::Ready(match ending {
            Ending::Ready(answer) => Some(answer),
            Ending::Unready(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Outside of a runtime a timer would panic, and most questions need none.
    #[test]
    fn a_handler_that_is_ready_at_once_needs_no_timer() {
        let ready = WithGrace::new(std::future::ready(4), CancellationToken::new());
        assert_eq!(ready.now_or_never(), Some(Some(4)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_handler_is_dropped_after_its_grace() {
        let token = CancellationToken::new();
        let handler = WithGrace::new(std::future::pending::<()>(), token.clone());
        let began = crate::clock::now();
        token.cancel();
        assert_eq!(handler.await, None);
        assert_eq!(crate::clock::now() - began, GRACE);
    }
}
