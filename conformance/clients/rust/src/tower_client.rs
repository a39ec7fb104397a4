//! The client on tower-mcp.

use std::{collections::HashMap, time::Duration};

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::Command;
use tower_mcp::{
    JsonRpcError,
    client::{ClientHandler, HttpClientTransport, McpClient, StdioClientTransport},
    protocol::{
        CreateMessageParams, CreateMessageResult, ElicitRequestParams, ElicitResult,
        ListRootsResult,
    },
};

use crate::{
    Session, Stopped,
    contract::{Address, Contract, Log, Revision, Server},
    form,
    plan::{self, Offer},
};

/// A running session of tower-mcp.
pub struct TowerSession {
    client: McpClient,
    contract: Contract,
    log: Log,
}

impl std::fmt::Debug for TowerSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TowerSession").finish_non_exhaustive()
    }
}

impl TowerSession {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// tower-mcp's, or that there is no command.
    pub async fn connect(server: Server, contract: Contract) -> Result<Self, String> {
        let log = contract.log(&server.name);
        let handler = Handler {
            log: log.clone(),
            delay: contract.answer_delay,
        };
        let capabilities = read(json!({
            "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }))
        .map_err(|error| error.to_string())?;
        let builder = McpClient::builder().with_capabilities(capabilities);
        let client = match server.address {
            Address::Url(url) => {
                builder
                    .connect(HttpClientTransport::new(url), handler)
                    .await
            }
            Address::Command(words) => {
                let (program, arguments) = words.split_first().ok_or("an empty command")?;
                let mut command = Command::new(program);
                command.args(arguments);
                match StdioClientTransport::spawn_command(&mut command).await {
                    Ok(transport) => builder.connect(transport, handler).await,
                    Err(error) => Err(error),
                }
            }
        };
        let client = client.map_err(|error| error.to_string())?;
        let (name, version) = (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let greeted = match contract.revision {
            Revision::Initialize => client.initialize(name, version).await.map(drop),
            Revision::Discover => client.discover(name, version).await.map(drop),
        };
        greeted.map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            contract,
            log,
        })
    }

    /// Whether the server declares a capability, in either revision.
    async fn declares(&self, capability: &str) -> bool {
        let declared = match self.contract.revision {
            Revision::Initialize => self
                .client
                .server_info()
                .await
                .map(|info| json!(info.capabilities)),
            Revision::Discover => self
                .client
                .discovery()
                .await
                .map(|found| json!(found.capabilities)),
        };
        declared.is_some_and(|declared| declared.get(capability).is_some())
    }

    fn stopped(&self, error: &tower_mcp::Error) -> Stopped {
        if let tower_mcp::Error::JsonRpc(error) = error {
            self.log.urls_shown(error.code, error.data.as_ref());
        }
        if self.client.is_connected() {
            Stopped::Failed(error.to_string())
        } else {
            Stopped::Closed
        }
    }
}

impl Session for TowerSession {
    async fn offers(&self) -> Result<Vec<Offer>, Stopped> {
        let client = &self.client;
        let stopped = |error| self.stopped(&error);
        let tools = client.list_all_tools().await.map_err(stopped)?.into_iter();
        let tools: Vec<_> = tools.map(|tool| (tool.name, tool.input_schema)).collect();
        let mut offers = plan::tools(&self.contract, &tools);
        if self.declares("prompts").await {
            let prompts = client
                .list_all_prompts()
                .await
                .map_err(stopped)?
                .into_iter();
            offers.extend(prompts.map(|prompt| {
                let arguments = prompt.arguments.into_iter();
                plan::prompt(prompt.name, arguments.map(|argument| argument.name))
            }));
        }
        if self.declares("resources").await {
            let resources = client
                .list_all_resources()
                .await
                .map_err(stopped)?
                .into_iter();
            offers.extend(resources.map(|resource| Offer::Resource { uri: resource.uri }));
        }
        Ok(offers)
    }

    async fn call(&self, offer: &Offer) -> Result<(), Stopped> {
        let client = &self.client;
        let done = match offer.clone() {
            Offer::Tool { name, arguments } => client
                .call_tool(&name, Value::Object(arguments))
                .await
                .map(drop),
            Offer::Prompt { name, arguments } => {
                let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
                let arguments: HashMap<_, _> = arguments
                    .into_iter()
                    .map(|(name, value)| (name, text(value)))
                    .collect();
                client.get_prompt(&name, Some(arguments)).await.map(drop)
            }
            Offer::Resource { uri } => client.read_resource(&uri).await.map(drop),
        };
        done.map_err(|error| self.stopped(&error))
    }

    async fn end(self) {
        // It has nothing more to do, however it ends.
        let _ = self.client.shutdown().await;
    }
}

/// Answers every question at once, or after the time it is told to take.
#[derive(Debug)]
struct Handler {
    log: Log,
    delay: Duration,
}

impl Handler {
    async fn entered(&self, method: &str) {
        self.log.entered(method);
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }
}

#[async_trait]
impl ClientHandler for Handler {
    async fn handle_create_message(
        &self,
        _params: CreateMessageParams,
    ) -> Result<CreateMessageResult, JsonRpcError> {
        self.entered("sampling/createMessage").await;
        read(json!({
            "role": "assistant", "model": "made-up",
            "content": {"type": "text", "text": "4"},
        }))
    }

    async fn handle_elicit(
        &self,
        params: ElicitRequestParams,
    ) -> Result<ElicitResult, JsonRpcError> {
        self.entered("elicitation/create").await;
        read(match params {
            ElicitRequestParams::Form(asked) => {
                let content = form::filled_in(&json!(asked.requested_schema));
                json!({"action": "accept", "content": content})
            }
            _ => json!({"action": "accept"}),
        })
    }

    async fn handle_list_roots(&self) -> Result<ListRootsResult, JsonRpcError> {
        read(json!({"roots": []}))
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, JsonRpcError> {
    serde_json::from_value(value).map_err(|error| JsonRpcError::internal_error(error.to_string()))
}
