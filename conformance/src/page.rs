//! The page about the results, made from the register, the results and the lock files alone.

mod judge;
mod overview;
mod summary;
mod text;

use std::{fs, path::Path};

use crate::{
    clients::{self, Entry},
    register::Register,
    results::{self, Results},
    scenario::{self, Scenario},
};

/// Everything that the page is made from.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) register: Register,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) clients: Vec<Entry>,
    pub(crate) results: Results,
}

impl Sources {
    fn read() -> Result<Self, String> {
        let scenarios = scenario::all()?;
        let sources = Self {
            register: Register::read(&[&scenarios[..], &scenario::official()?].concat())?,
            scenarios,
            clients: clients::all()?,
            results: Results::read()?,
        };
        sources.complete()?;
        Ok(sources)
    }

    /// Fails if a check has no outcome, since the page would pass it over.
    fn complete(&self) -> Result<(), String> {
        for entry in &self.clients {
            for place in results::plan(entry, &self.scenarios) {
                let scenario = self.scenarios.iter().find(|one| one.name == place.scenario);
                let played = self.results.get(&place);
                let missing = scenario
                    .into_iter()
                    .flat_map(|one| one.checks_for(entry.counter()))
                    .find(|check| {
                        played.is_none_or(|played| !played.checks.contains_key(&check.name))
                    });
                if let Some(check) = missing {
                    return Err(format!(
                        "results.json has no outcome of {} in {} for {}, {}: run conformance results",
                        check.name,
                        place.scenario,
                        place.client,
                        place.way()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Writes the page, or says how the one that is there differs.
///
/// # Errors
///
/// What it is made from cannot be read, or is not complete.
pub(crate) fn run(check: bool) -> Result<Vec<String>, String> {
    let page = text::page(&Sources::read()?)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md");
    if check {
        let committed = fs::read_to_string(&path).unwrap_or_default();
        return Ok(difference(&committed, &page).into_iter().collect());
    }
    fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Vec::new())
}

/// The first line in which two pages differ.
fn difference(committed: &str, wanted: &str) -> Option<String> {
    if committed == wanted {
        return None;
    }
    let (mut old, mut new) = (committed.lines(), wanted.lines());
    for number in 1.. {
        let (old, new) = (old.next(), new.next());
        if old != new || old.is_none() {
            return Some(format!(
                "RESULTS.md is stale from line {number} on: it has {:?}, where {:?} is expected; \
                 write it anew: cargo run -p conformance -- page",
                old.unwrap_or("no more lines"),
                new.unwrap_or("no more lines"),
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Finding, Played};

    /// The first client, with every check met, apart from those that cite one of these.
    pub(super) fn all_met_but(unmet: &[&str]) -> Sources {
        let scenarios = scenario::all().unwrap();
        let all = [&scenarios[..], &scenario::official().unwrap()].concat();
        let clients = clients::all().unwrap();
        let mut results = Results::default();
        for place in results::plan(&clients[0], &scenarios) {
            let scenario = scenarios.iter().find(|one| one.name == place.scenario);
            let mut played = Played::default();
            for check in scenario.into_iter().flat_map(|one| &one.checks) {
                let finding = if check.requires.iter().any(|id| unmet.contains(&id.as_str())) {
                    Finding::Unmet(String::new())
                } else {
                    Finding::Met
                };
                played.checks.insert(check.name.clone(), finding);
            }
            results.set(&place, played);
        }
        Sources {
            register: Register::read(&all).unwrap(),
            scenarios,
            clients,
            results,
        }
    }

    #[test]
    fn a_stale_page_is_told_by_its_first_line_that_differs() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        for (old, new, line) in [
            ("a\nb\n", "a\nc\n", 2),
            ("a\n", "a\nb\n", 2),
            ("", "a\n", 1),
        ] {
            let told = difference(old, new).unwrap();
            assert!(told.contains(&format!("from line {line} on")), "{told}");
        }
        assert!(difference("a", "a\n").is_some(), "the last line's end");
    }
}
