//! Questions that come together, by the result or the error of a call: rounds, tasks, URLs.

use serde_json::{Map, Value};

use super::{Flow, Play, undeclared};
use crate::{
    protocol::Kind,
    quantity::Quantity,
    record::{Answer, Door, Fate, Group, Question},
    scenario::{Entries, Notified, Shape, UrlList},
    server::wire,
};

/// How often a task is still asking after it was answered: its server is slow to notice.
const POLLS_AFTER_ANSWER: u32 = 3;
/// How often a task is told of by a notification.
const NOTIFICATIONS: u32 = 2;
/// How often a task is polled that tells what it asks by notifications alone.
const POLLS_WITHOUT_QUESTION: u32 = 5;

impl Play {
    /// Writes down questions that are asked together: all of them may be answered, or none.
    fn ask_together(
        &self,
        door: Door,
        sizes: &[(Kind, u32)],
        roots: bool,
        state: Option<String>,
        fate: Fate,
    ) -> (usize, Map<String, Value>) {
        let session = &self.session;
        let mut record = session.stage.recorder.lock();
        let sent = session.stage.recorder.now();
        let place = record.groups.len();
        let mut entries = Map::new();
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
            by_method_alone: None,
            fate,
            polls: 0,
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
    pub(super) async fn rounds(&mut self, step: &Entries) -> Flow {
        let sizes = self.sizes(&step.kinds, Shape::Plain, &step.count);
        let limits = &self.session.stage.limits;
        let is_empty = sizes.iter().all(|&(_, size)| size == 0);
        if is_empty && step.state.text(0).is_none() {
            return Flow::GoesOn;
        }
        let times = step.times.of(Kind::Elicitation, limits).unwrap_or(1);
        for number in 0..times {
            let state = step.state.text(number);
            let fate = match step.bad_entry {
                _ if number >= self.session.stage.limits.ask_rounds => Fate::Beyond,
                Some(_) => Fate::Unreadable,
                None => Fate::Open,
            };
            let (group, mut entries) =
                self.ask_together(Door::Round, &sizes, step.roots, state.clone(), fate);
            if let Some(bad) = step.bad_entry {
                let mut record = self.session.stage.recorder.lock();
                record.groups[group].by_method_alone = bad.by_method_alone();
                drop(record);
                // Behind the others, for those who look at one after another.
                entries.insert(format!("unreadable-{group}"), wire::bad_entry(bad));
            }
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
    pub(super) async fn task(&mut self, step: &Entries) -> Flow {
        let sizes = self.task_sizes(&step.kinds, Shape::Plain, &step.count);
        if sizes.is_empty() {
            return Flow::GoesOn;
        }
        let name = self.call.name.clone();
        let door = match step.notified {
            Notified::Never | Notified::Too => Door::Task,
            Notified::Only => Door::Notification,
        };
        let (mut group, mut entries) =
            self.ask_together(door, &sizes, step.roots, None, Fate::Open);
        self.session.reply(&self.id, &wire::task_created(&name));
        let (mut polls, mut polls_after_answer) = (0, None);
        let mut asks_anew = step.anew;
        // Whoever takes other questions for those before them never answers.
        let mut polls_anew = None;
        while let Some(next) = self.continuations.recv().await {
            // Early, since a client may look at a notification later than at the poll behind it.
            if next.method == "tasks/get"
                && step.notified != Notified::Never
                && polls < NOTIFICATIONS
            {
                let notification = wire::task_notified(&name, &entries);
                self.session.write_about(&next.id, notification);
            }
            let reply = match next.method.as_str() {
                "tasks/get" => {
                    polls += 1;
                    if asks_anew && polls_after_answer == Some(POLLS_AFTER_ANSWER) {
                        asks_anew = false;
                        (polls_after_answer, polls_anew) = (None, Some(0));
                        group = self.ask_anew(&sizes, &mut entries);
                        polls = 1;
                    }
                    polls_anew = polls_anew.map(|polls| polls + 1);
                    self.session.stage.recorder.lock().groups[group].polls = polls;
                    let is_done = match step.notified {
                        Notified::Only => polls > POLLS_WITHOUT_QUESTION,
                        Notified::Never | Notified::Too => {
                            polls_after_answer == Some(POLLS_AFTER_ANSWER)
                                || (polls_after_answer.is_none()
                                    && polls_anew > Some(POLLS_WITHOUT_QUESTION))
                        }
                    };
                    // A notification comes before the poll that asks the same.
                    let is_silent = match step.notified {
                        Notified::Never => false,
                        Notified::Too => polls == 1,
                        Notified::Only => true,
                    };
                    polls_after_answer = polls_after_answer.map(|polls| polls + 1);
                    if is_done {
                        wire::task_completed(&name, &self.result())
                    } else if is_silent {
                        wire::task_works(&name)
                    } else {
                        wire::task_asks(&name, &entries)
                    }
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

    /// Changes the questions of a task under their keys, and writes them down as others.
    fn ask_anew(&self, sizes: &[(Kind, u32)], entries: &mut Map<String, Value>) -> usize {
        let (group, _) = self.ask_together(Door::Task, sizes, false, None, Fate::Open);
        for entry in entries.values_mut() {
            *entry = wire::changed(entry);
        }
        let mut record = self.session.stage.recorder.lock();
        record.groups[group].keys = entries.keys().cloned().collect();
        group
    }

    /// How many questions of each kind a task asks: none if the client follows no tasks.
    fn task_sizes(&self, kinds: &[Kind], shape: Shape, count: &Quantity) -> Vec<(Kind, u32)> {
        let mut sizes = self.sizes(kinds, shape, count);
        if self.session.capabilities()["extensions"][wire::TASKS_EXTENSION].is_null() {
            for (kind, _) in sizes.drain(..) {
                self.withhold(kind, false, undeclared(wire::TASKS_EXTENSION));
            }
        }
        sizes
    }

    /// Makes the call a task that fails with an error that wants URLs opened.
    pub(super) async fn fail_task(&mut self, count: &Quantity) -> Flow {
        let sizes = self.task_sizes(&[Kind::Elicitation], Shape::Url, count);
        if sizes.is_empty() {
            return Flow::GoesOn;
        }
        let name = self.call.name.clone();
        let (group, entries) = self.ask_together(Door::FailedTask, &sizes, false, None, Fate::Open);
        self.session.reply(&self.id, &wire::task_created(&name));
        while let Some(next) = self.continuations.recv().await {
            self.session.stage.recorder.lock().groups[group].polls += 1;
            let error = wire::urls_required(&next.id, entries.len(), UrlList::Complete);
            self.session
                .reply(&next.id, &wire::task_failed(&name, &error["error"]));
        }
        Flow::Ended
    }

    /// Ends the call with an error that wants URLs opened.
    pub(super) fn require_urls(&self, count: &Quantity, list: UrlList) -> Flow {
        let sizes = self.sizes(&[Kind::Elicitation], Shape::Url, count);
        if sizes.is_empty() {
            return Flow::GoesOn;
        }
        let (_, entries) = self.ask_together(Door::UrlRequired, &sizes, false, None, Fate::Open);
        if list != UrlList::Complete {
            let mut record = self.session.stage.recorder.lock();
            let here = |question: &&mut Question| question.call == self.call.name;
            for question in record.questions.iter_mut().filter(here) {
                // There may be nothing in it that can be shown.
                question.may_be_rejected = true;
            }
        }
        self.session
            .write_about(&self.id, wire::urls_required(&self.id, entries.len(), list));
        Flow::Ended
    }
}
