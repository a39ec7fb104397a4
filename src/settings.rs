//! Settings from a TOML file and from environment variables, checked before they count.
//!
//! The text of the file is checked with its positions first, so that an error names file, line,
//! key, what was found and what is valid; all errors are reported together. Only then are file
//! and environment put together. Values of `proto.*` are printed; of a server's command,
//! arguments, environment and URL only the key is, since they may hold secrets.
//!
//! An environment variable changes one setting of `[proto]`; a server's own table still stands
//! above it. Servers come from the file only. A variable that begins with
//! `MCP_QUESTION_THROTTLE_` and is not known is an error, so that a typing mistake never leaves a
//! limit at its default.
//!
//! ```
//! use mcp_question_throttle::{limits::ServerName, settings::{self, Environment}};
//!
//! let text = r#"
//!     [proto]
//!     samplingPerMinute = 30
//!
//!     [servers.github.proto]
//!     samplingPerMinute = 5
//! "#;
//! let loaded = settings::parse("settings.toml", text, &Environment::empty())?;
//! let github = ServerName::new("github")?;
//! assert_eq!(loaded.settings().for_server(&github).sampling_per_minute.get(), 5);
//!
//! let error = settings::parse("settings.toml", "[proto]\nsamplingPerMinute = true", &Environment::empty())
//!     .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "settings.toml:2:21: proto.samplingPerMinute: expected a whole number from 0 to 1000000 \
//!      (0 turns this limit off), found true",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod duplicate;
mod environment;
mod error;
mod keys;
mod merge;
mod origin;
mod server;
mod warning;

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

use crate::limits::{ProtoSettings, ServerName, Settings};

pub use self::{
    environment::{Environment, LOG_VARIABLE},
    error::{Fault, Problem, SettingsError},
    origin::Origin,
    server::{Command, Endpoint, ServerEntry},
    warning::{Level, Warning},
};
use self::{keys::SCALARS, origin::Origins};

/// Reads the settings file at `path`, and the environment of this process.
///
/// ```no_run
/// use mcp_question_throttle::{Pool, settings::{self, Endpoint}};
///
/// let loaded = settings::load("settings.toml")?;
/// for warning in loaded.warnings() {
///     eprintln!("{}: {warning}", warning.level());
/// }
/// let pool = Pool::new(loaded.settings().clone());
/// for (name, server) in loaded.servers() {
///     let throttled = pool.wrap(name.as_str(), ())?; // your handler in the place of `()`
///     match server.endpoint() {
///         Some(Endpoint::Command(command)) => {
///             let command = std::process::Command::from(command);
///             // For rmcp's `TokioChildProcess`: `tokio::process::Command::from(command)`.
/// #           drop(command);
///         }
///         Some(Endpoint::Url(url)) => {
///             // For rmcp's `StreamableHttpClientTransport`, with `server.headers()`.
/// #           let _ = url;
///         }
///         _ => {} // the file names its limits alone
///     }
/// #   drop(throttled);
/// }
/// // Read it again at any time: `pool.update(settings::load("settings.toml")?.settings())`.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`SettingsError::Unreadable`] if there is no such file or it cannot be read, and
/// [`SettingsError::Invalid`] with everything that is wrong in the file or in the environment.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded, SettingsError> {
    load_with(path, &Environment::of_process())
}

/// Reads the settings file at `path`, with the environment variables that are given.
///
/// # Errors
///
/// As [`load`].
pub fn load_with(
    path: impl AsRef<Path>,
    environment: &Environment,
) -> Result<Loaded, SettingsError> {
    let path = path.as_ref();
    let bytes = fs::read(path).map_err(|error| SettingsError::unreadable(path, error))?;
    let name = path.display().to_string();
    match String::from_utf8(bytes) {
        Ok(text) => parse(&name, &text, environment),
        Err(error) => Err(SettingsError::not_utf8(&name, &error)),
    }
}

/// The settings without a file: the defaults, and what environment variables change of them.
///
/// # Errors
///
/// [`SettingsError::Invalid`] with everything that is wrong in the environment.
pub fn without_file(environment: &Environment) -> Result<Loaded, SettingsError> {
    parse("", "", environment)
}

/// Reads the settings from the text of a file; `name` is what errors call it.
///
/// # Errors
///
/// [`SettingsError::Invalid`] with everything that is wrong in the text or in the environment.
pub fn parse(name: &str, text: &str, environment: &Environment) -> Result<Loaded, SettingsError> {
    let file = check::file(name, text);
    let variables = environment.check();
    let problems: Vec<_> = file
        .problems
        .into_iter()
        .chain(variables.problems)
        .collect();
    if !problems.is_empty() {
        return Err(SettingsError::Invalid(problems));
    }
    let merged = merge::merge(text, &variables.values)?;
    let mut origins = file.origins;
    for (scalar, _) in &variables.values {
        origins.set_variable(scalar);
    }
    Ok(Loaded {
        settings: merged.settings,
        servers: merged.servers,
        status: merged.status,
        origins,
    })
}

/// Every setting that an environment variable can give, with the variable, in the order of the
/// settings table: `("proto.askTTL", "MCP_QUESTION_THROTTLE_PROTO_ASK_TTL")`.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCALARS.iter().map(|scalar| (scalar.name, scalar.variable))
}

/// The full name of a server's table.
#[cfg(feature = "serve")]
pub(crate) fn key_of(server: &ServerName) -> String {
    keys::join(keys::SERVERS, server.as_str())
}

/// The name of a header, below its server's table.
#[cfg(feature = "serve")]
pub(crate) fn header_key(name: &str) -> String {
    keys::join(keys::HEADERS, name)
}

/// Valid settings, the servers of the file, and where each setting came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    settings: Settings,
    servers: BTreeMap<ServerName, ServerEntry>,
    status: StatusPage,
    origins: Origins,
}

/// The table `[status]`: the status page of the HTTP relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct StatusPage {
    /// Whether whoever sees the page can mute servers and let them ask again. Default false.
    pub mute_button: bool,
}

impl StatusPage {
    /// The full name of [`mute_button`](Self::mute_button).
    pub const MUTE_BUTTON: &str = "status.muteButton";
}

impl Loaded {
    /// The limits, for a pool or a throttle.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The limits by value.
    #[must_use]
    pub fn into_settings(self) -> Settings {
        self.settings
    }

    /// The configured servers, in byte order of their names, which are kept as written.
    #[must_use]
    pub const fn servers(&self) -> &BTreeMap<ServerName, ServerEntry> {
        &self.servers
    }

    /// The settings of the status page.
    #[must_use]
    pub const fn status_page(&self) -> &StatusPage {
        &self.status
    }

    /// Where a setting in force for `server` came from; without a server, for all servers that
    /// have no table of their own. `setting` is its full name, as `proto.askTTL`.
    ///
    /// `None` if there is no such setting.
    #[must_use]
    pub fn origin(&self, server: Option<&ServerName>, setting: &str) -> Option<&Origin> {
        self.origins.get(server, setting)
    }

    /// Every setting in force for `server`, in the order of the settings table, vendor methods
    /// last; without a server, for all servers that have no table of their own.
    #[must_use]
    pub fn in_force(&self, server: Option<&ServerName>) -> Vec<InForce> {
        let proto = self.proto_of(server);
        let values = serde_json::to_value(&proto).unwrap_or_default();
        let setting = |name: String, value| {
            let origin = self.origins.get(server, &name).cloned();
            InForce {
                origin: origin.unwrap_or(Origin::Default),
                name,
                value,
            }
        };
        let scalars = SCALARS
            .iter()
            .map(|scalar| setting(scalar.name.to_owned(), values[scalar.key()].clone()));
        let methods = proto
            .questions
            .iter()
            .map(|(method, kind)| setting(keys::question(method), kind.as_str().into()));
        scalars.chain(methods).collect()
    }

    /// What is valid, yet probably not what the operator wants.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        warning::find(self)
    }

    fn proto_of(&self, server: Option<&ServerName>) -> ProtoSettings {
        match server {
            Some(server) => self.settings.for_server(server),
            None => self.settings.proto().clone(),
        }
    }
}

/// One setting in force.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InForce {
    /// Its full name, as `proto.askTTL` or `proto.questions."openai/form"`.
    pub name: String,
    /// Its value, a number or a text.
    pub value: serde_json::Value,
    /// Where it came from.
    pub origin: Origin,
}
