//! The register of requirements.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::{model::Counter, scenario::Scenario};

/// What a client has to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Requirement {
    /// One sentence.
    pub(crate) says: String,
    /// A page of the specification, or a decision of the project.
    pub(crate) source: String,
    /// The ways for a question to arrive that it covers.
    pub(crate) doors: Vec<String>,
    /// It says how questions are bounded: nothing about a client that does not bound them.
    #[serde(default)]
    pub(crate) presumes_limit: bool,
    /// Of whom it is asked; of everyone if absent.
    #[serde(default, rename = "for")]
    pub(crate) of: Option<Counter>,
}

/// Who meets no check of these bounds no questions.
pub(crate) const BOUNDS: [&str; 2] = ["sampling-bounded", "elicitation-bounded"];

/// All requirements with their ids, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register(Vec<(String, Requirement)>);

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
        let requirements: BTreeMap<Spanned<String>, Requirement> =
            toml::from_str(&text).map_err(|error| problem(&error))?;
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_by_key(|(id, _)| id.span().start);
        let requirements = requirements.into_iter();
        let register = Self(
            requirements
                .map(|(id, requirement)| (id.into_inner(), requirement))
                .collect(),
        );
        if let Some(id) = BOUNDS.iter().find(|&&id| register.get(id).is_none()) {
            return Err(problem(&format!("{id:?} is missing")));
        }
        for (scenario, check) in checks(scenarios) {
            let asked_of = |id: &String| register.get(id).and_then(|one| one.of);
            if let Some(of) = check.of
                && let Some(id) = check.requires.iter().find(|&id| asked_of(id) != Some(of))
            {
                return Err(format!(
                    "the check {} of {} is for some alone, and {id:?}, which it cites, is not for them alone",
                    check.name, scenario.name
                ));
            }
            if let Some(id) = check.requires.iter().find(|&id| register.get(id).is_none()) {
                return Err(format!(
                    "the check {} of {} cites {id:?}, which the register does not have",
                    check.name, scenario.name
                ));
            }
        }
        for (id, _) in register.iter() {
            if !checks(scenarios).any(|(_, check)| check.requires.contains(id)) {
                return Err(format!("no check proves the requirement {id:?}"));
            }
        }
        Ok(register)
    }

    /// All requirements with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Requirement)> {
        self.0.iter().map(|(id, requirement)| (id, requirement))
    }

    /// The requirement of an id.
    pub(crate) fn get(&self, id: &str) -> Option<&Requirement> {
        let (_, requirement) = self.0.iter().find(|(one, _)| one == id)?;
        Some(requirement)
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
        let register = Register::read(&scenarios).unwrap();
        let (first, _) = register.iter().next().unwrap();
        assert_eq!(first, "sampling-bounded", "the order of the file");
        let nothing = Register::read(&[]).unwrap_err();
        assert!(nothing.starts_with("no check proves"), "{nothing}");
    }
}
