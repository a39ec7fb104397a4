//! The limits by name, and what each bounds.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::question::QuestionKind;

/// A setting that stands in the way of a question, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LimitName {
    /// `proto.samplingPerMinute`: sampling per configured server.
    SamplingPerMinute,
    /// `proto.samplingSessionPerMinute`: sampling per session.
    SamplingSessionPerMinute,
    /// `proto.elicitationPerMinute`: elicitation per configured server.
    ElicitationPerMinute,
    /// `proto.elicitationSessionPerMinute`: elicitation per session.
    ElicitationSessionPerMinute,
    /// `proto.askRounds`: rounds per call.
    AskRounds,
    /// `proto.askTTL`: life of one question.
    AskTtl,
}

impl LimitName {
    /// The limits of windows, in the order of the settings table, which decides ties.
    pub const WINDOWS: [Self; 4] = [
        Self::SamplingPerMinute,
        Self::SamplingSessionPerMinute,
        Self::ElicitationPerMinute,
        Self::ElicitationSessionPerMinute,
    ];

    /// The full name of the setting.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SamplingPerMinute => "proto.samplingPerMinute",
            Self::SamplingSessionPerMinute => "proto.samplingSessionPerMinute",
            Self::ElicitationPerMinute => "proto.elicitationPerMinute",
            Self::ElicitationSessionPerMinute => "proto.elicitationSessionPerMinute",
            Self::AskRounds => "proto.askRounds",
            Self::AskTtl => "proto.askTTL",
        }
    }

    /// What the setting bounds.
    #[must_use]
    pub const fn scope(self) -> Scope {
        match self {
            Self::SamplingPerMinute | Self::ElicitationPerMinute => Scope::Server,
            Self::SamplingSessionPerMinute | Self::ElicitationSessionPerMinute => Scope::Session,
            Self::AskRounds => Scope::Call,
            Self::AskTtl => Scope::Question,
        }
    }

    /// The kind of question it bounds, if it bounds one kind.
    #[must_use]
    pub const fn kind(self) -> Option<QuestionKind> {
        match self {
            Self::SamplingPerMinute | Self::SamplingSessionPerMinute => {
                Some(QuestionKind::Sampling)
            }
            Self::ElicitationPerMinute | Self::ElicitationSessionPerMinute => {
                Some(QuestionKind::Elicitation)
            }
            Self::AskRounds | Self::AskTtl => None,
        }
    }

    pub(crate) const fn per_server(kind: QuestionKind) -> Self {
        match kind {
            QuestionKind::Sampling => Self::SamplingPerMinute,
            QuestionKind::Elicitation => Self::ElicitationPerMinute,
        }
    }

    pub(crate) const fn per_session(kind: QuestionKind) -> Self {
        match kind {
            QuestionKind::Sampling => Self::SamplingSessionPerMinute,
            QuestionKind::Elicitation => Self::ElicitationSessionPerMinute,
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for LimitName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// What a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// One configured server, over all its sessions.
    Server,
    /// One session.
    Session,
    /// One call of the client.
    Call,
    /// One question.
    Question,
    /// The limiter itself.
    Limiter,
}

impl Scope {
    /// The word used on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Session => "session",
            Self::Call => "call",
            Self::Question => "question",
            Self::Limiter => "limiter",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
