//! The scripted servers: raw JSON-RPC, since a server library would not misbehave.

mod pipe;
mod play;
mod session;
mod web;
mod wire;

use std::{io, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) use self::pipe::run as run_pipe;
use self::{pipe::Gate, web::Web};
use crate::{
    limits::Limits,
    protocol::{Revision, Transport},
    record::Recorder,
    scenario::Scenario,
    wire_log::WireLog,
};

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
    /// Where messages are noted as well, if anyone wants to read them.
    pub(crate) wire_log: Option<Arc<WireLog>>,
}

/// Where clients reach the servers of a scenario.
#[derive(Debug)]
pub(crate) enum Entrance {
    Stdio(Gate),
    Http(Web),
}

impl Entrance {
    pub(crate) async fn open(transport: Transport) -> io::Result<Self> {
        Ok(match transport {
            Transport::Stdio => Self::Stdio(Gate::open().await?),
            Transport::Http => Self::Http(Web::open().await?),
        })
    }

    /// How a client reaches a server: by a command, or by a URL.
    ///
    /// # Errors
    ///
    /// A description, if this program has no path that can be written down.
    pub(crate) fn address(&self, server: &str) -> Result<Value, String> {
        match self {
            Self::Stdio(gate) => {
                let this = std::env::current_exe().map_err(|error| error.to_string())?;
                let this = this
                    .to_str()
                    .ok_or("the path to this program is not UTF-8")?;
                let mut command = vec![this.to_owned()];
                command.extend(gate.arguments(server));
                Ok(json!(command))
            }
            Self::Http(web) => Ok(json!(web.url(server))),
        }
    }

    /// Plays servers for whoever connects. Connections over stdio go on in `connections` when this
    /// is dropped.
    pub(crate) async fn serve(self, stage: &Stage, connections: &mut JoinSet<()>) {
        match self {
            Self::Stdio(gate) => gate.serve(stage, connections).await,
            Self::Http(web) => {
                if let Err(error) = web.serve(stage.clone()).await {
                    eprintln!("the servers over HTTP: {error}");
                }
            }
        }
    }
}
