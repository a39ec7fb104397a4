//! What can be expected of a client, as predicates over the record of a run.

mod conduct;
mod contract;
mod counts;
mod groups;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    limits::Limits,
    model::{Counter, Expected},
    protocol::{Kind, Revision},
    record::{Question, Record},
    scenario::{Check, Scenario},
};

/// A predicate, as scenario files name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Expectation {
    /// As many answered, and as many refused, as the limits say.
    Exact,
    /// As many reached a handler as the limits say; no more, if the questions are malformed or
    /// have no id.
    Handled,
    /// Every reply carries the id of one question, and every question has one reply.
    Ids,
    /// Rounds and tasks that fit are answered, once; nothing is sent for the others.
    Answered,
    /// Rounds and tasks are answered whole, by what handlers said.
    Whole,
    /// The state of a round comes back as it was.
    State,
    /// Refusals have the code -32603.
    Code,
    /// The refusals' data names the limit in the way.
    Data,
    /// The refusals' data has a waiting time that is true.
    RetryAfter,
    /// Refusals repeat nothing that the server said.
    NoEcho,
    /// No reply is an answer that no handler gave.
    NothingInvented,
    /// Refusals come while the admitted questions are still open.
    AtOnce,
    /// Pings and `roots/list` are answered.
    Traffic,
    /// Requests about the client's own tasks are answered.
    TaskCalls,
    /// Every call was made once, in order.
    Calls,
    /// Every connection declares the same capabilities.
    Capabilities,
    /// The client ended by itself, with 0.
    Ends,
}

impl Expectation {
    /// Whether it is about what becomes of questions, and not about the client at large.
    const fn is_about_questions(self) -> bool {
        !matches!(
            self,
            Self::Traffic | Self::TaskCalls | Self::Calls | Self::Capabilities | Self::Ends
        )
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Met {
        /// What the reader should know about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// Met within each process of a relay that has windows of its own, and not over several.
    ByProcess {
        /// What is wrong over several.
        why: String,
    },
    Unmet {
        why: String,
    },
    NotTestable {
        why: String,
    },
}

/// The success of a predicate.
const MET: Outcome = Outcome::Met { note: None };

/// Why nothing can be said about what tasks ask.
const NO_TASKS: &str = "the client declares the tasks extension, and follows no task";

fn unmet(why: impl Into<String>) -> Outcome {
    Outcome::Unmet { why: why.into() }
}

fn not_testable(why: impl Into<String>) -> Outcome {
    Outcome::NotTestable { why: why.into() }
}

/// How the client ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It could not be started, for this reason.
    NotStarted(String),
    /// With this exit code.
    Exited(Option<i32>),
    /// By this signal.
    Killed(i32),
    /// It was ended after this time.
    TimedOut(Duration),
    /// It was ended after this time, in which it connected to nothing.
    NeverConnected(Duration),
    /// It was ended, or never started, since the relay before it failed in this way.
    RelayFailed(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(Some(code)) => write!(f, "it ended with the exit code {code}"),
            Self::Exited(None) => f.write_str("it ended without an exit code"),
            Self::RelayFailed(why) => f.write_str(why),
            Self::NotStarted(why) => write!(f, "it did not start: {why}"),
            Self::Killed(signal) => write!(f, "it was ended by the signal {signal}"),
            Self::NeverConnected(after) => write!(
                f,
                "it was ended after {} s in which it did not connect (half of --time-limit)",
                after.as_secs_f64()
            ),
            Self::TimedOut(after) => write!(
                f,
                "it did not end within {} s, and was ended",
                after.as_secs()
            ),
        }
    }
}

/// What a run left behind.
#[derive(Clone, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) revision: Revision,
    pub(crate) limits: &'a Limits,
    pub(crate) counter: Counter,
    pub(crate) window: Duration,
    pub(crate) record: &'a Record,
    /// What should have become of each question of the record.
    pub(crate) expected: Vec<Expected>,
    /// Which methods entered a handler, by server; `None` if the client wrote no log.
    pub(crate) handled: Option<Vec<(String, String)>>,
    /// Whether it wrote a log that tells nothing.
    pub(crate) is_log_wrong: bool,
    pub(crate) ending: Ending,
}

impl Evidence<'_> {
    /// Judges a check by windows that belong to servers and then, if that is what they are known
    /// to do, by windows that end with the processes of a relay.
    pub(crate) fn judge_all_windows(&self, by_process: Option<&Self>, check: &Check) -> Outcome {
        let outcome = self.judge(check);
        let (Outcome::Unmet { why }, Some(by_process)) = (&outcome, by_process) else {
            return outcome;
        };
        match by_process.judge(check) {
            Outcome::Met { .. } => Outcome::ByProcess { why: why.clone() },
            _ => outcome,
        }
    }

    /// Judges a check.
    pub(crate) fn judge(&self, check: &Check) -> Outcome {
        if let Some(why) = self.untestable(check) {
            return not_testable(why);
        }
        let view = View {
            evidence: self,
            check,
        };
        let outcome = view.judge();
        if !check.expect.is_about_questions() {
            return outcome;
        }
        let is_about_limits = !matches!(
            check.expect,
            Expectation::Ids | Expectation::NothingInvented | Expectation::NoEcho
        );
        if is_about_limits
            && matches!(outcome, Outcome::Met { .. })
            && let Some((question, _)) = view.questions().find(|(one, _)| view.is_rejected(one))
        {
            return not_testable(format!(
                "the client takes no such questions as those of the call {}",
                question.call
            ));
        }
        // What could not be asked is not passed by what could.
        let left_out = self.record.withheld.iter().filter(|withheld| {
            (check.calls.is_empty() || check.calls.contains(&withheld.call))
                && check.kind.is_none_or(|kind| kind == withheld.kind)
        });
        let (replaced, missing): (Vec<_>, Vec<_>) =
            left_out.partition(|withheld| withheld.is_replaced);
        match (outcome, missing.first(), replaced.first()) {
            (outcome @ (Outcome::Unmet { .. } | Outcome::ByProcess { .. }), _, _)
            | (outcome, None, None) => outcome,
            (Outcome::NotTestable { .. }, Some(missing), _) => not_testable(missing.why.clone()),
            (Outcome::Met { .. }, Some(missing), _) => not_testable(format!(
                "one part is met, another not asked: {}",
                missing.why
            )),
            (outcome @ Outcome::NotTestable { .. }, None, _) => outcome,
            (Outcome::Met { note }, None, Some(replaced)) => {
                let parts = note
                    .into_iter()
                    .chain([format!("in part: {}", replaced.why)]);
                Outcome::Met {
                    note: Some(parts.collect::<Vec<_>>().join("; ")),
                }
            }
        }
    }

    /// Whether a question asked within a window has its reply when that window may be over.
    fn crosses_the_edge(&self) -> bool {
        let questions = &self.record.questions;
        questions.iter().any(|question| {
            let first = questions
                .iter()
                .find(|first| first.window == question.window);
            let opened = first.map_or(question.request.sent, |first| first.request.sent);
            let replies = question.request.replies.iter();
            replies
                .max_by_key(|reply| reply.at)
                .is_some_and(|last| last.at >= opened + self.window)
        })
    }

    /// Why the client gave no occasion for a check.
    fn untestable(&self, check: &Check) -> Option<String> {
        let connections = &self.record.connections;
        let greeted = connections
            .iter()
            .find_map(|connection| connection.capabilities.as_ref());
        let Some(capabilities) = greeted else {
            return Some(match connections.last() {
                Some(_) => format!("the client made no handshake of {}", self.revision),
                None => "the client connected to no server".to_owned(),
            });
        };
        if let Some(kind) = check.kind
            && capabilities.get(kind.capability()).is_none()
        {
            return Some(format!("the client does not declare {kind}"));
        }
        let asked = self
            .record
            .questions
            .iter()
            .map(|question| question.request.sent);
        let took = asked
            .clone()
            .max()
            .zip(asked.min())
            .map(|(last, first)| last - first);
        if !self.scenario.slow && took.is_some_and(|took| took >= self.window) {
            return Some(
                "the client took longer than a window, so that nothing can be counted".to_owned(),
            );
        }
        if self.scenario.slow && self.crosses_the_edge() {
            return Some("the client's replies came too late to tell on which side of a window's end it decided".to_owned());
        }
        let needs_log = matches!(
            check.expect,
            Expectation::Handled | Expectation::NothingInvented
        );
        if needs_log && self.is_log_wrong {
            return Some(
                "what the client wrote to QUESTION_CONFORMANCE_LOG is no log of its handlers"
                    .to_owned(),
            );
        }
        let made = |name: &String| self.record.calls.iter().any(|call| call.name == *name);
        if let Some(call) = check.calls.iter().find(|name| !made(name)) {
            return Some(format!("the client did not get to call {call:?}"));
        }
        None
    }
}

/// What one check looks at.
#[derive(Clone, Copy, Debug)]
struct View<'a> {
    evidence: &'a Evidence<'a>,
    check: &'a Check,
}

impl<'a> View<'a> {
    fn judge(&self) -> Outcome {
        match self.check.expect {
            Expectation::Exact => counts::exact(self),
            Expectation::Handled => counts::handled(self),
            Expectation::Ids => contract::ids(self),
            Expectation::Answered => groups::answered(self),
            Expectation::Whole => groups::whole(self),
            Expectation::State => groups::state(self),
            Expectation::Code => contract::code(self),
            Expectation::Data => contract::data(self),
            Expectation::RetryAfter => contract::retry_after(self),
            Expectation::NoEcho => contract::no_echo(self),
            Expectation::NothingInvented => counts::nothing_invented(self),
            Expectation::AtOnce => conduct::at_once(self),
            Expectation::Traffic => conduct::traffic(self),
            Expectation::TaskCalls => conduct::task_calls(self),
            Expectation::Calls => conduct::calls(self),
            Expectation::Capabilities => conduct::capabilities(self),
            Expectation::Ends => conduct::ends(self),
        }
    }

    /// Whether the client rejects all questions of this kind in this call, as it may.
    fn is_rejected(&self, question: &Question) -> bool {
        let record = self.evidence.record;
        record.rejects(&question.call, question.kind)
    }

    /// The questions it is about, with what should have become of them.
    fn questions(&self) -> impl Iterator<Item = (&'a Question, &'a Expected)> {
        let Self { evidence, check } = *self;
        let questions = evidence.record.questions.iter().zip(&evidence.expected);
        questions.filter(move |(question, _)| {
            check.kind.is_none_or(|kind| kind == question.kind)
                && (check.calls.is_empty() || check.calls.contains(&question.call))
        })
    }

    /// The kinds it is about.
    fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let only = self.check.kind;
        let kinds = Kind::ALL.into_iter();
        kinds.filter(move |&kind| only.is_none_or(|one| one == kind))
    }

    /// The error replies where there should be a refusal, with the questions. `Err` if there is
    /// nothing to look at.
    fn refusals(&self) -> Result<Vec<(&'a Question, &'a serde_json::Value)>, Outcome> {
        if self.questions().all(|(_, expected)| expected.is_admitted()) {
            return Err(not_testable("under these limits nothing is refused"));
        }
        // Within a burst it is the client's choice which question is refused. A malformed one
        // that was admitted may get an error too, but not one of a limiter.
        let refusals: Vec<_> = self
            .questions()
            .filter_map(|(question, _)| Some((question, question.request.error()?)))
            .filter(|(question, error)| !question.may_be_rejected || counts::is_refusal(error))
            .collect();
        if refusals.is_empty() {
            return Err(unmet(
                "no question was refused: reply to those over the limit with error -32603",
            ));
        }
        Ok(refusals)
    }
}
