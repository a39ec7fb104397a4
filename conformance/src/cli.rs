//! The command line.

use std::{
    fs, io, io::Write, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration,
};

use clap::{Args, Parser, Subcommand};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    limits::Limits,
    protocol::Revision,
    reference::{self, Wrong},
    report::{self, Totals},
    run::{self, Client, ScenarioReport},
    scenario::{self, Scenario},
    server,
};

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
    /// Be a client: a right one, or one that is wrong in the way that is named
    ReferenceClient {
        #[arg(long, value_enum)]
        wrong: Option<Wrong>,
        /// The server, which is taken from MCP_CONFORMANCE_SERVERS
        server: Option<String>,
    },
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
    /// Play the scenarios of this protocol revision alone
    #[arg(long, value_enum)]
    revision: Option<Revision>,
    /// Play this scenario alone
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// The limits that the client holds: a TOML file with the table [proto]
    #[arg(long, value_name = "FILE")]
    limits: Option<PathBuf>,
    /// The length of the client's windows, if it can be told to have others than of 60 s
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(2..=60))]
    window: u64,
    /// Play the scenarios that wait for a window's end as well
    #[arg(long)]
    slow: bool,
    /// How many scenarios are played side by side
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
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
        Some(Command::ReferenceClient { wrong, server: _ }) => return be_client(wrong),
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

fn be_client(wrong: Option<Wrong>) -> ExitCode {
    match reference::run(wrong) {
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
    let line = arguments.client.as_deref().unwrap_or_default();
    let command =
        shlex::split(line).ok_or_else(|| format!("--client: no command line: {line:?}"))?;
    let limits = match &arguments.limits {
        Some(file) => Limits::read(file)?,
        None => Limits::default(),
    };
    let client = Client {
        command,
        limits: Arc::new(limits),
        limits_file: arguments.limits.clone(),
        window: Duration::from_secs(arguments.window),
    };
    let chosen = choose(arguments)?;
    let reports = play_all(&client, &chosen, arguments.jobs, |report| {
        print!("{}", report::scenario(report));
        // A reader that has gone away shall not end the run.
        let _ = io::stdout().flush();
    })
    .await?;
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let totals = Totals::of(&reports);
    println!(
        "{} met, {} unmet, {} not testable",
        totals.met, totals.unmet, totals.not_testable
    );
    Ok(match totals {
        Totals { failed: 1.., .. } | Totals { met: 0, .. } => CLIENT_FAILED,
        Totals { unmet: 1.., .. } => UNMET,
        _ => MET,
    })
}

/// The scenarios that are played, with their revisions.
fn choose(arguments: &RunArguments) -> Result<Vec<(Scenario, Revision)>, String> {
    let all = scenario::all()?;
    if let Some(name) = &arguments.scenario
        && !all.iter().any(|scenario| scenario.name == *name)
    {
        let names: Vec<_> = all.iter().map(|scenario| scenario.name.as_str()).collect();
        return Err(format!(
            "--scenario: no {name:?}, there are {}",
            names.join(", ")
        ));
    }
    let mut chosen = Vec::new();
    for scenario in all {
        let named = arguments.scenario.as_ref() == Some(&scenario.name);
        if !named && (arguments.scenario.is_some() || (scenario.slow && !arguments.slow)) {
            continue;
        }
        for &revision in &scenario.revisions {
            if arguments.revision.is_none_or(|only| only == revision) {
                chosen.push((scenario.clone(), revision));
            }
        }
    }
    if chosen.is_empty() {
        return Err("no scenario is played in this revision".to_owned());
    }
    Ok(chosen)
}

/// Plays scenarios, up to `jobs` at a time, and shows each report as it comes.
async fn play_all(
    client: &Client,
    chosen: &[(Scenario, Revision)],
    jobs: usize,
    mut show: impl FnMut(&ScenarioReport),
) -> Result<Vec<ScenarioReport>, String> {
    let free = Arc::new(Semaphore::new(jobs.max(1)));
    let mut running = JoinSet::new();
    for (place, (scenario, revision)) in chosen.iter().cloned().enumerate() {
        let (client, free) = (client.clone(), Arc::clone(&free));
        running.spawn(async move {
            let _turn = free.acquire().await;
            eprintln!("playing {} in {revision}", scenario.name);
            (place, run::play(&client, &scenario, revision).await)
        });
    }
    let mut reports = Vec::new();
    while let Some(played) = running.join_next().await {
        let (place, report) = played.map_err(|error| error.to_string())?;
        let report = report?;
        show(&report);
        reports.push((place, report));
    }
    reports.sort_by_key(|&(place, _)| place);
    Ok(reports.into_iter().map(|(_, report)| report).collect())
}
