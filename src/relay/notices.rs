//! What people are told in the log: once, or ever more rarely.

use std::{
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    limits::{LimitName, ServerName},
    refusal::Refusal,
};

/// What was told already of one server.
#[derive(Debug, Default)]
pub(super) struct Notices {
    settings_file: Option<PathBuf>,
    advised: Mutex<Vec<LimitName>>,
    unreadable: AtomicU64,
}

impl Notices {
    /// Names the file in which the limits can be changed.
    pub(super) fn new(settings_file: Option<PathBuf>) -> Self {
        Self {
            settings_file,
            ..Self::default()
        }
    }

    /// How many frames were withheld because they could not be read for sure.
    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Counts a frame that nobody can read for sure.
    pub(super) fn withheld(&self, server: &ServerName) {
        let unreadable = self.unreadable.fetch_add(1, Ordering::Relaxed) + 1;
        // The 1st, 10th, 100th, ...: a flood of frames must not become a flood of log lines.
        if unreadable == 10_u64.pow(unreadable.ilog10()) {
            tracing::warn!(
                server = server.as_str(),
                unreadable,
                "withheld a frame that is not one JSON value in one line and may hold a question"
            );
        }
    }

    /// Tells people, once for each limit, what they can change.
    pub(super) fn advise(&self, server: &ServerName, refusal: &Refusal) {
        let Some(limit) = refusal.limit() else { return };
        {
            // A list of names is sound even after a panic.
            let mut advised = self.advised.lock().unwrap_or_else(PoisonError::into_inner);
            if advised.contains(&limit) {
                return;
            }
            advised.push(limit);
        }
        let server = server.as_str();
        let setting = limit.as_str().rsplit('.').next().unwrap_or_default();
        let file = match &self.settings_file {
            Some(file) => file.display().to_string(),
            None => "a settings file (--settings FILE)".to_owned(),
        };
        tracing::warn!(
            "server {server:?} asks more often than it may; to admit more, raise {setting} under \
             [servers.{server:?}.proto] in {file}"
        );
    }
}
