//! Who has been asking: the last questions of each server, and how they ended.
//!
//! It is kept beside the throttle, which decides without it, and filled after each verdict. It
//! holds names from the settings and numbers of ours, and nothing that a server wrote. A server
//! takes about 20 KiB at most, however much it asks.

mod record;
mod recorder;

use std::time::Duration;

use serde::Serialize;

use crate::{
    arrival::{Door, Origin, Outcome},
    limits::LimitName,
    question::QuestionKind,
};

pub(crate) use self::{
    record::{Noted, OpenQuestion, Record},
    recorder::Recorder,
};

/// How many of a server's last questions are kept.
pub const KEPT: usize = 256;
/// How long one step of the [history](Usage::history) is.
pub const HISTORY_STEP: Duration = Duration::from_secs(5);
/// How many steps the history has: five minutes.
pub const HISTORY_STEPS: usize = 60;
/// The upper bounds of the buckets in which the times to answer are counted, in seconds. One more
/// bucket takes what is longer.
pub const ANSWER_TIMES: [f64; 12] = [
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0,
];

/// What one server has asked since it was first seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Usage {
    /// What came of its questions, where that is not zero. Exact, and never forgotten.
    pub counts: Vec<UsageCount>,
    /// How its admitted sampling ended.
    pub sampling: Endings,
    /// How its admitted elicitation ended.
    pub elicitation: Endings,
    /// Calls that were ended by `proto.askRounds`.
    pub rounds_exceeded: u64,
    /// Its last questions, at most [`KEPT`], newest first.
    pub recent: Vec<Use>,
    /// What was asked in the last minutes, in steps of [`HISTORY_STEP`], oldest first. The last
    /// one is not over yet.
    pub history: Vec<HistoryStep>,
}

/// How many questions of one kind and origin had one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageCount {
    /// The kind.
    pub kind: QuestionKind,
    /// Whether they belonged to a call that the user made.
    pub origin: Origin,
    /// What came of them.
    pub verdict: Outcome,
    /// Why they were refused, or would have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The limit in the way, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitName>,
    /// How many.
    pub questions: u64,
}

/// How admitted questions of one kind ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Endings {
    /// Not ended yet.
    pub open: u64,
    /// Answered, by whatever answer or error.
    pub answered: u64,
    /// Ended by `proto.askTTL`.
    pub expired: u64,
    /// Taken back, or their session went.
    pub cancelled: u64,
    /// How long the answers took, in the buckets of [`ANSWER_TIMES`] and one more.
    pub answer_times: Vec<u64>,
    /// How long all the answers took together, in seconds.
    pub answer_seconds: f64,
}

/// One verdict on one kind of question.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Use {
    /// How long ago, in milliseconds.
    pub ago_ms: u64,
    /// The session's number within the throttle.
    pub session: u64,
    /// The kind.
    pub kind: QuestionKind,
    /// How many were asked at once: more than one in a round.
    pub questions: u32,
    /// How they arrived.
    pub door: Door,
    /// Whether they belonged to a call that the user made.
    pub origin: Origin,
    /// What came of them.
    pub verdict: Outcome,
    /// Why they were refused, or would have been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The limit in the way, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitName>,
    /// How they ended, if they have and were watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// After how many milliseconds the last of them ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// It was answered, by whatever answer or error.
    Answered,
    /// `proto.askTTL` ended it.
    Expired,
    /// It was taken back, or its session went.
    Cancelled,
}

/// What was asked in one step of the history, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HistoryStep {
    /// Sampling.
    pub sampling: Asked,
    /// Elicitation.
    pub elicitation: Asked,
}

/// Questions of one step and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Asked {
    /// Admitted.
    pub admitted: u32,
    /// Admitted, though they would have been refused if limits were enforced.
    pub would_refuse: u32,
    /// Refused.
    pub refused: u32,
}
