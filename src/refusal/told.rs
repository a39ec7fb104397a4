//! What a refusal says: its text, and the members of its `data`.

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{CODE, Cause, Refusal};
use crate::{limits::LimitName, window::WINDOW};

/// Names of the `data` object's members.
pub mod key {
    /// Which kind of refusal this is.
    pub const CAUSE: &str = "cause";
    /// The setting that stands in the way.
    pub const LIMIT: &str = "limit";
    /// What that setting bounds: `server`, `session`, `call`, `question` or `limiter`.
    pub const SCOPE: &str = "scope";
    /// The question's method; of the call for `rounds_exceeded`.
    pub const METHOD: &str = "method";
    /// The setting's value.
    pub const MAX: &str = "max";
    /// The length of the window in seconds.
    pub const WINDOW_SECONDS: &str = "windowSeconds";
    /// When to ask again, in whole seconds; absent if asking the same again can never fit.
    pub const RETRY_AFTER_SECONDS: &str = "retryAfterSeconds";
    /// How long the question was open, in seconds.
    pub const TTL_SECONDS: &str = "ttlSeconds";
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Cause::LimitExceeded {
                limit,
                max,
                retry_after,
            } => {
                write!(f, "question refused: {limit} allows {max} per minute")?;
                match retry_after {
                    Some(retry) => write!(f, "; retry in {} s", retry.as_secs()),
                    None => write!(
                        f,
                        ", which {} questions at once can never fit; do not retry, ask for fewer",
                        self.questions
                    ),
                }
            }
            Cause::LimiterSaturated { retry_after } => {
                f.write_str("question refused: the table of servers is full")?;
                match retry_after {
                    Some(retry) => write!(f, "; retry in {} s at the earliest", retry.as_secs()),
                    None => Ok(()),
                }
            }
            Cause::RoundsExceeded { max } => write!(
                f,
                "call ended: {} allows {max} rounds per call",
                LimitName::AskRounds
            ),
            Cause::QuestionExpired { ttl } => write!(
                f,
                "question expired: nobody answered within {} of {} s",
                LimitName::AskTtl,
                ttl.as_secs()
            ),
            Cause::ServerMuted => f.write_str(
                "question refused: this server is muted, so do not ask again before somebody \
                 undoes that",
            ),
            Cause::Internal => f.write_str("question refused: the throttle has failed"),
        }
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut error = serializer.serialize_map(Some(3))?;
        error.serialize_entry("code", &CODE)?;
        error.serialize_entry("message", &format_args!("{self}"))?;
        error.serialize_entry("data", &self.data())?;
        error.end()
    }
}

/// The `data` member of a refusal on the wire.
#[derive(Clone, Copy, Debug)]
pub struct RefusalData<'a>(pub(super) &'a Refusal);

impl Serialize for RefusalData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refusal = self.0;
        let mut data = serializer.serialize_map(None)?;
        data.serialize_entry(key::CAUSE, refusal.cause().as_str())?;
        if let Some(limit) = refusal.limit() {
            data.serialize_entry(key::LIMIT, limit.as_str())?;
        }
        if let Some(scope) = refusal.scope() {
            data.serialize_entry(key::SCOPE, scope.as_str())?;
        }
        if let Some(method) = &refusal.method {
            data.serialize_entry(key::METHOD, method.as_str())?;
        }
        match refusal.cause() {
            Cause::LimitExceeded { max, .. } => {
                data.serialize_entry(key::MAX, &max)?;
                data.serialize_entry(key::WINDOW_SECONDS, &WINDOW.as_secs())?;
            }
            Cause::RoundsExceeded { max } => data.serialize_entry(key::MAX, &max)?,
            Cause::QuestionExpired { ttl } => {
                data.serialize_entry(key::TTL_SECONDS, &ttl.as_secs())?;
            }
            Cause::LimiterSaturated { .. } | Cause::ServerMuted | Cause::Internal => {}
        }
        if let Some(retry) = refusal.retry_after() {
            data.serialize_entry(key::RETRY_AFTER_SECONDS, &retry.as_secs())?;
        }
        data.end()
    }
}
