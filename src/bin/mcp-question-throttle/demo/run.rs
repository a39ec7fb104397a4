//! One run of the demo: what was planned, what was counted, and whether that is what the limits
//! allow.

use std::{collections::BTreeMap, time::Duration};

use mcp_question_throttle::{
    limits::{LimitName, ProtoSettings},
    question::QuestionKind,
    refusal::key,
};
use serde::Serialize;
use serde_json::Value;

use super::flood::{Era, ROUND};

/// What a run is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) era: Era,
    pub(super) kind: QuestionKind,
    pub(super) questions: u32,
    /// Before each question, so that a person can see it happen.
    pub(super) pause: Duration,
}

/// What was counted, by the throttle, by the handler, and by the server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) era: Era,
    pub(super) kind: QuestionKind,
    /// By the server.
    pub(super) asked: u32,
    /// By the throttle.
    pub(super) admitted: u32,
    /// By the throttle.
    pub(super) refused: u32,
    /// By the throttle: refused questions by the limit in their way, or by another cause.
    pub(super) refused_by: BTreeMap<&'static str, u32>,
    /// By the handler.
    pub(super) handler_saw: u32,
    /// By the server.
    pub(super) server_saw_answers: u32,
    /// By the server.
    pub(super) server_saw_refusals: u32,
    /// As the server got it, or, in an era in which it gets none, as the caller did.
    pub(super) first_refusal: Option<Value>,
}

impl Run {
    /// Where the counts are not what `limits` allow; empty if all is as it should be.
    pub(super) fn differences(&self, limits: &ProtoSettings) -> Vec<String> {
        let allowed = Allowed::of(limits, self);
        let refused_by_limit = allowed
            .limit
            .and_then(|limit| self.refused_by.get(limit.as_str()))
            .map_or(0, |refused| *refused);
        let first_by = self
            .first_refusal
            .as_ref()
            .map(|refusal| &refusal["data"][key::LIMIT]);
        let named = match allowed.limit {
            Some(limit) if allowed.refused > 0 => first_by.is_some_and(|by| by == limit.as_str()),
            _ => first_by.is_none(),
        };
        let counts = [
            ("admitted", self.admitted, allowed.admitted),
            ("refused", self.refused, allowed.refused),
            ("refused by that limit", refused_by_limit, allowed.refused),
            ("seen by the handler", self.handler_saw, allowed.admitted),
            (
                "answers seen by the server",
                self.server_saw_answers,
                allowed.admitted,
            ),
            (
                "refusals seen by the server",
                self.server_saw_refusals,
                allowed.refusals_sent,
            ),
        ];
        let run = format!("{} {}", self.era, self.kind);
        let mut differences: Vec<_> = counts
            .into_iter()
            .filter(|(_, counted, allowed)| counted != allowed)
            .map(|(what, counted, allowed)| {
                format!("{run}: {counted} {what}, and the limits allow {allowed}")
            })
            .collect();
        if !named {
            differences.push(format!("{run}: the first refusal names another limit"));
        }
        differences
    }
}

/// What the limits allow of the questions that were asked in one window.
struct Allowed {
    admitted: u32,
    refused: u32,
    refusals_sent: u32,
    /// The limit that refuses: the lowest one.
    limit: Option<LimitName>,
}

impl Allowed {
    fn of(limits: &ProtoSettings, run: &Run) -> Self {
        let lowest = LimitName::WINDOWS
            .into_iter()
            .filter(|limit| limit.kind() == Some(run.kind))
            .filter_map(|limit| Some((limits.window_limit(limit)?.bound()?, limit)))
            .min_by_key(|(bound, _)| *bound);
        let bound = lowest.map_or(u32::MAX, |(bound, _)| bound);
        let admitted = match run.era {
            Era::Requests => run.asked.min(bound),
            // A round that does not fit is refused whole.
            Era::Rounds if run.asked > bound => bound - bound % ROUND,
            Era::Rounds => run.asked,
        };
        let refused = run.asked - admitted;
        Self {
            admitted,
            refused,
            // A refused round ends the client's call, and nothing is sent to the server.
            refusals_sent: match run.era {
                Era::Requests => refused,
                Era::Rounds => 0,
            },
            limit: lowest.map(|(_, limit)| limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As it should be with the default limits and 202 questions, which end in half a round.
    fn right(era: Era) -> Run {
        let limit = LimitName::SamplingSessionPerMinute.as_str();
        Run {
            era,
            kind: QuestionKind::Sampling,
            asked: 202,
            admitted: 20,
            refused: 182,
            refused_by: BTreeMap::from([(limit, 182)]),
            handler_saw: 20,
            server_saw_answers: 20,
            server_saw_refusals: if era == Era::Requests { 182 } else { 0 },
            first_refusal: Some(json!({"code": -32603, "data": {"limit": limit}})),
        }
    }

    #[test]
    fn the_right_counts_are_right() {
        for era in [Era::Requests, Era::Rounds] {
            let differences = right(era).differences(&ProtoSettings::default());
            assert_eq!(differences, Vec::<String>::new());
        }
    }

    #[test]
    fn every_wrong_count_is_noticed() {
        let wrongs: [fn(&mut Run); 9] = [
            |run| run.asked += 1,
            |run| run.admitted += 1,
            |run| run.refused -= 1,
            |run| run.refused_by.clear(),
            |run| run.handler_saw += 1,
            |run| run.server_saw_answers -= 1,
            |run| run.server_saw_refusals += 1,
            |run| run.first_refusal = None,
            |run| run.first_refusal = Some(json!({"code": -32603, "message": "no data"})),
        ];
        for era in [Era::Requests, Era::Rounds] {
            for (nth, wrong) in wrongs.iter().enumerate() {
                let mut run = right(era);
                wrong(&mut run);
                let differences = run.differences(&ProtoSettings::default());
                assert!(!differences.is_empty(), "{era}, wrong {nth}");
            }
        }
    }

    #[test]
    fn below_the_limits_nothing_is_refused() {
        let mut run = right(Era::Rounds);
        run.asked = 18;
        run.admitted = 18;
        run.refused = 0;
        run.refused_by.clear();
        run.handler_saw = 18;
        run.server_saw_answers = 18;
        run.first_refusal = None;
        let differences = run.differences(&ProtoSettings::default());
        assert_eq!(differences, Vec::<String>::new());
    }
}
