//! A run: the scenarios that the command line chooses, played to one client.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    env, fs, io, iter,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Args;

use super::{CLIENT_FAILED, MET, UNMET, say, told};
use crate::{
    baseline::Baseline,
    limits::Limits,
    model::{Counter, Windows},
    play::{self, Progress},
    protocol::{Revision, Transport},
    relay::Relay,
    report::{self, Totals},
    run::{Client, SILENCE, ScenarioReport},
    scenario::{self, Scenario},
};

#[derive(Debug, Args)]
pub(super) struct Arguments {
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
    /// How long the client may take for a scenario, without the windows that it waits for, and twice
    /// as long as it may take to connect
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    time_limit: u64,
    /// Write a report in JSON to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write every message that the servers hear and say to FOLDER/SCENARIO.jsonl
    #[arg(long, value_name = "FOLDER")]
    wire_log: Option<PathBuf>,
    /// The checks that the client is known not to meet: the run ends with 0 if these are unmet and
    /// no others
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write what is unmet to this file, for --baseline
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    save_baseline: Option<PathBuf>,
}

/// Plays, and tells the exit code.
///
/// # Errors
///
/// What is wrong with the command line, with a file that it names, or with the runner.
pub(super) async fn run(arguments: &Arguments) -> Result<u8, String> {
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
    let longest = Duration::from_secs(arguments.time_limit);
    let client = Client {
        command,
        relay,
        transport: arguments.transport,
        limits: Arc::new(limits),
        limits_file: arguments.limits.clone(),
        wire_log: arguments.wire_log.clone(),
        slow_window: Duration::from_secs(arguments.window),
        silence: SILENCE,
        connects: longest / 2,
        longest,
    };
    check_program("--client", &client.command)?;
    if let Some(relay) = &client.relay {
        check_program("--behind", &relay.command)?;
    }
    let chosen = choose(arguments)?;
    let baseline = arguments.baseline.as_deref();
    let baseline = baseline.map(Baseline::read).transpose()?;
    let unwritable =
        |path: &Path, error: io::Error| format!("--report: {}: {error}", path.display());
    if let Some(path) = &arguments.report {
        // A run is not to be played for nothing.
        fs::write(path, "").map_err(|error| unwritable(path, error))?;
    }
    let reports = play(Arc::new(client), chosen, arguments.jobs).await?;
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?;
        fs::write(path, text + "\n").map_err(|error| unwritable(path, error))?;
    }
    let totals = Totals::of(&reports);
    say(&report::totals(&totals));
    if totals.failed > 0 || totals.met + totals.unmet == 0 {
        return Ok(CLIENT_FAILED);
    }
    if let Some(path) = &arguments.save_baseline {
        Baseline::of(&reports).write(path)?;
        say(&format!("what is unmet stands in {}\n", path.display()));
        return Ok(MET);
    }
    if let Some(baseline) = baseline {
        let differences = baseline.differences(&reports);
        if differences.is_empty() {
            say("all as the baseline has it\n");
        }
        return Ok(told(differences));
    }
    Ok(if totals.unmet > 0 { UNMET } else { MET })
}

/// What is known of a client's part in the scenarios of a revision.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    taken: bool,
    /// In how many it made no call.
    without: usize,
    hung: bool,
}

impl Part {
    fn note(&mut self, report: &ScenarioReport) {
        self.taken |= report.took_part;
        self.without += usize::from(!report.took_part);
        self.hung |= report.hung;
    }

    /// Whether the next scenario would be played for nothing.
    const fn is_hopeless(self) -> bool {
        !self.taken && (self.hung || self.without > 1)
    }
}

/// Plays the scenarios and tells what becomes of them. Whoever takes no part in the first scenarios of
/// a revision is not asked again and again, and does not hang again and again.
async fn play(
    client: Arc<Client>,
    chosen: Vec<Scenario>,
    jobs: usize,
) -> Result<Vec<ScenarioReport>, String> {
    let (all, mut begun) = (chosen.len(), 0);
    let parts = RefCell::new(BTreeMap::<Revision, Part>::new());
    let mut chosen = chosen.into_iter();
    let mut skipped = 0;
    let plays = iter::from_fn(|| {
        chosen
            .find(|scenario| {
                let parts = parts.borrow();
                let part = parts.get(&scenario.revision);
                let is_hopeless = part.is_some_and(|part| part.is_hopeless());
                skipped += usize::from(is_hopeless);
                !is_hopeless
            })
            .map(|scenario| (Arc::clone(&client), scenario))
    });
    let reports = play::all_telling(plays, jobs, |progress| match progress {
        Progress::Begins(scenario) => {
            begun += 1;
            eprintln!("playing {} ({begun} of {all})", scenario.name);
        }
        Progress::Ended(report) => {
            let mut parts = parts.borrow_mut();
            parts.entry(report.revision).or_default().note(report);
            say(&report::scenario(report));
        }
    })
    .await?;
    if skipped > 0 {
        say(&report::skipped(skipped, &reports));
    }
    Ok(reports)
}

/// The words of an option that is a command line.
fn words(option: &str, line: Option<&str>) -> Result<Vec<String>, String> {
    let line = line.unwrap_or_default();
    shlex::split(line)
        .ok_or_else(|| format!("{option}: a quote or a backslash is left open in {line:?}"))
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
fn choose(arguments: &Arguments) -> Result<Vec<Scenario>, String> {
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
