//! What is wrong with the servers of the settings.

use std::fmt;

use super::upstream::Causes;
use crate::{
    limits::ServerName,
    settings::{Origin, header_key, key_of},
};

/// Why servers cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum RelayError {
    /// No server of the settings has a URL.
    NoServer,
    /// The name is that of a page of the relay's own.
    #[non_exhaustive]
    Reserved {
        /// The name.
        server: ServerName,
        /// Where its URL stands.
        at: Origin,
    },
    /// A URL that cannot be requested.
    #[non_exhaustive]
    Url {
        /// The server's name.
        server: ServerName,
        /// Where its URL stands.
        at: Origin,
    },
    /// A URL that leads to the address at which the relay listens: a request would go round.
    #[non_exhaustive]
    Itself {
        /// The server's name.
        server: ServerName,
        /// Where its URL stands.
        at: Origin,
    },
    /// A header whose variables give no value.
    #[non_exhaustive]
    Header {
        /// The server's name.
        server: ServerName,
        /// The header's name.
        name: String,
        /// Where its value stands.
        at: Origin,
        /// What is wrong with it. No value is in it.
        reason: String,
    },
    /// TLS cannot be set up for an https URL, for want of root certificates for instance.
    Client(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer => f.write_str("no server has a url: set [servers.NAME] url"),
            Self::Reserved { server, at } => write!(
                f,
                "{}{}: the relay has a page of this name; name the server otherwise",
                Place(at),
                key_of(server)
            ),
            Self::Url { server, at } => write!(
                f,
                "{}{}.url: no URL that can be requested",
                Place(at),
                key_of(server)
            ),
            Self::Itself { server, at } => write!(
                f,
                "{}{}.url: leads back to this relay; give the server's own URL, or listen elsewhere",
                Place(at),
                key_of(server)
            ),
            Self::Header {
                server,
                name,
                at,
                reason,
            } => write!(
                f,
                "{}{}.{}: {reason}",
                Place(at),
                key_of(server),
                header_key(name)
            ),
            Self::Client(error) => write!(f, "cannot set up TLS: {}", Causes(&**error)),
        }
    }
}

/// The text has all causes in it, so there is no source beside it.
impl std::error::Error for RelayError {}

/// A place as errors of the settings name it.
struct Place<'a>(&'a Origin);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Origin::File { file, line, column } => write!(f, "{file}:{line}:{column}: "),
            _ => Ok(()),
        }
    }
}
