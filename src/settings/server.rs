//! How a configured server is reached.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

/// What is valid as a URL.
pub(super) const URL_EXPECTED: &str = "an http:// or https:// URL";

pub(super) fn is_url(text: &str) -> bool {
    let uri = text.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    })
}

/// What is valid as the name of a header.
pub(super) const HEADER_EXPECTED: &str =
    "a header name that is not one of the connection, the body or the protocol";
/// What is valid as the value of a header.
pub(super) const HEADER_VALUE_EXPECTED: &str = "a header's value in visible ASCII";

/// Whether settings may give a header of this name: those of the connection and the body are not
/// theirs to say, and those of the protocol are the client's.
pub(super) fn is_header(name: &str) -> bool {
    let Ok(name) = name.parse::<http::HeaderName>() else {
        return false;
    };
    let name = name.as_str();
    !matches!(
        name,
        "accept"
            | "accept-encoding"
            | "connection"
            | "expect"
            | "host"
            | "keep-alive"
            | "last-event-id"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    ) && !name.starts_with("content-")
        && !name.starts_with("mcp-")
        && !name.starts_with("proxy-")
}

pub(super) fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// One table `[servers.NAME]`, without its limits. `Debug` shows no header, which may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerEntry {
    endpoint: Option<Endpoint>,
    headers: BTreeMap<String, String>,
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEntry")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl ServerEntry {
    /// A server reached as `endpoint` says, or, without one, by whoever embeds the throttle.
    #[must_use]
    pub const fn new(endpoint: Option<Endpoint>) -> Self {
        Self {
            endpoint,
            headers: BTreeMap::new(),
        }
    }

    /// Sets the headers that requests to its URL get.
    #[must_use]
    pub fn with_headers(mut self, headers: BTreeMap<String, String>) -> Self {
        self.headers = headers;
        self
    }

    /// How the server is reached; `None` if the file names only its limits.
    #[must_use]
    pub const fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// The headers that the HTTP relay gives to requests that have none of the name, as they stand
    /// in the file: the relay puts variables in the places of `${VAR}`, `${VAR:-default}` and
    /// `${env:VAR}`, and another client of the server has to as well.
    #[must_use]
    pub const fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
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

/// A program with its arguments, the variables added to its environment and its folder.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
}

impl Command {
    /// A program by name or path.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
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

    /// Sets the folder that the program is started in; without it, it is that of this process.
    #[must_use]
    pub fn with_cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
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

    /// The folder that it is started in; `None` for that of this process.
    #[must_use]
    pub fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }
}

/// What starts it, with nothing left out. An async runtime's own command is made from this one.
impl From<&Command> for std::process::Command {
    fn from(command: &Command) -> Self {
        let mut child = Self::new(&command.program);
        child.args(&command.args).envs(&command.env);
        if let Some(folder) = &command.cwd {
            child.current_dir(folder);
        }
        child
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, process};

    use super::*;

    #[test]
    fn a_process_gets_all_of_its_command() {
        let command = Command::new("server")
            .with_args(vec!["stdio".to_owned()])
            .with_env(BTreeMap::from([("TOKEN".to_owned(), "x".to_owned())]))
            .with_cwd("folder");
        let child = process::Command::from(&command);
        assert_eq!(child.get_program(), "server");
        assert!(child.get_args().eq(["stdio"]));
        let added = (OsStr::new("TOKEN"), Some(OsStr::new("x")));
        assert!(child.get_envs().eq([added]));
        assert_eq!(child.get_current_dir(), Some(Path::new("folder")));
    }
}
