//! The client on rmcp, with the throttle around its handler.

use std::process::ExitCode;

use conformance_clients::{
    contract::Contract,
    rmcp_client::{Handler, RmcpSession, connect},
    run,
};
use mcp_question_throttle::{
    ClientSession, Pool,
    limits::{ProtoSettings, Settings},
    settings,
};
use tokio::sync::OnceCell;

#[tokio::main]
async fn main() -> ExitCode {
    // One pool for all servers and all of their sessions (D2).
    let pool = OnceCell::new();
    run(async |server, contract| {
        let pool = pool.get_or_try_init(async || pool_for(&contract)).await?;
        let handler = Handler::new(&server, &contract);
        let throttled = pool
            .wrap(&server.name, handler)
            .map_err(|error| error.to_string())?;
        let running = connect(&server, &contract, throttled).await?;
        let session = ClientSession::new(running);
        Ok::<_, String>(RmcpSession::new(session, &server, contract))
    })
    .await
}

fn pool_for(contract: &Contract) -> Result<Pool, String> {
    let settings = match &contract.limits {
        Some(file) => settings::load(file)
            .map_err(|error| error.to_string())?
            .into_settings(),
        None => Settings::new(ProtoSettings::default()),
    };
    Ok(Pool::new(settings))
}
