//! A server that speaks raw JSON-RPC over an in-memory pipe, and a handler that writes down what
//! reaches it. Everything is asserted on the wire and at the handler, never on the throttle's word.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part of this module"
)]

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use mcp_question_throttle::{
    ClientSession, Throttled,
    limits::{Limit, ProtoSettings},
};
use rmcp::{
    ServiceExt,
    model::{
        ClientCapabilities, ClientConfig, ClientResult, ErrorData, Implementation, ProtocolVersion,
        ServerNotification, ServerRequest,
    },
    service::{ClientLifecycleMode, NotificationContext, RequestContext, RoleClient, Service},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    sync::{Notify, Semaphore, mpsc},
};
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

/// The server's end of the pipe: lines out, lines in.
pub struct Server {
    reader: Reader,
    writer: WriteHalf<DuplexStream>,
}

/// Its ear.
pub struct Reader(BufReader<ReadHalf<DuplexStream>>);

impl Reader {
    /// The next line the client wrote, as it stood on the wire.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.unwrap();
        (read > 0).then_some(line)
    }

    pub async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await.expect("the client is connected")).unwrap()
    }
}

impl Server {
    pub async fn send(&mut self, message: &Value) {
        self.send_raw(&format!("{message}\n")).await;
    }

    pub async fn send_raw(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    /// Ear and mouth apart, for a server that does one without the other.
    pub fn split(self) -> (Reader, WriteHalf<DuplexStream>) {
        (self.reader, self.writer)
    }

    /// The next line the client wrote, as it stood on the wire.
    pub async fn line(&mut self) -> Option<String> {
        self.reader.line().await
    }

    pub async fn receive(&mut self) -> Value {
        self.reader.receive().await
    }

    pub async fn receive_all(&mut self, count: usize) -> Vec<Value> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(self.receive().await);
        }
        all
    }

    /// Answers the handshake of 2025-11-25, and gives back the initialize request.
    pub async fn handshake(&mut self) -> Value {
        let initialize = self.receive().await;
        self.welcome(&initialize, "scripted").await;
        initialize
    }

    /// The same under another name.
    pub async fn handshake_as(&mut self, name: &str) {
        let initialize = self.receive().await;
        self.welcome(&initialize, name).await;
    }

    async fn welcome(&mut self, initialize: &Value, name: &str) {
        assert_eq!(initialize["method"], "initialize");
        self.answer(
            initialize,
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": name, "version": "1.0.0"},
            }),
        )
        .await;
        assert_eq!(self.receive().await["method"], "notifications/initialized");
    }

    /// Answers the discovery of 2026-07-28.
    pub async fn discovery(&mut self) {
        let discover = self.receive().await;
        assert_eq!(discover["method"], "server/discover");
        self.answer(
            &discover,
            json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {
                    "tools": {}, "prompts": {}, "resources": {},
                    "extensions": {"io.modelcontextprotocol/tasks": {}},
                },
                "serverInfo": {"name": "scripted", "version": "1.0.0"},
                "ttlMs": 0,
                "cacheScope": "private",
            }),
        )
        .await;
    }

    /// Answers a request with a result.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            .await;
    }

    /// Answers a request with an error.
    pub async fn answer_error(&mut self, request: &Value, error: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            .await;
    }

    /// The next request of this method; the client's notifications are passed over.
    pub async fn request(&mut self, method: &str) -> Value {
        loop {
            let message = self.receive().await;
            if message.get("id").is_some() {
                assert_eq!(message["method"], method, "{message}");
                return message;
            }
        }
    }

    /// Everything the client still writes until it has gone.
    pub async fn until_gone(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(line) = self.line().await {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
    }
}

/// The two ends of a pipe.
pub fn pipe() -> (DuplexStream, Server) {
    pipe_of(1 << 20)
}

/// The two ends of a pipe that holds so many bytes each way.
pub fn pipe_of(bytes: usize) -> (DuplexStream, Server) {
    let (client, server) = tokio::io::duplex(bytes);
    let (reader, writer) = tokio::io::split(server);
    let server = Server {
        reader: Reader(BufReader::new(reader)),
        writer,
    };
    (client, server)
}

/// Polls a future so many times at most, and drops it then: a call that is dropped at its n-th
/// await point. `None` if it had not ended.
pub async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What stands between a server and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Wrapper,
    WrapperAndShield,
}

impl Guard {
    /// A throttled client connected to a scripted server of 2025-11-25.
    pub async fn connect<S: Service<RoleClient>>(
        self,
        throttled: Throttled<S>,
    ) -> (ClientSession<S>, Server) {
        self.connect_as(throttled, "scripted").await
    }

    /// The same, where the server calls itself `name`.
    pub async fn connect_as<S: Service<RoleClient>>(
        self,
        throttled: Throttled<S>,
        name: &str,
    ) -> (ClientSession<S>, Server) {
        let (client, mut server) = pipe();
        let connected = async {
            match self {
                Self::Wrapper => ClientSession::new(throttled.serve(client).await.unwrap()),
                Self::WrapperAndShield => ClientSession::connect(throttled, client).await.unwrap(),
            }
        };
        let (session, ()) = tokio::join!(connected, server.handshake_as(name));
        (session, server)
    }
}

/// A throttled client as most have it: behind a shield.
pub async fn connect<S: Service<RoleClient>>(
    throttled: Throttled<S>,
) -> (ClientSession<S>, Server) {
    Guard::WrapperAndShield.connect(throttled).await
}

/// A well-formed question.
pub fn question(method: &str, id: impl Into<Value>) -> Value {
    let params = match method {
        "sampling/createMessage" => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
            "maxTokens": 16,
        }),
        _ => json!({
            "message": "Your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }),
    };
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn is_refusal(message: &Value) -> bool {
    message["error"]["code"] == -32603 && message["error"]["data"]["cause"].is_string()
}

/// Limits of a server, with those of sessions turned off.
pub fn limits(sampling: u32, elicitation: u32) -> ProtoSettings {
    ProtoSettings::default()
        .with_sampling_per_minute(Limit::new(sampling).unwrap())
        .with_sampling_session_per_minute(Limit::OFF)
        .with_elicitation_per_minute(Limit::new(elicitation).unwrap())
}

/// A throttled client connected to a scripted server of 2026-07-28.
pub async fn connect_modern<S: Service<RoleClient>>(
    throttled: Throttled<S>,
) -> (ClientSession<S>, Server) {
    let (client, mut server) = pipe();
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let (session, ()) = tokio::join!(
        ClientSession::connect_with_lifecycle(throttled, client, lifecycle),
        server.discovery()
    );
    (session.unwrap(), server)
}

/// An `input_required` result.
pub fn round(entries: &[(&str, &str)], state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required"});
    if !entries.is_empty() {
        result["inputRequests"] = inputs(entries);
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

/// Input requests: key and method of each.
pub fn inputs(entries: &[(&str, &str)]) -> Value {
    entries
        .iter()
        .map(|(key, method)| {
            let mut entry = question(method, 0);
            let fields = entry.as_object_mut().unwrap();
            fields.remove("jsonrpc");
            fields.remove("id");
            if *method == "roots/list" {
                fields.remove("params");
            }
            ((*key).to_owned(), entry)
        })
        .collect()
}

/// A finished tool call.
pub fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
}
