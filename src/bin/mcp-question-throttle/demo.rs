//! `demo`: a server that floods its client with questions, and a client that bounds them.
//!
//! Three witnesses count, none of which sees the others' numbers: the throttle by its verdicts,
//! the client's handler by what reached it, and the server by what it asked and got back.

mod client;
pub(crate) mod flood;
mod handler;
mod progress;
mod report;
mod run;
#[cfg(feature = "serve")]
mod served;

use std::{
    io::{self, Write},
    time::Duration,
};

use mcp_question_throttle::{
    limits::{ProtoSettings, Settings},
    question::QuestionKind,
};

use self::{
    client::Failure,
    flood::Era,
    progress::{Mode, Progress},
    run::{Plan, Run},
};
use crate::exit::{self, Exit};

/// How long a run is made to last where somebody looks on.
const SHOWN: Duration = Duration::from_millis(900);

/// See a flooding server held to the limits
///
/// A server that asks as often as it can is started as a child process, in four runs: sampling
/// and elicitation, in protocol revision 2025-11-25, where it sends requests during a call, and
/// in 2026-07-28, where a call returns rounds of questions. The client has the default limits.
///
/// Exits with 1 if any count differs from what the limits allow.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many questions the server asks in each run, from 1 to 10000
    /// [default: 200; with --serve, no end]
    #[arg(long, value_name = "N", value_parser = questions)]
    questions: Option<u32>,

    /// Print one JSON object and no progress
    #[arg(long)]
    json: bool,

    /// Put the HTTP relay in front of a flooding server instead, and look at its status page
    #[cfg(feature = "serve")]
    #[arg(long, conflicts_with = "json")]
    serve: bool,

    /// Where to listen with --serve; port 0 takes a free one
    #[cfg(feature = "serve")]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:7460",
        value_parser = crate::addresses::listen,
        requires = "serve"
    )]
    listen: std::net::SocketAddr,
}

impl Options {
    fn questions(&self) -> u32 {
        self.questions.unwrap_or(200)
    }
}

fn questions(text: &str) -> Result<u32, &'static str> {
    text.parse()
        .ok()
        .filter(|questions| (1..=10_000).contains(questions))
        .ok_or("expected a whole number from 1 to 10000")
}

pub(crate) fn run(options: &Options) -> Exit {
    #[cfg(feature = "serve")]
    if options.serve {
        return served::run(options.listen, options.questions);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(demonstrate(options)),
        Err(error) => exit::fail(Exit::Internal, error),
    }
}

async fn demonstrate(options: &Options) -> Exit {
    let settings = Settings::new(ProtoSettings::default());
    let mode = if options.json {
        Mode::Silent
    } else {
        Mode::of_stdout()
    };
    if mode != Mode::Silent
        && let Err(error) = report::introduce(&mut anstream::stdout(), options.questions())
    {
        return exit::after_printing(Err(error), Exit::Success);
    }
    let mut runs = Vec::new();
    for (era, kind) in all_runs() {
        let plan = Plan {
            era,
            kind,
            questions: options.questions(),
            pause: match mode {
                Mode::Live => SHOWN / options.questions(),
                Mode::Lines | Mode::Silent => Duration::ZERO,
            },
        };
        let progress = Progress::new(plan, mode);
        match client::flood(plan, &settings, |tally| progress.update(tally)).await {
            Ok(run) => {
                progress.finish(&run);
                runs.push(run);
            }
            Err(failure) => {
                progress.abandon();
                return exit::fail(exit_of(&failure), format_args!("{era} {kind}: {failure}"));
            }
        }
    }
    conclude(options, settings.proto(), &runs)
}

fn all_runs() -> impl Iterator<Item = (Era, QuestionKind)> {
    let eras = [Era::Requests, Era::Rounds];
    eras.into_iter()
        .flat_map(|era| QuestionKind::ALL.map(|kind| (era, kind)))
}

fn conclude(options: &Options, limits: &ProtoSettings, runs: &[Run]) -> Exit {
    let differences: Vec<_> = runs
        .iter()
        .flat_map(|run| run.differences(limits))
        .collect();
    let mut out = anstream::stdout().lock();
    let printed = if options.json {
        writeln!(out, "{}", report::json(runs, differences.is_empty()))
    } else {
        report::print(&mut out, limits, runs)
    };
    for difference in &differences {
        exit::fail(Exit::Differs, difference);
    }
    let exit = if differences.is_empty() {
        Exit::Success
    } else {
        Exit::Differs
    };
    exit::after_printing(printed.and_then(|()| io::stdout().flush()), exit)
}

const fn exit_of(failure: &Failure) -> Exit {
    match failure {
        Failure::Start(_) | Failure::Connect(_) | Failure::TooSlow => Exit::Unavailable,
        Failure::Call(_) | Failure::Report(_) | Failure::Settings(_) => Exit::Internal,
    }
}
