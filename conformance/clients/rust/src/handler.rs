//! The handler of both programs: answers at once, or as late as it is told to.

#![expect(
    deprecated,
    reason = "sampling and roots are on their way out (SEP-2577), and servers ask for them today"
)]

use std::{
    env,
    fs::{File, OpenOptions},
    io::Write,
    sync::Arc,
    time::Duration,
};

use rmcp::{
    ClientHandler,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        CustomNotification, CustomRequest, CustomResult, ElicitRequestParams, ElicitResult,
        ElicitationAction, ErrorCode, ErrorData, Implementation, ListRootsResult, SamplingMessage,
    },
    service::{NotificationContext, RequestContext, RoleClient},
};
use serde_json::json;

use crate::{Failure, urls};

/// Accepts whatever it is asked, and writes its questions down.
#[derive(Clone, Debug)]
pub struct Handler {
    server: Arc<str>,
    log: Option<Arc<File>>,
    delay: Duration,
    follows_tasks: bool,
}

impl Handler {
    pub(crate) fn new(server: &str, follows_tasks: bool) -> Result<Self, String> {
        let log = match env::var_os("QUESTION_CONFORMANCE_LOG") {
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                Some(Arc::new(file.map_err(|error| {
                    format!("QUESTION_CONFORMANCE_LOG: {error}")
                })?))
            }
            None => None,
        };
        let delay = match env::var("QUESTION_CONFORMANCE_ANSWER_DELAY_MS") {
            Ok(text) => text
                .parse()
                .map_err(|error| format!("QUESTION_CONFORMANCE_ANSWER_DELAY_MS: {error}"))?,
            Err(_) => 0,
        };
        Ok(Self {
            server: server.into(),
            log,
            delay: Duration::from_millis(delay),
            follows_tasks,
        })
    }

    /// Shows the URLs that an error wants opened, one after the other.
    pub(crate) fn show_urls(&self, failure: &Failure) {
        for _ in 0..urls(failure) {
            self.enter("elicitation/create");
        }
    }

    fn enter(&self, method: &str) {
        if let Some(mut log) = self.log.as_deref() {
            let line = format!("{} {method}\n", self.server);
            if let Err(error) = log.write_all(line.as_bytes()) {
                eprintln!("QUESTION_CONFORMANCE_LOG: {error}");
            }
        }
    }
}

impl ClientHandler for Handler {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.enter("sampling/createMessage");
        tokio::time::sleep(self.delay).await;
        let message = SamplingMessage::assistant_text("Not yet.");
        Ok(CreateMessageResult::new(message, "none".to_owned()))
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.enter("elicitation/create");
        tokio::time::sleep(self.delay).await;
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"there": false})))
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::default())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        self.enter(&request.method);
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            request.method,
            None,
        ))
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _context: NotificationContext<RoleClient>,
    ) {
        self.enter(&notification.method);
    }

    fn get_info(&self) -> ClientConfig {
        let mut declared = json!({
            "sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {},
        });
        if self.follows_tasks {
            declared["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        }
        let capabilities: ClientCapabilities = serde_json::from_value(declared).unwrap_or_default();
        let name = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, name)
    }
}
