//! One connection of the client to a scripted server.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::{
    Stage,
    play::{Continuation, Play},
    wire,
};
use crate::{
    mutex::lock,
    protocol::Revision,
    record::CallSeen,
    scenario::{Call, CallMethod, Server},
    wire_log::Side,
};

/// What a connection does next.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Writes these messages at once. `about` is the client's request to which they belong.
    Write { messages: Vec<Value>, about: Value },
    /// Ends. Over HTTP there is no connection to close: the call ends with `last`, and the session
    /// is known no more.
    Close { last: Value, about: Value },
}

/// A connection, shared by its reader and by the calls being played.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(super) stage: Stage,
    /// The place of the server in the scenario.
    pub(super) server: usize,
    /// The place of this connection in the record.
    pub(super) number: usize,
    /// Told of every message of the client.
    pub(super) heard: Arc<Notify>,
    next_id: Arc<AtomicU32>,
    /// Where requests go that go on with a call, by its name.
    playing: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Continuation>>>>,
    out: mpsc::UnboundedSender<Outgoing>,
}

impl Session {
    /// Opens a connection to the server at a place in the scenario.
    pub(crate) fn open(stage: Stage, server: usize) -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        let (out, outgoing) = mpsc::unbounded_channel();
        let number = stage.recorder.connect(server);
        let session = Self {
            stage,
            server,
            number,
            heard: Arc::default(),
            next_id: Arc::new(AtomicU32::new(1)),
            playing: Arc::default(),
            out,
        };
        (session, outgoing)
    }

    pub(super) fn scripted(&self) -> &Server {
        &self.stage.scenario.servers[self.server]
    }

    pub(super) fn next_id(&self) -> u32 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn send(&self, out: Outgoing) {
        match &out {
            Outgoing::Write { messages, .. } => {
                messages
                    .iter()
                    .for_each(|message| self.note(Side::Server, message));
            }
            Outgoing::Close { last, .. } => self.note(Side::Server, last),
        }
        // The client may have gone; the record shows what it saw.
        let _ = self.out.send(out);
    }

    /// Writes one message that belongs to a request.
    pub(super) fn write_about(&self, id: &Value, message: Value) {
        self.send(Outgoing::Write {
            messages: vec![message],
            about: id.clone(),
        });
    }

    pub(super) fn reply(&self, id: &Value, result: &Value) {
        self.write_about(id, wire::reply(id, result));
    }

    pub(super) fn fail(&self, id: &Value, code: i64, message: &str) {
        self.write_about(id, wire::error(id, code, message));
    }

    /// Takes what the client said that is no message.
    pub(super) fn receive_garbage(&self, line: String) {
        let line = Value::String(line);
        self.note(Side::Client, &line);
        self.stage.recorder.lock().strays.push(line);
    }

    fn note(&self, from: Side, message: &Value) {
        if let Some(log) = &self.stage.wire_log {
            let at = self.stage.recorder.now();
            log.note(at, &self.scripted().name, self.number + 1, from, message);
        }
    }

    /// Takes a message of the client.
    pub(crate) fn receive(&self, message: &Value) {
        self.note(Side::Client, message);
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(id)) => self.request(method, id, &message["params"]),
            (Some(_), None) => {}
            (None, _) => {
                let recorder = &self.stage.recorder;
                let at = recorder.now();
                recorder.lock().reply(self.number, at, message);
            }
        }
        self.heard.notify_waiters();
    }

    fn request(&self, method: &str, id: &Value, params: &Value) {
        let revision = self.stage.revision;
        if revision == Revision::Rounds {
            let meta = &params["_meta"];
            self.greeted(
                &meta["io.modelcontextprotocol/clientCapabilities"],
                &meta["io.modelcontextprotocol/protocolVersion"],
            );
        }
        let list = |method| wire::list(revision, self.scripted(), method);
        match (method, revision) {
            ("initialize", Revision::Requests) => {
                self.greeted(&params["capabilities"], &params["protocolVersion"]);
                self.reply(id, &self.handshake());
            }
            ("server/discover", Revision::Rounds) => self.reply(id, &self.handshake()),
            ("ping", _) => self.reply(id, &json!({})),
            ("tools/list", _) => self.reply(id, &list(CallMethod::Tool)),
            ("prompts/list", _) => self.reply(id, &list(CallMethod::Prompt)),
            ("resources/list", _) => self.reply(id, &list(CallMethod::Resource)),
            ("tools/call", _) => self.call(CallMethod::Tool, id, params),
            ("prompts/get", _) => self.call(CallMethod::Prompt, id, params),
            ("resources/read", _) => self.call(CallMethod::Resource, id, params),
            ("tasks/get" | "tasks/update" | "tasks/cancel", Revision::Rounds) => {
                let task = params["taskId"].as_str().unwrap_or_default();
                self.go_on(task, method, id, params);
            }
            _ => self.unknown(id, method),
        }
    }

    /// Hands a request to the call that it belongs to.
    fn go_on(&self, call: &str, method: &str, id: &Value, params: &Value) {
        let continuation = Continuation {
            method: method.to_owned(),
            id: id.clone(),
            params: params.clone(),
        };
        let handed = lock(&self.playing)
            .get(call)
            .is_some_and(|play| play.send(continuation).is_ok());
        if !handed {
            let mut record = self.stage.recorder.lock();
            record
                .strays
                .push(json!({"method": method, "params": params}));
            drop(record);
            self.fail(id, -32602, "nothing waits for this");
        }
    }

    /// What the client declares; null before the handshake.
    pub(super) fn capabilities(&self) -> Value {
        let record = self.stage.recorder.lock();
        let declared = record.connections[self.number].capabilities.as_ref();
        declared.cloned().unwrap_or_default()
    }

    fn unknown(&self, id: &Value, method: &str) {
        self.fail(id, -32601, &format!("no method {method}"));
    }

    fn greeted(&self, capabilities: &Value, revision: &Value) {
        let mut record = self.stage.recorder.lock();
        let connection = &mut record.connections[self.number];
        connection.capabilities = Some(capabilities.clone());
        connection.asked_revision = revision.as_str().map(str::to_owned);
    }

    fn handshake(&self) -> Value {
        let server = self.scripted();
        let before = self.stage.recorder.lock().connections[..self.number]
            .iter()
            .filter(|connection| connection.server == self.server)
            .count();
        let names = &server.calls_itself;
        let name = names.get(before).or(names.last()).unwrap_or(&server.name);
        wire::handshake(self.stage.revision, server, name)
    }

    fn call(&self, method: CallMethod, id: &Value, params: &Value) {
        let Some(call) = self.find_call(method, params).cloned() else {
            return self.fail(id, -32602, "nothing of that name");
        };
        if params.get("inputResponses").is_some() || params.get("requestState").is_some() {
            return self.go_on(&call.name, "", id, params);
        }
        self.stage.recorder.lock().calls.push(CallSeen {
            server: self.server,
            name: call.name.clone(),
        });
        let (sender, continuations) = mpsc::unbounded_channel();
        lock(&self.playing).insert(call.name.clone(), sender);
        let play = Play {
            session: self.clone(),
            method,
            call,
            id: id.clone(),
            continuations,
        };
        tokio::spawn(play.run());
    }

    fn find_call(&self, method: CallMethod, params: &Value) -> Option<&Call> {
        let is_named = |call: &&Call| match method {
            CallMethod::Tool | CallMethod::Prompt => params["name"] == call.name,
            CallMethod::Resource => params["uri"] == wire::uri(&call.name),
        };
        self.scripted().calls(method).iter().find(is_named)
    }
}
