//! How many questions were answered, refused and handled.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{MET, NO_TASKS, Outcome, View, not_testable, unmet};
use crate::{
    limits,
    model::{Counter, Expected},
    protocol::Kind,
    record::{Door, Group, Question, REFUSED},
};

/// Whether an error is a limiter's, and not what the client says to a malformed question.
pub(super) fn is_refusal(error: &Value) -> bool {
    error["code"] == REFUSED
}

pub(super) fn exact(view: &View<'_>) -> Outcome {
    let mut bursts = BTreeMap::new();
    for (question, expected) in view.questions() {
        // What has no id has no reply; what the client rejects altogether reaches nobody.
        if question.request.id.is_none() || view.is_rejected(question) {
            continue;
        }
        let key = (question.request.sent, question.kind);
        let burst: &mut Burst<'_> = bursts.entry(key).or_insert_with(|| Burst::of(question));
        burst.count(question, expected, view.evidence.counter);
    }
    let wrong: Vec<(String, &str)> = bursts
        .iter()
        .filter_map(|(&(_, kind), burst)| {
            let what = burst.wrong(kind)? + &bounds(view, kind);
            Some((what, burst.advice()))
        })
        .collect();
    match &wrong[..] {
        [] if bursts.is_empty() => not_testable(
            "nothing is asked under these limits, or the client takes no such questions",
        ),
        [] => MET,
        [(_, advice), ..] => {
            let all: Vec<&str> = wrong.iter().map(|(what, _)| what.as_str()).collect();
            unmet(format!("{}: {advice}", all.join("; ")))
        }
    }
}

/// What became of the questions of one kind that were asked in one write.
#[derive(Debug)]
struct Burst<'a> {
    call: &'a str,
    answered: u32,
    refused: u32,
    silent: u32,
    to_admit: u32,
    to_refuse: u32,
}

impl<'a> Burst<'a> {
    fn of(question: &'a Question) -> Self {
        Self {
            call: &question.call,
            answered: 0,
            refused: 0,
            silent: 0,
            to_admit: 0,
            to_refuse: 0,
        }
    }

    fn count(&mut self, question: &Question, expected: &Expected, counter: Counter) {
        match expected {
            Expected::Admitted => self.to_admit += 1,
            Expected::Refused(_) => self.to_refuse += 1,
        }
        let request = &question.request;
        match (request.result(), request.error()) {
            (Some(_), _) => self.answered += 1,
            (None, Some(error)) if !question.may_be_rejected || is_refusal(error) => {
                self.refused += 1;
            }
            // The client's own error for what it cannot read.
            (None, Some(_)) => self.answered += 1,
            // A relay has let it pass, or this is one answer too many; that it has no reply is seen by
            // who looks at ids.
            (None, None) if question.may_be_rejected && counter == Counter::Relay => {
                self.answered += 1;
            }
            (None, None) => self.silent += 1,
        }
    }

    /// What is wrong, if something is.
    fn wrong(&self, kind: Kind) -> Option<String> {
        let Self {
            call,
            answered,
            refused,
            silent,
            to_admit,
            to_refuse,
        } = self;
        if (answered, refused) == (to_admit, to_refuse) {
            return None;
        }
        Some(format!(
            "of {} {kind} questions in the call {call} {answered} were answered, {refused} refused and \
             {silent} left without a reply, where {to_admit} should be answered and {to_refuse} refused",
            to_admit + to_refuse,
        ))
    }

    /// What to do about that.
    const fn advice(&self) -> &'static str {
        if self.silent > 0 {
            "leave no question without a reply, refuse with the error -32603 what is over the limit"
        } else if self.answered > self.to_admit {
            "count every question when it is asked, and refuse with the error -32603 what is over the limit"
        } else {
            "answer what is within the limit"
        }
    }
}

/// Which limits of a kind are set, for people to look them up.
fn bounds(view: &View<'_>, kind: Kind) -> String {
    let set: Vec<String> = crate::protocol::Scope::ALL
        .into_iter()
        .filter_map(|scope| {
            let limit = view.evidence.limits.get(kind, scope)?;
            Some(format!("{} = {limit}", limits::name(kind, scope)))
        })
        .collect();
    if set.is_empty() {
        String::new()
    } else {
        format!(" ({})", set.join(", "))
    }
}

const BY_REPLIES: &str = "judged by success replies, since the client wrote no log of its handlers";

pub(super) fn handled(view: &View<'_>) -> Outcome {
    let evidence = view.evidence;
    let (mut asked, mut unfollowed) = (false, false);
    for kind in view.kinds() {
        for (place, server) in evidence.scenario.servers.iter().enumerate() {
            let here = || {
                view.questions()
                    .filter(move |(question, _)| question.kind == kind && question.server == place)
            };
            if here().next().is_none() && !view.check.calls.is_empty() {
                continue;
            }
            asked |= here().next().is_some();
            let allowed = here()
                .filter(|(_, expected)| expected.is_admitted())
                .count();
            let at_most = here().any(|(question, _)| question.may_be_rejected);
            let group = |question: &Question| {
                let place = question.group?;
                Some(&evidence.record.groups[place])
            };
            let handled = match &evidence.handled {
                Some(log) => entries(log, &server.name, kind),
                None => here()
                    .filter(|(question, _)| {
                        let answered =
                            group(question).is_some_and(|group| !group.answers.is_empty());
                        answered || question.request.result().is_some()
                    })
                    .count(),
            };
            let came_by = |door| {
                here().any(|(question, _)| group(question).is_some_and(|group| group.door == door))
            };
            unfollowed |= here().any(|(question, _)| group(question).is_some_and(Group::is_unseen));
            if came_by(Door::Notification) && handled == 0 {
                return not_testable("the client shows nothing of what a notification asks");
            }
            let has_urls = came_by(Door::UrlRequired) || came_by(Door::FailedTask);
            if has_urls && evidence.handled.is_none() {
                return not_testable(
                    "nothing comes back for URLs, and the client wrote no log of its handlers",
                );
            }
            if handled > allowed || (handled < allowed && !at_most) {
                return unmet(format!(
                    "{handled} {kind} questions of the server {} reached the handler, where the limits let {allowed} pass: \
                     {}{}",
                    server.name,
                    if handled > allowed {
                        "decide before any handler runs"
                    } else {
                        "there was room for those that did not"
                    },
                    if evidence.handled.is_none() {
                        format!(" ({BY_REPLIES})")
                    } else {
                        String::new()
                    },
                ));
            }
        }
    }
    if unfollowed {
        return not_testable(NO_TASKS);
    }
    match (asked, &evidence.handled) {
        (false, _) => not_testable(
            "nothing is asked under these limits, or the client takes no such questions",
        ),
        (true, Some(_)) => MET,
        (true, None) => Outcome::Met {
            note: Some(BY_REPLIES.to_owned()),
        },
    }
}

fn entries(log: &[(String, String)], server: &str, kind: Kind) -> usize {
    log.iter()
        .filter(|(name, method)| name == server && method == kind.method())
        .count()
}

pub(super) fn nothing_invented(view: &View<'_>) -> Outcome {
    for (question, _) in view.questions() {
        let replies = question.request.replies.iter();
        for result in replies.filter_map(|reply| reply.outcome.as_ref().ok()) {
            // The handlers of a client under test accept whatever they are asked.
            if let Some(action @ ("decline" | "cancel")) = result["action"].as_str() {
                return unmet(format!(
                    "a question was answered with the action {action:?}, which no handler chose: a refusal is an error"
                ));
            }
        }
    }
    let Some(log) = &view.evidence.handled else {
        return Outcome::Met {
            note: Some(BY_REPLIES.to_owned()),
        };
    };
    for kind in view.kinds() {
        for (place, server) in view.evidence.scenario.servers.iter().enumerate() {
            let answered = view
                .questions()
                .filter(|(question, _)| question.kind == kind && question.server == place)
                .filter(|(question, _)| question.request.result().is_some())
                .count();
            let entered = entries(log, &server.name, kind);
            if answered > entered {
                return unmet(format!(
                    "{answered} {kind} questions of the server {} were answered, and {entered} reached the handler: \
                     a refusal is an error, never an answer",
                    server.name,
                ));
            }
        }
    }
    MET
}
