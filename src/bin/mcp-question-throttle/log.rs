//! The log: to stderr, quiet unless asked.

use std::{env, io};

use clap::ValueEnum;
use mcp_question_throttle::settings::LOG_VARIABLE;
use tracing_subscriber::{EnvFilter, fmt};

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
        let filter = EnvFilter::builder()
            .parse(text.to_string_lossy())
            .map_err(|error| format!("environment variable {LOG_VARIABLE}={text:?}: {error}"))?;
        let log = fmt().with_env_filter(filter).with_writer(io::stderr);
        match self.log_format {
            Format::Text => log.with_ansi(coloured()).init(),
            Format::Json => log.json().init(),
        }
        Ok(())
    }
}

fn coloured() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}
