//! The client on rmcp as it comes.

use std::process::ExitCode;

use conformance_clients::{Address, Client, Connect, Failure, Handler, serve};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, GetPromptRequestParams, Prompt, ReadResourceRequestParams, Resource,
        Tool,
    },
    service::{RunningService, ServiceError},
};

fn main() -> ExitCode {
    conformance_clients::main(&Bare, false)
}

struct Bare;

impl Connect for Bare {
    type Client = Running;

    async fn connect(
        &self,
        _: &str,
        handler: Handler,
        address: &Address,
    ) -> Result<Running, String> {
        serve(handler, address).await.map(Running)
    }
}

struct Running(RunningService<RoleClient, Handler>);

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
        self.0.is_transport_closed()
    }

    async fn end(self) {
        // The server is told by the end of its input, and has nothing left to say.
        drop(self.0.cancel().await);
    }
}

fn failure(error: ServiceError) -> Failure {
    match error {
        ServiceError::McpError(error) => Failure::Error(error),
        other => Failure::Other(other.to_string()),
    }
}
