//! What a call through a throttled session can end with, beside its result.

use std::fmt;

use rmcp::{model::InputRequiredResult, service::ServiceError};

use crate::refusal::Refusal;

/// Why a call has no result.
///
/// A refusal of the throttle is a variant of its own: it is known by this type, never by an
/// error's `data`, which a server can copy.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The throttle refused what the server asked in this call. Nothing of the question was
    /// shown, and nothing more was sent to the server.
    Refused(Refused),
    /// What rmcp reports: the server's error, a handler's, the transport's.
    Service(ServiceError),
}

/// A refusal, with the round it refused, or the task. It reads as the refusal.
#[derive(Debug)]
pub struct Refused {
    refusal: Refusal,
    round: Option<Box<InputRequiredResult>>,
    task: Option<String>,
}

impl Refused {
    pub(crate) const fn new(refusal: Refusal) -> Self {
        Self {
            refusal,
            round: None,
            task: None,
        }
    }

    pub(crate) fn round(refusal: Refusal, round: InputRequiredResult) -> Self {
        Self {
            refusal,
            round: Some(Box::new(round)),
            task: None,
        }
    }

    /// The refusal.
    #[must_use]
    pub const fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// The id of the task whose question was refused, or expired. It goes on at the server, and
    /// can be followed again or cancelled.
    #[must_use]
    pub fn task_id(&self) -> Option<&str> {
        self.task.as_deref()
    }

    /// The round that was refused, to look at.
    #[must_use]
    pub fn as_round(&self) -> Option<&InputRequiredResult> {
        self.round.as_deref()
    }

    /// The round that was refused. It can be answered later, or the call made anew.
    #[must_use]
    pub fn into_round(self) -> Option<InputRequiredResult> {
        self.round.map(|round| *round)
    }
}

impl CallError {
    /// The throttle's refusal, if it is one: what to tell the user, and when to try again.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refused) => Some(refused.refusal()),
            Self::Service(_) => None,
        }
    }

    /// Says which task it was, in a refusal.
    pub(crate) fn in_task(self, id: String) -> Self {
        match self {
            Self::Refused(refused) => Self::Refused(Refused {
                task: Some(id),
                ..refused
            }),
            other => other,
        }
    }
}

impl From<Refused> for CallError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// For a client that drives calls itself, on [`Throttled::charge_error`](crate::Throttled::charge_error)
/// and its siblings.
impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Refused::new(refusal))
    }
}

impl From<ServiceError> for CallError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

/// For a client whose calls return rmcp's own error: `?` turns a refusal into an `McpError` with
/// the code, message and data that a server would be told. That it was the throttle, and the round
/// or task that it refused, cannot be known from it any more: look at [`CallError`] first.
impl From<CallError> for ServiceError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refused) => Self::McpError(refused.refusal.into()),
            CallError::Service(error) => error,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

/// It reads as what it holds, so its source is that of what it holds: who prints the whole chain
/// reads nothing twice.
impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(refused) => refused.source(),
            Self::Service(error) => error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use rmcp::ErrorData;

    use super::*;

    /// What a client does with a refused call is told apart by the refusal, whichever way it holds
    /// the error: by the call's, or by what it took out of it.
    #[test]
    fn a_refusal_is_found_and_read_in_a_calls_error() {
        let error = CallError::from(Refused::new(Refusal::internal()));
        assert_eq!(error.refusal(), Some(&Refusal::internal()));
        let text = error.to_string();
        let CallError::Refused(refused) = error else {
            panic!("{error:?}");
        };
        let boxed: Box<dyn Error + Send + Sync> = refused.into();
        assert_eq!(boxed.to_string(), text);
        let other = CallError::from(ServiceError::TransportClosed);
        assert_eq!(other.refusal(), None);
    }

    /// A client that calls through functions of its own has rmcp's error type in their signatures,
    /// and changed all of them for a session of ours.
    #[test]
    fn a_call_whose_error_is_rmcps_hands_a_refusal_on() {
        fn call(error: CallError) -> Result<(), ServiceError> {
            Err(error)?
        }
        let Err(ServiceError::McpError(error)) = call(Refusal::internal().into()) else {
            panic!("no error of the protocol");
        };
        let told = serde_json::to_value(error).unwrap();
        assert_eq!(told, serde_json::to_value(Refusal::internal()).unwrap());
        let gone = call(ServiceError::TransportClosed.into());
        assert!(matches!(gone, Err(ServiceError::TransportClosed)));
    }

    /// An `anyhow` or `eyre` report prints an error and all its sources. It once told the user of
    /// a refusal twice over.
    #[test]
    fn a_report_of_the_whole_chain_says_nothing_twice() {
        let refused = CallError::from(Refused::new(Refusal::internal()));
        let service = CallError::from(ServiceError::McpError(ErrorData::internal_error("x", None)));
        for error in [refused, service] {
            let text = error.to_string();
            let mut next = error.source();
            while let Some(source) = next {
                assert!(!text.contains(&source.to_string()), "{text}: {source}");
                next = source.source();
            }
        }
    }
}
