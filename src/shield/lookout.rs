//! The look at a server's message: whether it is a question that the windows have no room for.

use std::sync::Arc;

use rmcp::model::GetExtensions;

use crate::{
    arrival::{Arrival, Door, Origin},
    calls::Calls,
    clock,
    methods::Methods,
    question::QuestionMethods,
    refusal::Refusal,
    throttle::{Ask, Session},
    verdict::{Reporter, Told},
    wire::Message,
};

/// Looks at the windows of one session, and tells of what it refuses. It never charges.
#[derive(Debug)]
pub(crate) struct Lookout {
    session: Arc<Session>,
    /// Vendor methods of the embedder, beside those of the settings.
    questions: QuestionMethods,
    reporter: Reporter,
    calls: Arc<Calls>,
}

impl Lookout {
    pub(crate) fn new(
        session: Arc<Session>,
        questions: QuestionMethods,
        reporter: Reporter,
        calls: Arc<Calls>,
    ) -> Self {
        calls.watch();
        Self {
            session,
            questions,
            reporter,
            calls,
        }
    }

    /// The calls that go by.
    pub(super) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Whether `method` is a question's, and the refusal if a window is full. What is let through
    /// is marked with where it came from.
    pub(super) fn look(&self, message: &mut (impl Message + GetExtensions), door: Door) -> Seen {
        let methods = Methods::new(&self.questions, &self.session);
        let Some((kind, method)) = methods.classify(message.method()) else {
            return Seen::Other;
        };
        // While neither window is nearly full, there is nothing to ask the clock.
        let room = self.session.room(kind);
        if room > 0 {
            self.mark(message);
            return Seen::Question(room);
        }
        match self.session.refuse_early(clock::now(), kind, &method) {
            None => {
                self.mark(message);
                Seen::Question(room)
            }
            Some(refusal) => {
                let ask = Ask::one(kind, &method);
                let origin = if self.reporter.is_heard() {
                    self.calls.origin(message.extensions())
                } else {
                    Origin::Unknown
                };
                let arrival = Arrival::new(door, origin);
                self.reporter
                    .report(&self.session, arrival, &ask, Told::Refused(&refusal));
                Seen::Refused(refusal)
            }
        }
    }
}

impl Lookout {
    /// Notes in a question where it came from, if anybody wants to hear of it.
    fn mark(&self, message: &mut impl GetExtensions) {
        if self.reporter.is_heard() {
            self.calls.mark(message.extensions_mut());
        }
    }
}

/// What a look has found.
#[derive(Debug)]
pub(super) enum Seen {
    /// No question.
    Other,
    /// A question, and for how many of its kind there surely is room.
    Question(u32),
    /// A question, for which there is none.
    Refused(Refusal),
}
