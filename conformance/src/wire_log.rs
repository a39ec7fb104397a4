//! Every message of a scenario as the servers saw it, in a file for people who look for a mistake.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};

use crate::mutex::lock;

/// Who said something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A file of JSON lines, written as messages come and go.
#[derive(Debug)]
pub(crate) struct WireLog(Mutex<File>);

impl WireLog {
    /// Makes `SCENARIO.jsonl` in a folder, and the folder if need be.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub(crate) fn create(folder: &Path, scenario: &str) -> Result<Self, String> {
        let path = folder.join(format!("{scenario}.jsonl"));
        let file = fs::create_dir_all(folder).and_then(|()| File::create(&path));
        let file = file.map_err(|error| format!("--wire-log: {}: {error}", path.display()))?;
        Ok(Self(Mutex::new(file)))
    }

    /// Notes a message of a connection, which is counted from 1. A line of a client that is no JSON
    /// is noted as a string.
    pub(crate) fn note(
        &self,
        at: Duration,
        server: &str,
        connection: usize,
        from: Side,
        message: &Value,
    ) {
        let from = match from {
            Side::Client => "client",
            Side::Server => "server",
        };
        let line = json!({
            "at": (at.as_secs_f64() * 1e3).round() / 1e3,
            "server": server,
            "connection": connection,
            "from": from,
            "message": message,
        });
        let mut file = lock(&self.0);
        // A full disk shall not change what becomes of a client.
        let _ = writeln!(file, "{line}");
    }
}
