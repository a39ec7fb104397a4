//! What the benchmarks share: a throttle told by hand what time it is.

use std::{sync::Arc, time::Instant};

use mcp_question_throttle::{
    limits::{Invalid, Limit, ProtoSettings, ServerName},
    throttle::{Session, Throttle},
};

/// A throttle whose servers and sessions may be asked `server` and `session` times a minute, for
/// either kind.
///
/// # Errors
///
/// A limit above 1 000 000.
pub fn throttle(server: u32, session: u32, now: Instant) -> Result<Arc<Throttle>, Invalid> {
    let (server, session) = (Limit::new(server)?, Limit::new(session)?);
    let settings = ProtoSettings::default()
        .with_sampling_per_minute(server)
        .with_sampling_session_per_minute(session)
        .with_elicitation_per_minute(server)
        .with_elicitation_session_per_minute(session);
    Ok(Arc::new(Throttle::new(settings, now)))
}

/// A session of the server of that number.
///
/// # Panics
///
/// Never: the name is valid.
#[must_use]
pub fn session(throttle: &Arc<Throttle>, server: usize) -> Session {
    let name = ServerName::new(format!("server {server}")).expect("a valid name");
    throttle.session(name)
}
