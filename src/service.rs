//! The wrapper around an rmcp client service: the one answer dispatch, and the permit it takes.

mod attended;
mod cleared;
mod permit;
mod round;
mod task;
mod trace;

use std::{borrow::Cow, fmt, future::ready, sync::Arc};

use futures::{
    FutureExt,
    future::{Either, lazy},
};
use rmcp::{
    model::{
        ClientConfig, ClientResult, ErrorData, Extensions, ProtocolVersion, ServerNotification,
        ServerRequest,
    },
    service::{NotificationContext, RequestContext, RoleClient, Service, ServiceError},
    transport::{IntoTransport, Transport},
};
use tracing::Instrument;

use self::cleared::{Cleared, Sorted};
pub use self::{attended::GRACE, cleared::Question, permit::Permit, round::RoundAnswer};
pub(crate) use self::{
    permit::Unanswered,
    task::{Answered, Passed},
};
use crate::{
    arrival::{Arrival, Door, Origin},
    call_error::{CallError, Refused},
    calls::Calls,
    clock,
    limits::{ProtoSettings, ServerName},
    methods::Methods,
    question::{BadMethod, Method, QuestionKind, QuestionMethods},
    refusal::Refusal,
    shield::{Lookout, Shield},
    throttle::{Admission, Ask, Session, Throttle},
    usage::Noted,
    verdict::{Reporter, Tally, Told, Verdict},
    wire,
};

/// The name of a server that is outside of any pool.
const ALONE: &str = "server";

/// An rmcp client service whose server may ask only so often.
///
/// It is a [`Service`] itself, so `serve` it in place of the service it wraps. Questions (by
/// method name: sampling, elicitation, vendor questions, well-formed or not, with or without an
/// id) are admitted or refused before the wrapped service sees them; everything else passes
/// through untouched.
///
/// Make one with [`Pool::wrap`](crate::Pool::wrap), so that a reconnect meets the same windows.
/// Wrapping the same service twice charges every question twice.
///
/// # What reaches the handler
///
/// Only an admitted question does. A [`Permit`] cannot be made by hand, and neither can the
/// [`Admission`] that pays for one:
///
/// ```compile_fail,E0451
/// # use mcp_question_throttle::throttle::Admission;
/// fn forge() -> Admission {
///     Admission { questions: 1 }
/// }
/// ```
///
/// ```compile_fail,E0451
/// # use mcp_question_throttle::service::{Permit, Throttled};
/// # use rmcp::service::{RoleClient, Service};
/// fn forge<'a, S: Service<RoleClient>>(
///     throttled: &'a Throttled<S>,
///     other: Permit<'a, S>,
/// ) -> Permit<'a, S> {
///     Permit { throttled, ..other }
/// }
/// ```
///
/// ```
/// # use mcp_question_throttle::{refusal::Refusal, service::{Permit, Question, Throttled}};
/// # use rmcp::service::{RoleClient, Service};
/// fn ask<S: Service<RoleClient>>(
///     throttled: &Throttled<S>,
///     question: Question,
/// ) -> Result<Permit<'_, S>, Refusal> {
///     throttled.admit(question)
/// }
/// ```
///
/// And it answers once, since it is used up, and has no twin:
///
/// ```compile_fail,E0599
/// # use mcp_question_throttle::service::Permit;
/// # use rmcp::service::{RequestContext, RoleClient, Service};
/// async fn twins<S: Service<RoleClient>>(permit: Permit<'_, S>, context: RequestContext<RoleClient>) {
///     let _ = permit.clone().answer(context).await;
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use mcp_question_throttle::service::Permit;
/// # use rmcp::service::{RequestContext, RoleClient, Service};
/// async fn twice<S: Service<RoleClient>>(permit: Permit<'_, S>, context: RequestContext<RoleClient>) {
///     let _ = permit.answer(context.clone()).await;
///     let _ = permit.answer(context).await;
/// }
/// ```
///
/// ```
/// # use mcp_question_throttle::service::Permit;
/// # use rmcp::service::{RequestContext, RoleClient, Service};
/// async fn once<S: Service<RoleClient>>(permit: Permit<'_, S>, context: RequestContext<RoleClient>) {
///     let _ = permit.answer(context).await;
/// }
/// ```
pub struct Throttled<S> {
    guarded: Guarded<S>,
    session: Arc<Session>,
    /// Vendor methods of the embedder, beside those of the settings.
    questions: QuestionMethods,
    reporter: Reporter,
    tally: Tally,
    calls: Arc<Calls>,
}

impl<S> Throttled<S> {
    /// Wraps a service outside of any pool: the server's window is this wrapper's own, and ends
    /// with it. A client that reconnects keeps a [`Pool`](crate::Pool) instead.
    #[must_use]
    pub fn new(service: S, settings: ProtoSettings) -> Self {
        let throttle = Arc::new(Throttle::new(settings, clock::now()));
        let name = ServerName::new(ALONE).unwrap_or_else(|_| unreachable!("a valid name"));
        Self::in_session(service, throttle.session(name), Reporter::default())
    }

    pub(crate) fn in_session(service: S, session: Session, reporter: Reporter) -> Self {
        Self {
            guarded: Guarded(service),
            session: Arc::new(session),
            questions: QuestionMethods::new(),
            reporter,
            tally: Tally::default(),
            calls: Arc::default(),
        }
    }

    /// Calls `observer` with every verdict, outside of every lock, so that a client can tell its
    /// user that a server was held back. Keep it quick: the question waits for it. A panic in it
    /// changes no verdict.
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&Verdict<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.reporter = self.reporter.observed(observer);
        self
    }

    /// Counts a vendor method as a question, beside those of the settings. Where the settings name
    /// the same method with another kind, this one holds.
    ///
    /// # Errors
    ///
    /// [`BadMethod`] for a name that cannot be one.
    pub fn with_question_method(
        mut self,
        method: impl Into<Arc<str>>,
        kind: QuestionKind,
    ) -> Result<Self, BadMethod> {
        self.questions = self.questions.with(method, kind)?;
        Ok(self)
    }

    /// The wrapped service.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.guarded.0
    }

    /// The wrapped service, unwrapped. The session ends; the server's windows go on in the pool.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.guarded.0
    }

    /// This session in the throttle.
    #[must_use]
    pub const fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A shield for the transport that this service will be served on: questions that meet a
    /// full window are refused there as they are read, which is cheaper, and holds no memory for
    /// a server that never reads its input.
    ///
    /// Make it after the `with_...` calls, and serve both together, or have
    /// [`ClientSession::connect`](crate::ClientSession::connect) do both.
    ///
    /// ```
    /// # use mcp_question_throttle::{ClientSession, Throttled, limits::ProtoSettings};
    /// # use rmcp::{ClientHandler, ServiceExt};
    /// # async fn connect(handler: impl ClientHandler, transport: tokio::io::DuplexStream)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let throttled = Throttled::new(handler, ProtoSettings::default());
    /// let transport = throttled.shield(transport);
    /// let session = ClientSession::new(throttled.serve(transport).await?);
    /// # drop(session); Ok(()) }
    /// ```
    pub fn shield<T, E, A>(
        &self,
        transport: T,
    ) -> Shield<impl Transport<RoleClient, Error = E> + use<S, T, E, A> + 'static>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let lookout = Lookout::new(
            Arc::clone(&self.session),
            self.questions.clone(),
            self.reporter.clone(),
            Arc::clone(&self.calls),
        );
        Shield::new(transport.into_transport(), lookout)
    }

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

    /// Admits a question of the server, or refuses it before anybody sees it. Charged when admitted, and never
    /// refunded (D3).
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
    fn admit_question<M>(
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

    /// Where a message came from, if anybody wants to hear of it: no decision rests on that.
    fn origin(&self, extensions: &Extensions) -> Origin {
        if self.reporter.is_heard() {
            self.calls.origin(extensions)
        } else {
            Origin::Unknown
        }
    }

    /// Takes a request to the handler, if it is no question or an admitted one. It is decided at
    /// the call. No `async` block: the request and its context are only moved on, into the
    /// handler's own future.
    #[inline]
    fn dispatch(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, ErrorData>>
    where
        S: Service<RoleClient>,
    {
        let handler = match self.sort(request) {
            Sorted::Question(question) => {
                let origin = self.origin(&context.extensions);
                let arrival = Arrival::new(Door::ServerRequest, origin);
                match self.admit_question(&question, arrival) {
                    Ok(admitted) => {
                        let permit = Permit::new(self, question, admitted, arrival);
                        Either::Left(permit.answer(context))
                    }
                    Err(refusal) => return Either::Right(ready(Err(refusal.into()))),
                }
            }
            Sorted::Other(other) => Either::Right(self.guarded.request(other, context)),
        };
        // Boxed, since rmcp moves it a dozen times on the way to its task, and its size with it.
        Either::Left(Box::pin(handler))
    }

    fn methods(&self) -> Methods<'_> {
        Methods::new(&self.questions, &self.session)
    }

    /// The calls of this session that are open.
    pub(crate) const fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    #[inline]
    fn sort<M: wire::Message>(&self, message: M) -> Sorted<M> {
        cleared::sort(message, &self.methods())
    }
}

impl<S: Service<RoleClient>> Service<RoleClient> for Throttled<S> {
    fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, ErrorData>> {
        self.dispatch(request, context)
    }

    fn handle_notification(
        &self,
        notification: ServerNotification,
        context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = Result<(), ErrorData>> {
        lazy(move |_| {
            let origin = self.origin(&context.extensions);
            match self.admit_notification(notification, origin) {
                Some(Passed {
                    cleared,
                    span: None,
                }) => Either::Left(Either::Left(self.guarded.notification(cleared, context))),
                Some(Passed {
                    cleared,
                    span: Some(mut span),
                }) => {
                    let handler = self.guarded.notification(cleared, context);
                    let handler = handler.instrument(span.span().clone());
                    Either::Left(Either::Right(handler.map(move |result| {
                        let is_ok = result.is_ok();
                        span.ended(if is_ok { task::DELIVERED } else { "failed" });
                        result
                    })))
                }
                // There is no id to answer to, and an error would only be logged by rmcp.
                None => Either::Right(ready(Ok(()))),
            }
        })
        .flatten()
    }

    fn get_info(&self) -> ClientConfig {
        self.guarded.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.guarded.0.supported_protocol_versions()
    }
}

impl<S> fmt::Debug for Throttled<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("session", &self.session)
            .field("questions", &self.questions)
            .finish_non_exhaustive()
    }
}

/// Questions that were admitted, and where that was noted.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Admission,
    noted: Noted,
}

/// The wrapped service. A server's message reaches it here and nowhere else, and only cleared.
struct Guarded<S>(S);

impl<S: Service<RoleClient>> Guarded<S> {
    #[inline]
    fn request(
        &self,
        request: Cleared<ServerRequest>,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, ErrorData>> {
        self.0.handle_request(request.into_message(), context)
    }

    fn notification(
        &self,
        notification: Cleared<ServerNotification>,
        context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = Result<(), ErrorData>> {
        self.0
            .handle_notification(notification.into_message(), context)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;
    use crate::{ClientSession, ThrottledSubscription};

    /// A handler is rarely `Debug`, and a client that holds one in a `Debug` type of its own could
    /// once not compile. What a permit asks is not shown: such output often ends up in a log.
    #[tokio::test]
    async fn debug_asks_nothing_of_the_service_and_shows_nothing_of_the_question() {
        struct Silent;
        impl rmcp::ClientHandler for Silent {}
        fn debug<T: Debug>() {}
        debug::<Throttled<Silent>>();
        debug::<Permit<'_, Silent>>();
        debug::<ClientSession<Silent>>();
        debug::<ThrottledSubscription<'_, Silent>>();
        debug::<Shield<tokio::io::Empty>>();

        let throttled = Throttled::new(Silent, ProtoSettings::default());
        let request = serde_json::from_value(serde_json::json!({
            "method": "sampling/createMessage", "params": {
                "messages": [{"role": "user", "content": {"type": "text", "text": "TEXT-MARKER"}}],
                "maxTokens": 16,
            },
        }));
        let question = throttled.question(request.unwrap()).unwrap();
        let permit = throttled.admit(question).unwrap();
        let shown = format!("{permit:?}");
        assert!(shown.contains("sampling/createMessage"), "{shown}");
        assert!(!shown.contains("MARKER"), "{shown}");
    }
}
