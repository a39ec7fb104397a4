//! What comes from a server, and what goes back: questions are decided on here.

use std::{
    collections::HashMap,
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Address, Shared,
    answers::{answer, fabricated, is_readable},
    hosted::Hosted,
    limiter::{Asker, Refusal},
    lock,
    transport::{Receiver, Transport},
    wrong::Wrong,
};
use crate::protocol::{Kind, Revision};

/// What all that goes on over a connection shares.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    asker: Mutex<Asker>,
    transport: Transport,
    /// Callers, by the ids of their requests.
    pub(super) waiting: Mutex<HashMap<u64, mpsc::Sender<Value>>>,
    /// The answers to what notifications about tasks asked, by task and key.
    shown: Mutex<HashMap<(String, String), Value>>,
    /// The questions that run as tasks.
    hosted: Hosted,
    is_closed: AtomicBool,
    is_forgotten: AtomicBool,
}

/// How a question came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Door {
    /// By a request of the server.
    Request,
    /// By the result of a call.
    Result,
}

impl Link {
    pub(super) fn open(
        shared: Arc<Shared>,
        server: &str,
        address: &Address,
        session: u32,
    ) -> Result<Arc<Self>, String> {
        let transport = Transport::open(address, shared.revision.as_str())?;
        let link = Arc::new(Self {
            asker: Mutex::new(Asker {
                server: server.to_owned(),
                calls_itself: server.to_owned(),
                session,
            }),
            shared,
            transport,
            waiting: Mutex::default(),
            shown: Mutex::default(),
            hosted: Hosted::default(),
            is_closed: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        });
        link.transport.listen(&link);
        Ok(link)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn calls_itself(&self, name: &str) {
        name.clone_into(&mut lock(&self.asker).calls_itself);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.transport.wait();
    }

    pub(super) fn shown(&self, task: &str, key: &str) -> Option<Value> {
        let shown = lock(&self.shown);
        shown.get(&(task.to_owned(), key.to_owned())).cloned()
    }

    /// Decides on a question, at once and in the order of arrival.
    fn question(self: &Arc<Self>, kind: Kind, message: &Value) {
        let shared = &self.shared;
        let params = &message["params"];
        let is_well_formed = is_readable(kind, params);
        let is_unguarded = (shared.is(Wrong::FormsOnly) && params["mode"] == "url")
            || (shared.is(Wrong::WellFormedOnly) && !is_well_formed)
            || (shared.is(Wrong::RoundsOnly) && shared.revision == Revision::Rounds)
            || (shared.is(Wrong::RequestsOnly) && message.get("id").is_none())
            || (shared.is(Wrong::ToolUseUnguarded) && params["tools"].is_array())
            || (shared.is(Wrong::HostedTasksUnguarded) && params["task"].is_object());
        if !is_unguarded && let Err(refusal) = self.admit(Door::Request, &[kind]) {
            if shared.is(Wrong::HandlesThenRefuses) {
                self.log(kind.method());
            }
            let id = match message.get("id") {
                None if shared.is(Wrong::RepliesToNotifications) => Some(&Value::Null),
                id => id,
            };
            if let Some(id) = id {
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
        if let (true, Some(id)) = (params["task"].is_object(), message.get("id")) {
            return self.reply(id, &self.hosted.create(kind));
        }
        // The first question alone is worth waiting for, or the others would take for ever.
        let waits =
            shared.is(Wrong::WaitsForPerson) && !shared.has_waited.swap(true, Ordering::Relaxed);
        let delay = if waits || !shared.is(Wrong::WaitsForPerson) {
            shared.answer_delay
        } else {
            Duration::ZERO
        };
        if shared.is(Wrong::ChargesWhenAnswered) {
            self.refund(kind);
        }
        let (link, id) = (Arc::clone(self), message.get("id").cloned());
        let answer = move || {
            thread::sleep(delay);
            match link.shared.wrong {
                Some(Wrong::RefundsOnAnswer) => link.refund(kind),
                // It was answered, whether there was room or not.
                Some(Wrong::ChargesWhenAnswered) => drop(link.admit(Door::Request, &[kind])),
                _ => {}
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

    /// Shows what a notification about a task asks, once.
    fn task_changed(&self, task: &Value) {
        let shared = &self.shared;
        let id = task["taskId"].as_str().unwrap_or_default();
        let is_new = |key: &str| self.shown(id, key).is_none();
        let new: Vec<(&String, Kind)> = task["inputRequests"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| is_new(key))
            .filter_map(|(key, entry)| Some((key, Kind::of(entry["method"].as_str()?)?)))
            .collect();
        let kinds: Vec<Kind> = new.iter().map(|&(_, kind)| kind).collect();
        if !shared.is(Wrong::TaskNotificationsUnguarded)
            && self.admit(Door::Result, &kinds).is_err()
        {
            return;
        }
        for (key, kind) in new {
            self.log(kind.method());
            let place = (id.to_owned(), key.clone());
            lock(&self.shown).insert(place, answer(kind));
        }
    }

    pub(super) fn admit(&self, door: Door, kinds: &[Kind]) -> Result<(), Refusal> {
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

    fn refund(&self, kind: Kind) {
        let asker = lock(&self.asker).clone();
        lock(&self.shared.limiter).refund(&asker, kind);
    }

    fn refuse(self: &Arc<Self>, kind: Kind, id: &Value, mut error: Value, question: &Value) {
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
                self.transport.close(self);
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

    pub(super) fn log(&self, method: &str) {
        if let Some(log) = &self.shared.log {
            let line = format!("{}\t{method}\n", lock(&self.asker).server);
            if let Err(error) = lock(log).write_all(line.as_bytes()) {
                eprintln!("the log of handlers: {error}");
            }
        }
    }

    fn reply(self: &Arc<Self>, id: &Value, result: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn fail(self: &Arc<Self>, id: &Value, code: i32, message: &str) {
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        );
    }

    pub(super) fn write(self: &Arc<Self>, message: &Value) {
        if !self.is_closed() {
            self.transport.write(message, self);
        }
    }

    /// Replies to a request that is no question.
    fn serve(self: &Arc<Self>, method: &str, id: &Value, params: &Value) {
        let everything = self.shared.is(Wrong::EverythingIsAQuestion);
        let of_task = method.starts_with("tasks/");
        let kind = self.hosted.kind(&params["taskId"]);
        let charged = match (self.shared.wrong, kind) {
            (Some(Wrong::CountsTaskCalls), Some(kind)) if of_task => Some(kind),
            (Some(Wrong::ChargesTaskResults), Some(kind)) if method == "tasks/result" => Some(kind),
            _ if everything => Some(Kind::Elicitation),
            _ => None,
        };
        if let Some(charged) = charged
            && self.admit(Door::Request, &[charged]).is_err()
        {
            return self.fail(id, -32603, "too many");
        }
        match method {
            "ping" => self.reply(id, &json!({})),
            "roots/list" => self.reply(id, &json!({"roots": []})),
            _ => match self.hosted.reply(method, params) {
                Some(result) => self.reply(id, &result),
                None => self.fail(id, -32601, "no such method"),
            },
        }
    }

    fn notified(&self, method: &str, params: &Value) {
        match method {
            "notifications/tasks" => self.task_changed(params),
            "notifications/cancelled" if self.shared.is(Wrong::RefundsOnCancel) => {
                self.refund(Kind::Sampling);
            }
            _ if self.shared.is(Wrong::EverythingIsAQuestion) => {
                // There is no one to tell.
                let _ = self.admit(Door::Request, &[Kind::Elicitation]);
            }
            _ => {}
        }
    }
}

impl Receiver for Link {
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
        match (Kind::of(method), id) {
            (Some(kind), _) => self.question(kind, message),
            (None, Some(id)) => self.serve(method, id, &message["params"]),
            (None, None) => self.notified(method, &message["params"]),
        }
    }

    fn ended(&self, request: Option<u64>) {
        // Whoever waits for a reply sees its sender go.
        match request {
            Some(request) => drop(lock(&self.waiting).remove(&request)),
            None => {
                self.is_closed.store(true, Ordering::Release);
                lock(&self.waiting).clear();
            }
        }
    }

    fn forgotten(&self) {
        self.is_forgotten.store(true, Ordering::Release);
        self.ended(None);
    }
}
