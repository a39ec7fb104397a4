//! What a refusal looks like on the wire.

use std::time::Duration;

use serde_json::Value;

use super::{MET, Outcome, View, unmet};
use crate::{
    limits,
    model::Expected,
    protocol::{Kind, Scope},
    record::{Question, REFUSED},
};

pub(super) fn ids(view: &View<'_>) -> Outcome {
    let record = view.evidence.record;
    if let Some(stray) = record.strays.first() {
        return unmet(format!(
            "a reply belongs to no question: {}",
            shortened(stray)
        ));
    }
    for (question, _) in view.questions().filter(|(question, _)| !question.cancelled) {
        let request = &question.request;
        let (Some(id), replies) = (&request.id, request.replies.len()) else {
            continue;
        };
        if replies != 1 {
            return unmet(format!(
                "the question with the id {id} got {replies} replies: each gets one, with its own id"
            ));
        }
    }
    MET
}

pub(super) fn code(view: &View<'_>) -> Outcome {
    each_refusal(view, |_, error| {
        if error["code"] == REFUSED {
            Ok(())
        } else {
            Err("the code is -32603".to_owned())
        }
    })
}

pub(super) fn data(view: &View<'_>) -> Outcome {
    each_refusal(view, |question, error| {
        let data = &error["data"];
        let asked = question.kind;
        let in_the_way = possible_scopes(view, question);
        let named = in_the_way
            .iter()
            .copied()
            .find(|&scope| data["limit"] == limits::name(asked, scope));
        let Some(scope) = named else {
            return Err(format!("data.limit is {}", names(asked, &in_the_way)));
        };
        let max = view.evidence.limits.get(asked, scope);
        let window = view.evidence.window.as_secs();
        let wanted = [
            ("cause", Value::from("limit_exceeded")),
            ("scope", scope.as_str().into()),
            ("method", asked.method().into()),
            ("max", max.into()),
            ("windowSeconds", window.into()),
        ];
        for (key, value) in wanted {
            if data[key] != value {
                return Err(format!("data.{key} is {value}"));
            }
        }
        Ok(())
    })
}

/// The windows that may be full for a question: those of the burst it was asked in.
fn possible_scopes(view: &View<'_>, question: &Question) -> Vec<Scope> {
    let alike = view.questions().filter(|(other, _)| {
        other.kind == question.kind
            && other.session == question.session
            && other.request.sent == question.request.sent
    });
    let mut scopes: Vec<Scope> = alike
        .filter_map(|(_, expected)| match expected {
            Expected::Admitted => None,
            Expected::Refused(scope) => *scope,
        })
        .collect();
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

fn names(kind: Kind, scopes: &[Scope]) -> String {
    let names: Vec<String> = scopes
        .iter()
        .map(|&scope| format!("{:?}", limits::name(kind, scope)))
        .collect();
    names.join(" or ")
}

pub(super) fn retry_after(view: &View<'_>) -> Outcome {
    let window = view.evidence.window;
    each_refusal(view, |question, error| {
        let wanted = format!("a whole number from 1 to {}", window.as_secs());
        let told = error["data"]["retryAfterSeconds"].as_u64();
        let Some(told) = told.filter(|&told| (1..=window.as_secs()).contains(&told)) else {
            return Err(format!("data.retryAfterSeconds is {wanted}"));
        };
        // A window opened between the first question of its owner and that one's reply, and the
        // client decided between this question and its reply.
        let alike = |first: &&Question| {
            first.server == question.server
                && first.kind == question.kind
                && first.window == question.window
        };
        let questions = || view.evidence.record.questions.iter().filter(alike);
        let of_server = questions().next().unwrap_or(question);
        let of_session = questions()
            .find(|first| first.session == question.session)
            .unwrap_or(question);
        let wait = Duration::from_secs(told);
        let promised = question.request.replies[0].at + wait;
        if promised < of_server.request.sent + window {
            return Err(format!(
                "data.retryAfterSeconds ends after the window: asking again then would be {:.1} s too early",
                (of_server.request.sent + window - promised).as_secs_f64(),
            ));
        }
        // Whole seconds are rounded up.
        let latest = of_session
            .request
            .replies
            .first()
            .map_or(promised, |reply| reply.at)
            + window
            + Duration::from_secs(1);
        if question.request.sent + wait > latest {
            return Err(format!(
                "data.retryAfterSeconds ends with the window: asking could go on {:.1} s earlier",
                (question.request.sent + wait - latest).as_secs_f64(),
            ));
        }
        Ok(())
    })
}

pub(super) fn no_echo(view: &View<'_>) -> Outcome {
    each_refusal(view, |_, error| {
        if error.to_string().contains("Are we there yet") {
            Err("nothing of the question's text comes back".to_owned())
        } else {
            Ok(())
        }
    })
}

fn each_refusal(
    view: &View<'_>,
    look: impl Fn(&Question, &Value) -> Result<(), String>,
) -> Outcome {
    let refusals = match view.refusals() {
        Ok(refusals) => refusals,
        Err(outcome) => return outcome,
    };
    for (question, error) in refusals {
        if let Err(wanted) = look(question, error) {
            return unmet(format!(
                "wanted: {wanted}; got the error {}",
                shortened(error)
            ));
        }
    }
    MET
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        checks::{Ending, Evidence, Expectation},
        limits::Limits,
        model::{Counter, Model, Windows},
        record::{Record, Reply, Request},
        scenario,
    };

    /// What a check of `burst` says of a session whose last question got an error with this data.
    fn judged(expect: Expectation, data: Value) -> Outcome {
        let at = Duration::from_millis;
        let reply = |outcome| Reply {
            at: at(10),
            outcome,
        };
        let question = |outcome| Question {
            server: 0,
            session: 0,
            call: "sample".to_owned(),
            kind: Kind::Sampling,
            may_be_rejected: false,
            cancelled: false,
            window: 0,
            group: None,
            request: Request {
                replies: vec![reply(outcome)],
                ..Request::new(Kind::Sampling.method(), Some(json!(1)), 0, at(0))
            },
        };
        let error = json!({"code": REFUSED, "message": "no", "data": data});
        let mut questions = vec![question(Ok(json!({}))); 20];
        questions.push(question(Err(error)));
        let record = Record {
            questions,
            ..Record::default()
        };
        let limits = Limits::default();
        let all = scenario::all().unwrap();
        let scenario = all.iter().find(|one| one.name == "burst").unwrap();
        let check = scenario.checks.iter().find(|one| one.expect == expect);
        let evidence = Evidence {
            scenario,
            revision: scenario.revision,
            limits: &limits,
            counter: Counter::Client,
            window: Duration::from_secs(60),
            expected: Model::replay(&limits, &record, Counter::Client, Windows::Server),
            record: &record,
            handled: None,
            is_log_wrong: false,
            ending: Ending::Exited(Some(0)),
        };
        let view = View {
            evidence: &evidence,
            check: check.unwrap(),
        };
        view.judge()
    }

    fn right() -> Value {
        json!({
            "cause": "limit_exceeded", "limit": "proto.samplingSessionPerMinute", "scope": "session",
            "method": "sampling/createMessage", "max": 20, "windowSeconds": 60, "retryAfterSeconds": 60,
        })
    }

    #[test]
    fn each_field_of_a_refusals_data_has_to_be_there_and_right() {
        assert_eq!(judged(Expectation::Data, right()), MET);
        for (key, wrong) in [
            ("cause", json!("rate_limited")),
            ("limit", json!("proto.samplingPerMinute")),
            ("scope", json!("server")),
            ("method", json!("elicitation/create")),
            ("max", json!(0)),
            ("max", json!("20")),
            ("windowSeconds", json!(60_000)),
        ] {
            let mut data = right();
            data[key] = wrong;
            let outcome = judged(Expectation::Data, data);
            assert!(
                matches!(&outcome, Outcome::Unmet { why } if why.contains(&format!("wanted: data.{key} is "))),
                "{outcome:?}"
            );
            let mut data = right();
            data.as_object_mut().unwrap().remove(key);
            let outcome = judged(Expectation::Data, data);
            assert!(matches!(outcome, Outcome::Unmet { .. }), "without {key}");
        }
    }

    #[test]
    fn a_waiting_time_is_a_whole_number_of_seconds_up_to_the_windows_end() {
        let told = |time: Value| {
            let mut data = right();
            data["retryAfterSeconds"] = time;
            judged(Expectation::RetryAfter, data)
        };
        assert_eq!(told(json!(60)), MET);
        for wrong in [
            json!(0),
            json!(59),
            json!(61),
            json!(60.0),
            json!(-1),
            json!("60"),
            Value::Null,
        ] {
            assert!(
                matches!(told(wrong.clone()), Outcome::Unmet { .. }),
                "{wrong}"
            );
        }
    }
}
