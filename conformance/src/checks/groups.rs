//! Rounds, tasks and whatever else is asked together.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MET, NO_TASKS, Outcome, View, not_testable, unmet};
use crate::{
    model::Expected,
    record::{Door, Fate, Group},
};

pub(super) fn answered(view: &View<'_>) -> Outcome {
    each_group(view, |group, is_admitted| {
        let (what, call) = (name(group.door), &group.call);
        match (is_admitted, group.answers.len()) {
            (true, 1) | (false, 0) => Ok(()),
            (true, 0) => Err(format!(
                "a {what} in the call {call} was not answered, and there is room for it: answer it whole"
            )),
            (true, times) => Err(format!(
                "a {what} in the call {call} was answered {times} times: show and answer no question twice"
            )),
            (false, _) => Err(match group.fate {
                Fate::Beyond => format!(
                    "the call {call} went on after as many rounds as proto.askRounds allows: end it with an error"
                ),
                Fate::Unreadable => format!(
                    "a {what} in the call {call} was answered, and one of its entries cannot be read: \
                     send nothing, end the call with an error"
                ),
                Fate::Open => format!(
                    "a {what} in the call {call} was answered, and there is no room for it: send nothing, end the call with an error"
                ),
            }),
        }
    })
}

pub(super) fn whole(view: &View<'_>) -> Outcome {
    each_group(view, |group, _| {
        let asked: BTreeSet<&str> = group.keys.iter().map(String::as_str).collect();
        for answer in &group.answers {
            let responses = answer.responses.as_ref().and_then(Value::as_object);
            let given: BTreeSet<&str> = responses
                .into_iter()
                .flatten()
                .map(|(key, _)| key.as_str())
                .collect();
            if given != asked {
                return Err(format!(
                    "{} of {} entries of a {} in the call {} were answered: leave none out, \
                     and if they do not fit, send nothing",
                    given.len(),
                    asked.len(),
                    name(group.door),
                    group.call,
                ));
            }
            let invented = responses.into_iter().flatten().find_map(|(_, response)| {
                let action = response["action"].as_str()?;
                (action != "accept").then_some(action)
            });
            if let Some(action) = invented {
                return Err(format!(
                    "an entry was answered with the action {action:?}, which no handler chose"
                ));
            }
        }
        Ok(())
    })
}

pub(super) fn state(view: &View<'_>) -> Outcome {
    each_group(view, |group, _| {
        let sent = group.state.as_deref().map(Value::from);
        if group.answers.iter().any(|answer| answer.state != sent) {
            return Err(format!(
                "the requestState of the call {} came back changed, invented or not at all",
                group.call
            ));
        }
        Ok(())
    })
}

const fn name(door: Door) -> &'static str {
    match door {
        Door::Round => "round",
        Door::Task | Door::Notification => "task",
        Door::UrlRequired | Door::FailedTask => "list of URLs",
    }
}

/// Looks at each group that can be answered. The second argument of `look` is whether it fits.
fn each_group(view: &View<'_>, look: impl Fn(&Group, bool) -> Result<(), String>) -> Outcome {
    let evidence = view.evidence;
    let (mut looked, mut unseen) = (false, false);
    for (place, group) in evidence.record.groups.iter().enumerate() {
        let is_meant = view.check.calls.is_empty() || view.check.calls.contains(&group.call);
        if !is_meant || !matches!(group.door, Door::Round | Door::Task) {
            continue;
        }
        if group.is_unseen() {
            unseen = true;
            continue;
        }
        looked = true;
        let questions = evidence.record.questions.iter().zip(&evidence.expected);
        let of_group = questions.filter(|(question, _)| question.group == Some(place));
        // A round with a state alone has no questions, and is bounded all the same.
        let is_admitted = group.fate == Fate::Open
            && of_group
                .map(|(_, expected)| expected)
                .all(Expected::is_admitted);
        if let Err(why) = look(group, is_admitted) {
            return unmet(why);
        }
    }
    if unseen {
        not_testable(NO_TASKS)
    } else if looked {
        MET
    } else {
        not_testable("the client was asked nothing in this way")
    }
}
