//! Checks any MCP client for bounded questions: plays scripted servers that ask too much, and
//! judges what the client did.

mod checks;
mod cli;
mod declared;
mod limits;
mod matrix;
mod model;
mod play;
mod protocol;
mod quantity;
mod record;
mod reference;
#[cfg(test)]
mod register;
mod report;
mod run;
mod scenario;
mod server;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
