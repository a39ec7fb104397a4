//! How a server is reached.

use std::env;

use rmcp::{
    RoleClient,
    model::ProtocolVersion,
    service::{ClientLifecycleMode, ClientServiceExt, RunningService, Service},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde::Deserialize;
use tokio::process::Command;

/// An entry of `MCP_CONFORMANCE_SERVERS`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Address {
    Url(String),
    Command(Vec<String>),
}

/// Connects a service to a server, in the revision that the suite wants.
pub async fn serve<S: Service<RoleClient>>(
    service: S,
    address: &Address,
) -> Result<RunningService<RoleClient, S>, String> {
    let lifecycle = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").as_deref() {
        Ok("2026-07-28") => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        _ => ClientLifecycleMode::Initialize,
    };
    let running = match address {
        Address::Url(url) => {
            let transport = StreamableHttpClientTransport::from_uri(url.clone());
            service.serve_with_lifecycle(transport, lifecycle).await
        }
        Address::Command(words) => {
            let (program, arguments) = words.split_first().ok_or("an empty command")?;
            let mut command = Command::new(program);
            command.args(arguments);
            let process =
                TokioChildProcess::new(command).map_err(|error| format!("{program}: {error}"))?;
            service.serve_with_lifecycle(process, lifecycle).await
        }
    };
    running.map_err(|error| error.to_string())
}
