//! A client on tower-mcp, as it comes.

use std::process::ExitCode;

use conformance_clients::{run, tower_client::TowerSession};

#[tokio::main]
async fn main() -> ExitCode {
    run(TowerSession::connect).await
}
