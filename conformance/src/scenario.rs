//! Scenarios: what scripted servers do, and what is checked afterwards. Data, read from TOML files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    checks::Expectation,
    protocol::{Kind, Revision, Transport},
    quantity::Quantity,
};

/// The folder of the scenario files.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub(crate) name: String,
    /// Whether its name and tools are those of a scenario of the official suite, for clients that
    /// know its contract and not this suite's.
    #[serde(skip)]
    pub(crate) is_official: bool,
    /// What happens, in one sentence.
    pub(crate) title: String,
    /// The revision it is played in.
    pub(crate) revision: Revision,
    /// The transports it is played over: both, unless it does what one cannot.
    #[serde(default = "every_transport")]
    pub(crate) transports: Vec<Transport>,
    /// Whether it waits for a window to end.
    #[serde(default)]
    pub(crate) slow: bool,
    /// How long the client's handlers are asked to take for an answer.
    #[serde(default)]
    pub(crate) answer_delay_ms: u64,
    /// The servers that the client is configured with.
    pub(crate) servers: Vec<Server>,
    /// What is looked at when the client has ended.
    pub(crate) checks: Vec<Check>,
}

fn every_transport() -> Vec<Transport> {
    Transport::ALL.to_vec()
}

/// A configured server.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Server {
    /// Its name in the client's configuration.
    pub(crate) name: String,
    /// What it calls itself, connection by connection; the last name stays. Its configured name
    /// if there is none.
    #[serde(default)]
    pub(crate) calls_itself: Vec<String>,
    #[serde(default)]
    pub(crate) tools: Vec<Call>,
    #[serde(default)]
    pub(crate) prompts: Vec<Call>,
    #[serde(default)]
    pub(crate) resources: Vec<Call>,
}

impl Server {
    pub(crate) fn calls(&self, method: CallMethod) -> &[Call] {
        match method {
            CallMethod::Tool => &self.tools,
            CallMethod::Prompt => &self.prompts,
            CallMethod::Resource => &self.resources,
        }
    }

    /// Every call, in the order in which the client makes them.
    pub(crate) fn all_calls(&self) -> impl Iterator<Item = &Call> {
        CallMethod::ALL
            .into_iter()
            .flat_map(|method| self.calls(method))
    }
}

/// The calls of a client within which servers ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMethod {
    Tool,
    Prompt,
    Resource,
}

impl CallMethod {
    pub(crate) const ALL: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];
}

/// A tool, prompt or resource: what the server does when it is called.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Call {
    /// Unique among all calls of the scenario.
    pub(crate) name: String,
    /// Done one after another; after the last, the call gets its result.
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
}

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
}

/// An entry of a round that no one can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BadEntry {
    /// A question with a required member of the wrong type.
    WrongType,
    /// Null instead of a request.
    Null,
    /// A method that nothing is asked by.
    UnknownMethod,
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

/// A named check, and the requirements that it proves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Check {
    /// Unique in its scenario.
    pub(crate) name: String,
    /// Ids of the register.
    pub(crate) requires: Vec<String>,
    /// The calls it looks at; all if empty.
    #[serde(default)]
    pub(crate) calls: Vec<String>,
    /// The kind it looks at; all if absent.
    #[serde(default)]
    pub(crate) kind: Option<Kind>,
    /// What must hold.
    pub(crate) expect: Expectation,
}

/// All scenarios of this suite, sorted by name.
pub(crate) fn all() -> Result<Vec<Scenario>, String> {
    read(&folder())
}

/// The scenarios that are played inside such of the official suite, sorted by name.
pub(crate) fn official() -> Result<Vec<Scenario>, String> {
    let mut scenarios = read(&folder().join("official"))?;
    for scenario in &mut scenarios {
        scenario.is_official = true;
    }
    Ok(scenarios)
}

fn read(folder: &Path) -> Result<Vec<Scenario>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", folder.display());
    let mut scenarios = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| problem(&error))? {
        let path = entry.map_err(|error| problem(&error))?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let (Some(name), true) = (name, path.extension().is_some_and(|end| end == "toml")) else {
            continue;
        };
        let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
        let scenario =
            parse(name, &text).map_err(|error| format!("{}: {error}", path.display()))?;
        scenarios.push(scenario);
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

fn parse(name: &str, text: &str) -> Result<Scenario, String> {
    let mut scenario: Scenario = toml::from_str(text).map_err(|error| error.to_string())?;
    name.clone_into(&mut scenario.name);
    let calls: Vec<&str> = scenario
        .servers
        .iter()
        .flat_map(Server::all_calls)
        .map(|call| call.name.as_str())
        .collect();
    unique("call", calls.iter().copied())?;
    unique(
        "server",
        scenario.servers.iter().map(|server| server.name.as_str()),
    )?;
    unique(
        "check",
        scenario.checks.iter().map(|check| check.name.as_str()),
    )?;
    for check in &scenario.checks {
        if let Some(call) = check
            .calls
            .iter()
            .find(|call| !calls.contains(&call.as_str()))
        {
            return Err(format!(
                "check {:?} names an unknown call {call:?}",
                check.name
            ));
        }
        if let Some(server) = scenario.servers.iter().find(|server| {
            let mut calls = server.all_calls();
            let is_meant = |call: &Call| check.calls.contains(&call.name);
            check.expect == Expectation::Handled
                && calls.any(is_meant)
                && !server.all_calls().all(is_meant)
        }) {
            return Err(format!(
                "check {:?} looks at some of the calls of {}: handlers' logs tell servers apart, not calls",
                check.name, server.name
            ));
        }
        if check.requires.is_empty() {
            return Err(format!("check {:?} cites no requirement", check.name));
        }
    }
    Ok(scenario)
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return Err(format!("two {what}s are named {name:?}"));
        }
        seen.push(name);
    }
    Ok(())
}
