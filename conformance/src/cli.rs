//! The command line.

use std::{
    env, fs,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use crate::{
    limits::Limits,
    matrix,
    model::{Counter, Windows},
    page,
    play::{self, Progress},
    protocol::{Revision, Transport},
    reference::{self, Wrong},
    relay::Relay,
    report::{self, Totals},
    results,
    run::{Client, SILENCE},
    scenario::{self, Scenario},
    server,
};
use clap::{Args, Parser, Subcommand};

/// Every check that could be made is met.
const MET: u8 = 0;
/// A check is not met.
const UNMET: u8 = 1;
/// The command line, or a file that it names, is wrong.
const USAGE: u8 = 2;
/// The client did not start, died, hung, or took no part in anything.
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
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
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

#[derive(Debug, Args)]
struct RunArguments {
    /// The client's command; it gets the server as its last argument
    #[arg(long, value_name = "COMMAND", required = true)]
    client: Option<String>,
    /// A relay's command. Over stdio it stands before that of each server, and `{server}` is the
    /// server's name. Over http it is started once for a scenario: it learns the servers' URLs from
    /// MCP_CONFORMANCE_SERVERS or from `{settings}`, a file, and prints its own
    #[arg(long, value_name = "COMMAND")]
    behind: Option<String>,
    /// Each process of the relay has windows of its own, which end with it (over stdio)
    #[arg(long, requires = "behind")]
    windows_by_process: bool,
    /// The client is one for the official suite: it gets a URL as its last argument, and knows
    /// neither several servers nor a log. The burst is played inside a scenario of that suite
    #[arg(long, conflicts_with_all = ["scenario", "window", "slow"])]
    official_client: bool,
    /// How the client reaches the servers [default: stdio; with --official-client http]
    #[arg(long, value_enum, hide_default_value = true, default_value_t = Transport::Stdio, default_value_if("official_client", "true", "http"))]
    transport: Transport,
    /// Play the scenarios of this protocol revision alone
    #[arg(long, value_enum)]
    revision: Option<Revision>,
    /// Play this scenario alone
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The limits that the client holds: a TOML file with the table [proto]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// The length of the client's windows in scenarios that wait for one to end, if it minds
    /// QUESTION_CONFORMANCE_WINDOW_SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=60))]
    window: u64,
    /// Play the scenarios that wait for a window's end as well
    #[arg(long)]
    slow: bool,
    /// How many scenarios are played side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// How long the client may take for a scenario, without the windows that it waits for
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
    /// Write a report in JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
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
        Some(Command::Page { check }) => page::run(check).map(told),
        None => block_on(run(&cli.run)),
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

async fn run(arguments: &RunArguments) -> Result<u8, String> {
    let command = words("--client", arguments.client.as_deref())?;
    let relay = match &arguments.behind {
        Some(line) => Some(Relay {
            command: words("--behind", Some(line))?,
            windows: if arguments.windows_by_process {
                Windows::Process
            } else {
                Windows::Server
            },
        }),
        None => None,
    };
    if arguments.windows_by_process && arguments.transport == Transport::Http {
        return Err("--windows-by-process: over http there is one process of the relay".to_owned());
    }
    let limits = match &arguments.limits {
        Some(file) => Limits::read(file)?,
        None => Limits::default(),
    };
    let client = Client {
        command,
        relay,
        transport: arguments.transport,
        limits: Arc::new(limits),
        limits_file: arguments.limits.clone(),
        slow_window: Duration::from_secs(arguments.window),
        silence: SILENCE,
        longest: Duration::from_secs(arguments.time_limit),
    };
    check_program("--client", &client.command)?;
    if let Some(relay) = &client.relay {
        check_program("--behind", &relay.command)?;
    }
    let chosen = choose(arguments)?;
    let unwritable =
        |path: &Path, error: io::Error| format!("--report: {}: {error}", path.display());
    if let Some(path) = &arguments.report {
        // A run is not to be played for nothing.
        fs::write(path, "").map_err(|error| unwritable(path, error))?;
    }
    let client = Arc::new(client);
    let (all, mut begun) = (chosen.len(), 0);
    let plays = chosen
        .into_iter()
        .map(|scenario| (Arc::clone(&client), scenario));
    let reports = play::all_telling(plays, arguments.jobs, |progress| match progress {
        Progress::Begins(scenario) => {
            begun += 1;
            eprintln!("playing {} ({begun} of {all})", scenario.name);
        }
        Progress::Ended(report) => say(&report::scenario(report)),
    })
    .await?;
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| unwritable(path, error))?;
    }
    let totals = Totals::of(&reports);
    say(&report::totals(&totals));
    Ok(match totals {
        Totals { failed: 1.., .. }
        | Totals {
            met: 0, unmet: 0, ..
        } => CLIENT_FAILED,
        Totals { unmet: 1.., .. } => UNMET,
        _ => MET,
    })
}

/// The words of an option that is a command line.
fn words(option: &str, line: Option<&str>) -> Result<Vec<String>, String> {
    let line = line.unwrap_or_default();
    shlex::split(line).ok_or_else(|| format!("{option}: no command line: {line:?}"))
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

/// Finds out at once what would otherwise fail once for every scenario.
fn check_program(option: &str, command: &[String]) -> Result<(), String> {
    let program = command.first();
    let program = program.ok_or_else(|| format!("{option}: there is no command"))?;
    let is_found = if program.contains('/') {
        Path::new(program).is_file()
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).any(|folder| folder.join(program).is_file())
    };
    if is_found {
        Ok(())
    } else {
        Err(format!(
            "{option}: there is no program {program:?}; a path with a slash is taken from the current folder, \
             any other name is looked up in PATH"
        ))
    }
}

/// The scenarios that are played.
fn choose(arguments: &RunArguments) -> Result<Vec<Scenario>, String> {
    let all = if arguments.official_client {
        scenario::official()?
    } else {
        scenario::all()?
    };
    let counter = match arguments.behind {
        Some(_) => Counter::Relay,
        None => Counter::Client,
    };
    let can_be = |scenario: &Scenario| {
        scenario.is_played_over(arguments.transport, counter)
            && arguments
                .revision
                .is_none_or(|only| only == scenario.revision)
    };
    let Some(name) = &arguments.scenario else {
        let is_chosen =
            |scenario: &Scenario| (arguments.slow || !scenario.slow) && can_be(scenario);
        let chosen: Vec<Scenario> = all.into_iter().filter(is_chosen).collect();
        return if chosen.is_empty() {
            Err(
                "no scenario is played over this transport and in this revision: \
                 official clients are reached by http and speak 2025-11-25"
                    .to_owned(),
            )
        } else {
            Ok(chosen)
        };
    };
    let names: Vec<_> = all.iter().map(|scenario| scenario.name.clone()).collect();
    let named = all.into_iter().find(|scenario| scenario.name == *name);
    let named =
        named.ok_or_else(|| format!("--scenario: no {name:?}, there are {}", names.join(", ")))?;
    if can_be(&named) {
        return Ok(vec![named]);
    }
    let over = Transport::ALL.into_iter();
    let over = over.filter(|&transport| named.is_played_over(transport, counter));
    let transports: Vec<_> = over.map(Transport::as_str).collect();
    Err(format!(
        "--scenario: {name} is played in {} and over {}",
        named.revision,
        transports.join(" and ")
    ))
}
