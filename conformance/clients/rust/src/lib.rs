//! A client on rmcp as the suite's contract wants it: connects to every configured server, makes
//! every call once, answers every question at once, and writes down what its handlers saw.
//!
//! Two programs share it: the bare client, and the same with the throttle around its handler.

#![expect(
    missing_docs,
    reason = "two programs share this, and nobody else"
)]

mod handler;
mod server;

use std::{collections::BTreeMap, env, process::ExitCode};

use rmcp::model::{
    CallToolRequestParams, ErrorData, GetPromptRequestParams, Prompt, ReadResourceRequestParams,
    Resource, Tool,
};
use serde_json::Value;

pub use handler::Handler;
pub use server::{Address, serve};

/// Why a call ended without a result.
#[derive(Debug)]
pub enum Failure {
    /// The server's error.
    Error(ErrorData),
    /// Anything else, in words.
    Other(String),
}

/// A connection, whichever type drives its calls.
pub trait Client: Send + Sync {
    fn tools(&self) -> impl Future<Output = Result<Vec<Tool>, Failure>> + Send;
    fn prompts(&self) -> impl Future<Output = Result<Vec<Prompt>, Failure>> + Send;
    fn resources(&self) -> impl Future<Output = Result<Vec<Resource>, Failure>> + Send;
    fn call_tool(
        &self,
        params: CallToolRequestParams,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    fn get_prompt(
        &self,
        params: GetPromptRequestParams,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    fn read_resource(
        &self,
        params: ReadResourceRequestParams,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
    fn is_closed(&self) -> bool;
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// How a program connects to a server.
pub trait Connect {
    type Client: Client;

    fn connect(
        &self,
        server: &str,
        handler: Handler,
        address: &Address,
    ) -> impl Future<Output = Result<Self::Client, String>> + Send;
}

/// Runs a program, and says on standard error why it failed.
#[must_use]
pub fn main(connect: &impl Connect, follows_tasks: bool) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(run(connect, follows_tasks)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}

async fn run(connect: &impl Connect, follows_tasks: bool) -> Result<(), String> {
    let servers = env::var("MCP_CONFORMANCE_SERVERS")
        .map_err(|error| format!("MCP_CONFORMANCE_SERVERS: {error}"))?;
    let servers: BTreeMap<String, Address> = serde_json::from_str(&servers)
        .map_err(|error| format!("MCP_CONFORMANCE_SERVERS: {error}"))?;
    for (name, address) in &servers {
        call_everything(connect, name, address, follows_tasks).await?;
    }
    Ok(())
}

/// Makes every call once, in order, and connects again when the connection ends in one.
async fn call_everything(
    connect: &impl Connect,
    server: &str,
    address: &Address,
    follows_tasks: bool,
) -> Result<(), String> {
    let mut made = 0;
    loop {
        let handler = Handler::new(server, follows_tasks)?;
        let client = connect.connect(server, handler.clone(), address).await?;
        let before = made;
        let calls = list(&client).await;
        for call in calls.iter().skip(made) {
            made += 1;
            let outcome = make(&client, call).await;
            if let Err(failure) = outcome {
                handler.show_urls(&failure);
                eprintln!("{server}: {failure:?}");
            }
            if client.is_closed() {
                break;
            }
        }
        let is_closed = client.is_closed();
        client.end().await;
        if made == calls.len() {
            return Ok(());
        }
        if !is_closed || made == before {
            return Err(format!("{server}: gone for good"));
        }
    }
}

enum Call {
    Tool(CallToolRequestParams),
    Prompt(GetPromptRequestParams),
    Resource(ReadResourceRequestParams),
}

/// Everything that the server offers; it need not offer all kinds.
async fn list(client: &impl Client) -> Vec<Call> {
    let mut calls = Vec::new();
    for tool in client.tools().await.unwrap_or_default() {
        calls.push(Call::Tool(CallToolRequestParams::new(tool.name)));
    }
    for prompt in client.prompts().await.unwrap_or_default() {
        calls.push(Call::Prompt(GetPromptRequestParams::new(prompt.name)));
    }
    for resource in client.resources().await.unwrap_or_default() {
        calls.push(Call::Resource(ReadResourceRequestParams::new(
            resource.uri.clone(),
        )));
    }
    calls
}

async fn make(client: &impl Client, call: &Call) -> Result<(), Failure> {
    match call {
        Call::Tool(params) => client.call_tool(params.clone()).await,
        Call::Prompt(params) => client.get_prompt(params.clone()).await,
        Call::Resource(params) => client.read_resource(params.clone()).await,
    }
}

/// The URLs that an error wants opened.
fn urls(failure: &Failure) -> usize {
    match failure {
        Failure::Error(error) if error.code.0 == -32042 => {
            let listed = error
                .data
                .as_ref()
                .and_then(|data| data["elicitations"].as_array());
            listed.map_or(1, Vec::<Value>::len)
        }
        _ => 0,
    }
}
