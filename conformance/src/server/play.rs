//! Plays the steps of a call.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    session::{Outgoing, Session},
    wire,
};
use crate::{
    record::{Question, Request},
    scenario::{Ask, Call, CallMethod, Point, Shape, Step},
};

/// Bursts are bounded: limits beyond this are out of a scenario's reach.
const LARGEST_BURST: u32 = 20_000;
/// Plays a call to its end.
pub(super) async fn call(session: Session, method: CallMethod, call: Call, id: Value) {
    for step in &call.steps {
        match step {
            Step::Ask(burst) => ask(&session, &call.name, burst, &id).await,
            Step::Close {} => return session.send(Outgoing::Close),
            Step::Wait(point) => wait(&session, *point).await,
        }
    }
    let result = wire::complete(session.stage.revision, method, &call.name);
    session.reply(&id, &result);
}

/// Asks a burst of questions in one write, and waits until the client has nothing more to say.
async fn ask(session: &Session, call: &str, burst: &Ask, about: &Value) {
    let mut messages = Vec::new();
    let mut cancellations = Vec::new();
    let recorder = &session.stage.recorder;
    {
        let mut record = recorder.lock();
        let window = record.window;
        let sent = recorder.now();
        let sizes: Vec<_> = burst
            .kinds
            .iter()
            .filter_map(|&kind| Some((kind, burst.count.of(kind, &session.stage.limits)?)))
            .filter(|&(_, size)| size <= LARGEST_BURST)
            .collect();
        let longest = sizes.iter().map(|&(_, size)| size).max().unwrap_or(0);
        for (number, shape) in (0..longest).zip(burst.shapes.iter().copied().cycle()) {
            for &(kind, _) in sizes.iter().filter(|&&(_, size)| number < size) {
                let id = (shape != Shape::NoId).then(|| wire::id(burst.ids, session.next_id()));
                messages.push(wire::question(kind, shape, id.as_ref()));
                cancellations.extend(id.as_ref().filter(|_| burst.cancel).map(wire::cancelled));
                record.questions.push(Question {
                    server: session.server,
                    session: session.number,
                    call: call.to_owned(),
                    kind,
                    malformed: shape.is_malformed(),
                    cancelled: burst.cancel,
                    window,
                    request: Request::new(kind.method(), id, session.number, sent),
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
    session.send(Outgoing::Write {
        messages,
        about: about.clone(),
    });
    settle(session).await;
    if burst.cancel || burst.shapes.contains(&Shape::NoId) {
        // No reply tells when the client is done with these: a handler that was entered writes
        // its line at once, and anything in order behind them shows that they have been read.
        ping(session, about).await;
        sleep(session.answer_delay()).await;
    }
}

/// Sends a ping, and waits for its reply.
async fn ping(session: &Session, about: &Value) {
    let id = Value::from(session.next_id());
    let recorder = &session.stage.recorder;
    let request = Request::new("ping", Some(id.clone()), session.number, recorder.now());
    recorder.lock().traffic.push(request);
    session.send(Outgoing::Write {
        messages: vec![wire::request("ping", &id)],
        about: about.clone(),
    });
    settle(session).await;
}

/// Waits until everything has a reply, or the client has fallen silent.
async fn settle(session: &Session) {
    loop {
        let heard = session.heard.notified();
        if session.stage.recorder.lock().is_settled(session.number) {
            return;
        }
        let deadline = Instant::now() + session.stage.silence + session.answer_delay();
        if timeout_at(deadline, heard).await.is_err() {
            return;
        }
    }
}

/// Waits for a point of the current window. The client opened it between sending the window's
/// first question and the arrival of its reply.
async fn wait(session: &Session, point: Point) {
    let recorder = &session.stage.recorder;
    let length = session.stage.window;
    // So far from the edge a question is asked, that it falls on the side that is meant.
    let margin = (length / 6).min(Duration::from_secs(1));
    let until = {
        let mut record = recorder.lock();
        let window = record.window;
        let mut questions = record.questions.iter();
        let Some(first) = questions.find(|question| question.window == window) else {
            return;
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
}

impl Session {
    /// How long the client's handlers are asked to take.
    fn answer_delay(&self) -> Duration {
        Duration::from_millis(self.stage.scenario.answer_delay_ms)
    }
}
