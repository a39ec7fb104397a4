//! The client on rmcp, with the throttle or without it.

mod handler;
mod running;

use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, GetPromptRequestParams, ProtocolVersion, ReadResourceRequestParams,
    },
    service::{ClientLifecycleMode, ClientServiceExt, RunningService, Service, ServiceError},
    transport::{StreamableHttpClientTransport, TokioChildProcess},
};
use serde_json::{Map, Value};
use tokio::process::Command;

pub use self::{
    handler::Handler,
    running::{Failure, Running},
};
use crate::{
    Session, Stopped,
    contract::{Address, Contract, Log, Revision, Server},
    plan::{self, Offer},
};

/// Connects a service to a server.
///
/// # Errors
///
/// A description of what went wrong.
pub async fn connect<S: Service<RoleClient>>(
    server: &Server,
    contract: &Contract,
    service: S,
) -> Result<RunningService<RoleClient, S>, String> {
    let lifecycle = match contract.revision {
        Revision::Initialize => ClientLifecycleMode::Initialize,
        Revision::Discover => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
    };
    match &server.address {
        Address::Url(url) => {
            let transport = StreamableHttpClientTransport::from_uri(url.clone());
            let running = service.serve_with_lifecycle(transport, lifecycle).await;
            running.map_err(|error| error.to_string())
        }
        Address::Command(words) => {
            let (program, arguments) = words.split_first().ok_or("an empty command")?;
            let mut command = Command::new(program);
            command.args(arguments);
            let transport = TokioChildProcess::new(command).map_err(|error| error.to_string())?;
            let running = service.serve_with_lifecycle(transport, lifecycle).await;
            running.map_err(|error| error.to_string())
        }
    }
}

/// A running session of rmcp, with what the calls on it need.
#[derive(Debug)]
pub struct RmcpSession<R> {
    running: R,
    contract: Contract,
    log: Log,
}

impl<R: Running> RmcpSession<R> {
    /// Takes over a running session.
    #[must_use]
    pub fn new(running: R, server: &Server, contract: Contract) -> Self {
        let log = contract.log(&server.name);
        Self {
            running,
            contract,
            log,
        }
    }

    /// What is said about a request that failed.
    fn stopped(&self, failure: Failure) -> Stopped {
        match failure {
            Failure::Service(ServiceError::TransportClosed | ServiceError::TransportSend(_)) => {
                Stopped::Closed
            }
            Failure::Service(ServiceError::McpError(error)) => {
                self.log.urls_shown(error.code.0, error.data.as_ref());
                Stopped::Failed(error.to_string())
            }
            Failure::Service(error) => Stopped::Failed(error.to_string()),
            Failure::Refused(why) => Stopped::Failed(why),
        }
    }
}

impl<R: Running> Session for RmcpSession<R> {
    async fn offers(&self) -> Result<Vec<Offer>, Stopped> {
        let info = self.running.connection().peer_info();
        let declared = info
            .map(|info| info.capabilities.clone())
            .unwrap_or_default();
        let stopped = |failure| self.stopped(failure);
        let tools = self.running.tools().await.map_err(stopped)?;
        let tools: Vec<_> = tools
            .into_iter()
            .map(|tool| {
                let schema = Value::Object(Map::clone(&tool.input_schema));
                (tool.name.into_owned(), schema)
            })
            .collect();
        let mut offers = plan::tools(&self.contract, &tools);
        if declared.prompts.is_some() {
            let prompts = self.running.prompts().await.map_err(stopped)?;
            offers.extend(prompts.into_iter().map(|prompt| {
                plan::prompt(
                    prompt.name,
                    prompt
                        .arguments
                        .into_iter()
                        .flatten()
                        .map(|argument| argument.name),
                )
            }));
        }
        if declared.resources.is_some() {
            let resources = self.running.resources().await.map_err(stopped)?;
            offers.extend(resources.into_iter().map(|resource| Offer::Resource {
                uri: resource.uri.clone(),
            }));
        }
        Ok(offers)
    }

    async fn call(&self, offer: &Offer) -> Result<(), Stopped> {
        let done = match offer.clone() {
            Offer::Tool { name, arguments } => {
                let params = CallToolRequestParams::new(name).with_arguments(arguments);
                self.running.tool(params).await
            }
            Offer::Prompt { name, arguments } => {
                let params = GetPromptRequestParams::new(name).with_arguments(arguments);
                self.running.prompt(params).await
            }
            Offer::Resource { uri } => {
                self.running
                    .resource(ReadResourceRequestParams::new(uri))
                    .await
            }
        };
        match done {
            Ok(()) if self.running.connection().is_transport_closed() => Err(Stopped::Closed),
            done => done.map_err(|failure| self.stopped(failure)),
        }
    }

    async fn end(self) {
        self.running.end().await;
    }
}
