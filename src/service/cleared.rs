//! The types that keep a question from its handler until it is paid for.

use rmcp::model::ServerRequest;

use crate::{
    methods::Methods,
    question::{Method, QuestionKind},
    throttle::Admission,
    wire::Message,
};

/// A server's message that is a question. The way to its handler is an admission.
#[derive(Clone, Debug)]
pub struct Question<M = ServerRequest> {
    pub(crate) kind: QuestionKind,
    pub(crate) method: Method,
    // Boxed, since it is moved with every step on its way to the handler.
    message: Box<M>,
}

impl<M> Question<M> {
    /// What kind of question it is.
    #[must_use]
    pub const fn kind(&self) -> QuestionKind {
        self.kind
    }

    /// Pays for the question. One admission, one question.
    #[inline]
    pub(crate) fn paid_by(self, admission: Admission) -> (QuestionKind, Method, Cleared<M>) {
        debug_assert_eq!(
            admission.questions(),
            1,
            "an admission answers one question"
        );
        drop(admission);
        (self.kind, self.method, Cleared(self.message))
    }
}

/// A message that may reach the handler: it is no question, or it is paid for. The only ways to
/// make one are [`sort`] and [`Question::paid_by`].
#[derive(Debug)]
pub(crate) struct Cleared<M>(Box<M>);

impl<M> Cleared<M> {
    pub(crate) fn message(&self) -> &M {
        &self.0
    }

    #[inline]
    pub(crate) fn into_message(self) -> M {
        *self.0
    }
}

/// A server's message, told apart by its method.
#[derive(Debug)]
pub(crate) enum Sorted<M> {
    Question(Question<M>),
    Other(Cleared<M>),
}

/// Tells questions from everything else.
#[inline]
pub(crate) fn sort<M: Message>(message: M, methods: &Methods<'_>) -> Sorted<M> {
    let message = Box::new(message);
    match methods.classify(message.method()) {
        Some((kind, method)) => Sorted::Question(Question {
            kind,
            method,
            message,
        }),
        None => Sorted::Other(Cleared(message)),
    }
}
