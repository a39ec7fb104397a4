//! The committed list of what each wrong client fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::report::Unmet;

/// What is not met, by wrong client.
pub(super) type ByWrong = BTreeMap<String, Unmet>;

/// The committed list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct List {
    pub(super) stdio: ByWrong,
    pub(super) http: ByWrong,
    pub(super) relay_stdio: ByWrong,
    pub(super) relay_http: ByWrong,
}

impl List {
    /// # Errors
    ///
    /// Why the file cannot be read.
    pub(super) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(file()).map_err(|error| error.to_string())?;
        toml::from_str(&text).map_err(|error| format!("{}: {error}", file().display()))
    }

    /// # Errors
    ///
    /// Why the file cannot be written.
    pub(super) fn write(&self) -> Result<(), String> {
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        let head =
            "# Which checks each wrong client fails. Written by `conformance matrix --write`.\n\n";
        fs::write(file(), head.to_owned() + &text).map_err(|error| error.to_string())
    }

    /// What differs from the list, in both directions.
    pub(super) fn differences(&self, found: &Self) -> Vec<String> {
        let transports = [
            ("stdio", &self.stdio, &found.stdio),
            ("http", &self.http, &found.http),
            ("stdio as a relay", &self.relay_stdio, &found.relay_stdio),
            ("http as a relay", &self.relay_http, &found.relay_http),
        ];
        let mut problems = Vec::new();
        for (over, listed, found) in transports {
            let (listed, found) = (flat(listed), flat(found));
            problems.extend(listed.difference(&found).map(|(wrong, scenario, check)| {
                format!("{wrong} should fail {check} of {scenario} over {over}, and does not")
            }));
            problems.extend(found.difference(&listed).map(|(wrong, scenario, check)| {
                format!(
                    "{wrong} fails {check} of {scenario} over {over}, which the list does not have"
                )
            }));
        }
        problems
    }
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("matrix.toml")
}

fn flat(all: &ByWrong) -> BTreeSet<(&str, &str, &str)> {
    let mut flat = BTreeSet::new();
    for (wrong, by_scenario) in all {
        for (scenario, checks) in by_scenario {
            for check in checks {
                flat.insert((wrong.as_str(), scenario.as_str(), check.as_str()));
            }
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(check: &str, transport: &str) -> List {
        let text = format!(
            "[stdio]\n[http]\n[relay-stdio]\n[relay-http]\n[{transport}.slides]\nedge = [{check:?}]"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn the_list_is_strict_both_ways() {
        for transport in ["stdio", "http", "relay-stdio", "relay-http"] {
            let (one, other) = (list("a", transport), list("b", transport));
            assert_eq!(one.differences(&one), Vec::<String>::new());
            assert_eq!(one.differences(&other).len(), 2);
        }
    }
}
