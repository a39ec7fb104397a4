//! What rmcp does, as far as the throttle relies on it: one test for each fact, against rmcp alone.
//! An upgrade that changes one fails here first, and says which part of the design to look at.

mod calls;
mod requests;
mod transports;

#[path = "../support/mod.rs"]
mod support;

use std::sync::{Arc, Mutex};

use rmcp::{
    ServiceExt,
    model::{
        ClientConfig, ClientResult, ErrorData, ProtocolVersion, ServerNotification, ServerRequest,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient,
        RunningService, Service,
    },
    transport::IntoTransport,
};
use serde_json::{Value, json};
use support::{Server, pipe};

pub(crate) const S: &str = "sampling/createMessage";
pub(crate) const E: &str = "elicitation/create";

/// Connects a service as it is to a scripted server of 2025-11-25.
pub(crate) async fn bare<T: Service<RoleClient>>(
    service: T,
) -> (RunningService<RoleClient, T>, Server) {
    let (client, mut server) = pipe();
    let (running, _) = tokio::join!(service.serve(client), server.handshake());
    (running.unwrap(), server)
}

/// The same for 2026-07-28.
pub(crate) async fn bare_modern<T: Service<RoleClient>>(
    service: T,
) -> (RunningService<RoleClient, T>, Server) {
    let (client, server) = pipe();
    modern_on(service, client, server).await
}

pub(crate) async fn modern_on<T, X, Error, Adapter>(
    service: T,
    transport: X,
    mut server: Server,
) -> (RunningService<RoleClient, T>, Server)
where
    T: Service<RoleClient>,
    X: IntoTransport<RoleClient, Error, Adapter>,
    Error: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let (running, ()) = tokio::join!(
        service.serve_with_lifecycle(transport, lifecycle),
        server.discovery()
    );
    (running.unwrap(), server)
}

/// A service that writes down what rmcp makes of a message, and answers nothing of substance.
#[derive(Clone, Default)]
pub(crate) struct Probe(Arc<Mutex<Vec<String>>>);

impl Probe {
    /// What was seen since the last look: rmcp's type, and the method.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn note(&self, kind: &str, method: &str) {
        self.0.lock().unwrap().push(format!("{kind} {method}"));
    }
}

impl Service<RoleClient> for Probe {
    async fn handle_request(
        &self,
        request: ServerRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        match request {
            ServerRequest::CreateMessageRequest(_) => self.note("typed", S),
            ServerRequest::ElicitRequest(_) => self.note("typed", E),
            ServerRequest::CustomRequest(request) => self.note("custom", &request.method),
            ServerRequest::PingRequest(_) => {}
            other => panic!("{other:?}"),
        }
        Ok(ClientResult::empty(()))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        match notification {
            ServerNotification::CustomNotification(notification) => {
                self.note("custom notification", &notification.method);
            }
            ServerNotification::TaskStatusNotification(_) => self.note("task notification", ""),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }
}

/// Everything that the client has written until it answers a ping.
pub(crate) async fn until_quiet(server: &mut Server) -> Vec<Value> {
    server
        .send(&json!({"jsonrpc": "2.0", "id": "quiet", "method": "ping"}))
        .await;
    let mut written = Vec::new();
    loop {
        let message = server.receive().await;
        if message["id"] == "quiet" {
            return written;
        }
        written.push(message);
    }
}
