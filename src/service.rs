//! The wrapper around an rmcp client service: admission, the one answer dispatch behind it, and the
//! permit it takes.

mod admission;
mod answered;
mod attended;
mod cleared;
mod dispatch;
mod permit;
mod round;
mod task;
mod trace;

use std::{fmt, sync::Arc};

use rmcp::{
    service::RoleClient,
    transport::{IntoTransport, Transport},
};

use self::{admission::Admitted, cleared::Sorted, dispatch::Guarded};
pub(crate) use self::{answered::Answered, permit::Unanswered};
pub use self::{attended::GRACE, cleared::Question, permit::Permit, round::RoundAnswer};
use crate::{
    calls::Calls,
    clock,
    limits::{ProtoSettings, ServerName},
    methods::Methods,
    question::{BadMethod, QuestionKind, QuestionMethods},
    shield::{Lookout, Shield},
    throttle::{Session, Throttle},
    verdict::{Reporter, Tally, Verdict},
    wire,
};

/// The name of a server that is outside of any pool.
const ALONE: &str = "server";

/// An rmcp client service whose server may ask only so often.
///
/// It is a [`Service`](rmcp::service::Service) itself, so `serve` it in place of the service it wraps. Questions (by
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
/// [`Admission`](crate::throttle::Admission) that pays for one:
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
#[must_use = "it holds nothing to the limits unless it is served in the place of what it wraps"]
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
    pub fn new(service: S, settings: ProtoSettings) -> Self {
        let throttle = Arc::new(Throttle::new(settings, clock::now()));
        let name = ServerName::new(ALONE).unwrap_or_else(|_| unreachable!("a valid name"));
        Self::in_session(service, throttle.session(name), Reporter::default())
    }

    pub(crate) fn in_session(service: S, session: Session, reporter: Reporter) -> Self {
        Self {
            guarded: Guarded::new(service),
            session: Arc::new(session),
            questions: QuestionMethods::new(),
            reporter,
            tally: Tally::default(),
            calls: Arc::default(),
        }
    }

    /// Calls `observer` with every verdict, outside of every lock, so that a client can tell its
    /// user that a server was held back. Keep it quick: the question waits for it. A panic in it
    /// changes no verdict. There is one: it takes the place of the pool's.
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
        self.guarded.get_ref()
    }

    /// The wrapped service, unwrapped. The session ends; the server's windows go on in the pool.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.guarded.into_inner()
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

impl<S> fmt::Debug for Throttled<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttled")
            .field("session", &self.session)
            .field("questions", &self.questions)
            .finish_non_exhaustive()
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
