//! The input requests of tasks (SEP-2663), polled and notified, and questions without an id.

use std::collections::HashSet;

use rmcp::{
    model::{DetailedTask, InputRequests, InputResponses, ServerNotification, TaskPayload},
    service::{Peer, RoleClient, Service, ServiceError},
};

use super::{
    Admitted, Answered, Throttled,
    cleared::{Cleared, Sorted},
    trace::QuestionSpan,
};
use crate::{
    arrival::{Arrival, Door, Origin},
    call_error::{CallError, Refused},
    clock,
    refusal::Refusal,
    throttle::{Entry, Session, TaskInput, TaskUse},
    usage::Noted,
    wire::{self, Message, UnparsedTask},
};

/// In the answer to a poll of a task.
const POLLED: Arrival = Arrival::in_answer(Door::Task);

/// A notification that goes on, with its span if it is a question.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(super) cleared: Cleared<ServerNotification>,
    pub(super) span: Option<QuestionSpan>,
}

impl Passed {
    /// The notification, for a reader who takes it from here.
    pub(crate) fn into_message(self) -> ServerNotification {
        if let Some(mut span) = self.span {
            span.ended(DELIVERED);
        }
        self.cleared.into_message()
    }
}

/// The outcome of a question that expects no answer.
pub(super) const DELIVERED: &str = "delivered";

impl<S> Throttled<S> {
    /// Lets a notification through if it is no question, or if what it asks fits. `None` says
    /// that it is withheld whole; that was reported then.
    pub(crate) fn admit_notification(
        &self,
        notification: ServerNotification,
        origin: Origin,
    ) -> Option<Passed> {
        match self.sort(notification) {
            Sorted::Question(question) => {
                let arrival = Arrival::new(Door::WithoutId, origin);
                let admitted = self.admit_question(&question, arrival).ok()?;
                let (kind, _, cleared) = question.paid_by(admitted.admission);
                let span = QuestionSpan::new(&self.session, kind, arrival);
                Some(Passed {
                    cleared,
                    span: Some(span),
                })
            }
            Sorted::Other(other) => {
                if let ServerNotification::TaskStatusNotification(status) = other.message() {
                    let task = &status.params.task;
                    let entries = self.entries_of(task);
                    self.admit_notified(&task.task.task_id, &entries)?;
                    // What it asked at its end, and is charged for now, is free in a last poll.
                    if task.status().is_terminal() && entries.is_empty() {
                        self.session.forget_task(&task.task.task_id);
                    }
                } else if let ServerNotification::CustomNotification(custom) = other.message()
                    && let Some(task) = UnparsedTask::of(custom)
                {
                    // A handler of custom notifications may know how to read it.
                    let entries = task.entries(|method| self.methods().classify(method));
                    self.admit_notified(task.id(), &entries)?;
                }
                Some(Passed {
                    cleared: other,
                    span: None,
                })
            }
        }
    }

    /// Charges for what a notification of a task asks. `None` says that it does not fit.
    fn admit_notified(&self, task: &str, entries: &[Entry]) -> Option<()> {
        // Whether the task is one that the user's calls began, nobody can tell.
        let arrival = Arrival::new(Door::Task, Origin::Unknown);
        self.admit_task(task, entries, TaskUse::Charge, arrival)
            .ok()?;
        Some(())
    }

    /// Charges for what a task's state asks that was not seen before. What was seen of a task that
    /// has ended is forgotten.
    ///
    /// An embedder that polls tasks on a `Peer` of rmcp's, instead of through
    /// [`ClientSession`](crate::ClientSession), calls this with every state before it shows
    /// anything of it.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] if the new entries don't fit; none of them is charged or marked as seen.
    pub fn charge_task(&self, task: &DetailedTask) -> Result<(), Refusal> {
        let entries = self.entries_of(task);
        self.admit_task(&task.task.task_id, &entries, TaskUse::Charge, POLLED)?;
        if task.status().is_terminal() {
            self.session.forget_task(&task.task.task_id);
        }
        Ok(())
    }

    fn entries_of(&self, task: &DetailedTask) -> Vec<Entry> {
        let methods = self.methods();
        wire::task_entries(task, |method| methods.classify(method))
    }

    fn admit_task<'e>(
        &self,
        task: &str,
        entries: &'e [Entry],
        task_use: TaskUse,
        arrival: Arrival,
    ) -> Result<Option<(TaskInput<'e>, Noted)>, Refusal> {
        // A state that asks nothing is nobody's question, and makes no row.
        if entries.is_empty() {
            return Ok(None);
        }
        match self
            .session
            .look_at_task(clock::now(), task, entries, task_use)
        {
            Ok(input) => {
                let mut noted = Noted::default();
                if input.charged.total() > 0 {
                    let would_refuse = input.admission.would_refuse();
                    noted = self.tell_admitted(arrival, &input.charged, would_refuse);
                }
                Ok(Some((input, noted)))
            }
            Err((refusal, asked)) => Err(self.tell_refused(arrival, &asked, refusal)),
        }
    }
}

impl<S: Service<RoleClient>> Throttled<S> {
    /// Answers those of a task's input requests that nobody has taken yet, together.
    pub(crate) async fn answer_task(
        &self,
        task: DetailedTask,
        answered: &mut Answered,
        peer: &Peer<RoleClient>,
    ) -> Result<(InputResponses, Taken<'_>), CallError> {
        let methods = self.methods();
        let DetailedTask { task, payload, .. } = task;
        let mut input_requests = match payload {
            TaskPayload::InputRequired { input_requests } => input_requests,
            _ => InputRequests::new(),
        };
        if input_requests
            .values()
            .any(|input| input.method().is_empty())
        {
            return Err(ServiceError::UnexpectedResponse.into());
        }
        answered.retain_new(&mut input_requests);
        let classify = |method: &str| methods.classify(method);
        let mut entries = wire::input_entries(&input_requests, classify);
        let input = self
            .admit_task(&task.task_id, &entries, TaskUse::Take, POLLED)
            .map_err(Refused::new)?;
        let (keys, admitted) = match input {
            Some((input, noted)) => (
                input
                    .entries
                    .iter()
                    .map(|entry| entry.key.clone())
                    .collect(),
                Some(Admitted {
                    admission: input.admission,
                    noted,
                }),
            ),
            None => (HashSet::new(), None),
        };
        entries.retain(|entry| keys.contains(&entry.key));
        let taken = Taken {
            session: &self.session,
            task: task.task_id,
            entries,
        };
        input_requests
            .retain(|key, input| classify(input.method()).is_none() || keys.contains(key));
        for (key, input) in &input_requests {
            answered.insert(key, input, keys.contains(key));
        }
        let answers = self
            .answer_all(input_requests, admitted, POLLED, &methods, peer)
            .await?;
        Ok((answers, taken))
    }
}

/// Questions of a task that are being shown. Dropped before their answers have reached the server
/// (the call was dropped, a handler failed, the connection went), they are forgotten: whoever
/// follows the task next shows them again, and pays for them again.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    session: &'a Session,
    task: String,
    entries: Vec<Entry>,
}

impl Taken<'_> {
    /// The server has the answers.
    pub(crate) fn answered(mut self) {
        self.entries.clear();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.entries.is_empty() {
            self.session.forget_entries(&self.task, &self.entries);
        }
    }
}
