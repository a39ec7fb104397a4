//! The permit, and the life of an admitted question (D9).

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use rmcp::{
    model::{ClientResult, ErrorData, ServerRequest},
    service::{RequestContext, RoleClient, Service, ServiceError},
};

use super::{
    Admitted, Throttled,
    attended::{Attended, Ending, Unready},
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
    open: Option<Box<OpenQuestion>>,
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
    #[inline]
    pub(super) fn new(
        throttled: &'a Throttled<S>,
        question: Question,
        admitted: Admitted,
        arrival: Arrival,
    ) -> Self {
        let Admitted { admission, noted } = admitted;
        let (kind, method, request) = question.paid_by(admission);
        let open = throttled
            .reporter
            .open(&throttled.session, kind, noted)
            .map(Box::new);
        Self {
            open,
            throttled,
            arrival,
            kind,
            method,
            request,
        }
    }

    /// The kind of question.
    #[must_use]
    pub const fn kind(&self) -> QuestionKind {
        self.kind
    }
}

impl<'a, S: Service<RoleClient>> Permit<'a, S> {
    /// Asks the handler, for at most `proto.askTTL` (D9). After that the token in `context`
    /// fires, and the handler's future is dropped. When the token fires for another reason, the
    /// handler has [`GRACE`](super::GRACE) to end by itself.
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
    pub fn answer(
        self,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, ErrorData>> + use<'a, S> {
        self.answer_or(context)
    }

    #[inline]
    pub(crate) fn answer_or<E: From<Unanswered>>(
        self,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, E>> + use<'a, S, E> {
        let Self {
            throttled,
            kind,
            method,
            arrival,
            request,
            open,
        } = self;
        let token = context.ct.clone();
        let span = QuestionSpan::new(&throttled.session, kind, arrival).linked(&context.meta);
        let handler = throttled.guarded.request(request, context);
        Answer {
            handler: Attended::new(handler, token),
            throttled,
            kind,
            method,
            arrival,
            open,
            span,
            error: PhantomData,
        }
    }
}

pin_project! {
    /// An admitted question that its handler has not answered yet.
    struct Answer<'a, S, F, E> {
        #[pin]
        handler: Attended<F>,
        throttled: &'a Throttled<S>,
        kind: QuestionKind,
        method: Method,
        arrival: Arrival,
        // Boxed, since rmcp moves this for every question, and few clients keep a record.
        open: Option<Box<OpenQuestion>>,
        span: QuestionSpan,
        error: PhantomData<fn() -> E>,
    }

    impl<S, F, E> PinnedDrop for Answer<'_, S, F, E> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // What the handler does at its end belongs to its span as well.
            let _in_span = this.span.span().enter();
            this.handler.abandon();
        }
    }
}

impl<S, F, E> Future for Answer<'_, S, F, E>
where
    F: Future<Output = Result<ClientResult, ErrorData>>,
    E: From<Unanswered>,
{
    type Output = Result<ClientResult, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let ttl = || Some(this.throttled.session.settings().ask_ttl.get());
        let ending = {
            let _in_span = this.span.span().enter();
            ready!(this.handler.poll_ending(context, ttl))
        };
        Poll::Ready(match ending {
            Ending::Ready(result) => {
                if let Some(open) = this.open.take() {
                    open.answered();
                }
                let outcome = if result.is_ok() { "answered" } else { "failed" };
                this.span.ended(outcome);
                result.map_err(|error| Unanswered::Handler(error).into())
            }
            Ending::Unready(Unready::Cancelled) => Err(Unanswered::Cancelled.into()),
            Ending::Unready(Unready::Expired(ttl)) => {
                if let Some(open) = this.open.take() {
                    open.expired();
                }
                this.span.ended("expired");
                let refusal = Refusal::new(Cause::QuestionExpired { ttl }, this.method.clone());
                let ask = Ask::one(*this.kind, this.method);
                let refusal = this.throttled.tell_refused(*this.arrival, &ask, refusal);
                Err(Unanswered::Refused(refusal).into())
            }
        })
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
