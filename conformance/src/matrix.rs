//! Shows that the suite can fail: plays every scenario to the right reference client and to every
//! wrong one, and compares the checks that each fails with a committed list.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum;

use crate::{
    checks::Outcome,
    limits::Limits,
    play,
    protocol::Transport,
    reference::Wrong,
    run::{Client, ScenarioReport},
    scenario,
};

/// The window of scenarios that wait for its end.
const WINDOW: Duration = Duration::from_secs(5);
/// A client that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(15);
/// The reference client answers at once or never.
const SILENCE: Duration = Duration::from_millis(1500);

/// The checks that are not met, by scenario.
type Unmet = BTreeMap<String, BTreeSet<String>>;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("matrix.toml")
}

/// Plays the whole matrix. Returns what is wrong with it, or writes the list anew.
///
/// # Errors
///
/// What the runner itself could not do.
pub(crate) async fn run(jobs: usize, write: bool) -> Result<Vec<String>, String> {
    let mut scenarios = scenario::all()?;
    scenarios.retain(|scenario| scenario.transports.contains(&Transport::Stdio));
    let clients = [None]
        .into_iter()
        .chain(Wrong::value_variants().iter().copied().map(Some));
    let mut plays = Vec::new();
    for wrong in clients {
        let client = Arc::new(client(wrong)?);
        plays.extend(
            scenarios
                .iter()
                .map(|scenario| (Arc::clone(&client), scenario.clone())),
        );
    }
    let (all, mut played) = (plays.len(), 0);
    let mut reports = play::all(plays, jobs, |report| {
        played += 1;
        eprint!(
            "\r{played} of {all} played, the last was {:<24}",
            report.scenario
        );
    })
    .await?
    .into_iter();
    eprintln!();

    let mut problems = Vec::new();
    for report in reports.by_ref().take(scenarios.len()) {
        let not_met = report.checks.iter().filter(|check| !is_met(&check.outcome));
        problems.extend(not_met.map(|check| {
            format!(
                "the right client does not meet {} of {}: {:?}",
                check.check, report.scenario, check.outcome
            )
        }));
    }
    let mut found = BTreeMap::new();
    for &wrong in Wrong::value_variants() {
        let reports: Vec<_> = reports.by_ref().take(scenarios.len()).collect();
        found.insert(wrong.name(), unmet(&reports));
    }
    for (wrong, by_scenario) in &found {
        if by_scenario.is_empty() {
            problems.push(format!("no scenario catches {wrong}"));
        }
    }
    for scenario in &scenarios {
        for check in &scenario.checks {
            let can_fail = found.values().any(|unmet| {
                unmet
                    .get(&scenario.name)
                    .is_some_and(|checks| checks.contains(&check.name))
            });
            if !can_fail {
                problems.push(format!(
                    "no client fails {} of {}",
                    check.name, scenario.name
                ));
            }
        }
    }
    if write {
        let text = toml::to_string(&found).map_err(|error| error.to_string())?;
        let head =
            "# Which checks each wrong client fails. Written by `conformance matrix --write`.\n\n";
        fs::write(file(), head.to_owned() + &text).map_err(|error| error.to_string())?;
    } else {
        let text = fs::read_to_string(file()).map_err(|error| error.to_string())?;
        let expected = toml::from_str(&text).map_err(|error| error.to_string())?;
        problems.extend(differences(&expected, &found));
    }
    Ok(problems)
}

/// The reference client, right or wrong.
fn client(wrong: Option<Wrong>) -> Result<Client, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let this = this
        .to_str()
        .ok_or("the path to this program is not UTF-8")?;
    let mut command = vec![this.to_owned(), "reference-client".to_owned()];
    command.extend(wrong.map(|wrong| format!("--wrong={}", wrong.name())));
    Ok(Client {
        command,
        transport: Transport::Stdio,
        limits: Arc::new(Limits::default()),
        limits_file: None,
        slow_window: WINDOW,
        silence: SILENCE,
        longest: LONGEST,
    })
}

const fn is_met(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Met { .. })
}

fn unmet(reports: &[ScenarioReport]) -> Unmet {
    let mut all = Unmet::new();
    for report in reports {
        for check in &report.checks {
            if matches!(check.outcome, Outcome::Unmet { .. }) {
                let checks = all.entry(report.scenario.clone()).or_default();
                checks.insert(check.check.clone());
            }
        }
    }
    all
}

/// What differs from the list, in both directions.
fn differences(expected: &BTreeMap<String, Unmet>, found: &BTreeMap<String, Unmet>) -> Vec<String> {
    let flat = |all: &BTreeMap<String, Unmet>| -> BTreeSet<(String, String, String)> {
        let mut flat = BTreeSet::new();
        for (wrong, by_scenario) in all {
            for (scenario, checks) in by_scenario {
                for check in checks {
                    flat.insert((wrong.clone(), scenario.clone(), check.clone()));
                }
            }
        }
        flat
    };
    let (expected, found) = (flat(expected), flat(found));
    let missing = expected.difference(&found).map(|(wrong, scenario, check)| {
        format!("{wrong} should fail {check} of {scenario}, and does not")
    });
    let surprising = found.difference(&expected).map(|(wrong, scenario, check)| {
        format!("{wrong} fails {check} of {scenario}, which the list does not have")
    });
    missing.chain(surprising).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_strict_both_ways() {
        let list = |check: &str| -> BTreeMap<String, Unmet> {
            toml::from_str(&format!("[slides]\nedge = [{check:?}]")).unwrap()
        };
        assert_eq!(differences(&list("a"), &list("a")), Vec::<String>::new());
        assert_eq!(differences(&list("a"), &list("b")).len(), 2);
    }
}
