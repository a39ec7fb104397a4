//! The log: to stderr, quiet unless asked.

use std::{env, io};

use clap::ValueEnum;
use mcp_question_throttle::settings::LOG_VARIABLE;
use tracing_subscriber::{EnvFilter, filter::LevelFilter, fmt};

/// How the log looks.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// A line for a person.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Arguments for the log, the same for every subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How log lines on stderr look
    ///
    /// Which lines there are is said by the environment variable MCP_QUESTION_THROTTLE_LOG, for
    /// instance as "warn" or "info,rmcp=debug". By default there are few.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    log_format: Format,
}

impl Options {
    /// Starts the log with the filter of the environment, or with `default`.
    ///
    /// # Errors
    ///
    /// What is wrong with the filter.
    pub(crate) fn start(&self, default: &str) -> Result<(), String> {
        let filter = env::var_os(LOG_VARIABLE);
        let text = filter.as_deref().unwrap_or(default.as_ref());
        let wrong = |error: &dyn std::fmt::Display| {
            format!("environment variable {LOG_VARIABLE}={text:?}: {error}")
        };
        let filter = text.to_string_lossy();
        no_bare_words(&filter).map_err(|error| wrong(&error))?;
        let filter = EnvFilter::builder()
            .parse(filter)
            .map_err(|error| wrong(&error))?;
        let log = fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            // They would be told on stderr, by a macro that panics if that fails as well.
            .log_internal_errors(false);
        match self.log_format {
            Format::Text => log.with_ansi(coloured()).init(),
            Format::Json => log.json().init(),
        }
        Ok(())
    }
}

/// A word alone is a level here. The filter would take any other for a part of the program that
/// logs everything, and most are a level misspelt, so that nothing is logged.
fn no_bare_words(filter: &str) -> Result<(), String> {
    // Filters by spans and their fields have commas of their own, and levels behind them.
    if filter.contains('[') {
        return Ok(());
    }
    let words = filter.split(',').map(str::trim);
    match words.into_iter().find(|word| {
        !word.contains('=') && !word.is_empty() && word.parse::<LevelFilter>().is_err()
    }) {
        None => Ok(()),
        Some(word) => Err(format!(
            "{word:?} is no level; expected off, error, warn, info, debug or trace, each alone or \
             as in rmcp=debug"
        )),
    }
}

fn coloured() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}
