//! A handler that answers every question at once, or after the time it is told to take.

#![expect(
    deprecated,
    reason = "sampling is on its way out (SEP-2577), and servers ask for it today"
)]

use std::{collections::BTreeMap, time::Duration};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        CustomNotification, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability,
        Implementation, RootsCapabilities, SamplingCapability, SamplingMessage, TASKS_EXTENSION_ID,
        UrlElicitationCapability,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Map, Value};

use crate::{
    contract::{Contract, Log, Server},
    form,
};

/// Answers questions in place of a model and a person.
#[derive(Clone, Debug)]
pub struct Handler {
    log: Log,
    delay: Duration,
}

impl Handler {
    /// The handler for the questions of one server.
    #[must_use]
    pub fn new(server: &Server, contract: &Contract) -> Self {
        Self {
            log: contract.log(&server.name),
            delay: contract.answer_delay,
        }
    }

    async fn entered(&self, method: &str) {
        self.log.entered(method);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

impl ClientHandler for Handler {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.entered("sampling/createMessage").await;
        let message = SamplingMessage::assistant_text("4");
        Ok(CreateMessageResult::new(message, "made-up".to_owned()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.entered("elicitation/create").await;
        let accepted = ElicitResult::new(ElicitationAction::Accept);
        match params {
            ElicitRequestParams::FormElicitationParams {
                requested_schema, ..
            } => {
                let schema = serde_json::to_value(requested_schema).unwrap_or_default();
                Ok(accepted.with_content(Value::Object(form::filled_in(&schema))))
            }
            _ => Ok(accepted),
        }
    }

    // A question that rmcp cannot read comes here, with its method as it stood.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        self.log.entered(&request.method);
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            request.method,
            None,
        ))
    }

    // And a question without an id here.
    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        self.log.entered(&notification.method);
    }

    fn get_info(&self) -> ClientConfig {
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        elicitation.url = Some(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.elicitation = Some(elicitation);
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.extensions = Some(BTreeMap::from([(
            TASKS_EXTENSION_ID.to_owned(),
            Map::new(),
        )]));
        ClientConfig::new(
            capabilities,
            Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")),
        )
    }
}
