//! Refusals: their causes, the keys of their `data`, and their text, all defined here.
//!
//! On the wire a refusal is a JSON-RPC error with the code [`CODE`]; `data` is the contract, and
//! `data.cause` says which of these it is:
//!
//! | cause | beside `cause` |
//! |---|---|
//! | `limit_exceeded` | `limit`, `scope`, `method`, `max`, `windowSeconds`, `retryAfterSeconds` |
//! | `limiter_saturated` | `scope`, `method`, `retryAfterSeconds` |
//! | `rounds_exceeded` | `limit`, `scope`, `method`, `max` |
//! | `question_expired` | `limit`, `scope`, `method`, `ttlSeconds` |
//! | `server_muted` | `scope`, `method` |
//! | `internal` | |

use std::{fmt, num::NonZeroU8, time::Duration};

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    limits::{LimitName, Scope},
    question::{Method, QuestionKind},
    window::{Owner, WINDOW},
};

/// The JSON-RPC code of every refusal: "internal error", the one that peers report as it is.
pub const CODE: i32 = -32603;

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

/// How long to wait before asking again: whole seconds, rounded up, 1 to 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(NonZeroU8);

impl RetryAfter {
    /// Rounds `wait` up to whole seconds, at least 1 and at most the length of a window.
    #[must_use]
    pub fn from_wait(wait: Duration) -> Self {
        Self::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same for a wait in nanoseconds.
    #[inline]
    pub(crate) fn from_nanos(wait: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let longest = WINDOW.as_secs() * SECOND;
        // The first second begins after nothing, and the 60th ends at `longest`.
        let begun = wait.min(longest).saturating_sub(1) / SECOND;
        Self(NonZeroU8::MIN.saturating_add(begun as u8))
    }

    /// The wait in seconds.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0.get() as u64
    }
}

impl From<RetryAfter> for Duration {
    fn from(retry: RetryAfter) -> Self {
        Self::from_secs(retry.as_secs())
    }
}

/// Why a question was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// What is left in a window is less than what is asked.
    LimitExceeded {
        /// The limit in the way; of several, the one whose window ends last.
        limit: LimitName,
        /// Its value.
        max: u32,
        /// `None` if more was asked at once than the limit allows in any window.
        retry_after: Option<RetryAfter>,
    },
    /// The table of servers is full (D10).
    LimiterSaturated {
        /// A lower bound; `None` while every row has a session.
        retry_after: Option<RetryAfter>,
    },
    /// The call needed more rounds than `proto.askRounds` (D8).
    RoundsExceeded {
        /// The setting's value.
        max: u32,
    },
    /// Nobody answered within `proto.askTTL` (D9).
    QuestionExpired {
        /// The setting's value.
        ttl: Duration,
    },
    /// The operator has muted the server: every question of it is refused until that is undone.
    ServerMuted,
    /// A state that cannot be: refused to be safe (D13).
    Internal,
}

impl Cause {
    /// The value of `data.cause`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::LimiterSaturated { .. } => "limiter_saturated",
            Self::RoundsExceeded { .. } => "rounds_exceeded",
            Self::QuestionExpired { .. } => "question_expired",
            Self::ServerMuted => "server_muted",
            Self::Internal => "internal",
        }
    }
}

/// A refused question: what its server, or the caller of a refused round, is told.
///
/// It names no configured server and holds nothing of the question, so it can be sent as it is.
/// It serialises to the JSON-RPC error object. Whether an error is a refusal of ours is known by
/// this type, never by looking at `data`, which a server or a handler can copy.
#[derive(Clone, Debug)]
pub struct Refusal {
    why: Why,
    method: Option<Method>,
    questions: u32,
    refused_before: u64,
}

/// The limit on a window.
pub(crate) const fn limit_of(kind: QuestionKind, owner: Owner) -> LimitName {
    match owner {
        Owner::Server => LimitName::per_server(kind),
        Owner::Session => LimitName::per_session(kind),
    }
}

/// A cause as a refusal keeps it: a flood's refusals are made by the million and most are never
/// read, so what can be worked out from it is worked out on reading.
#[derive(Clone, Copy, Debug)]
enum Why {
    Limit {
        kind: QuestionKind,
        owner: Owner,
        max: u32,
        /// In nanoseconds; `None` if asking again can never fit.
        wait: Option<u64>,
    },
    Other(Cause),
}

impl Refusal {
    /// A limit is in the way, for so many nanoseconds or for ever; it refuses `questions` here,
    /// and refused `before` in the same window.
    #[inline]
    pub(crate) const fn by_limit(
        kind: QuestionKind,
        owner: Owner,
        max: u32,
        wait: Option<u64>,
        method: Method,
        before: u64,
        questions: u32,
    ) -> Self {
        Self {
            why: Why::Limit {
                kind,
                owner,
                max,
                wait,
            },
            method: Some(method),
            questions,
            refused_before: before,
        }
    }

    pub(crate) const fn new(cause: Cause, method: Method) -> Self {
        Self {
            why: Why::Other(cause),
            method: Some(method),
            questions: 1,
            refused_before: 0,
        }
    }

    /// Says how many questions this refuses, and how many its limit refused before.
    #[inline]
    pub(crate) const fn counted(mut self, before: u64, questions: u32) -> Self {
        self.refused_before = before;
        self.questions = questions;
        self
    }

    pub(crate) const fn internal() -> Self {
        Self {
            why: Why::Other(Cause::Internal),
            method: None,
            questions: 1,
            refused_before: 0,
        }
    }

    /// Whether a server would be told the same.
    #[inline]
    pub(crate) fn reads_like(&self, other: &Self) -> bool {
        let is_same_cause = match (self.why, other.why) {
            // What a flood brings, without the names of its limits.
            (
                Why::Limit {
                    kind,
                    owner,
                    max,
                    wait,
                },
                Why::Limit {
                    kind: other_kind,
                    owner: other_owner,
                    max: other_max,
                    wait: other_wait,
                },
            ) => {
                (kind, owner, max) == (other_kind, other_owner, other_max)
                    && wait.map(RetryAfter::from_nanos) == other_wait.map(RetryAfter::from_nanos)
                    // Of what can never fit, the number is told.
                    && (wait.is_some() || self.questions == other.questions)
            }
            _ => self.cause() == other.cause(),
        };
        is_same_cause && self.method == other.method
    }

    /// Why.
    #[inline]
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self.why {
            Why::Limit {
                kind,
                owner,
                max,
                wait,
            } => Cause::LimitExceeded {
                limit: limit_of(kind, owner),
                max,
                retry_after: wait.map(RetryAfter::from_nanos),
            },
            Why::Other(cause) => cause,
        }
    }

    /// The setting in the way, if it is one.
    #[must_use]
    pub fn limit(&self) -> Option<LimitName> {
        match self.cause() {
            Cause::LimitExceeded { limit, .. } => Some(limit),
            Cause::RoundsExceeded { .. } => Some(LimitName::AskRounds),
            Cause::QuestionExpired { .. } => Some(LimitName::AskTtl),
            Cause::LimiterSaturated { .. } | Cause::ServerMuted | Cause::Internal => None,
        }
    }

    /// The kind that the limit in the way bounds, if it bounds one.
    #[must_use]
    pub fn kind(&self) -> Option<QuestionKind> {
        self.limit().and_then(LimitName::kind)
    }

    /// What the refusal is about: the limit's scope, or the limiter itself.
    #[must_use]
    pub fn scope(&self) -> Option<Scope> {
        match self.cause() {
            Cause::LimiterSaturated { .. } => Some(Scope::Limiter),
            Cause::ServerMuted => Some(Scope::Server),
            _ => self.limit().map(LimitName::scope),
        }
    }

    /// When to ask again; `None` if there is no such time.
    #[must_use]
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self.cause() {
            Cause::LimitExceeded { retry_after, .. } | Cause::LimiterSaturated { retry_after } => {
                retry_after
            }
            _ => None,
        }
    }

    /// The refused question's method; for `rounds_exceeded`, the call's.
    #[must_use]
    pub const fn method(&self) -> Option<&Method> {
        self.method.as_ref()
    }

    /// How many questions were refused here at once: more than one for a round.
    #[must_use]
    pub const fn questions(&self) -> u32 {
        self.questions
    }

    /// How many questions its limit has refused in this window, these included.
    #[must_use]
    pub const fn refused_in_window(&self) -> u64 {
        self.refused_before.saturating_add(self.questions as u64)
    }

    /// The `data` member of the JSON-RPC error.
    #[must_use]
    pub const fn data(&self) -> RefusalData<'_> {
        RefusalData(self)
    }
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

/// Two refusals are equal if they say the same: nobody is told the nanoseconds.
impl PartialEq for Refusal {
    fn eq(&self, other: &Self) -> bool {
        self.reads_like(other)
            && self.questions == other.questions
            && self.refused_before == other.refused_before
    }
}

impl Eq for Refusal {}

impl std::error::Error for Refusal {}

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
pub struct RefusalData<'a>(&'a Refusal);

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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cause: Cause) -> Refusal {
        Refusal::new(cause, QuestionKind::Sampling.into())
    }

    #[test]
    fn every_cause_on_the_wire() {
        let retry = Some(RetryAfter::from_wait(Duration::from_millis(36_001)));
        let all = [
            refused(Cause::LimitExceeded {
                limit: LimitName::SamplingSessionPerMinute,
                max: 20,
                retry_after: retry,
            }),
            refused(Cause::LimitExceeded {
                limit: LimitName::SamplingPerMinute,
                max: 60,
                retry_after: None,
            })
            .counted(0, 61),
            refused(Cause::LimiterSaturated { retry_after: retry }),
            refused(Cause::LimiterSaturated { retry_after: None }),
            Refusal::new(
                Cause::RoundsExceeded { max: 8 },
                Method::protocol("tools/call"),
            ),
            refused(Cause::QuestionExpired {
                ttl: Duration::from_secs(300),
            }),
            refused(Cause::ServerMuted),
            Refusal::internal(),
        ];
        let wire: Vec<_> = all
            .iter()
            .map(|refusal| serde_json::to_string(refusal).unwrap())
            .collect();
        insta::assert_snapshot!(wire.join("\n"));
    }

    #[test]
    fn retry_after_is_whole_seconds_from_1_to_60() {
        let seconds = |nanos| RetryAfter::from_wait(Duration::from_nanos(nanos)).as_secs();
        assert_eq!(seconds(0), 1);
        assert_eq!(seconds(1), 1);
        assert_eq!(seconds(1_000_000_000), 1);
        assert_eq!(seconds(1_000_000_001), 2);
        assert_eq!(seconds(60_000_000_000), 60);
        assert_eq!(seconds(u64::MAX), 60);
    }
}
