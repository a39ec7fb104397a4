//! A client on rmcp, as it comes.

use std::process::ExitCode;

use conformance_clients::{
    rmcp_client::{Handler, RmcpSession, connect},
    run,
};

#[tokio::main]
async fn main() -> ExitCode {
    run(async |server, contract| {
        let handler = Handler::new(&server, &contract);
        let running = connect(&server, &contract, handler).await?;
        Ok::<_, String>(RmcpSession::new(running, &server, contract))
    })
    .await
}
