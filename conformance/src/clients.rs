//! The clients that the suite is played to, side by side. Data, read from a TOML file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;

use crate::{
    limits::Limits,
    locks::Version,
    model::{Counter, Windows},
    protocol::{Revision, Transport},
    relay::Relay,
    run::{Client, MINUTE, SILENCE},
};

/// How long a client may take for a scenario. One that asks one question at a time takes long.
const LONGEST: Duration = Duration::from_secs(150);

/// A client under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Entry {
    /// Unique; on the command line and in the results.
    pub(crate) id: String,
    /// What people read.
    pub(crate) name: String,
    /// The same, as the head of a column.
    pub(crate) short: String,
    /// Whether it has the throttle of this repository.
    #[serde(default)]
    pub(crate) throttled: bool,
    /// The commands after which `command` works.
    install: Vec<String>,
    /// The client's command.
    command: String,
    /// A relay's command; see [`Relay`].
    behind: Option<String>,
    /// What the windows of that relay belong to.
    #[serde(default)]
    windows: Windows,
    /// What it speaks.
    pub(crate) revisions: Vec<Revision>,
    /// How it reaches servers.
    pub(crate) transports: Vec<Transport>,
    /// What it is made of.
    pub(crate) versions: Vec<Version>,
    /// What it is expected to hold.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// What it does about questions besides bounding their number.
    pub(crate) offers: String,
}

/// The repository's folder.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// All clients, in the order of the file.
///
/// # Errors
///
/// The file cannot be read, or two entries have one id.
pub(crate) fn all() -> Result<Vec<Entry>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        clients: Vec<Entry>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients.toml");
    let problem = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| problem(&error))?;
    let file: File = toml::from_str(&text).map_err(|error| problem(&error))?;
    for (place, entry) in file.clients.iter().enumerate() {
        if file.clients[..place]
            .iter()
            .any(|other| other.id == entry.id)
        {
            return Err(problem(&format!("two clients have the id {:?}", entry.id)));
        }
    }
    Ok(file.clients)
}

impl Entry {
    /// Who counts the questions of its servers.
    pub(crate) const fn counter(&self) -> Counter {
        match self.behind {
            Some(_) => Counter::Relay,
            None => Counter::Client,
        }
    }

    /// The client as the runner takes it.
    ///
    /// # Errors
    ///
    /// A command is none.
    pub(crate) fn client(&self, transport: Transport) -> Result<Client, String> {
        let relay = self.behind.as_deref().map(words).transpose()?;
        Ok(Client {
            command: words(&self.command)?,
            relay: relay.map(|command| Relay {
                command,
                windows: self.windows,
            }),
            transport,
            limits: Arc::new(self.limits.clone()),
            limits_file: None,
            wire_log: None,
            slow_window: MINUTE,
            silence: SILENCE,
            connects: LONGEST,
            longest: LONGEST,
        })
    }
}

/// Installs clients, one after another.
///
/// # Errors
///
/// Which installation failed; what it said is on standard error.
pub(crate) fn install(entries: &[&Entry]) -> Result<(), String> {
    let mut done: Vec<&str> = Vec::new();
    for line in entries.iter().flat_map(|entry| &entry.install) {
        if done.contains(&line.as_str()) {
            continue;
        }
        done.push(line);
        eprintln!("installing: {line}");
        let command = words(line)?;
        let (program, arguments) = command
            .split_first()
            .ok_or("a client is installed by an empty command")?;
        let ended = Command::new(program)
            .args(arguments)
            .current_dir(root())
            // Standard output is for results.
            .stdout(std::io::stderr())
            .status()
            .map_err(|error| format!("{program}: {error}"))?;
        if !ended.success() {
            return Err(format!("{line:?} ended with {ended}"));
        }
    }
    Ok(())
}

/// A command line's words, with what is left open in them.
fn words(line: &str) -> Result<Vec<String>, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let bin = this.parent().unwrap_or(Path::new(".")).to_str();
    let root = root();
    let (Some(bin), Some(root)) = (bin, root.to_str()) else {
        return Err("the path to this repository is not UTF-8".to_owned());
    };
    let words = shlex::split(line).ok_or_else(|| format!("no command line: {line:?}"))?;
    let fill = |word: String| word.replace("{bin}", bin).replace("{root}", root);
    Ok(words.into_iter().map(fill).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_can_be_started_and_has_versions() {
        for entry in all().unwrap() {
            let client = entry.client(entry.transports[0]).unwrap();
            assert!(!client.command.is_empty(), "{}", entry.id);
            assert!(
                !client.command.concat().contains('{'),
                "{:?}",
                client.command
            );
            assert!(!entry.versions.is_empty() && !entry.revisions.is_empty());
            assert!(
                !entry.short.is_empty() && entry.offers.ends_with('.'),
                "{}",
                entry.id
            );
            for version in &entry.versions {
                version.read().unwrap();
            }
        }
    }
}
