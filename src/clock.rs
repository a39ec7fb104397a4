//! The only place that asks for the time: tokio's clock, so that a paused test controls it.

use std::time::Instant;

/// The present instant.
///
/// A host that admits questions of its own through [`Session::admit`](crate::throttle::Session::admit)
/// takes its time from here as well.
#[must_use]
pub fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    tokio::time::Instant::now().into_std()
}
