//! What became of every check, with every client: played, kept in a committed file, and compared
//! with it in both directions.

mod compare;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{
    checks::Outcome,
    clients::{self, Entry},
    play,
    protocol::{Revision, Transport},
    run::{self, ScenarioReport},
    scenario::{self, Scenario},
};

/// What became of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    Met,
    /// Met, but the reader should know something about it.
    MetBut(String),
    /// Met by each process of a relay, and not over several.
    ByProcess(String),
    Unmet(String),
    NotTestable(String),
}

impl Finding {
    /// The outcome alone.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::MetBut(_) => "met with a reservation",
            Self::ByProcess(_) => "met by each process alone",
            Self::Unmet(_) => "not met",
            Self::NotTestable(_) => "not testable",
        }
    }

    /// What there is to say about it.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Self::Met => None,
            Self::MetBut(why)
            | Self::ByProcess(why)
            | Self::Unmet(why)
            | Self::NotTestable(why) => Some(why),
        }
    }
}

impl From<&Outcome> for Finding {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Met { note: None } => Self::Met,
            Outcome::Met { note: Some(note) } => Self::MetBut((*note).to_owned()),
            Outcome::ByProcess { why } => Self::ByProcess(why.clone()),
            Outcome::Unmet { why } => Self::Unmet(why.clone()),
            Outcome::NotTestable { why } => Self::NotTestable(why.clone()),
        }
    }
}

/// What became of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Played {
    /// Why the client failed as a program, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_failed: Option<String>,
    pub(crate) checks: BTreeMap<String, Finding>,
}

impl Played {
    /// Whether every check came out in the same way, whatever there is to say about it.
    fn is_alike(&self, other: &Self) -> bool {
        let words = |played: &Self| -> Vec<(String, &'static str)> {
            let checks = played.checks.iter();
            checks
                .map(|(name, finding)| (name.clone(), finding.word()))
                .collect()
        };
        self.client_failed.is_some() == other.client_failed.is_some() && words(self) == words(other)
    }
}

impl From<&ScenarioReport> for Played {
    fn from(report: &ScenarioReport) -> Self {
        let checks = report.checks.iter();
        Self {
            client_failed: report.client_failed.clone(),
            checks: checks
                .map(|check| (check.check.clone(), Finding::from(&check.outcome)))
                .collect(),
        }
    }
}

/// One play of the plan: a client, and how it is played to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) client: String,
    pub(crate) revision: Revision,
    pub(crate) transport: Transport,
    pub(crate) scenario: String,
}

impl Place {
    /// The revision and the transport, as the file has them.
    pub(crate) fn way(&self) -> String {
        format!("{} over {}", self.revision, self.transport.as_str())
    }
}

/// What was played, by client, by revision and transport, and by scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Results(BTreeMap<String, BTreeMap<String, BTreeMap<String, Played>>>);

impl Results {
    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json")
    }

    /// Reads the committed file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or says something else.
    pub(crate) fn read() -> Result<Self, String> {
        let path = Self::path();
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
        serde_json::from_str(&text).map_err(|error| problem(&error))
    }

    fn write(&self) -> Result<(), String> {
        let path = Self::path();
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        fs::write(&path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn get(&self, place: &Place) -> Option<&Played> {
        self.0
            .get(&place.client)?
            .get(&place.way())?
            .get(&place.scenario)
    }

    pub(crate) fn set(&mut self, place: &Place, played: Played) {
        let client = self.0.entry(place.client.clone()).or_default();
        let way = client.entry(place.way()).or_default();
        way.insert(place.scenario.clone(), played);
    }

    /// Everything that it is about: client, way and scenario.
    fn places(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().flat_map(|(client, ways)| {
            ways.iter().flat_map(move |(way, scenarios)| {
                let names = scenarios.keys();
                names.map(move |scenario| (client.as_str(), way.as_str(), scenario.as_str()))
            })
        })
    }
}

/// Which scenarios are played to a client.
pub(crate) fn plan(entry: &Entry, scenarios: &[Scenario]) -> Vec<Place> {
    let mut places = Vec::new();
    for &transport in &entry.transports {
        for scenario in scenarios {
            if scenario.is_played_over(transport, entry.counter())
                && entry.revisions.contains(&scenario.revision)
            {
                places.push(Place {
                    client: entry.id.clone(),
                    revision: scenario.revision,
                    transport,
                    scenario: scenario.name.clone(),
                });
            }
        }
    }
    places
}

/// What `conformance results` is told.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write nothing, and fail if anything differs from the results as they are written down
    #[arg(long)]
    check: bool,
    /// Play to this client of clients.toml alone
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Play this scenario alone
    #[arg(long, value_name = "NAME", conflicts_with_all = ["fast", "slow"])]
    scenario: Option<String>,
    /// Play only the scenarios that wait for no window to end
    #[arg(long, conflicts_with = "slow")]
    fast: bool,
    /// Play only the scenarios that wait for a window to end, to all clients at once
    #[arg(long)]
    slow: bool,
    /// How many scenarios are played side by side, unless they wait for a window to end [default:
    /// three for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Plays. Writes the results, or returns what differs from those that are written down.
///
/// # Errors
///
/// What could not be read, installed or played.
pub(crate) async fn play(arguments: &Arguments) -> Result<Vec<String>, String> {
    let entries = clients::all()?;
    let chosen: Vec<&Entry> = entries
        .iter()
        .filter(|entry| arguments.client.as_ref().is_none_or(|id| *id == entry.id))
        .collect();
    if chosen.is_empty() {
        let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
        return Err(format!("--client: there are {}", ids.join(", ")));
    }
    let scenarios = scenario::all()?;
    let is_meant = |scenario: &&Scenario| {
        arguments
            .scenario
            .as_ref()
            .is_none_or(|name| *name == scenario.name)
    };
    let meant = scenarios.iter().filter(is_meant).cloned();
    let (slow, fast): (Vec<Scenario>, Vec<Scenario>) = meant.partition(|scenario| scenario.slow);
    if slow.is_empty() && fast.is_empty() {
        let names: Vec<&str> = scenarios.iter().map(|one| one.name.as_str()).collect();
        return Err(format!("--scenario: there are {}", names.join(", ")));
    }
    clients::install(&chosen)?;

    let before = Results::read();
    let mut found = Vec::new();
    if !arguments.slow {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        found.extend(play_all(&chosen, &fast, arguments.jobs.unwrap_or(3 * cores)).await?);
    }
    if !arguments.fast {
        found.extend(play_all(&chosen, &slow, usize::MAX).await?);
    }
    // Side by side, clients make each other late. What comes out otherwise than it was written down
    // is played once more, alone, and then it stands.
    for (place, played) in &mut found {
        let expected = before.as_ref().ok().and_then(|before| before.get(place));
        let is_as_expected = expected.is_some_and(|expected| expected.is_alike(played));
        let is_new = expected.is_none() && played.client_failed.is_none();
        if is_as_expected || is_new {
            continue;
        }
        eprintln!(
            "once more, alone: {}, {}, {}",
            place.client,
            place.way(),
            place.scenario
        );
        let entry = chosen.iter().find(|entry| entry.id == place.client);
        let scenario = scenarios.iter().find(|one| one.name == place.scenario);
        if let (Some(entry), Some(scenario)) = (entry, scenario) {
            let client = entry.client(place.transport)?;
            *played = Played::from(&run::scenario(&client, scenario).await?);
        }
    }

    let planned: Vec<Place> = entries
        .iter()
        .flat_map(|entry| plan(entry, &scenarios))
        .collect();
    if arguments.check {
        return Ok(compare::differences(&before?, &found, &planned));
    }
    // What was not played stays as it was, unless it can be played no more.
    let mut results = Results::default();
    if let Ok(before) = Results::read() {
        for place in &planned {
            if let Some(played) = before.get(place) {
                results.set(place, played.clone());
            }
        }
    }
    for (place, played) in found {
        results.set(&place, played);
    }
    results.write()?;
    Ok(Vec::new())
}

/// Plays scenarios to clients, side by side.
async fn play_all(
    entries: &[&Entry],
    scenarios: &[Scenario],
    jobs: usize,
) -> Result<Vec<(Place, Played)>, String> {
    let (mut places, mut plays) = (Vec::new(), Vec::new());
    for entry in entries {
        for place in plan(entry, scenarios) {
            let scenario = scenarios.iter().find(|one| one.name == place.scenario);
            let client = Arc::new(entry.client(place.transport)?);
            plays.extend(scenario.map(|scenario| (client, scenario.clone())));
            places.push(place);
        }
    }
    let (all, mut played) = (plays.len(), 0);
    let reports = play::all(plays, jobs.min(all), |report| {
        played += 1;
        eprint!(
            "\r{played} of {all} played, the last was {:<24}",
            report.scenario
        );
    })
    .await?;
    eprintln!();
    Ok(places
        .into_iter()
        .zip(reports.iter().map(Played::from))
        .collect())
}
