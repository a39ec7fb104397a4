//! What a client is known not to meet, in a file that its maintainers keep beside it: a run then
//! fails by what is new, and by what is known and not true any more.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    checks::Outcome,
    report::{Unmet, unmet},
    run::ScenarioReport,
};

/// The checks that are not met, by scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Baseline(Unmet);

impl Baseline {
    /// What was not met in a run.
    pub(crate) fn of(reports: &[ScenarioReport]) -> Self {
        Self(unmet(reports))
    }

    /// # Errors
    ///
    /// Why the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("--baseline: {}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("--baseline: {}: {error}", path.display()))
    }

    /// # Errors
    ///
    /// Why the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let unwritable =
            |error: &dyn std::fmt::Display| format!("--save-baseline: {}: {error}", path.display());
        let text = toml::to_string(self).map_err(|error| unwritable(&error))?;
        let head = "# What this client does not meet. Written by `conformance --save-baseline`.\n";
        fs::write(path, head.to_owned() + &text).map_err(|error| unwritable(&error))
    }

    /// What differs from a run, in both directions. What was not played is not compared.
    pub(crate) fn differences(&self, reports: &[ScenarioReport]) -> Vec<String> {
        let mut differences = Vec::new();
        for report in reports {
            let name = &report.scenario;
            let known = self.0.get(name).cloned().unwrap_or_default();
            for check in &report.checks {
                let is_unmet = matches!(check.outcome, Outcome::Unmet { .. });
                let check = &check.check;
                match (known.contains(check), is_unmet) {
                    (false, true) => differences.push(format!(
                        "{check} of {name} is unmet, which the baseline does not have"
                    )),
                    (true, false) => differences.push(format!(
                        "{check} of {name} is not unmet any more: take it out of the baseline"
                    )),
                    _ => {}
                }
            }
            let is_made = |one: &&String| report.checks.iter().any(|check| check.check == **one);
            let gone = known.iter().filter(|one| !is_made(one));
            differences.extend(
                gone.map(|check| {
                    format!("{name} has no check {check}: take it out of the baseline")
                }),
            );
        }
        differences
    }
}
