//! How a client gets to the servers: by a relay, if there is one, and by what it is told.

use std::{ffi::OsString, fs::File, path::Path, time::Duration};

use serde_json::{Map, Value};
use tokio::process::Command;

use super::Client;
use crate::{
    protocol::Transport,
    relay::{Running, Told},
    scenario::Scenario,
    server::Entrance,
};

/// How long a client waits for the end of a call that waits for nothing.
const PATIENCE: Duration = Duration::from_secs(15);

/// The servers' addresses, with the command of a relay before each that is a command.
///
/// # Errors
///
/// What cannot be written down, or has nothing before it.
pub(super) fn addresses(
    client: &Client,
    scenario: &Scenario,
    entrance: &Entrance,
) -> Result<Map<String, Value>, String> {
    let mut servers = Map::new();
    for server in &scenario.servers {
        let mut address = entrance.address(&server.name)?;
        if let (Some(relay), Transport::Stdio) = (&client.relay, client.transport) {
            address = relay.before(&server.name, address)?;
        }
        servers.insert(server.name.clone(), address);
    }
    Ok(servers)
}

/// Starts the relay that is a process of its own, if there is one.
///
/// # Errors
///
/// Why it cannot be used, for people.
pub(super) async fn start_relay(
    client: &Client,
    scenario: &Scenario,
    servers: &Map<String, Value>,
    folder: &Path,
    printed: &File,
) -> Result<Option<Running>, String> {
    let (Some(relay), Transport::Http) = (&client.relay, client.transport) else {
        return Ok(None);
    };
    let limits_file = client.limits_file.as_deref().map(absolute).transpose()?;
    let told = Told {
        servers,
        limits_file: limits_file.as_deref().map(Path::new),
        window: client.window(scenario),
        folder,
        printed,
    };
    relay.start(&told).await.map(Some)
}

/// The client's command, with all that it is told.
///
/// # Errors
///
/// What cannot be written down.
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
