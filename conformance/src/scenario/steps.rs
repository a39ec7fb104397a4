//! What servers do within a call.

use serde::Deserialize;

use crate::{protocol::Kind, quantity::Quantity};

/// One thing that a server does within a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Asks, all in one write, and waits for the replies.
    Ask(Ask),
    /// Asks by `input_required` results.
    Round(Entries),
    /// Makes the call a task that asks; nothing can follow.
    Task(Entries),
    /// Ends the call with an error -32042.
    UrlRequired {
        /// How many URLs it names.
        count: Quantity,
        /// How it names them.
        #[serde(default)]
        list: UrlList,
    },
    /// Makes the call a task that fails with an error -32042.
    TaskFails {
        /// How many URLs the error names.
        count: Quantity,
    },
    /// Closes the connection without a result.
    Close {},
    /// Waits for a point of the window that the client opened last.
    Wait(Point),
}

/// A burst of questions.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Ask {
    /// Several kinds alternate.
    pub(crate) kinds: Vec<Kind>,
    /// How many of each kind.
    pub(crate) count: Quantity,
    /// How they are written; several take turns.
    #[serde(default = "plain")]
    pub(crate) shapes: Vec<Shape>,
    /// What their ids look like.
    #[serde(default)]
    pub(crate) ids: Ids,
    /// Whether pings and `roots/list` are sent between them.
    #[serde(default)]
    pub(crate) traffic: bool,
    /// Whether a client may reject such questions altogether, by an error of its own.
    #[serde(default)]
    pub(crate) may_be_rejected: bool,
    /// Whether each question is cancelled by the server when all are sent.
    #[serde(default)]
    pub(crate) cancel: bool,
}

fn plain() -> Vec<Shape> {
    vec![Shape::Plain]
}

/// How a question is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// As the specification has it; a form for an elicitation.
    Plain,
    /// An elicitation by URL; sampling stays plain.
    Url,
    /// Sampling with tools; an elicitation stays plain.
    WithTools,
    /// To be run as a task by the client (2025-11-25).
    AsTask,
    /// Without the member `params`.
    NoParams,
    /// `params` is null.
    NullParams,
    /// `params` lacks what is required.
    EmptyParams,
    /// A required member has the wrong type.
    WrongType,
    /// As a notification: there is no id.
    NoId,
}

impl Shape {
    /// Whether a client may answer it with an error of its own while there is room.
    pub(crate) const fn is_malformed(self) -> bool {
        !matches!(
            self,
            Self::Plain | Self::Url | Self::WithTools | Self::AsTask
        )
    }
}

/// What the ids of a burst look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ids {
    #[default]
    Numbers,
    Strings,
    /// Strings and numbers that look alike, and the ends of both ranges.
    EveryType,
}

/// Questions that are asked together.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Entries {
    pub(crate) kinds: Vec<Kind>,
    /// How many of each kind.
    pub(crate) count: Quantity,
    /// How many rounds there are of this.
    #[serde(default)]
    pub(crate) times: Quantity,
    /// Whether `roots/list` is among them.
    #[serde(default)]
    pub(crate) roots: bool,
    #[serde(default)]
    pub(crate) state: State,
    /// What is wrong with one more entry, if there is one.
    #[serde(default)]
    pub(crate) bad_entry: Option<BadEntry>,
    /// How a task says what it asks.
    #[serde(default)]
    pub(crate) notified: Notified,
    /// Whether a task that was answered asks other questions, under the same keys.
    #[serde(default)]
    pub(crate) anew: bool,
}

/// An entry of a round that no one can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BadEntry {
    /// A question with a required member of the wrong type.
    WrongType,
    /// A question without the member `params`.
    NoParams,
    /// Null instead of a request.
    Null,
    /// A method that nothing is asked by.
    UnknownMethod,
}

impl BadEntry {
    /// The question that its method claims, if it does.
    pub(crate) const fn by_method_alone(self) -> Option<Kind> {
        match self {
            Self::WrongType | Self::NoParams => Some(Kind::Elicitation),
            Self::Null | Self::UnknownMethod => None,
        }
    }
}

/// How a task says what it asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Notified {
    /// To those who poll it.
    #[default]
    Never,
    /// By `notifications/tasks` as well, again and again.
    Too,
    /// By `notifications/tasks` alone.
    Only,
}

/// The list of an error -32042.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum UrlList {
    /// As the specification has it.
    #[default]
    Complete,
    /// There is no `data`.
    NoData,
    /// A text stands in its place.
    Text,
    /// It is empty.
    Empty,
    /// Its entries are numbers.
    Numbers,
}

/// The `requestState` of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    #[default]
    Absent,
    Plain,
    /// Long, and full of what clumsy hands change.
    Odd,
}

impl State {
    /// The state of a round.
    pub(crate) fn text(self, number: u32) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Plain => Some(format!("state {number}")),
            Self::Odd => {
                let odd = " \u{0}\u{1f}\"\\/\u{7f}\u{e9}e\u{301}\u{2028}\u{1f600} 1.0 null\r\n";
                Some(format!("{number}{}", odd.repeat(2000)))
            }
        }
    }
}

/// A point of time in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Point {
    /// Half of it is over.
    Half,
    /// It is about to end.
    BeforeEnd,
    /// The point that the client's last refusal names, or when it has surely ended.
    AsTold,
}
