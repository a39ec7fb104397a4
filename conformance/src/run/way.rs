//! How a client gets to the servers: by a relay, if there is one, and by what it is told.

use std::{ffi::OsString, fs::File, path::Path, time::Duration};

use serde_json::{Map, Value};
use tokio::process::Command;

use super::Client;
use crate::{
    protocol::Transport,
    relay::{Running, Told},
    scenario::Scenario,
};

/// How long a client waits for the end of a call that waits for nothing.
const PATIENCE: Duration = Duration::from_secs(15);

/// The way to the servers.
pub(super) enum Reached {
    /// By these addresses, and by this relay if it is a process of the runner's.
    Servers(Map<String, Value>, Option<Running>),
    /// Not at all: the relay failed.
    Not(String),
}

/// Puts the relay before the servers of these addresses, if there is one.
pub(super) async fn reach(
    client: &Client,
    scenario: &Scenario,
    mut servers: Map<String, Value>,
    folder: &Path,
    printed: &File,
) -> Result<Reached, String> {
    let Some(relay) = &client.relay else {
        return Ok(Reached::Servers(servers, None));
    };
    if client.transport == Transport::Stdio {
        for (name, address) in &mut servers {
            *address = relay.before(name, address.take())?;
        }
        return Ok(Reached::Servers(servers, None));
    }
    let limits_file = client.limits_file.as_deref().map(absolute).transpose()?;
    let told = Told {
        servers: &servers,
        limits_file: limits_file.as_deref().map(Path::new),
        window: client.window(scenario),
        folder,
        printed,
    };
    Ok(match relay.start(&told).await {
        Ok(running) => Reached::Servers(running.urls.clone(), Some(running)),
        Err(why) => Reached::Not(why),
    })
}

pub(super) fn client_command(
    client: &Client,
    scenario: &Scenario,
    servers: &Map<String, Value>,
) -> Result<Command, String> {
    let (program, arguments) = client
        .command
        .split_first()
        .ok_or("the client's command is empty")?;
    // How long a client may wait for the end of a call, where it bounds that time at all.
    let patience = if scenario.slow {
        PATIENCE + 2 * client.window(scenario)
    } else {
        PATIENCE
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("MCP_CONFORMANCE_SCENARIO", &scenario.name)
        .env(
            "MCP_CONFORMANCE_PROTOCOL_VERSION",
            scenario.revision.as_str(),
        )
        .env(
            "QUESTION_CONFORMANCE_ANSWER_DELAY_MS",
            scenario.answer_delay_ms.to_string(),
        )
        .env(
            "QUESTION_CONFORMANCE_WINDOW_SECONDS",
            client.window(scenario).as_secs().to_string(),
        )
        .env(
            "QUESTION_CONFORMANCE_PATIENCE_SECONDS",
            patience.as_secs().to_string(),
        )
        .process_group(0)
        .kill_on_drop(true);
    if let [only] = &scenario.servers[..] {
        command.arg(as_argument(&servers[&only.name])?);
    }
    if let Some(file) = &client.limits_file {
        command.env("QUESTION_CONFORMANCE_LIMITS", absolute(file)?);
    }
    if !scenario.is_official {
        command.env(
            "MCP_CONFORMANCE_SERVERS",
            Value::Object(servers.clone()).to_string(),
        );
    }
    Ok(command)
}

/// A server as one argument: its URL, or its command as a shell would read it.
fn as_argument(server: &Value) -> Result<String, String> {
    match server {
        Value::String(url) => Ok(url.clone()),
        command => {
            let words = command
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            shlex::try_join(words).map_err(|error| error.to_string())
        }
    }
}

fn absolute(path: &Path) -> Result<OsString, String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.into_os_string())
}
