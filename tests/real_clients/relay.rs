//! The ways in which a client can reach a server.

use std::fs;

use tempfile::TempDir;

use crate::peers;

/// A server among the peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    pub(crate) peer: &'static str,
    pub(crate) program: &'static str,
    pub(crate) arguments: &'static [&'static str],
}

/// The reference server.
pub(crate) const EVERYTHING: Server = Server {
    peer: "server-everything",
    program: "-",
    arguments: &["stdio"],
};

impl Server {
    /// The server's own command.
    pub(crate) fn words(self) -> Vec<String> {
        peers::words(self.peer, self.program, self.arguments)
    }

    pub(crate) async fn install(self) {
        peers::install(self.peer).await;
    }
}

/// The relay with settings of its own.
#[derive(Debug)]
pub(crate) struct Relay {
    folder: TempDir,
}

impl Relay {
    /// Takes the settings as TOML.
    pub(crate) fn new(settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("settings.toml"), settings).unwrap();
        Self { folder }
    }

    /// The words that run `command` behind `wrap`.
    pub(crate) fn wrap(&self, command: Vec<String>) -> Vec<String> {
        let settings = self.folder.path().join("settings.toml");
        let mut words: Vec<String> = [
            env!("CARGO_BIN_EXE_mcp-question-throttle"),
            "wrap",
            "--server",
            "peer",
            "--settings",
            settings.to_str().unwrap(),
            "--",
        ]
        .map(str::to_owned)
        .into();
        words.extend(command);
        words
    }
}
