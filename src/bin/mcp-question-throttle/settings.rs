//! The settings of a subcommand, and how it ends if they are wrong.

use std::path::Path;

use mcp_question_throttle::settings::{self, Environment, Loaded, SettingsError};

use crate::exit::{self, Exit};

/// Reads the file, if there is one, and the environment.
pub(crate) fn load(file: Option<&Path>) -> Result<Loaded, SettingsError> {
    match file {
        Some(file) => settings::load(file),
        None => settings::without_file(&Environment::of_process()),
    }
}

/// Prints what is wrong, one line a problem, and gives back how to end.
pub(crate) fn fail(error: &SettingsError) -> Exit {
    for problem in error.problems() {
        exit::fail(Exit::Config, problem);
    }
    match error {
        SettingsError::Invalid(_) => Exit::Config,
        SettingsError::Unreadable { .. } => exit::fail(Exit::NoInput, error),
        _ => exit::fail(Exit::Internal, error),
    }
}
