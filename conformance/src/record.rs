//! What happened while a scenario was played, as the servers saw it.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::Notify;

use crate::{mutex::lock, protocol::Kind};

/// The code of a refusal.
pub(crate) const REFUSED: i64 = -32603;

/// Written by all connections of a run, read by the checks.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    started: Instant,
    record: Arc<Mutex<Record>>,
    first: Arc<Notify>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            record: Arc::default(),
            first: Arc::default(),
        }
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Notes a connection, and tells its number.
    pub(crate) fn connect(&self, server: usize) -> usize {
        let mut record = self.lock();
        record.connections.push(Connection {
            server,
            capabilities: None,
            asked_revision: None,
        });
        self.first.notify_one();
        record.connections.len() - 1
    }

    /// Ends with the first connection. Told once, to one who waits.
    pub(crate) async fn connected(&self) {
        self.first.notified().await;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }
}

/// Everything in the order in which it happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) connections: Vec<Connection>,
    pub(crate) calls: Vec<CallSeen>,
    pub(crate) questions: Vec<Question>,
    /// Questions that were asked together.
    pub(crate) groups: Vec<Group>,
    /// Pings and `roots/list` sent while questions were being asked.
    pub(crate) traffic: Vec<Request>,
    /// Replies to nothing that was asked, by id.
    pub(crate) strays: Vec<Value>,
    /// What a server's script has and the server did not ask.
    pub(crate) withheld: Vec<Withheld>,
    /// How many windows have ended; see [`Question::window`].
    pub(crate) window: u32,
}

/// Something that was not asked, since the client does not declare it or there is nothing to hold it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withheld {
    pub(crate) call: String,
    pub(crate) kind: Kind,
    /// Whether others of its kind were asked in its place.
    pub(crate) is_replaced: bool,
    /// Why, for people.
    pub(crate) why: String,
}

/// One connection of the client to a configured server.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The place of the server in the scenario.
    pub(crate) server: usize,
    /// What the client declared, once the handshake was seen.
    pub(crate) capabilities: Option<Value>,
    /// The revision that the client asked for.
    pub(crate) asked_revision: Option<String>,
}

/// A call that the client made.
#[derive(Clone, Debug)]
pub(crate) struct CallSeen {
    pub(crate) server: usize,
    pub(crate) name: String,
}

/// A question that a server asked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) server: usize,
    /// The place of the connection in [`Record::connections`].
    pub(crate) session: usize,
    pub(crate) call: String,
    pub(crate) kind: Kind,
    /// While there is room, the client may reply with an error of its own.
    pub(crate) may_be_rejected: bool,
    pub(crate) cancelled: bool,
    /// How many windows had ended when it was asked.
    pub(crate) window: u32,
    /// The place of its group in [`Record::groups`].
    pub(crate) group: Option<usize>,
    /// A question of a group has no id and no reply of its own.
    pub(crate) request: Request,
}

/// Questions that were asked together, and may be answered together or not at all.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) call: String,
    pub(crate) door: Door,
    /// The keys of its entries, of those that are no questions too.
    pub(crate) keys: Vec<String>,
    pub(crate) state: Option<String>,
    /// What its entry that cannot be read asks of whoever looks at its method alone.
    pub(crate) by_method_alone: Option<Kind>,
    pub(crate) fate: Fate,
    /// How often the client looked at the task that it belongs to.
    pub(crate) polls: u32,
    pub(crate) answers: Vec<Answer>,
}

impl Group {
    /// Whether it belongs to a task that the client did not follow: it was never asked.
    pub(crate) const fn is_unseen(&self) -> bool {
        let is_of_task = matches!(
            self.door,
            Door::Task | Door::Notification | Door::FailedTask
        );
        is_of_task && self.polls == 0
    }
}

/// Whether a group can be answered at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It can, if it fits.
    Open,
    /// It is one round more than a call may have.
    Beyond,
    /// One of its entries cannot be read.
    Unreadable,
}

/// How a group of questions was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// By an `input_required` result.
    Round,
    /// By a task, to those who poll it.
    Task,
    /// By a notification about a task, and by nothing else.
    Notification,
    /// By an error -32042, to which there is no answer.
    UrlRequired,
    /// By such an error of a task.
    FailedTask,
}

/// What came back for a group.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) responses: Option<Value>,
    pub(crate) state: Option<Value>,
}

/// A request of the server, and what came back.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    /// Absent on a notification.
    pub(crate) id: Option<Value>,
    pub(crate) session: usize,
    pub(crate) sent: Duration,
    pub(crate) replies: Vec<Reply>,
}

/// A reply, as it stood on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) at: Duration,
    pub(crate) outcome: Result<Value, Value>,
}

impl Request {
    pub(crate) const fn new(
        method: &'static str,
        id: Option<Value>,
        session: usize,
        sent: Duration,
    ) -> Self {
        Self {
            method,
            id,
            session,
            sent,
            replies: Vec::new(),
        }
    }

    /// The first reply's result, if there was one.
    pub(crate) fn result(&self) -> Option<&Value> {
        self.replies.first()?.outcome.as_ref().ok()
    }

    /// The first reply's error, if it was one.
    pub(crate) fn error(&self) -> Option<&Value> {
        self.replies.first()?.outcome.as_ref().err()
    }
}

impl Record {
    /// Puts a reply where it belongs. Ids are equal in type and value, or not at all.
    pub(crate) fn reply(&mut self, session: usize, at: Duration, message: &Value) {
        let outcome = match (message.get("result"), message.get("error")) {
            (Some(result), None) => Ok(result.clone()),
            (None, Some(error)) => Err(error.clone()),
            _ => return self.strays.push(message.clone()),
        };
        let asked = self
            .questions
            .iter_mut()
            .map(|question| &mut question.request);
        // The latest request of that id: the same one may be used again after its reply.
        let request = asked
            .chain(&mut self.traffic)
            .filter(|request| {
                request.session == session && request.id.as_ref() == message.get("id")
            })
            .max_by_key(|request| request.sent);
        match request {
            Some(request) => request.replies.push(Reply { at, outcome }),
            None => self.strays.push(message.clone()),
        }
    }

    /// Whether the client rejected all questions of a kind in a call by errors of its own, which
    /// it may if they are such that a library need not take them.
    pub(crate) fn rejects(&self, call: &str, kind: Kind) -> bool {
        let mut questions = self
            .questions
            .iter()
            .filter(|question| question.call == call && question.kind == kind)
            .peekable();
        let Some(first) = questions.peek().and_then(|first| first.request.error()) else {
            return false;
        };
        // A library may use the code of a refusal for what it does not support.
        let is_refusals_code = first["code"] == REFUSED;
        let own_error = |error: &Value| {
            (error["code"] == REFUSED) == is_refusals_code && error["data"]["cause"].is_null()
        };
        questions.all(|question| {
            question.may_be_rejected && question.request.error().is_some_and(own_error)
        })
    }

    /// Whether any question was refused, by whatever error with that code.
    pub(crate) fn has_refusals(&self) -> bool {
        let mut errors = self.questions.iter().filter_map(|one| one.request.error());
        errors.any(|error| error["code"] == REFUSED)
    }

    /// When asking makes sense again, as the last refusal in a session says.
    pub(crate) fn told_to_ask(&self, session: usize) -> Option<Duration> {
        let asked = self.questions.iter().map(|question| &question.request);
        let last = asked
            .filter(|request| request.session == session)
            .filter_map(|request| Some((request.replies.first()?.at, request.error()?)))
            .max_by_key(|&(at, _)| at)?;
        let (at, error) = last;
        let seconds = error["data"]["retryAfterSeconds"].as_u64();
        // More than a minute is no waiting time, and is found out elsewhere.
        let seconds = seconds.filter(|&seconds| seconds <= 60)?;
        Some(at + Duration::from_secs(seconds))
    }

    /// Whether everything asked in a session has a reply.
    pub(crate) fn is_settled(&self, session: usize) -> bool {
        self.questions
            .iter()
            .filter(|question| !question.cancelled)
            .map(|question| &question.request)
            .chain(&self.traffic)
            .filter(|request| request.session == session && request.id.is_some())
            .all(|request| !request.replies.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rejects(errors: &[Value]) -> bool {
        let questions = errors
            .iter()
            .map(|error| Question {
                server: 0,
                session: 0,
                call: "call".to_owned(),
                kind: Kind::Sampling,
                may_be_rejected: true,
                cancelled: false,
                window: 0,
                group: None,
                request: Request {
                    replies: vec![Reply {
                        at: Duration::ZERO,
                        outcome: Err(error.clone()),
                    }],
                    ..Request::new("sampling/createMessage", None, 0, Duration::ZERO)
                },
            })
            .collect();
        let record = Record {
            questions,
            ..Record::default()
        };
        record.rejects("call", Kind::Sampling)
    }

    #[test]
    fn a_client_may_reject_what_it_does_not_take_and_no_limiter_is_taken_for_that() {
        let own = json!({"code": -32602, "message": "what?"});
        let other = json!({"code": -32600, "message": "what?"});
        let unsupported = json!({"code": -32603, "message": "no tasks here"});
        let refusal = json!({"code": -32603, "data": {"cause": "limit_exceeded"}});
        assert!(rejects(&[own.clone(), other]));
        assert!(rejects(&[unsupported.clone(), unsupported.clone()]));
        // Some passed, and then there was no more room.
        assert!(!rejects(&[own, unsupported]));
        assert!(!rejects(&[refusal.clone(), refusal]));
        assert!(!rejects(&[]));
    }
}
