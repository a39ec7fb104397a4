//! The command line.

mod run;

use std::{
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use crate::{
    explain, matrix, page,
    reference::{self, Wrong},
    results, server,
};

/// Every check that could be made is met.
const MET: u8 = 0;
/// A check is not met.
const UNMET: u8 = 1;
/// The command line, or a file that it names, is wrong.
const USAGE: u8 = 2;
/// The client did not start, died, hung, took no part in anything, or gave no occasion for any check.
const CLIENT_FAILED: u8 = 3;

/// Check whether an MCP client bounds the questions of its servers
#[derive(Debug, Parser)]
#[command(
    name = "conformance",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit codes: 0 every check met, 1 a check unmet, 2 usage, 3 the client failed"
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Arguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell which scenarios there are to play, and which requirements they prove
    List,
    /// Tell what a scenario checks, or where a requirement comes from and what proves it
    Explain {
        /// A scenario or a requirement
        name: String,
    },
    /// Play every scenario to clients that are wrong in known ways, each of which has to fail
    Matrix {
        /// How many scenarios are played side by side
        #[arg(long, value_name = "N", default_value_t = 12)]
        jobs: usize,
        /// Write the list of what fails anew
        #[arg(long)]
        write: bool,
    },
    /// Install the clients of clients.toml, play to all of them, and write what became of it
    Results(results::Arguments),
    /// Write the page about the results
    Page {
        /// Write nothing, and fail if the page is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Be a client: a right one, or one that is wrong in the way that is named
    ReferenceClient {
        #[arg(long, value_enum)]
        wrong: Option<Wrong>,
        /// The server, which is taken from MCP_CONFORMANCE_SERVERS
        server: Option<String>,
    },
    /// Be a relay over http that bounds nothing: it shows how relays are told their servers
    ReferenceRelay,
    /// Be one of the servers of a run (the runner has clients start this)
    #[command(hide = true)]
    Serve {
        #[command(subcommand)]
        transport: Serve,
    },
}

#[derive(Debug, Subcommand)]
enum Serve {
    /// Join standard input and output to the runner
    Stdio {
        #[arg(long)]
        to: SocketAddr,
        #[arg(long)]
        server: String,
    },
}

/// Runs what the command line says.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match cli.command {
        Some(Command::Serve {
            transport: Serve::Stdio { to, server },
        }) => return pipe(to, &server),
        Some(Command::ReferenceClient { wrong, server }) => {
            return be_client(wrong, server.as_deref());
        }
        Some(Command::ReferenceRelay) => block_on(reference::run_relay()).map(|()| MET),
        Some(Command::Matrix { jobs, write }) => block_on(matrix::run(jobs, write)).map(told),
        Some(Command::Results(arguments)) => block_on(results::play(&arguments)).map(told),
        Some(Command::List) => explain::list().map(shown),
        Some(Command::Explain { name }) => explain::explain(&name).map(shown),
        Some(Command::Page { check }) => page::run(check).map(told),
        None => block_on(run::run(&cli.run)),
    };
    ExitCode::from(code.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        USAGE
    }))
}

fn pipe(to: SocketAddr, server: &str) -> ExitCode {
    match server::run_pipe(to, server) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the pipe to the runner broke: {error}");
            ExitCode::FAILURE
        }
    }
}

fn be_client(wrong: Option<Wrong>, server: Option<&str>) -> ExitCode {
    match reference::run(wrong, server) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn block_on<T>(future: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        tokio::select! {
            done = future => done,
            // Dropping the run ends the clients that it started.
            _ = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
        }
    })
}

/// Prints what was asked for.
fn shown(text: String) -> u8 {
    say(&text);
    MET
}

/// Prints problems; the exit code says whether there are any.
fn told(problems: Vec<String>) -> u8 {
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() { MET } else { UNMET }
}

/// Prints, if anyone still reads: a reader that has gone away shall not end the run.
fn say(text: &str) {
    let mut output = io::stdout().lock();
    let _ = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
}
