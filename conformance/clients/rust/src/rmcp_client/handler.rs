//! A handler that answers every question at once, or after the time it is told to take.

#![expect(
    deprecated,
    reason = "sampling is on its way out (SEP-2577), and servers ask for it today"
)]

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        CustomNotification, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability,
        Implementation, InputRequest, RequestId, RootsCapabilities, SamplingCapability,
        SamplingMessage, TASKS_EXTENSION_ID, TaskPayload, TaskStatusNotificationParams,
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
    shown: Arc<Mutex<Shown>>,
}

/// The keys of what was shown, so that what a task asks is shown once however it came.
#[derive(Debug, Default)]
struct Shown {
    /// By a notification about a task.
    notified: HashSet<String>,
    /// By a request, a round or the poll of a task.
    asked: HashSet<String>,
}

impl Handler {
    /// The handler for the questions of one server.
    #[must_use]
    pub fn new(server: &Server, contract: &Contract) -> Self {
        Self {
            log: contract.log(&server.name),
            delay: contract.answer_delay,
            shown: Arc::default(),
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn entered(&self, method: &str, id: &RequestId) {
        // What a task asks has its key for an id when its poll asks it.
        let is_shown = match id {
            RequestId::String(key) => {
                let mut shown = self.shown();
                shown.asked.insert(key.to_string());
                shown.notified.contains(&**key)
            }
            RequestId::Number(_) => false,
        };
        if !is_shown {
            self.log.entered(method);
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

/// By which method something is asked, if it can be told.
fn method(input: &InputRequest) -> Option<String> {
    let input = serde_json::to_value(input).ok()?;
    input["method"].as_str().map(str::to_owned)
}

impl ClientHandler for Handler {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.entered("sampling/createMessage", &context.id).await;
        let message = SamplingMessage::assistant_text("4");
        Ok(CreateMessageResult::new(message, "made-up".to_owned()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.entered("elicitation/create", &context.id).await;
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

    // A client that has the whole state of a task shows what it asks, and does not wait for a poll.
    async fn on_task_status(
        &self,
        params: TaskStatusNotificationParams,
        _context: NotificationContext<RoleClient>,
    ) {
        let TaskPayload::InputRequired { input_requests } = &params.task.payload else {
            return;
        };
        for (key, input) in input_requests {
            let is_new = {
                let mut shown = self.shown();
                shown.notified.insert(key.clone()) && !shown.asked.contains(key)
            };
            if let Some(method) = method(input).filter(|_| is_new) {
                self.log.entered(&method);
            }
        }
    }

    fn get_info(&self) -> ClientConfig {
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        elicitation.url = Some(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        let mut sampling = SamplingCapability::default();
        sampling.tools = Some(Map::new());
        capabilities.sampling = Some(sampling);
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
