//! How a question arrived, and what came of it: the words of logs, usage and metrics.

use std::fmt;

use serde::{Serialize, Serializer};

/// How a question arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Door {
    /// A JSON-RPC request of the server.
    ServerRequest,
    /// A question sent as a notification.
    WithoutId,
    /// An `input_required` round of a call.
    Round,
    /// The input requests of a task, polled or notified.
    Task,
    /// An error that asks to open URLs.
    UrlElicitationRequired,
    /// The embedder asked on a server's behalf.
    Host,
}

impl Door {
    /// The word used in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServerRequest => "server_request",
            Self::WithoutId => "without_id",
            Self::Round => "round",
            Self::Task => "task",
            Self::UrlElicitationRequired => "url_elicitation_required",
            Self::Host => "host",
        }
    }
}

/// Whether a question belongs to a call that the user made: a `tools/call`, `prompts/get` or
/// `resources/read`.
///
/// It is for people to look at, and no decision rests on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// It came in the answer to a call or to the poll of a task, on the stream of a call over
    /// HTTP, or over a pipe while a call was open.
    InCall,
    /// It came while no call was open, or on a stream that belongs to none. An open
    /// `subscriptions/listen` is no call.
    Background,
    /// The transport cannot tell, or nobody has watched it.
    Unknown,
}

impl Origin {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::InCall, Self::Background, Self::Unknown];

    /// The word used in logs, usage and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InCall => "in_call",
            Self::Background => "background",
            Self::Unknown => "unknown",
        }
    }
}

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It was admitted.
    Admitted,
    /// It was admitted, and would have been refused if limits were enforced.
    WouldRefuse,
    /// It was refused.
    Refused,
}

impl Outcome {
    /// The word used in logs, usage and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::WouldRefuse => "would_refuse",
            Self::Refused => "refused",
        }
    }
}

macro_rules! words {
    ($($type:ty)*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )*};
}

words! { Door Origin Outcome }

/// Where a question came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) door: Door,
    pub(crate) origin: Origin,
}

impl Arrival {
    pub(crate) const fn new(door: Door, origin: Origin) -> Self {
        Self { door, origin }
    }

    /// In the answer to a call of the client's.
    pub(crate) const fn in_answer(door: Door) -> Self {
        Self::new(door, Origin::InCall)
    }

    /// Asked by the embedder, who knows more than we do.
    pub(crate) const HOST: Self = Self::new(Door::Host, Origin::Unknown);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Scope;

    /// An observer that shows a verdict writes the words of logs, usage and metrics.
    #[test]
    fn what_is_shown_of_a_verdict_is_the_word_for_it() {
        fn shown<T: fmt::Display + Copy>(value: T, word: impl Fn(T) -> &'static str) {
            assert_eq!(value.to_string(), word(value));
        }
        shown(Door::WithoutId, Door::as_str);
        shown(Origin::InCall, Origin::as_str);
        shown(Outcome::WouldRefuse, Outcome::as_str);
        shown(Scope::Limiter, Scope::as_str);
    }
}
