//! The look at a server's message: whether it is a question that the windows have no room for.

use std::sync::Arc;

use crate::{
    clock,
    methods::Methods,
    question::QuestionMethods,
    refusal::Refusal,
    throttle::{Ask, Session},
    verdict::{Door, Reporter, Told},
};

/// Looks at the windows of one session, and tells of what it refuses. It never charges.
#[derive(Debug)]
pub(crate) struct Lookout {
    session: Arc<Session>,
    /// Vendor methods of the embedder, beside those of the settings.
    questions: QuestionMethods,
    reporter: Reporter,
}

impl Lookout {
    pub(crate) const fn new(
        session: Arc<Session>,
        questions: QuestionMethods,
        reporter: Reporter,
    ) -> Self {
        Self {
            session,
            questions,
            reporter,
        }
    }

    /// Whether `method` is a question's, and the refusal if a window is full.
    pub(super) fn look(&self, method: &str, door: Door) -> Seen {
        let methods = Methods::new(&self.questions, &self.session);
        let Some((kind, method)) = methods.classify(method) else {
            return Seen::Other;
        };
        match self.session.refuse_early(clock::now(), kind, &method) {
            None => Seen::Question,
            Some(refusal) => {
                let ask = Ask::one(kind, &method);
                self.reporter
                    .report(&self.session, door, &ask, Told::Refused(&refusal));
                Seen::Refused(refusal)
            }
        }
    }
}

/// What a look has found.
#[derive(Debug)]
pub(super) enum Seen {
    /// No question.
    Other,
    /// A question, for which there may be room.
    Question,
    /// A question, for which there is none.
    Refused(Refusal),
}
