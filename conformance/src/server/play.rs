//! Plays the steps of a call.

mod burst;
mod together;

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
    declared,
    protocol::Kind,
    quantity::Quantity,
    record::{Question, Request, Withheld},
    scenario::{Call, CallMethod, Point, Shape, Step},
};

/// Bursts are bounded: limits beyond this are out of a scenario's reach.
const LARGEST_BURST: u32 = 20_000;

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
                Step::UrlRequired { count, list } => self.require_urls(count, *list),
                Step::TaskFails { count } => self.fail_task(count).await,
                Step::Close {} => {
                    self.session.send(Outgoing::Close {
                        last: wire::reply(&self.id, &self.result()),
                        about: self.id.clone(),
                    });
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

    /// How many questions of each kind a step asks: none of a kind that the client does not declare
    /// in this shape, or for which there is nothing to hold it to.
    fn sizes(&self, kinds: &[Kind], shape: Shape, count: &Quantity) -> Vec<(Kind, u32)> {
        let limits = &self.session.stage.limits;
        let capabilities = self.session.capabilities();
        let mut sizes = Vec::new();
        for &kind in kinds {
            let size = if let Some(missing) = declared::lacks(&capabilities, kind, shape) {
                Err(undeclared(missing))
            } else if limits.lowest(kind).is_none() {
                Err(format!("no limit on {kind} is set"))
            } else {
                match count.of(kind, limits) {
                    None => Err(format!(
                        "the limit on {kind} that this is about is turned off"
                    )),
                    Some(size) if size > LARGEST_BURST => Err(format!(
                        "the limit on {kind} is beyond the {LARGEST_BURST} questions that a scenario asks at most"
                    )),
                    Some(0) => continue,
                    Some(size) => Ok(size),
                }
            };
            match size {
                Ok(size) => sizes.push((kind, size)),
                Err(why) => self.withhold(kind, false, why),
            }
        }
        sizes
    }

    /// Writes down that questions of a kind are not asked, or in other shapes only.
    fn withhold(&self, kind: Kind, is_replaced: bool, why: String) {
        self.session.stage.recorder.lock().withheld.push(Withheld {
            call: self.call.name.clone(),
            kind,
            is_replaced,
            why,
        });
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
                Point::AsTold => {
                    let told = record.told_to_ask(self.session.number);
                    record.window += 1;
                    // A window does not go on because its client says so, or says nothing.
                    let surely_over = latest + length + margin;
                    told.map_or(surely_over, |told| told.min(surely_over))
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

fn undeclared(capability: &str) -> String {
    format!("the client does not declare {capability}")
}
