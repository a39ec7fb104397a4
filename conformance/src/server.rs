//! The scripted servers: raw JSON-RPC, since a server library would not misbehave.

mod pipe;
mod play;
mod session;
mod wire;

use std::{sync::Arc, time::Duration};

pub(crate) use self::pipe::{Gate, run as run_pipe};
use crate::{limits::Limits, protocol::Revision, record::Recorder, scenario::Scenario};

/// A scenario being played.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) revision: Revision,
    /// Sizes the bursts.
    pub(crate) limits: Arc<Limits>,
    /// The length of the client's windows.
    pub(crate) window: Duration,
    /// How long a client says nothing that has nothing more to say.
    pub(crate) silence: Duration,
    pub(crate) recorder: Recorder,
}
