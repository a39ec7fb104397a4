//! The register of requirements.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde::Deserialize;

use crate::scenario::Scenario;

/// What a client has to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Requirement {
    /// One sentence.
    pub(crate) says: String,
    /// A page of the specification, or a decision of the project.
    pub(crate) source: String,
    /// The ways for a question to arrive that it covers.
    pub(crate) doors: Vec<String>,
}

/// All requirements, by id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Register(BTreeMap<String, Requirement>);

impl Register {
    /// Reads the register, and compares it with what scenarios cite.
    ///
    /// # Errors
    ///
    /// A description of what cannot be read, is cited and missing, or is proved by no check.
    pub(crate) fn read(scenarios: &[Scenario]) -> Result<Self, String> {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("requirements.toml");
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
        let register: Self = toml::from_str(&text).map_err(|error| problem(&error))?;
        for (scenario, check) in checks(scenarios) {
            if let Some(id) = check
                .requires
                .iter()
                .find(|&id| !register.0.contains_key(id))
            {
                return Err(format!(
                    "the check {} of {} cites {id:?}, which the register does not have",
                    check.name, scenario.name
                ));
            }
        }
        for id in register.0.keys() {
            if !checks(scenarios).any(|(_, check)| check.requires.contains(id)) {
                return Err(format!("no check proves the requirement {id:?}"));
            }
        }
        Ok(register)
    }
}

fn checks(scenarios: &[Scenario]) -> impl Iterator<Item = (&Scenario, &crate::scenario::Check)> {
    let of = |scenario| move |check| (scenario, check);
    scenarios
        .iter()
        .flat_map(move |scenario| scenario.checks.iter().map(of(scenario)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn every_requirement_is_proved_and_every_citation_known() {
        let mut scenarios = scenario::all().unwrap();
        scenarios.extend(scenario::official().unwrap());
        Register::read(&scenarios).unwrap();
        let nothing = Register::read(&[]).unwrap_err();
        assert!(nothing.starts_with("no check proves"), "{nothing}");
    }
}
