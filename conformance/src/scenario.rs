//! Scenarios: what scripted servers do, and what is checked afterwards. Data, read from TOML files.

mod steps;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

pub(crate) use self::steps::{Ask, BadEntry, Entries, Ids, Notified, Point, Shape, Step, UrlList};
use crate::{
    checks::Expectation,
    model::Counter,
    protocol::{Kind, Revision, Transport},
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
    /// The same behind a relay, where that differs.
    transports_behind_relay: Option<Vec<Transport>>,
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

impl Scenario {
    /// Whether it is played over a transport, where this one counts the questions.
    pub(crate) fn is_played_over(&self, transport: Transport, counter: Counter) -> bool {
        let behind_relay = self.transports_behind_relay.as_ref();
        let transports = match counter {
            Counter::Client => &self.transports,
            Counter::Relay => behind_relay.unwrap_or(&self.transports),
        };
        transports.contains(&transport)
    }

    /// The checks that are made, where this one counts the questions.
    pub(crate) fn checks_for(&self, counter: Counter) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(move |check| check.is_for(counter))
    }
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
    /// Who is judged by it; everyone if absent.
    #[serde(default, rename = "for")]
    pub(crate) of: Option<Counter>,
    /// What must hold.
    pub(crate) expect: Expectation,
}

impl Check {
    /// Whether it is made where this one counts the questions.
    pub(crate) fn is_for(&self, counter: Counter) -> bool {
        self.of.is_none_or(|of| of == counter)
    }
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
