//! Shows that the suite can fail: plays scenarios to the right reference client and to every wrong
//! one, and compares the checks that each fails with a committed list.
//!
//! Relays come after that, the right ones and the wrong; see [`relays`].
//!
//! Over stdio every wrong client is played every scenario. Over HTTP each is played one scenario in
//! which it fails over stdio, chosen so that all scenarios come up, and the burst for clients of
//! the official suite.

mod list;
mod relays;

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;

use self::list::{ByWrong, List};
use crate::{
    checks::Outcome,
    limits::Limits,
    model::Counter,
    play,
    protocol::Transport,
    reference::Wrong,
    report::unmet,
    run::{Client, ScenarioReport},
    scenario::{self, Check, Scenario},
};

/// The window of scenarios that wait for its end.
const WINDOW: Duration = Duration::from_secs(5);
/// A client that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(15);
/// The reference client answers at once or never.
const SILENCE: Duration = Duration::from_millis(1500);

/// The scenarios that one client is played.
struct Row {
    /// What is wrong with it; `None` if nothing is.
    wrong: Option<String>,
    client: Arc<Client>,
    scenarios: Vec<Scenario>,
}

/// Plays the whole matrix. Returns what is wrong with it, or writes the list anew.
///
/// # Errors
///
/// What the runner itself could not do.
pub(crate) async fn run(jobs: usize, write: bool) -> Result<Vec<String>, String> {
    let listed = if write { None } else { Some(List::read()?) };
    let all = scenario::all()?;
    let mut problems = Vec::new();

    let by_pipe = over(&all, Transport::Stdio);
    let clients = [None].into_iter().chain(wrongs().map(Some));
    let rows = clients.map(|wrong| row(wrong, Transport::Stdio, by_pipe.clone()));
    let expected = listed.as_ref().map(|listed| &listed.stdio);
    let rows = rows.collect::<Result<_, _>>()?;
    let stdio = play_rows(Transport::Stdio, rows, expected, jobs, &mut problems).await?;
    problems.extend(unfailed_checks(&by_pipe, Counter::Client, &stdio));

    let (by_web, official) = (over(&all, Transport::Http), scenario::official()?);
    let known = listed.as_ref().map_or(&stdio, |listed| &listed.stdio);
    let rows = rows_over_http(&by_web, &official, known)?;
    let expected = listed.as_ref().map(|listed| &listed.http);
    // A message over HTTP costs more work, and the right client is to have its answers in time.
    let jobs = jobs.div_ceil(2);
    let http = play_rows(Transport::Http, rows, expected, jobs, &mut problems).await?;
    problems.extend(unfailed_checks(&official, Counter::Client, &http));
    for scenario in &by_web {
        if !http
            .values()
            .any(|unmet| unmet.contains_key(&scenario.name))
        {
            problems.push(format!("no client fails {} over http", scenario.name));
        }
    }

    let (mut by_relay, mut played) = (all, Vec::new());
    by_relay.retain(|scenario| relays::RELAYED.contains(&scenario.name.as_str()));
    for transport in Transport::ALL {
        let expected = listed.as_ref().map(|listed| match transport {
            Transport::Stdio => &listed.relay_stdio,
            Transport::Http => &listed.relay_http,
        });
        let rows = relays::rows(&by_relay, transport)?;
        played.push(play_rows(transport, rows, expected, jobs, &mut problems).await?);
    }
    let [relay_stdio, relay_http] =
        <[ByWrong; 2]>::try_from(played).map_err(|_| "a transport is missing")?;
    problems.extend(unfailed_checks(&by_relay, Counter::Relay, &relay_http));

    let found = List {
        stdio,
        http,
        relay_stdio,
        relay_http,
    };
    match listed {
        Some(listed) => problems.extend(listed.differences(&found)),
        None => found.write()?,
    }
    Ok(problems)
}

fn wrongs() -> impl Iterator<Item = Wrong> {
    Wrong::value_variants().iter().copied()
}

fn over(scenarios: &[Scenario], transport: Transport) -> Vec<Scenario> {
    let mut scenarios = scenarios.to_vec();
    scenarios.retain(|scenario| scenario.transports.contains(&transport));
    scenarios
}

/// Everything for the right client, and for each wrong one the scenario that has come up least
/// among those in which it is known to fail. Some fail where there is no HTTP alone: they get the
/// official burst and nothing else.
fn rows_over_http(
    all: &[Scenario],
    official: &[Scenario],
    known: &ByWrong,
) -> Result<Vec<Row>, String> {
    let everything = all.iter().chain(official).cloned().collect();
    let mut rows = vec![row(None, Transport::Http, everything)?];
    let mut times = vec![0; all.len()];
    for wrong in wrongs() {
        let fails = known.get(&wrong.name());
        let fails_in =
            |scenario: &Scenario| fails.is_some_and(|unmet| unmet.contains_key(&scenario.name));
        let chosen = (0..all.len())
            .filter(|&place| fails_in(&all[place]))
            .min_by_key(|&place| (times[place], how_often_failed(&all[place], known)));
        let mut scenarios = official.to_vec();
        if let Some(place) = chosen {
            times[place] += 1;
            scenarios.push(all[place].clone());
        }
        rows.push(row(Some(wrong), Transport::Http, scenarios)?);
    }
    Ok(rows)
}

/// What one reference client is played.
fn row(
    wrong: Option<Wrong>,
    transport: Transport,
    scenarios: Vec<Scenario>,
) -> Result<Row, String> {
    Ok(Row {
        wrong: wrong.map(Wrong::name),
        client: Arc::new(client(wrong, transport)?),
        scenarios,
    })
}

fn how_often_failed(scenario: &Scenario, known: &ByWrong) -> usize {
    known
        .values()
        .filter(|unmet| unmet.contains_key(&scenario.name))
        .count()
}

/// Plays the rows, and gives back what the wrong clients did not meet. Adds a problem for what the
/// right one did not, and for each wrong one that was played all that it can fail and met it.
async fn play_rows(
    transport: Transport,
    rows: Vec<Row>,
    expected: Option<&ByWrong>,
    jobs: usize,
    problems: &mut Vec<String>,
) -> Result<ByWrong, String> {
    let (mut plays, mut wrong) = (Vec::new(), Vec::new());
    for row in &rows {
        let scenarios = row.scenarios.iter().cloned();
        plays.extend(scenarios.map(|scenario| (Arc::clone(&row.client), scenario)));
        wrong.extend(row.scenarios.iter().map(|_| row.wrong.as_deref()));
    }
    let (all, mut played) = (plays.len(), 0);
    let mut reports = play::all(plays.clone(), jobs, |report| {
        played += 1;
        eprint!(
            "\r{played} of {all} played over {}, the last was {:<36}",
            transport.as_str(),
            report.scenario
        );
    })
    .await?;
    eprintln!();
    for (place, report) in reports.iter_mut().enumerate() {
        if is_as_expected(report, wrong[place], expected) {
            continue;
        }
        // What waits for answers can come out wrong on a machine that has too much to do.
        eprintln!("once more, alone: {}", report.scenario);
        let again = play::all([plays[place].clone()], 1, |_| {}).await?;
        *report = again.into_iter().next().ok_or("nothing was played")?;
    }
    let mut reports = reports.into_iter();

    let mut found = ByWrong::new();
    for row in rows {
        let reports: Vec<_> = reports.by_ref().take(row.scenarios.len()).collect();
        let Some(wrong) = row.wrong else {
            problems.extend(not_met(&reports));
            continue;
        };
        let unmet = unmet(&reports);
        let is_only_official = row.scenarios.iter().all(|scenario| scenario.is_official);
        if unmet.is_empty() && !is_only_official {
            problems.push(format!(
                "no scenario over {} catches {wrong}",
                transport.as_str()
            ));
        }
        found.insert(wrong, unmet);
    }
    Ok(found)
}

fn this_program() -> Result<String, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let this = this.to_str();
    let this = this.ok_or("the path to this program is not UTF-8")?;
    Ok(this.to_owned())
}

/// The reference client, right or wrong.
fn client(wrong: Option<Wrong>, transport: Transport) -> Result<Client, String> {
    let mut command = vec![this_program()?, "reference-client".to_owned()];
    command.extend(wrong.map(|wrong| format!("--wrong={}", wrong.name())));
    Ok(Client {
        command,
        relay: None,
        transport,
        limits: Arc::new(Limits::default()),
        limits_file: None,
        wire_log: None,
        slow_window: WINDOW,
        silence: SILENCE,
        connects: LONGEST,
        longest: LONGEST,
    })
}

/// Whether a client failed what the list has, and a right one nothing.
fn is_as_expected(
    report: &ScenarioReport,
    wrong: Option<&str>,
    expected: Option<&ByWrong>,
) -> bool {
    let Some(wrong) = wrong else {
        return not_met(std::slice::from_ref(report)).is_empty();
    };
    let Some(expected) = expected else {
        return true;
    };
    let listed = expected
        .get(wrong)
        .and_then(|unmet| unmet.get(&report.scenario));
    unmet(std::slice::from_ref(report)).get(&report.scenario) == listed
}

/// What the right client did not meet.
fn not_met(reports: &[ScenarioReport]) -> Vec<String> {
    let mut problems = Vec::new();
    for report in reports {
        // By process is as right as a relay can be that is a process for each server.
        let is_met =
            |outcome: &Outcome| matches!(outcome, Outcome::Met { .. } | Outcome::ByProcess { .. });
        let checks = report.checks.iter();
        let not_met = checks.filter(|check| !is_met(&check.outcome));
        problems.extend(not_met.map(|check| {
            format!(
                "the right client does not meet {} of {} over {}: {:?}",
                check.check,
                report.scenario,
                report.transport.as_str(),
                check.outcome
            )
        }));
    }
    problems
}

/// The checks that no wrong client fails; of relays, those that are for them alone.
fn unfailed_checks(scenarios: &[Scenario], counter: Counter, found: &ByWrong) -> Vec<String> {
    let mut problems = Vec::new();
    for scenario in scenarios {
        let is_meant = |check: &&Check| counter == Counter::Client || check.of == Some(counter);
        for check in scenario.checks_for(counter).filter(is_meant) {
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
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_http_every_scenario_comes_up_and_so_does_every_client_that_can_fail_there() {
        let all = over(&scenario::all().unwrap(), Transport::Http);
        let known = List::read().unwrap().stdio;
        let rows = rows_over_http(&all, &scenario::official().unwrap(), &known).unwrap();
        let played = |scenario: &Scenario| {
            rows.iter()
                .filter(|row| row.wrong.is_some())
                .any(|row| row.scenarios.iter().any(|one| one.name == scenario.name))
        };
        for scenario in &all {
            assert!(played(scenario), "{}", scenario.name);
        }
        let fails_by_pipe_alone: Vec<String> = rows
            .iter()
            .filter(|row| row.scenarios.len() == 1)
            .filter_map(|row| row.wrong.clone())
            .collect();
        let by_pipe_alone = [
            "forgets-on-reconnect",
            "sessions-share",
            "names-first-in-the-way",
            "rounds-only",
            "failed-tasks-unguarded",
            "charges-task-keys-once",
            "hides-capability",
        ];
        assert_eq!(fails_by_pipe_alone, by_pipe_alone);
    }
}
