//! Versions, as lock files have them.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::clients;

/// A package, and the lock file that says its version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    /// The package's name.
    pub(crate) of: String,
    /// The lock file, from the repository's folder.
    #[serde(rename = "in")]
    lock: String,
}

impl Version {
    /// Looks it up.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is of no known kind, or does not have the package once.
    pub(crate) fn read(&self) -> Result<String, String> {
        let path = clients::root().join(&self.lock);
        let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
        let found = match path.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.lock") => cargo(&text, &self.of)?,
            Some("package-lock.json") => npm(&text, &self.of)?,
            Some("requirements.txt") => pip(&text, &self.of),
            _ => return Err(problem(&"no lock file that is known here")),
        };
        match &found[..] {
            [one] => Ok(one.clone()),
            _ => Err(problem(&format!(
                "{} versions of {:?}, where one is expected",
                found.len(),
                self.of
            ))),
        }
    }
}

fn cargo(text: &str, name: &str) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    let lock: Lock = toml::from_str(text).map_err(|error| error.to_string())?;
    let packages = lock.package.into_iter();
    Ok(packages
        .filter(|package| package.name == name)
        .map(|package| package.version)
        .collect())
}

fn npm(text: &str, name: &str) -> Result<Vec<String>, String> {
    let lock: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let place = Path::new("node_modules").join(name);
    let package = &lock["packages"][place.to_str().unwrap_or_default()];
    Ok(package["version"]
        .as_str()
        .map(str::to_owned)
        .into_iter()
        .collect())
}

fn pip(text: &str, name: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix("=="))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_lock_file_is_read() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n";
        assert_eq!(cargo(lock, "a").unwrap(), ["1.2.3"]);
        assert!(cargo(lock, "b").unwrap().is_empty());
        let lock = r#"{"packages": {"node_modules/@a/b": {"version": "2.0.0"}}}"#;
        assert_eq!(npm(lock, "@a/b").unwrap(), ["2.0.0"]);
        assert!(npm(lock, "b").unwrap().is_empty());
        let lock = "mcp-types==1.0 \\\n    --hash=x\nmcp==2.3.0 \\\n    --hash=y\n";
        assert_eq!(pip(lock, "mcp"), ["2.3.0"]);
    }

    #[test]
    fn a_version_that_is_not_there_is_no_empty_one() {
        let version = Version {
            of: "no-such-package".to_owned(),
            lock: "Cargo.lock".to_owned(),
        };
        assert!(version.read().unwrap_err().contains("0 versions"));
    }
}
