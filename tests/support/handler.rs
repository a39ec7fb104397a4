//! A handler that writes down what reaches it, and how its questions end.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    model::{
        ClientCapabilities, ClientConfig, ClientResult, ErrorData, Implementation,
        ServerNotification, ServerRequest,
    },
    service::{NotificationContext, RequestContext, RoleClient, Service},
};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// What reached the handler: the method of each request and notification, in order.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn push(&self, method: impl Into<String>) {
        self.0.lock().unwrap().push(method.into());
    }

    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The questions among them.
    pub fn questions(&self) -> Vec<String> {
        self.all()
            .into_iter()
            .filter(|method| method.contains("/create"))
            .collect()
    }
}

/// Tells how handlers end that were not answered.
#[derive(Clone, Default)]
pub struct Endings(Arc<(Mutex<Vec<&'static str>>, Notify)>, Arc<AtomicUsize>);

impl Endings {
    fn tell(&self, how: &'static str) {
        self.0.0.lock().unwrap().push(how);
        self.0.1.notify_one();
    }

    /// Waits until one more handler has ended this way.
    pub async fn wait_for(&self, how: &'static str) {
        loop {
            {
                let mut told = self.0.0.lock().unwrap();
                if let Some(at) = told.iter().position(|told| *told == how) {
                    told.remove(at);
                    return;
                }
            }
            self.0.1.notified().await;
        }
    }

    /// How many handlers run now.
    pub fn open(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    /// Watches a handler's token and its future.
    fn watch(&self, token: CancellationToken) -> Waiting {
        let endings = self.clone();
        self.1.fetch_add(1, Ordering::Relaxed);
        let watcher = tokio::spawn(async move {
            token.cancelled().await;
            endings.tell("token fired");
        });
        Waiting {
            endings: self.clone(),
            answered: false,
            watcher,
        }
    }
}

struct Waiting {
    endings: Endings,
    answered: bool,
    watcher: tokio::task::JoinHandle<()>,
}

impl Waiting {
    fn answered(mut self) {
        self.watcher.abort();
        self.answered = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.endings.1.fetch_sub(1, Ordering::Relaxed);
        if !self.answered {
            self.endings.tell("dropped");
        }
    }
}

/// A client handler that answers at once, or waits for [`Handler::release`].
#[derive(Clone)]
pub struct Handler {
    pub log: Log,
    pub gate: Arc<Semaphore>,
    pub fail_with: Option<ErrorData>,
    /// A method whose requests fail at once, without waiting.
    pub broken: Option<&'static str>,
    /// How waiting questions end: "token fired", "dropped".
    pub ended: Endings,
    entered: mpsc::UnboundedSender<String>,
}

impl Handler {
    /// Answers at once.
    pub fn open() -> (Self, mpsc::UnboundedReceiver<String>) {
        Self::with_permits(Semaphore::MAX_PERMITS)
    }

    /// Waits for a person, who answers when the test adds permits to the gate.
    pub fn blocked() -> (Self, mpsc::UnboundedReceiver<String>) {
        Self::with_permits(0)
    }

    fn with_permits(permits: usize) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (entered, events) = mpsc::unbounded_channel();
        let handler = Self {
            log: Log::default(),
            gate: Arc::new(Semaphore::new(permits)),
            fail_with: None,
            broken: None,
            ended: Endings::default(),
            entered,
        };
        (handler, events)
    }

    fn enter(&self, method: &str) {
        self.log.push(method);
        // The test may have stopped listening.
        let _ = self.entered.send(method.to_owned());
    }
}

impl Service<RoleClient> for Handler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let value = serde_json::to_value(&request).unwrap();
        let method = value["method"].as_str().unwrap().to_owned();
        self.enter(&method);
        if method == "ping" {
            return Ok(ClientResult::empty(()));
        }
        if self.broken == Some(method.as_str()) {
            return Err(ErrorData::internal_error("broken", None));
        }
        let waiting = self.ended.watch(context.ct.clone());
        self.gate.acquire().await.unwrap().forget();
        waiting.answered();
        if let Some(error) = &self.fail_with {
            return Err(error.clone());
        }
        let answer = match method.as_str() {
            "sampling/createMessage" => json!({
                "role": "assistant",
                "content": {"type": "text", "text": "4"},
                "model": "test-model",
            }),
            "elicitation/create" => {
                let content = filled_in(&value["params"]["requestedSchema"]);
                json!({"action": "accept", "content": content})
            }
            "roots/list" => json!({"roots": []}),
            _ => json!({}),
        };
        Ok(serde_json::from_value(answer).unwrap())
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        let value = serde_json::to_value(&notification).unwrap();
        self.enter(value["method"].as_str().unwrap());
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities: ClientCapabilities = serde_json::from_value(json!({
            "sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": true},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }))
        .unwrap();
        ClientConfig::new(capabilities, Implementation::new("test-client", "1.0.0"))
    }
}

/// A form filled in as its schema asks.
fn filled_in(schema: &Value) -> Value {
    let fields = schema["properties"].as_object().cloned();
    fields
        .unwrap_or_default()
        .into_iter()
        .map(|(name, field)| {
            let value = match field["type"].as_str() {
                Some("boolean") => json!(true),
                Some("integer" | "number") => field.get("minimum").cloned().unwrap_or(json!(1)),
                _ => json!("Ada"),
            };
            (name, value)
        })
        .collect()
}
