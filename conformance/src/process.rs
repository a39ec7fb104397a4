//! Processes that the runner starts, with all that they start themselves.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::checks::Ending;

/// A process and those that it started, killed together when this is dropped.
#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    /// The group that a child was started to lead.
    pub(crate) fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// Lets them be: the first has ended by itself.
    pub(crate) fn leave(mut self) {
        self.0 = None;
    }

    /// Asks them to end.
    pub(crate) fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // They may be gone already.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// How a process ended.
pub(crate) fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (None, Some(signal)) => Ending::Killed(signal),
        (code, _) => Ending::Exited(code),
    }
}
