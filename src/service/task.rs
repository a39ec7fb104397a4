//! The input requests of tasks (SEP-2663), polled and notified, and questions without an id.

use std::{
    collections::{HashSet, hash_map::RandomState},
    hash::BuildHasher,
};

use rmcp::{
    model::{DetailedTask, InputRequest, InputResponses, ServerNotification, TaskPayload},
    service::{Peer, RoleClient, Service},
};

use super::{
    Throttled,
    cleared::{self, Cleared, Sorted},
};
use crate::{
    call_error::{CallError, Refused},
    clock,
    refusal::Refusal,
    throttle::{Entry, TaskInput, TaskUse},
    verdict::Door,
    wire::{self, Message},
};

impl<S> Throttled<S> {
    /// Lets a notification through if it is no question, or if what it asks fits. `None` says
    /// that it is withheld whole; that was reported then.
    pub(crate) fn admit_notification(
        &self,
        notification: ServerNotification,
    ) -> Option<Cleared<ServerNotification>> {
        match self.sort(notification) {
            Sorted::Question(question) => self
                .admit_question(&question, Door::WithoutId)
                .ok()
                .map(|admission| question.paid_by(admission)),
            Sorted::Other(other) => {
                if let ServerNotification::TaskStatusNotification(status) = other.message() {
                    self.charge_task(&status.params.task).ok()?;
                }
                Some(other)
            }
        }
    }

    /// Charges for what a task's state asks that was not seen before.
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
        self.admit_task(&task.task.task_id, &entries, TaskUse::Charge)
            .map(drop)
    }

    fn entries_of(&self, task: &DetailedTask) -> Vec<Entry> {
        let settings = self.session.settings();
        let methods = [&settings.questions, &self.questions];
        wire::task_entries(task, |method| cleared::classify(method, &methods))
    }

    fn admit_task<'e>(
        &self,
        task: &str,
        entries: &'e [Entry],
        task_use: TaskUse,
    ) -> Result<Option<TaskInput<'e>>, Refusal> {
        // A state that asks nothing is nobody's question, and makes no row.
        if entries.is_empty() {
            return Ok(None);
        }
        let verdict = self
            .session
            .admit_task(clock::now(), task, entries, task_use);
        match &verdict {
            Ok(input) if input.charged.total() > 0 => self.report(Door::Task, &input.charged, None),
            Ok(_) => {}
            // How many of them were new, the refusal says.
            Err(refusal) => self.report(Door::Task, &Entry::ask(entries), Some(refusal)),
        }
        verdict.map(Some)
    }
}

impl<S: Service<RoleClient>> Throttled<S> {
    /// Answers those of a task's input requests that nobody has taken yet, together.
    pub(crate) async fn answer_task(
        &self,
        task: DetailedTask,
        answered: &mut Answered,
        peer: &Peer<RoleClient>,
    ) -> Result<InputResponses, CallError> {
        let settings = self.session.settings();
        let methods = [&settings.questions, &self.questions];
        let DetailedTask { task, payload, .. } = task;
        let TaskPayload::InputRequired { mut input_requests } = payload else {
            return Ok(InputResponses::new());
        };
        input_requests.retain(|key, input| answered.is_new(key, input));
        let classify = |method: &str| cleared::classify(method, &methods);
        let entries = wire::input_entries(&input_requests, classify);
        let input = self
            .admit_task(&task.task_id, &entries, TaskUse::Take)
            .map_err(Refused::new)?;
        let (taken, admission) = match input {
            Some(input) => (input.entries, Some(input.admission)),
            None => (Vec::new(), None),
        };
        let taken: HashSet<&str> = taken.iter().map(|entry| entry.key.as_str()).collect();
        input_requests.retain(|key, input| {
            classify(input.method()).is_none() || taken.contains(key.as_str())
        });
        for (key, input) in &input_requests {
            answered.insert(key, input);
        }
        self.answer_all(input_requests, admission, Door::Task, &methods, peer)
            .await
    }
}

/// What one driver of a task has answered, as keyed hashes: it never shows an entry twice, even
/// where the server's memory of entries is full.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    hasher: RandomState,
    entries: HashSet<u64>,
}

impl Answered {
    fn is_new(&self, key: &str, input: &InputRequest) -> bool {
        !self.entries.contains(&self.hash(key, input))
    }

    fn insert(&mut self, key: &str, input: &InputRequest) {
        let hash = self.hash(key, input);
        self.entries.insert(hash);
    }

    fn hash(&self, key: &str, input: &InputRequest) -> u64 {
        self.hasher
            .hash_one((key, serde_json::to_vec(input).unwrap_or_default()))
    }
}
