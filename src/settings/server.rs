//! How a configured server is reached.

use std::{collections::BTreeMap, fmt};

/// What is valid as a URL.
pub(super) const URL_EXPECTED: &str = "an http:// or https:// URL";

pub(super) fn is_url(text: &str) -> bool {
    let uri = text.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// One table `[servers.NAME]`, without its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEntry {
    endpoint: Option<Endpoint>,
}

impl ServerEntry {
    /// A server reached as `endpoint` says, or, without one, by whoever embeds the throttle.
    #[must_use]
    pub const fn new(endpoint: Option<Endpoint>) -> Self {
        Self { endpoint }
    }

    /// How the server is reached; `None` if the file names only its limits.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }
}

/// How a server is reached. `Debug` shows no value of it, since each may hold a secret.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// Started as a child process, over stdio.
    Command(Command),
    /// Over Streamable HTTP, at an `http` or `https` URL.
    Url(String),
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => command.fmt(f),
            Self::Url(_) => f.write_str("Url(..)"),
        }
    }
}

/// A program with its arguments and the variables added to its environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

impl Command {
    /// A program by name or path.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn with_args(mut self, args: Vec<String>) -> Self {
        self.args = args;
        self
    }

    /// Sets the variables that are added to the environment.
    #[must_use]
    pub fn with_env(mut self, env: BTreeMap<String, String>) -> Self {
        self.env = env;
        self
    }

    /// The program's name or path.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Its arguments.
    #[must_use]
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// The variables added to its environment.
    #[must_use]
    pub const fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").finish_non_exhaustive()
    }
}
