//! A session's stream goes to its server before what the client sends after it.
//!
//! A client opens the stream and calls over two connections. On its own side the first has begun
//! before the second; here both have, and without this the call would often be the first to reach
//! the server, which may then ask on a stream that is not there.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::http::HeaderValue;
use bytes::Bytes;
use futures::future;
use http_body::{Body, Frame, SizeHint};
use tokio::time;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Nothing is held back longer, for a connection that is slow to be made.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// The streams that are not on their way to the server yet, with the ids of their sessions: a row
/// may have several.
#[derive(Debug, Default)]
pub(super) struct Openings(Mutex<Vec<(Option<HeaderValue>, CancellationToken)>>);

impl Openings {
    /// A session's stream is to be opened. It is on its way when what this returns is dropped.
    pub(super) fn begin(&self, session: Option<&HeaderValue>) -> Opening {
        let opening = CancellationToken::new();
        self.pending().push((session.cloned(), opening.clone()));
        Opening {
            _on_its_way: opening.drop_guard(),
        }
    }

    /// Waits until all streams of a session that were to be opened before are on their way, or have
    /// had their time.
    ///
    /// # Cancel safety
    ///
    /// It only waits.
    pub(super) async fn settle(&self, session: Option<&HeaderValue>) {
        let before: Vec<_> = self
            .pending()
            .iter()
            .filter(|(of, _)| of.as_ref() == session)
            .map(|(_, opening)| opening.clone())
            .collect();
        if !before.is_empty() {
            let all = future::join_all(before.iter().map(CancellationToken::cancelled));
            // In vain or not, it goes on.
            let _ = time::timeout(LONGEST_HOLD, all).await;
        }
    }

    fn pending(&self) -> MutexGuard<'_, Vec<(Option<HeaderValue>, CancellationToken)>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, opening)| !opening.is_cancelled());
        all
    }
}

/// A stream that is to be opened, and the empty body of its request: the HTTP client lets go of a
/// body once its request is written to a connection, or cannot be.
#[derive(Debug)]
pub(super) struct Opening {
    _on_its_way: DropGuard,
}

impl Body for Opening {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(0)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::clock;

    #[tokio::test(start_paused = true)]
    async fn what_comes_later_waits_for_those_before_it_and_for_no_other() {
        let openings = Openings::default();
        let id = HeaderValue::from_static("s");
        let id = Some(&id);
        assert!(openings.settle(id).now_or_never().is_some());
        let (first, second) = (openings.begin(id), openings.begin(id));
        let mut later = Box::pin(openings.settle(id));
        assert!(later.as_mut().now_or_never().is_none());
        assert!(openings.settle(None).now_or_never().is_some());
        let _third = openings.begin(id);
        drop(second);
        assert!(later.as_mut().now_or_never().is_none());
        drop(first);
        assert!(later.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_longer_than_a_bound() {
        let openings = Openings::default();
        let _stuck = [openings.begin(None), openings.begin(None)];
        let before = clock::now();
        openings.settle(None).await;
        // The timer's steps are of a millisecond.
        assert_eq!((clock::now() - before).as_secs(), LONGEST_HOLD.as_secs());
    }
}
