//! Admission at every door: decided by the session, and told.

use rmcp::{
    model::{ErrorData, ServerRequest},
    service::ServiceError,
};

use super::{Permit, Question, Throttled, cleared::Sorted};
use crate::{
    arrival::{Arrival, Door},
    call_error::{CallError, Refused},
    clock,
    question::{Method, QuestionKind},
    refusal::Refusal,
    throttle::{Admission, Ask},
    usage::Noted,
    verdict::Told,
    wire,
};

/// Questions that were admitted, and where that was noted.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(super) admission: Admission,
    pub(super) noted: Noted,
}

impl<S> Throttled<S> {
    /// Takes `request` for a question, if it is one.
    ///
    /// # Errors
    ///
    /// Gives the request back if it is none.
    #[expect(
        clippy::result_large_err,
        reason = "the request itself is what comes back"
    )]
    pub fn question(&self, request: ServerRequest) -> Result<Question, ServerRequest> {
        match self.sort(request) {
            Sorted::Question(question) => Ok(question),
            Sorted::Other(other) => Err(other.into_message()),
        }
    }

    /// Admits a question of the server, or refuses it before anybody sees it. Charged when
    /// admitted, and never refunded (D3).
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; nothing is charged then (D4).
    pub fn admit(&self, question: Question) -> Result<Permit<'_, S>, Refusal> {
        let admitted = self.admit_question(&question, Arrival::HOST)?;
        Ok(Permit::new(self, question, admitted, Arrival::HOST))
    }

    /// Charges a question that reaches a person or a model on another way than through this
    /// service, as MCP Apps' view-to-host messages do.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; nothing is charged then (D4).
    pub fn admit_kind(&self, kind: QuestionKind) -> Result<Admission, Refusal> {
        let method = Method::from(kind);
        self.admit_all(&Ask::one(kind, &method), Arrival::HOST)
            .map(|admitted| admitted.admission)
    }

    #[inline]
    pub(super) fn admit_question<M>(
        &self,
        question: &Question<M>,
        arrival: Arrival,
    ) -> Result<Admitted, Refusal> {
        self.admit_all(&Ask::one(question.kind, &question.method), arrival)
    }

    /// Charges the URLs that an error `-32042` of the server asks a person to open, as one round:
    /// as many as it lists, and at least one. Another error asks nothing.
    ///
    /// An embedder that calls on a `Peer` of rmcp's, instead of through
    /// [`ClientSession`](crate::ClientSession), calls this with every error before it shows
    /// anything of it.
    ///
    /// # Errors
    ///
    /// The [`Refusal`]; nothing is charged then (D4).
    pub fn charge_error(&self, error: &ErrorData) -> Result<(), Refusal> {
        let Some(count) = wire::count_url_elicitations(error) else {
            return Ok(());
        };
        let method = Method::from(QuestionKind::Elicitation);
        let ask = Ask::new().and(QuestionKind::Elicitation, &method, count);
        self.admit_all(&ask, Arrival::in_answer(Door::UrlElicitationRequired))
            .map(drop)
    }

    /// Looks at a call's outcome for the URL elicitations of an error -32042: they are admitted
    /// as one round and the error handed on untouched, or the refusal takes its place.
    pub(crate) fn guard<T>(&self, outcome: Result<T, ServiceError>) -> Result<T, CallError> {
        if let Err(ServiceError::McpError(error)) = &outcome {
            self.charge_error(error).map_err(Refused::new)?;
        }
        outcome.map_err(CallError::Service)
    }

    /// Decides on all of `ask`, and tells.
    #[inline]
    pub(crate) fn admit_all(&self, ask: &Ask<'_>, arrival: Arrival) -> Result<Admitted, Refusal> {
        match self.session.admit(clock::now(), ask) {
            Ok(admission) => {
                let noted = self.tell_admitted(arrival, ask, admission.would_refuse());
                Ok(Admitted { admission, noted })
            }
            Err(refusal) => Err(self.tell_refused(arrival, ask, refusal)),
        }
    }

    pub(crate) fn tell_admitted(
        &self,
        arrival: Arrival,
        ask: &Ask<'_>,
        would_refuse: Option<&Refusal>,
    ) -> Noted {
        let told = Told::admitted(would_refuse);
        self.reporter.report(&self.session, arrival, ask, told)
    }

    /// Counts a refusal if no window has, tells of it, and gives it back.
    pub(crate) fn tell_refused(
        &self,
        arrival: Arrival,
        ask: &Ask<'_>,
        refusal: Refusal,
    ) -> Refusal {
        let refusal = self.tally.count(clock::now(), refusal);
        self.reporter
            .report(&self.session, arrival, ask, Told::Refused(&refusal));
        refusal
    }
}
