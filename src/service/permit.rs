//! The permit, and the life of an admitted question (D9).

use std::{fmt, future, pin::pin, time::Duration};

use rmcp::{
    model::{ClientResult, ErrorData, ServerRequest},
    service::{RequestContext, RoleClient, Service, ServiceError},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    Admitted, Throttled,
    cleared::{Cleared, Question},
    trace::QuestionSpan,
};
use crate::{
    arrival::Arrival,
    call_error::{CallError, Refused},
    question::{Method, QuestionKind},
    refusal::{Cause, Refusal},
    throttle::Ask,
    usage::OpenQuestion,
};

/// How long a handler may go on after its token has fired (D9).
pub const GRACE: Duration = Duration::from_secs(5);

/// An admitted question: the only road from a server's message to the handler.
///
/// It owns the question and borrows its wrapper. Dropping it answers nothing and refunds nothing.
#[must_use = "the question is charged; answer it"]
pub struct Permit<'a, S> {
    throttled: &'a Throttled<S>,
    kind: QuestionKind,
    method: Method,
    arrival: Arrival,
    request: Cleared<ServerRequest>,
    /// Where its end is noted.
    open: Option<OpenQuestion>,
}

/// Why an admitted question has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The throttle ended it.
    Refused(Refusal),
    /// The handler's own error, untouched.
    Handler(ErrorData),
    /// It was cancelled, and the handler did not end in time.
    Cancelled,
}

impl From<Unanswered> for ErrorData {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Refused(refusal) => refusal.into(),
            Unanswered::Handler(error) => error,
            // The server has taken its question back or is gone, so nobody reads this.
            Unanswered::Cancelled => Self::internal_error("question cancelled", None),
        }
    }
}

impl From<Unanswered> for CallError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Refused(refusal) => Refused::new(refusal).into(),
            other => ServiceError::McpError(other.into()).into(),
        }
    }
}

impl<'a, S> Permit<'a, S> {
    pub(super) fn new(
        throttled: &'a Throttled<S>,
        question: Question,
        admitted: Admitted,
        arrival: Arrival,
    ) -> Self {
        let Admitted { admission, noted } = admitted;
        let open = throttled
            .reporter
            .open(&throttled.session, question.kind, noted);
        Self {
            open,
            throttled,
            arrival,
            kind: question.kind,
            method: question.method.clone(),
            request: question.paid_by(admission),
        }
    }

    /// The kind of question.
    #[must_use]
    pub const fn kind(&self) -> QuestionKind {
        self.kind
    }
}

impl<S: Service<RoleClient>> Permit<'_, S> {
    /// Asks the handler, for at most `proto.askTTL` (D9). After that the token in `context`
    /// fires, and the handler's future is dropped. When the token fires for another reason, the
    /// handler has [`GRACE`] to end by itself.
    ///
    /// The handler runs in a `tracing` span named `question`, with the fields `server`, `session`,
    /// `kind`, `door`, `origin` and, at its end, `outcome`: `answered`, `failed` (the handler's own
    /// error), `expired` or `cancelled`. A valid `traceparent` of the server's is noted as
    /// `link.trace_id` and `link.span_id`, and never becomes the parent.
    ///
    /// # Errors
    ///
    /// The handler's own error, untouched; or the refusal `question_expired`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the handler's. The charge stays (D3).
    pub async fn answer(
        self,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        Ok(self.answer_or(context).await?)
    }

    pub(crate) async fn answer_or(
        self,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, Unanswered> {
        let Self {
            throttled,
            kind,
            method,
            arrival,
            request,
            open,
        } = self;
        let ttl = throttled.session.settings().ask_ttl.get();
        let token = context.ct.clone();
        let mut span = QuestionSpan::new(&throttled.session, kind, arrival, &context.meta);
        {
            let handler = throttled.guarded.request(request, context);
            let handler = handler.instrument(span.span().clone());
            let mut answer = pin!(with_grace(handler, &token));
            let expiry = async {
                tokio::time::sleep(ttl).await;
                if token.is_cancelled() {
                    // It has ended for another reason already; its grace is running.
                    future::pending::<()>().await;
                }
            };
            tokio::select! {
                biased;
                result = &mut answer => return match result {
                    Some(result) => {
                        if let Some(open) = open {
                            open.answered();
                        }
                        span.ended(if result.is_ok() { "answered" } else { "failed" });
                        result.map_err(Unanswered::Handler)
                    }
                    None => Err(Unanswered::Cancelled),
                },
                () = expiry => {}
            }
            // The handler, and what it has spawned, can see why its future is dropped here.
            token.cancel();
        }
        if let Some(open) = open {
            open.expired();
        }
        span.ended("expired");
        let refusal = Refusal::new(Cause::QuestionExpired { ttl }, method.clone());
        let ask = Ask::one(kind, &method);
        Err(Unanswered::Refused(
            throttled.tell_refused(arrival, &ask, refusal),
        ))
    }
}

// The question itself is left out: what prints a permit is often a log.
impl<S> fmt::Debug for Permit<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("throttled", &self.throttled)
            .field("kind", &self.kind)
            .field("method", &self.method)
            .field("door", &self.arrival.door)
            .finish_non_exhaustive()
    }
}

/// Runs a handler until it ends, or until [`GRACE`] after `token` has fired: `None` then.
pub(super) async fn with_grace<T>(
    handler: impl Future<Output = T>,
    token: &CancellationToken,
) -> Option<T> {
    let mut handler = pin!(handler);
    tokio::select! {
        biased;
        result = &mut handler => Some(result),
        () = token.cancelled() => tokio::time::timeout(GRACE, handler).await.ok(),
    }
}
