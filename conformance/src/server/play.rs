//! Plays the steps of a call.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout_at},
};

use super::{
    session::{Outgoing, Session},
    wire,
};
use crate::{
    protocol::Kind,
    quantity::Quantity,
    record::{Answer, Door, Group, Question, Request},
    scenario::{Ask, Call, CallMethod, Entries, Point, Shape, Step},
};

/// Bursts are bounded: limits beyond this are out of a scenario's reach.
const LARGEST_BURST: u32 = 20_000;
/// How often a task is still asking after it was answered: its server is slow to notice.
const POLLS_AFTER_ANSWER: u32 = 3;

/// A request of the client that goes on with a call.
#[derive(Clone, Debug)]
pub(super) struct Continuation {
    pub(super) method: String,
    pub(super) id: Value,
    pub(super) params: Value,
}

/// A call being played.
#[derive(Debug)]
pub(super) struct Play {
    pub(super) session: Session,
    pub(super) method: CallMethod,
    pub(super) call: Call,
    /// The client's request that waits for a reply.
    pub(super) id: Value,
    pub(super) continuations: mpsc::UnboundedReceiver<Continuation>,
}

/// Whether a call goes on after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    GoesOn,
    Ended,
}

impl Play {
    /// Plays the call to its end.
    pub(super) async fn run(mut self) {
        let steps = std::mem::take(&mut self.call.steps);
        for step in &steps {
            let flow = match step {
                Step::Ask(burst) => self.ask(burst).await,
                Step::Round(entries) => self.rounds(entries).await,
                Step::Task(entries) => self.task(entries).await,
                Step::UrlRequired { count } => self.require_urls(count),
                Step::Close {} => {
                    self.session.send(Outgoing::Close);
                    Flow::Ended
                }
                Step::Wait(point) => self.wait(*point).await,
            };
            if flow == Flow::Ended {
                return;
            }
        }
        self.session.reply(&self.id, &self.result());
    }

    fn result(&self) -> Value {
        wire::complete(self.session.stage.revision, self.method, &self.call.name)
    }

    /// How many questions of each kind a step asks; nothing of a kind without the limit it names.
    fn sizes(&self, kinds: &[Kind], count: &Quantity) -> Vec<(Kind, u32)> {
        let limits = &self.session.stage.limits;
        let sizes = kinds
            .iter()
            .filter_map(|&kind| Some((kind, count.of(kind, limits)?)));
        sizes.filter(|&(_, size)| size <= LARGEST_BURST).collect()
    }

    /// Asks a burst of questions in one write, and waits until the client has nothing more to say.
    async fn ask(&self, burst: &Ask) -> Flow {
        let session = &self.session;
        let sizes = self.sizes(&burst.kinds, &burst.count);
        let longest = sizes.iter().map(|&(_, size)| size).max().unwrap_or(0);
        let mut messages = Vec::new();
        let mut cancellations = Vec::new();
        {
            let mut record = session.stage.recorder.lock();
            let sent = session.stage.recorder.now();
            for (number, shape) in (0..longest).zip(burst.shapes.iter().copied().cycle()) {
                for &(kind, _) in sizes.iter().filter(|&&(_, size)| number < size) {
                    let id = (shape != Shape::NoId).then(|| wire::id(burst.ids, session.next_id()));
                    messages.push(wire::question(kind, shape, id.as_ref()));
                    cancellations.extend(id.as_ref().filter(|_| burst.cancel).map(wire::cancelled));
                    let question = Question {
                        may_be_rejected: shape.is_malformed() || burst.may_be_rejected,
                        cancelled: burst.cancel,
                        ..self.question(kind, record.window, sent)
                    };
                    let request = Request {
                        id,
                        ..question.request
                    };
                    record.questions.push(Question {
                        request,
                        ..question
                    });
                }
                if burst.traffic && number % 10 == 9 {
                    for method in ["ping", "roots/list"] {
                        let id = wire::id(burst.ids, session.next_id());
                        messages.push(wire::request(method, &id));
                        let request = Request::new(method, Some(id), session.number, sent);
                        record.traffic.push(request);
                    }
                }
            }
        }
        messages.append(&mut cancellations);
        self.write(messages);
        self.settle().await;
        if burst.cancel || burst.shapes.contains(&Shape::NoId) {
            // No reply tells when the client is done with these: a handler that was entered writes
            // its line at once, and a reply to what stands behind them shows that they were read.
            self.ping().await;
            sleep(self.answer_delay()).await;
        }
        Flow::GoesOn
    }

    fn question(&self, kind: Kind, window: u32, sent: Duration) -> Question {
        Question {
            server: self.session.server,
            session: self.session.number,
            call: self.call.name.clone(),
            kind,
            may_be_rejected: false,
            cancelled: false,
            window,
            group: None,
            request: Request::new(kind.method(), None, self.session.number, sent),
        }
    }

    /// Writes down questions that are asked together: all of them may be answered, or none.
    fn ask_together(
        &self,
        door: Door,
        sizes: &[(Kind, u32)],
        roots: bool,
        state: Option<String>,
        is_beyond: bool,
    ) -> (usize, serde_json::Map<String, Value>) {
        let session = &self.session;
        let mut record = session.stage.recorder.lock();
        let sent = session.stage.recorder.now();
        let place = record.groups.len();
        let mut entries = serde_json::Map::new();
        for &(kind, size) in sizes {
            for number in 0..size {
                let key = format!("{kind}-{place}-{number}");
                entries.insert(key, wire::entry(kind));
                let question = self.question(kind, record.window, sent);
                record.questions.push(Question {
                    group: Some(place),
                    ..question
                });
            }
        }
        if roots {
            entries.insert(format!("a-root-{place}"), wire::roots_entry());
        }
        record.groups.push(Group {
            call: self.call.name.clone(),
            door,
            keys: entries.keys().cloned().collect(),
            state,
            is_beyond,
            answers: Vec::new(),
        });
        (place, entries)
    }

    fn answered(&self, group: usize, params: &Value) {
        let mut record = self.session.stage.recorder.lock();
        record.groups[group].answers.push(Answer {
            responses: params.get("inputResponses").cloned(),
            state: params.get("requestState").cloned(),
        });
    }

    /// Asks by `input_required` results, as often as the client comes back.
    async fn rounds(&mut self, step: &Entries) -> Flow {
        let limits = &self.session.stage.limits;
        let (sizes, bound) = (self.sizes(&step.kinds, &step.count), limits.ask_rounds);
        let is_empty = sizes.iter().all(|&(_, size)| size == 0);
        if is_empty && step.state.text(0).is_none() {
            return Flow::GoesOn;
        }
        let times = step.times.of(Kind::Elicitation, limits).unwrap_or(1);
        for number in 0..times {
            let state = step.state.text(number);
            let (group, entries) = self.ask_together(
                Door::Round,
                &sizes,
                step.roots,
                state.clone(),
                number >= bound,
            );
            let round = wire::input_required(&entries, state.as_deref());
            self.session.reply(&self.id, &round);
            let Some(next) = self.continuations.recv().await else {
                return Flow::Ended;
            };
            self.answered(group, &next.params);
            self.id = next.id;
        }
        Flow::GoesOn
    }

    /// Makes the call a task that asks.
    async fn task(&mut self, step: &Entries) -> Flow {
        if !self.session.declares_tasks() {
            return Flow::GoesOn;
        }
        let name = self.call.name.clone();
        let sizes = self.sizes(&step.kinds, &step.count);
        let (group, entries) = self.ask_together(Door::Task, &sizes, step.roots, None, false);
        self.session.reply(&self.id, &wire::task_created(&name));
        let mut polls_after_answer = None;
        while let Some(next) = self.continuations.recv().await {
            let reply = match next.method.as_str() {
                "tasks/get" if polls_after_answer == Some(POLLS_AFTER_ANSWER) => {
                    wire::task_completed(&name, &self.result())
                }
                "tasks/get" => {
                    polls_after_answer = polls_after_answer.map(|polls| polls + 1);
                    wire::task_asks(&name, &entries)
                }
                "tasks/update" => {
                    self.answered(group, &next.params);
                    polls_after_answer.get_or_insert(0);
                    wire::acknowledged()
                }
                _ => wire::acknowledged(),
            };
            self.session.reply(&next.id, &reply);
        }
        Flow::Ended
    }

    /// Ends the call with an error that wants URLs opened.
    fn require_urls(&self, count: &Quantity) -> Flow {
        let sizes = self.sizes(&[Kind::Elicitation], count);
        let (_, entries) = self.ask_together(Door::UrlRequired, &sizes, false, None, false);
        self.session
            .write_about(&self.id, wire::urls_required(&self.id, entries.len()));
        Flow::Ended
    }

    /// Sends a ping, and waits for its reply.
    async fn ping(&self) {
        let session = &self.session;
        let id = Value::from(session.next_id());
        let recorder = &session.stage.recorder;
        let request = Request::new("ping", Some(id.clone()), session.number, recorder.now());
        recorder.lock().traffic.push(request);
        self.write(vec![wire::request("ping", &id)]);
        self.settle().await;
    }

    fn write(&self, messages: Vec<Value>) {
        self.session.send(Outgoing::Write {
            messages,
            about: self.id.clone(),
        });
    }

    /// Waits until everything has a reply, or the client has fallen silent.
    async fn settle(&self) {
        let session = &self.session;
        loop {
            let heard = session.heard.notified();
            if session.stage.recorder.lock().is_settled(session.number) {
                return;
            }
            let deadline = Instant::now() + session.stage.silence + self.answer_delay();
            if timeout_at(deadline, heard).await.is_err() {
                return;
            }
        }
    }

    /// Waits for a point of the current window. The client opened it between sending the window's
    /// first question and the arrival of its reply.
    async fn wait(&self, point: Point) -> Flow {
        let recorder = &self.session.stage.recorder;
        let length = self.session.stage.window;
        // So far from the edge a question is asked, that it falls on the side that is meant.
        let margin = (length / 6).min(Duration::from_secs(1));
        let until = {
            let mut record = recorder.lock();
            let window = record.window;
            let mut questions = record.questions.iter();
            let Some(first) = questions.find(|question| question.window == window) else {
                return Flow::GoesOn;
            };
            let opened = first.request.sent;
            let latest = first
                .request
                .replies
                .first()
                .map_or(opened, |reply| reply.at);
            match point {
                Point::Half => opened + length / 2,
                Point::BeforeEnd => (opened + length).saturating_sub(margin),
                Point::AfterEnd => {
                    record.window += 1;
                    latest + length + margin
                }
            }
        };
        sleep(until.saturating_sub(recorder.now())).await;
        Flow::GoesOn
    }

    /// How long the client's handlers are asked to take.
    fn answer_delay(&self) -> Duration {
        Duration::from_millis(self.session.stage.scenario.answer_delay_ms)
    }
}
