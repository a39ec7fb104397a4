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

mod cause;
mod told;

pub use self::{
    cause::{Cause, RetryAfter},
    told::{RefusalData, key},
};
use crate::{
    limits::{LimitName, Scope},
    question::{Method, QuestionKind},
    window::Owner,
};

/// The JSON-RPC code of every refusal: "internal error", the one that peers report as it is.
pub const CODE: i32 = -32603;

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

    /// How many questions its limit has refused in this window, these included. Of a muted server it
    /// is how many since it was muted, and of a full table how many ever.
    #[must_use]
    pub const fn refused_in_window(&self) -> u64 {
        self.refused_before.saturating_add(self.questions as u64)
    }

    /// Whether nothing was [refused](Self::refused_in_window) before, be this one question or a
    /// round: who tells people of these alone tells them once.
    #[must_use]
    pub const fn is_first_in_window(&self) -> bool {
        self.refused_before == 0
    }

    /// The `data` member of the JSON-RPC error.
    #[must_use]
    pub const fn data(&self) -> RefusalData<'_> {
        RefusalData(self)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
}
