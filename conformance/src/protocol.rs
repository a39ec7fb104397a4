//! The words of the protocol and of the throttle that scenarios, checks and reports share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A protocol revision that scenarios are played in.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
pub(crate) enum Revision {
    /// Servers ask by requests of their own.
    #[value(name = "2025-11-25")]
    #[serde(rename = "2025-11-25")]
    Requests,
    /// Servers ask by rounds: a call's result says what is asked.
    #[value(name = "2026-07-28")]
    #[serde(rename = "2026-07-28")]
    Rounds,
}

impl Revision {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "2025-11-25",
            Self::Rounds => "2026-07-28",
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a client reaches its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// It starts them, and writes to their standard input.
    Stdio,
    /// Streamable HTTP.
    Http,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::Stdio, Self::Http];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// What a question claims: a model, or a person's attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Sampling,
    Elicitation,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sampling, Self::Elicitation];

    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation => "elicitation/create",
        }
    }

    /// The kind of a method, by its name alone.
    pub(crate) fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The capability by which a client declares that it answers this kind.
    pub(crate) const fn capability(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.capability())
    }
}

/// What a window belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scope {
    /// A configured server, over all its sessions.
    Server,
    /// One session.
    Session,
}

impl Scope {
    pub(crate) const ALL: [Self; 2] = [Self::Server, Self::Session];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Session => "session",
        }
    }
}
