//! The handler of the demo's client: the one behind the throttle.

#![expect(
    deprecated,
    reason = "sampling is on its way out (SEP-2577), and servers ask for it today"
)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use rmcp::{
    ClientHandler, ErrorData,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        Implementation, SamplingCapability, SamplingMessage,
    },
    service::{RequestContext, RoleClient},
};
use serde_json::json;

/// Answers at once, and counts what reaches it. In a real client this is a model and a person.
#[derive(Debug, Default)]
pub(super) struct Handler {
    handled: Handled,
}

impl Handler {
    /// The count, to read when the handler is out of reach.
    pub(super) fn count(&self) -> Handled {
        self.handled.clone()
    }
}

/// How many questions reached the handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Handled(Arc<AtomicU32>);

impl Handled {
    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ClientHandler for Handler {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.handled.one_more();
        let message = SamplingMessage::assistant_text("Not yet.");
        Ok(CreateMessageResult::new(message, "demo".to_owned()))
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.handled.one_more();
        let answer = ElicitResult::new(ElicitationAction::Accept);
        Ok(answer.with_content(json!({"yes": false})))
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.elicitation = Some(ElicitationCapability::default());
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, name)
    }
}
