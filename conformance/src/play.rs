//! Plays several scenarios side by side.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::{
    run::{self, Client, ScenarioReport},
    scenario::Scenario,
};

/// What there is to tell while scenarios are played.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress<'a> {
    /// This one begins.
    Begins(&'a Scenario),
    /// One has ended.
    Ended(&'a ScenarioReport),
}

/// Plays scenarios to clients, up to `jobs` at a time, and shows each report as it comes. Returns them in the
/// order given.
///
/// # Errors
///
/// What the runner itself could not do.
pub(crate) async fn all(
    plays: impl IntoIterator<Item = (Arc<Client>, Scenario)>,
    jobs: usize,
    mut show: impl FnMut(&ScenarioReport),
) -> Result<Vec<ScenarioReport>, String> {
    let ended = |progress: Progress<'_>| {
        if let Progress::Ended(report) = progress {
            show(report);
        }
    };
    all_telling(plays, jobs, ended).await
}

/// The same, told of beginnings as well.
pub(crate) async fn all_telling(
    plays: impl IntoIterator<Item = (Arc<Client>, Scenario)>,
    jobs: usize,
    mut tell: impl FnMut(Progress<'_>),
) -> Result<Vec<ScenarioReport>, String> {
    let mut waiting = plays.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut reports = Vec::new();
    loop {
        while running.len() < jobs.max(1) {
            let Some((place, (client, scenario))) = waiting.next() else {
                break;
            };
            tell(Progress::Begins(&scenario));
            running.spawn(async move { (place, run::scenario(&client, &scenario).await) });
        }
        let Some(played) = running.join_next().await else {
            break;
        };
        let (place, report) = played.map_err(|error| error.to_string())?;
        let report = report?;
        tell(Progress::Ended(&report));
        reports.push((place, report));
    }
    reports.sort_by_key(|&(place, _)| place);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}
