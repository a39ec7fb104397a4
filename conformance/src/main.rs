//! Checks any MCP client for bounded questions: plays scripted servers that ask too much, and
//! judges what the client did.

mod baseline;
mod checks;
mod cli;
mod clients;
mod declared;
mod explain;
mod limits;
mod locks;
mod matrix;
mod model;
mod mutex;
mod page;
mod play;
mod process;
mod protocol;
mod quantity;
mod record;
mod reference;
mod register;
mod relay;
mod report;
mod results;
mod run;
mod scenario;
mod server;
mod wire_log;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
