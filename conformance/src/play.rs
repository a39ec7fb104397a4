//! Plays several scenarios side by side.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    run::{self, Client, ScenarioReport},
    scenario::Scenario,
};

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
    let free = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    for (place, (client, scenario)) in plays.into_iter().enumerate() {
        let free = Arc::clone(&free);
        running.spawn(async move {
            let _turn = free.acquire().await;
            (place, run::scenario(&client, &scenario).await)
        });
    }
    let mut reports = Vec::new();
    while let Some(played) = running.join_next().await {
        let (place, report) = played.map_err(|error| error.to_string())?;
        let report = report?;
        show(&report);
        reports.push((place, report));
    }
    reports.sort_by_key(|&(place, _)| place);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}
