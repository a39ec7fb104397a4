//! The command: arguments, log and exit code. What each subcommand does is in its own module.

#[cfg(feature = "serve")]
mod addresses;
mod check;
mod demo;
mod exit;
mod log;
#[cfg(feature = "serve")]
mod serve;
mod settings;
#[cfg(feature = "serve")]
mod status;
mod style;
#[cfg(unix)]
mod wrap;

use std::{env, process::ExitCode};

use clap::{
    CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};

use self::exit::Exit;

/// Bounds how often an MCP server may ask.
///
/// An MCP server can ask for a model's attention (sampling) and for a person's (elicitation), as
/// often as it likes. This holds each configured server to a number of questions a minute.
#[derive(Debug, Parser)]
#[command(version, after_help = exit::help(), max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    log: log::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Options),
    Check(check::Options),
    #[cfg(unix)]
    Wrap(wrap::Options),
    #[cfg(feature = "serve")]
    Serve(serve::Options),
    #[cfg(feature = "serve")]
    Status(status::Options),
    /// The server of the demo, for whoever wants a flood at hand.
    #[command(hide = true)]
    FloodingServer(demo::flood::Options),
}

impl Command {
    /// What is logged unless the environment says otherwise. rmcp warns of each error reply, and
    /// a flood of questions must not become a flood of lines.
    const fn log_filter(&self) -> &'static str {
        match self {
            // The demo tells of its refusals itself.
            Self::Demo(_) | Self::Check(_) | Self::FloodingServer(_) => "error",
            // The first refusals of a flood are for whoever reads the client's log.
            #[cfg(unix)]
            Self::Wrap(_) => "mcp_question_throttle=warn,error",
            // Its log is the operator's own.
            #[cfg(feature = "serve")]
            Self::Serve(_) => "mcp_question_throttle=info,error",
            #[cfg(feature = "serve")]
            Self::Status(_) => "error",
        }
    }

    fn run(self) -> ExitCode {
        match self {
            Self::Demo(options) => demo::run(&options).into(),
            Self::Check(options) => check::run(&options).into(),
            #[cfg(unix)]
            Self::Wrap(options) => wrap::run(&options),
            #[cfg(feature = "serve")]
            Self::Serve(options) => serve::run(&options).into(),
            #[cfg(feature = "serve")]
            Self::Status(options) => status::run(&options).into(),
            Self::FloodingServer(options) => demo::flood::run(&options).into(),
        }
    }
}

/// Says what to write for the commonest mistakes: an option before its subcommand, a server's command
/// without the `--` before it, and a settings file without its flag.
fn with_tip(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let place = |word: &str| env::args_os().position(|argument| argument == word);
    let has = |word: &str| place(word).is_some();
    let found = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(found)) => found.clone(),
        _ => String::new(),
    };
    let subcommands = Cli::command();
    let later = subcommands.get_subcommands().find(|subcommand| {
        let (option, subcommand) = (place(&found), place(subcommand.get_name()));
        option.is_some() && option < subcommand
    });
    let tip = if let Some(later) = later {
        let name = later.get_name();
        format!("an option stands behind its subcommand: {name} {found}...")
    } else if has("wrap") && !has("--") {
        "the server's own command stands behind `--`: wrap --server NAME -- COMMAND...".to_owned()
    } else if (has("check") || has("serve")) && !found.starts_with('-') {
        format!("a settings file is given as `--settings {found}`")
    } else {
        return error;
    };
    let tip = ContextValue::StyledStrs(vec![tip.into()]);
    error.insert(ContextKind::Suggested, tip);
    error
}

fn main() -> ExitCode {
    let Cli { command, log } = Cli::try_parse().unwrap_or_else(|error| with_tip(error).exit());
    match log.start(command.log_filter()) {
        Ok(()) => command.run(),
        Err(error) => exit::fail(Exit::Usage, error).into(),
    }
}
