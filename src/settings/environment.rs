//! Environment variables: an explicit list, each for one setting of `[proto]`.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

use super::{
    error::{Fault, Problem},
    keys::{self, SCALARS, Scalar},
    origin::Origin,
};

const PREFIX: &str = "MCP_QUESTION_THROTTLE_";

/// The variable with the command's log filter. It begins like our settings and is none.
pub const LOG_VARIABLE: &str = "MCP_QUESTION_THROTTLE_LOG";

/// The environment variables that concern the throttle.
///
/// It is a value, so that a test or an embedder can give another one than the process has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// No variables.
    #[must_use]
    pub const fn empty() -> Self {
        Self(BTreeMap::new())
    }

    /// The variables of this process, as they are now.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    pub(super) fn check(&self) -> Variables {
        let mut checked = Variables::default();
        for (name, text) in &self.0 {
            match SCALARS.iter().find(|it| name == it.variable) {
                Some(scalar) => match read(scalar, text) {
                    Ok(value) => checked.values.push((scalar, value)),
                    Err(problem) => checked.problems.push(problem),
                },
                None => checked.problems.push(unknown(&name.to_string_lossy())),
            }
        }
        checked
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(variables: T) -> Self {
        let ours = |name: &OsStr| {
            let name = name.to_string_lossy();
            // In another case it has no effect either, and is just as much a mistake.
            name.to_ascii_uppercase().starts_with(PREFIX) && name != LOG_VARIABLE
        };
        let variables = variables
            .into_iter()
            .map(|(name, text)| (name.into(), text.into()))
            .filter(|(name, _)| ours(name));
        Self(variables.collect())
    }
}

/// What the environment says.
#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) values: Vec<(&'static Scalar, toml::Value)>,
    pub(super) problems: Vec<Problem>,
}

fn read(scalar: &Scalar, text: &OsStr) -> Result<toml::Value, Problem> {
    let value = text.to_str().map(as_toml);
    match value {
        Some(value) if scalar.accepts(value.clone()) => Ok(value),
        _ => Err(Problem::new(
            Origin::Variable(scalar.variable.into()),
            scalar.name,
            Fault::Value {
                expected: scalar.expected.to_owned(),
                found: keys::shown(&format!("\"{}\"", text.to_string_lossy())),
            },
        )),
    }
}

/// A variable's text as TOML would have it: a number if it is written as one, with no sign, no
/// space and no leading zero, and a string otherwise.
fn as_toml(text: &str) -> toml::Value {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => toml::Value::Integer(number),
        _ => toml::Value::String(text.to_owned()),
    }
}

fn unknown(name: &str) -> Problem {
    // Without what they all begin with, or every name would be near to every other.
    let rest = |name: &'_ str| name.get(PREFIX.len()..).unwrap_or_default().to_owned();
    let valid = || SCALARS.iter().map(|scalar| scalar.variable);
    let endings: Vec<_> = valid().map(|variable| (rest(variable), variable)).collect();
    let without_family = endings
        .iter()
        .map(|(ending, variable)| (ending.trim_start_matches("PROTO_"), *variable));
    let candidates = endings
        .iter()
        .map(|(ending, variable)| (ending.as_str(), *variable))
        .chain(without_family);
    let fault = Fault::Unknown {
        nearest: keys::nearest(&rest(name), candidates).map(str::to_owned),
        valid: valid().collect(),
    };
    Problem::new(Origin::Variable(name.into()), "", fault)
}
