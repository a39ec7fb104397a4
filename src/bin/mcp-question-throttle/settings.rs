//! The settings of a subcommand, and how it ends if they are wrong.

use std::path::Path;

use mcp_question_throttle::settings::{
    self, Environment, Fault, Loaded, Origin, Problem, SettingsError,
};

use crate::exit::{self, Exit};

/// Reads the file, if there is one, and the environment.
pub(crate) fn load(file: Option<&Path>) -> Result<Loaded, SettingsError> {
    match file {
        Some(file) => settings::load(file),
        None => settings::without_file(&Environment::of_process()),
    }
}

/// Whether a file is no TOML since it is JSON.
fn is_of_a_client(problem: &Problem) -> bool {
    let is_json = match problem.at() {
        Origin::File { file, .. } => Path::new(&**file).extension() == Some("json".as_ref()),
        _ => false,
    };
    is_json && matches!(problem.fault(), Fault::Syntax(_))
}

/// Prints what is wrong, one line a problem, and gives back how to end.
pub(crate) fn fail(error: &SettingsError) -> Exit {
    for problem in error.problems() {
        exit::fail(Exit::Config, problem);
    }
    match error {
        SettingsError::Invalid(problems) => {
            if problems.iter().any(is_of_a_client) {
                exit::tip(
                    "settings are TOML, as `settings.example.toml` of the source shows; a client's \
                     own file is given to `wrap` by --mcp-config",
                );
            }
            Exit::Config
        }
        SettingsError::Unreadable { .. } => exit::fail(Exit::NoInput, error),
        _ => exit::fail(Exit::Internal, error),
    }
}
