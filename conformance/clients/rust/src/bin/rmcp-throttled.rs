//! The client on rmcp with the throttle around its handler.

use std::{env, fs, process::ExitCode};

use conformance_clients::{Address, Client, Connect, Failure, Handler, serve};
use mcp_question_throttle::{CallError, ClientSession, Pool, limits::ProtoSettings};
use rmcp::{
    model::{
        CallToolRequestParams, GetPromptRequestParams, Prompt, ReadResourceRequestParams, Resource,
        Tool,
    },
    service::ServiceError,
};
use serde::Deserialize;

fn main() -> ExitCode {
    match limits() {
        Ok(limits) => conformance_clients::main(&Pooled(Pool::new(limits)), true),
        Err(why) => {
            eprintln!("QUESTION_CONFORMANCE_LIMITS: {why}");
            ExitCode::from(2)
        }
    }
}

/// The limits that the suite expects, from the table `[proto]` of the file it names.
fn limits() -> Result<ProtoSettings, String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        proto: ProtoSettings,
    }
    let Some(path) = env::var_os("QUESTION_CONFORMANCE_LIMITS") else {
        return Ok(ProtoSettings::default());
    };
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let file: File = toml::from_str(&text).map_err(|error| error.to_string())?;
    Ok(file.proto)
}

/// One pool for all servers, and for all connections to them.
struct Pooled(Pool);

impl Connect for Pooled {
    type Client = Running;

    async fn connect(
        &self,
        server: &str,
        handler: Handler,
        address: &Address,
    ) -> Result<Running, String> {
        let throttled = self
            .0
            .wrap(server, handler)
            .map_err(|error| error.to_string())?;
        let running = serve(throttled, address).await?;
        Ok(Running(ClientSession::new(running)))
    }
}

struct Running(ClientSession<Handler>);

impl Client for Running {
    async fn tools(&self) -> Result<Vec<Tool>, Failure> {
        self.0.list_all_tools().await.map_err(failure)
    }

    async fn prompts(&self) -> Result<Vec<Prompt>, Failure> {
        self.0.list_all_prompts().await.map_err(failure)
    }

    async fn resources(&self) -> Result<Vec<Resource>, Failure> {
        self.0.list_all_resources().await.map_err(failure)
    }

    async fn call_tool(&self, params: CallToolRequestParams) -> Result<(), Failure> {
        self.0.call_tool(params).await.map(drop).map_err(failure)
    }

    async fn get_prompt(&self, params: GetPromptRequestParams) -> Result<(), Failure> {
        self.0.get_prompt(params).await.map(drop).map_err(failure)
    }

    async fn read_resource(&self, params: ReadResourceRequestParams) -> Result<(), Failure> {
        self.0
            .read_resource(params)
            .await
            .map(drop)
            .map_err(failure)
    }

    fn is_closed(&self) -> bool {
        self.0.peer().is_transport_closed()
    }

    async fn end(self) {
        // The server is told by the end of its input, and has nothing left to say.
        drop(self.0.into_inner().cancel().await);
    }
}

fn failure(error: CallError) -> Failure {
    match error {
        CallError::Service(ServiceError::McpError(error)) => Failure::Error(error),
        other => Failure::Other(other.to_string()),
    }
}
