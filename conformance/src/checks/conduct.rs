//! How the client behaves besides answering and refusing.

use super::{Ending, MET, Outcome, View, not_testable, unmet};
use crate::{record::Request, scenario::Server};

pub(super) fn at_once(view: &View<'_>) -> Outcome {
    let refusals = match view.refusals() {
        Ok(refusals) => refusals,
        Err(outcome) => return outcome,
    };
    let first_answer = view
        .questions()
        .filter(|(question, _)| question.request.result().is_some())
        .map(|(question, _)| question.request.replies[0].at - question.request.sent)
        .min();
    let asked_for = u128::from(view.evidence.scenario.answer_delay_ms);
    let Some(first_answer) = first_answer.filter(|first| first.as_millis() >= asked_for) else {
        return not_testable(
            "the client's handlers do not wait for QUESTION_CONFORMANCE_ANSWER_DELAY_MS",
        );
    };
    let late = refusals
        .iter()
        .filter(|(question, _)| {
            question.request.replies[0].at - question.request.sent >= first_answer
        })
        .count();
    if late > 0 {
        return unmet(format!(
            "{late} of {} refusals came after the first answer: refuse at once, while admitted questions are open",
            refusals.len(),
        ));
    }
    MET
}

pub(super) fn traffic(view: &View<'_>) -> Outcome {
    let record = view.evidence.record;
    let declares_roots = record.connections.iter().any(|connection| {
        let capabilities = connection.capabilities.as_ref();
        capabilities.is_some_and(|declared| declared.get("roots").is_some())
    });
    all_answered(
        record
            .traffic
            .iter()
            .filter(|request| request.method != "roots/list" || declares_roots),
        "no other request was sent",
    )
}

pub(super) fn task_calls(view: &View<'_>) -> Outcome {
    let traffic = view.evidence.record.traffic.iter();
    all_answered(
        traffic.filter(|request| request.method.starts_with("tasks/")),
        "the client runs no question as a task",
    )
}

fn all_answered<'a>(requests: impl Iterator<Item = &'a Request>, if_none: &str) -> Outcome {
    let mut seen = false;
    for request in requests {
        seen = true;
        if request.result().is_none() {
            let got = request
                .error()
                .map_or("no reply".to_owned(), ToString::to_string);
            return unmet(format!(
                "{} was asked between questions and got {got}: it is no question and has no limit",
                request.method,
            ));
        }
    }
    if seen { MET } else { not_testable(if_none) }
}

pub(super) fn calls(view: &View<'_>) -> Outcome {
    let evidence = view.evidence;
    for (place, server) in evidence.scenario.servers.iter().enumerate() {
        let planned: Vec<&str> = server.all_calls().map(|call| call.name.as_str()).collect();
        let made: Vec<&str> = evidence
            .record
            .calls
            .iter()
            .filter(|call| call.server == place)
            .map(|call| call.name.as_str())
            .collect();
        if made != planned {
            return unmet(format!(
                "the client called {made:?} of the server {}, where {planned:?} was expected: \
                 a refusal ends neither the connection nor the calls after it",
                server.name,
            ));
        }
    }
    MET
}

pub(super) fn capabilities(view: &View<'_>) -> Outcome {
    let evidence = view.evidence;
    let mut compared = false;
    for (place, Server { name, .. }) in evidence.scenario.servers.iter().enumerate() {
        let connections = evidence.record.connections.iter();
        let mut declared = connections
            .filter(|connection| connection.server == place)
            .filter_map(|connection| connection.capabilities.as_ref());
        let first = declared.next();
        for later in declared {
            compared = true;
            if first != Some(later) {
                return unmet(format!(
                    "the client declares {later} to the server {name} when it reconnects, and other capabilities before: \
                     no limit is held by hiding a capability"
                ));
            }
        }
    }
    if compared {
        MET
    } else {
        not_testable("the client did not reconnect")
    }
}

pub(super) fn ends(view: &View<'_>) -> Outcome {
    match &view.evidence.ending {
        Ending::Exited(Some(0)) => MET,
        other => unmet(format!(
            "the client ends with 0 when it has made its calls: {other}"
        )),
    }
}
