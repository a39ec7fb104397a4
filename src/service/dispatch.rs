//! The one answer dispatch: what a server sends comes by here on its way to the handler.

use std::{borrow::Cow, future::ready};

use futures::{
    FutureExt,
    future::{Either, lazy},
};
use rmcp::{
    model::{
        ClientConfig, ClientResult, ErrorData, Extensions, ProtocolVersion, ServerNotification,
        ServerRequest,
    },
    service::{NotificationContext, RequestContext, RoleClient, Service},
};
use tracing::Instrument;

use super::{
    Permit, Throttled,
    cleared::{Cleared, Sorted},
    task::{DELIVERED, Passed},
};
use crate::arrival::{Arrival, Door, Origin};

/// The wrapped service. A server's message reaches it here and nowhere else, and only cleared.
pub(super) struct Guarded<S>(S);

impl<S> Guarded<S> {
    pub(super) const fn new(service: S) -> Self {
        Self(service)
    }

    pub(super) const fn get_ref(&self) -> &S {
        &self.0
    }

    pub(super) fn into_inner(self) -> S {
        self.0
    }
}

impl<S: Service<RoleClient>> Guarded<S> {
    #[inline]
    pub(super) fn request(
        &self,
        request: Cleared<ServerRequest>,
        context: RequestContext<RoleClient>,
    ) -> impl Future<Output = Result<ClientResult, ErrorData>> {
        self.0.handle_request(request.into_message(), context)
    }

    pub(super) fn notification(
        &self,
        notification: Cleared<ServerNotification>,
        context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = Result<(), ErrorData>> {
        self.0
            .handle_notification(notification.into_message(), context)
    }
}

impl<S> Throttled<S> {
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
                        span.ended(if is_ok { DELIVERED } else { "failed" });
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
