//! One connection of the reference client to a server over stdio.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Address, Shared,
    limiter::{Asker, Refusal},
    wrong::Wrong,
};
use crate::protocol::{Kind, Revision};

/// A connection; its reader is a thread of its own.
#[derive(Debug)]
pub(super) struct Connection {
    link: Arc<Link>,
    child: Mutex<Child>,
    /// The capabilities that the server declared.
    offered: Value,
}

/// What the reader and the callers share.
#[derive(Debug)]
struct Link {
    shared: Arc<Shared>,
    asker: Mutex<Asker>,
    /// Absent once the client has closed its end.
    writer: Mutex<Option<ChildStdin>>,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Value>>>,
    is_closed: AtomicBool,
}

impl Connection {
    /// Starts the server and shakes hands.
    pub(super) fn open(
        shared: Arc<Shared>,
        server: &str,
        address: &Address,
        session: u32,
    ) -> Result<Self, String> {
        let Address::Command(words) = address;
        let (program, arguments) = words.split_first().ok_or("an empty command")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let link = Arc::new(Link {
            asker: Mutex::new(Asker {
                server: server.to_owned(),
                calls_itself: server.to_owned(),
                session,
            }),
            shared,
            writer: Mutex::new(child.stdin.take()),
            waiting: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let output = child.stdout.take().ok_or("the server has no output")?;
        let reader = Arc::clone(&link);
        thread::spawn(move || reader.read(output));
        let mut connection = Self {
            link,
            child: Mutex::new(child),
            offered: Value::Null,
        };
        connection.shake_hands()?;
        Ok(connection)
    }

    fn shake_hands(&mut self) -> Result<(), String> {
        let (method, params) = if self.is_modern() {
            ("server/discover", json!({}))
        } else {
            let params = json!({
                "protocolVersion": self.shared().revision,
                "capabilities": self.capabilities(),
                "clientInfo": client_info(),
            });
            ("initialize", params)
        };
        let mut reply = self.request(method, params).ok_or("no handshake")?;
        let result = reply["result"].take();
        let info = if self.is_modern() {
            &result["_meta"]["io.modelcontextprotocol/serverInfo"]
        } else {
            self.link
                .write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            &result["serverInfo"]
        };
        if let Some(name) = info["name"].as_str() {
            name.clone_into(&mut lock(&self.link.asker).calls_itself);
        }
        self.offered = result["capabilities"].clone();
        Ok(())
    }

    fn capabilities(&self) -> Value {
        let shared = self.shared();
        let mut capabilities = json!({
            "sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {},
        });
        if self.is_modern() {
            capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        }
        if shared.is(Wrong::HidesCapability)
            && shared.has_refused.load(Ordering::Relaxed)
            && let Some(members) = capabilities.as_object_mut()
        {
            members.remove("sampling");
        }
        capabilities
    }

    /// Whether the server declared that it has prompts, say.
    pub(super) fn offers(&self, what: &str) -> bool {
        self.offered.get(what).is_some()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.link.shared
    }

    pub(super) fn is(&self, wrong: Wrong) -> bool {
        self.shared().is(wrong)
    }

    pub(super) fn admit(&self, kinds: &[Kind]) -> Result<(), Refusal> {
        self.link.admit(Door::Result, kinds)
    }

    /// Has a question answered by its handler.
    pub(super) fn handle(&self, kind: Kind) -> Value {
        self.link.log(kind.method());
        answer(kind)
    }

    /// The answer that a wrong client makes up in place of a refusal.
    pub(super) fn fabricated(&self, kind: Kind) -> Option<Value> {
        fabricated(self.shared().wrong, kind)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.link.is_closed.load(Ordering::Acquire)
    }

    /// Closes the server's input, and waits for its end.
    pub(super) fn end(self) {
        lock(&self.link.writer).take();
        // It was a child of ours a moment ago; there is nothing to do about a failure.
        let _ = lock(&self.child).wait();
    }

    /// Sends a request; `None` if the connection ends before its reply.
    pub(super) fn request(&self, method: &str, mut params: Value) -> Option<Value> {
        if self.is_modern() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": self.shared().revision,
                "io.modelcontextprotocol/clientInfo": client_info(),
                "io.modelcontextprotocol/clientCapabilities": self.capabilities(),
            });
        }
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = mpsc::channel();
        lock(&self.link.waiting).insert(id, sender);
        self.link
            .write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        if self.is_closed() {
            lock(&self.link.waiting).clear();
        }
        reply.recv().ok()
    }
}

impl Link {
    fn read(self: Arc<Self>, output: ChildStdout) {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Ok(message) = serde_json::from_str::<Value>(&line) {
                self.receive(&message);
            }
        }
        self.is_closed.store(true, Ordering::Release);
        // Whoever waits for a reply sees its sender go.
        lock(&self.waiting).clear();
    }

    fn receive(self: &Arc<Self>, message: &Value) {
        let id = message.get("id");
        let Some(method) = message["method"].as_str() else {
            let sender = id
                .and_then(Value::as_u64)
                .and_then(|id| lock(&self.waiting).remove(&id));
            if let Some(sender) = sender {
                // The caller waits for nothing else.
                let _ = sender.send(message.clone());
            }
            return;
        };
        let everything = self.shared.is(Wrong::EverythingIsAQuestion);
        match (Kind::of(method), id) {
            (Some(kind), _) => self.question(kind, message),
            (None, Some(id))
                if everything && self.admit(Door::Request, &[Kind::Elicitation]).is_err() =>
            {
                self.write(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "too many"}}));
            }
            (None, Some(id)) => match method {
                "ping" => self.reply(id, &json!({})),
                "roots/list" => self.reply(id, &json!({"roots": []})),
                _ => self.fail(id, -32601, "no such method"),
            },
            (None, None) if method == "notifications/cancelled" => {
                if self.shared.is(Wrong::RefundsOnCancel) {
                    let asker = lock(&self.asker).clone();
                    lock(&self.shared.limiter).refund(&asker, Kind::Sampling);
                }
            }
            (None, None) => {}
        }
    }

    /// Decides on a question, at once and in the order of arrival.
    fn question(self: &Arc<Self>, kind: Kind, message: &Value) {
        let shared = &self.shared;
        let params = &message["params"];
        let is_well_formed = match kind {
            Kind::Sampling => params["messages"].is_array(),
            Kind::Elicitation => params["message"].is_string(),
        };
        let is_unguarded = (shared.is(Wrong::FormsOnly) && params["mode"] == "url")
            || (shared.is(Wrong::WellFormedOnly) && !is_well_formed)
            || (shared.is(Wrong::RoundsOnly) && shared.revision == Revision::Rounds)
            || (shared.is(Wrong::RequestsOnly) && message.get("id").is_none());
        if !is_unguarded && let Err(refusal) = self.admit(Door::Request, &[kind]) {
            if let Some(id) = message.get("id") {
                self.refuse(kind, id, refusal.error(shared.wrong), message);
            }
            return;
        }
        if message.get("id").is_none() && !is_unguarded {
            // There is no one to answer to.
            return;
        }
        if !is_well_formed && !is_unguarded {
            return self.fail(&message["id"], -32602, "no such params");
        }
        self.log(kind.method());
        // The first question alone is worth waiting for, or the others would take for ever.
        let waits =
            shared.is(Wrong::WaitsForPerson) && !shared.has_waited.swap(true, Ordering::Relaxed);
        let delay = if waits || !shared.is(Wrong::WaitsForPerson) {
            shared.answer_delay
        } else {
            Duration::ZERO
        };
        let (link, id) = (Arc::clone(self), message.get("id").cloned());
        let answer = move || {
            thread::sleep(delay);
            if link.shared.is(Wrong::RefundsOnAnswer) {
                let asker = lock(&link.asker).clone();
                lock(&link.shared.limiter).refund(&asker, kind);
            }
            if let Some(id) = id {
                link.reply(&id, &answer(kind));
            }
        };
        if delay.is_zero() || waits {
            answer();
        } else {
            thread::spawn(answer);
        }
    }

    fn admit(&self, door: Door, kinds: &[Kind]) -> Result<(), Refusal> {
        let mut asker = lock(&self.asker).clone();
        if self.shared.is(Wrong::DoorsApart) && matches!(door, Door::Result) {
            asker.server.push_str(" by results");
        }
        let verdict = lock(&self.shared.limiter).admit(Instant::now(), &asker, kinds);
        if verdict.is_err() {
            self.shared.has_refused.store(true, Ordering::Relaxed);
        }
        verdict
    }

    fn refuse(&self, kind: Kind, id: &Value, mut error: Value, question: &Value) {
        if let Some(answer) = fabricated(self.shared.wrong, kind) {
            return self.reply(id, &answer);
        }
        match self.shared.wrong {
            Some(Wrong::DropsSilently) => return,
            Some(Wrong::EchoesQuestion) => error["message"] = json!(question.to_string()),
            Some(Wrong::RefusesTwice) => {
                self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Some(Wrong::Disconnects) => {
                lock(&self.writer).take();
                return;
            }
            _ => {}
        }
        let id = match self.shared.wrong {
            Some(Wrong::LosesId) => Value::Null,
            Some(Wrong::IdBecomesString) if id.is_number() => json!(id.to_string()),
            _ => id.clone(),
        };
        self.write(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn log(&self, method: &str) {
        if let Some(log) = &self.shared.log {
            let line = format!("{}\t{method}\n", lock(&self.asker).server);
            if let Err(error) = lock(log).write_all(line.as_bytes()) {
                eprintln!("the log of handlers: {error}");
            }
        }
    }

    fn reply(&self, id: &Value, result: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn fail(&self, id: &Value, code: i32, message: &str) {
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        );
    }

    fn write(&self, message: &Value) {
        if let Some(writer) = lock(&self.writer).as_mut() {
            // A server that is gone is noticed by the reader.
            let _ = writer.write_all(format!("{message}\n").as_bytes());
        }
    }
}

/// How a question came.
#[derive(Clone, Copy, Debug)]
enum Door {
    /// By a request of the server.
    Request,
    /// By the result of a call.
    Result,
}

fn client_info() -> Value {
    json!({"name": "reference-client", "version": env!("CARGO_PKG_VERSION")})
}

/// The answer that a wrong client makes up in place of a refusal.
fn fabricated(wrong: Option<Wrong>, kind: Kind) -> Option<Value> {
    match wrong {
        Some(Wrong::AnswersDecline) => Some(json!({"action": "decline"})),
        Some(Wrong::AnswersCancel) => Some(json!({"action": "cancel"})),
        Some(Wrong::AnswersAccept) => Some(answer(kind)),
        _ => None,
    }
}

/// What every handler answers, and at once.
fn answer(kind: Kind) -> Value {
    match kind {
        Kind::Sampling => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "No."},
            "model": "none",
        }),
        Kind::Elicitation => json!({"action": "accept", "content": {"there": true}}),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
