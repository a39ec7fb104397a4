//! Bursts of questions that are requests of the server's own.

use serde_json::Value;
use tokio::time::sleep;

use super::{Flow, Play, undeclared};
use crate::{
    declared,
    protocol::Kind,
    record::{Question, Request},
    scenario::{Ask, Shape},
    server::wire,
};

impl Play {
    /// Asks a burst of questions in one write, and waits until the client has nothing more to say.
    pub(super) async fn ask(&self, burst: &Ask) -> Flow {
        // Whether the kind is declared at all; which of the shapes are comes next.
        let sizes = self.sizes(&burst.kinds, Shape::EmptyParams, &burst.count);
        let shapes: Vec<(Kind, u32, Vec<Shape>)> = sizes
            .into_iter()
            .map(|(kind, size)| (kind, size, self.declared_shapes(kind, &burst.shapes)))
            .filter(|(_, _, shapes)| !shapes.is_empty())
            .collect();
        let first = self.session.stage.recorder.lock().questions.len();
        let messages = self.write_down(burst, &shapes);
        if messages.is_empty() {
            return Flow::GoesOn;
        }
        self.write(messages);
        self.settle().await;
        if burst.cancel || burst.shapes.contains(&Shape::NoId) {
            // No reply tells when the client is done with these: a handler that was entered writes
            // its line at once, and a reply to what stands behind them shows that they were read.
            self.ping().await;
            sleep(self.answer_delay()).await;
        }
        self.follow_hosted_tasks(first).await;
        Flow::GoesOn
    }

    /// The shapes that the client takes. What it does not declare is no question of the burst.
    fn declared_shapes(&self, kind: Kind, shapes: &[Shape]) -> Vec<Shape> {
        let capabilities = self.session.capabilities();
        let lacks = |shape: &Shape| declared::lacks(&capabilities, kind, *shape);
        let taken: Vec<Shape> = shapes
            .iter()
            .copied()
            .filter(|shape| lacks(shape).is_none())
            .collect();
        for missing in shapes.iter().filter_map(lacks) {
            self.withhold(kind, !taken.is_empty(), undeclared(missing));
        }
        taken
    }

    /// The messages of a burst, each of which is in the record when this returns.
    fn write_down(&self, burst: &Ask, sizes: &[(Kind, u32, Vec<Shape>)]) -> Vec<Value> {
        let session = &self.session;
        let longest = sizes.iter().map(|&(_, size, _)| size).max().unwrap_or(0);
        let mut messages = Vec::new();
        let mut cancellations = Vec::new();
        let mut record = session.stage.recorder.lock();
        let sent = session.stage.recorder.now();
        for (number, place) in (0..longest).zip(0_usize..) {
            for (kind, _, shapes) in sizes.iter().filter(|&&(_, size, _)| number < size) {
                let shape = shapes[place % shapes.len()];
                let id = (shape != Shape::NoId).then(|| wire::id(burst.ids, session.next_id()));
                messages.push(wire::question(*kind, shape, id.as_ref()));
                cancellations.extend(id.as_ref().filter(|_| burst.cancel).map(wire::cancelled));
                let question = Question {
                    may_be_rejected: shape.is_malformed() || burst.may_be_rejected,
                    cancelled: burst.cancel,
                    ..self.question(*kind, record.window, sent)
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
                messages.extend(wire::notifications());
            }
        }
        messages.append(&mut cancellations);
        messages
    }

    /// Asks about the tasks that the client made of the questions since `first`, until each has
    /// given its result. None of this is a question.
    async fn follow_hosted_tasks(&self, first: usize) {
        let session = &self.session;
        let mut messages = Vec::new();
        {
            let mut record = session.stage.recorder.lock();
            let sent = session.stage.recorder.now();
            let tasks: Vec<Value> = record.questions[first..]
                .iter()
                .filter_map(|question| question.request.result())
                .map(|result| result["task"]["taskId"].clone())
                .filter(Value::is_string)
                .collect();
            for task in tasks {
                for method in ["tasks/get", "tasks/get", "tasks/result"] {
                    let id = Value::from(session.next_id());
                    messages.push(wire::about_task(method, &id, &task));
                    let request = Request::new(method, Some(id), session.number, sent);
                    record.traffic.push(request);
                }
            }
        }
        if !messages.is_empty() {
            self.write(messages);
            self.settle().await;
        }
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
}
