//! What can be wrong with settings, sorted by who can put it right.

use std::{fmt, io, path::Path, path::PathBuf, string::FromUtf8Error};

use super::origin::{Origin, Source};

/// Settings that cannot be used. Nothing of them takes effect.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file is not there, or may not be read: look at the path and its permissions.
    #[non_exhaustive]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file or the environment says something that is not valid: everything that is wrong,
    /// in the order of the file, variables last.
    Invalid(Vec<Problem>),
    /// The settings passed every check and still could not be put together: our mistake.
    Internal(String),
}

impl SettingsError {
    pub(super) fn unreadable(path: &Path, error: io::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            error,
        }
    }

    pub(super) fn not_utf8(name: &str, error: &FromUtf8Error) -> Self {
        let valid_up_to = error.utf8_error().valid_up_to();
        let valid = &error.as_bytes()[..valid_up_to];
        let text = String::from_utf8_lossy(valid);
        let at = Source::new(name, &text).place(text.len()..text.len());
        let fault = Fault::Syntax("not UTF-8, which TOML has to be".to_owned());
        Self::Invalid(vec![Problem::new(at, "", fault)])
    }

    /// What is wrong in the file and in the environment, piece by piece.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems,
            _ => &[],
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, error } => {
                write!(f, "cannot read settings file {}: {error}", path.display())
            }
            Self::Invalid(problems) => {
                for (nth, problem) in problems.iter().enumerate() {
                    let newline = if nth == 0 { "" } else { "\n" };
                    write!(f, "{newline}{problem}")?;
                }
                Ok(())
            }
            Self::Internal(key) => write!(
                f,
                "valid settings could not be put together (at {key}); this is a bug"
            ),
        }
    }
}

/// What the text says already is no source of it: who prints the whole chain reads nothing twice.
impl std::error::Error for SettingsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => error.source(),
            _ => None,
        }
    }
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    at: Origin,
    key: String,
    fault: Fault,
}

impl Problem {
    pub(super) fn new(at: Origin, key: impl Into<String>, fault: Fault) -> Self {
        Self {
            at,
            key: key.into(),
            fault,
        }
    }

    /// Where: a place in the file, or an environment variable.
    #[must_use]
    pub const fn at(&self) -> &Origin {
        &self.at
    }

    /// The full name of the key; empty where none could be read.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Origin::File { file, line, column } => write!(f, "{file}:{line}:{column}: ")?,
            Origin::Variable(name) => write!(f, "environment variable {name}: ")?,
            Origin::Default => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.fault)
    }
}

/// What is wrong with a key or its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The text is no TOML.
    Syntax(String),
    /// There is no such key or variable.
    #[non_exhaustive]
    Unknown {
        /// What it was probably meant to be.
        nearest: Option<String>,
        /// All that would be valid in its place.
        valid: Vec<&'static str>,
    },
    /// The value is of the wrong type or out of range.
    #[non_exhaustive]
    Value {
        /// What is valid.
        expected: String,
        /// What was found; outside of `proto.*`, its type alone.
        found: String,
    },
    /// Keys that do not go together.
    Conflict(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "{message}"),
            Self::Unknown { nearest, valid } => {
                f.write_str("unknown name")?;
                if let Some(nearest) = nearest {
                    write!(f, ", did you mean {nearest}?")?;
                }
                write!(f, " (valid here: {})", valid.join(", "))
            }
            Self::Value { expected, found } => write!(f, "expected {expected}, found {found}"),
            Self::Conflict(message) => f.write_str(message),
        }
    }
}
