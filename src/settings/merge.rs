//! Puts file and environment together, through the `config` crate.
//!
//! `config` takes `true` for 1 in a plain integer field, names neither file nor line, and its own
//! environment source lower-cases keys. So the types here are strict ones, the text has been
//! checked before, and each variable is set under the exact name of its setting.

use std::collections::BTreeMap;

use config::{Config, ConfigError, File, FileFormat};
use serde::Deserialize;

use super::{
    StatusPage,
    error::SettingsError,
    keys::Scalar,
    server::{Command, Endpoint, ServerEntry},
};
use crate::limits::{ProtoOverrides, ProtoSettings, ServerName, Settings};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Document {
    proto: ProtoSettings,
    servers: BTreeMap<ServerName, Server>,
    status: StatusPage,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Server {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    muted: bool,
    proto: Option<ProtoOverrides>,
}

#[derive(Debug)]
pub(super) struct Merged {
    pub(super) settings: Settings,
    pub(super) servers: BTreeMap<ServerName, ServerEntry>,
    pub(super) status: StatusPage,
}

/// Reads a text that has been checked, and puts the variables above it.
pub(super) fn merge(
    text: &str,
    variables: &[(&Scalar, toml::Value)],
) -> Result<Merged, SettingsError> {
    let document = read(text, variables).map_err(|error| internal(&error))?;
    let mut settings = Settings::new(document.proto);
    let mut servers = BTreeMap::new();
    for (name, server) in document.servers {
        if let Some(overrides) = server.proto {
            settings = settings.with_server(name.clone(), overrides);
        }
        if server.muted {
            settings = settings.with_muted(name.clone());
        }
        let endpoint = match (server.command, server.url) {
            (Some(program), _) => {
                let command = Command::new(program).with_args(server.args);
                Some(Endpoint::Command(command.with_env(server.env)))
            }
            (None, url) => url.map(Endpoint::Url),
        };
        servers.insert(
            name,
            ServerEntry::new(endpoint).with_headers(server.headers),
        );
    }
    Ok(Merged {
        settings,
        servers,
        status: document.status,
    })
}

fn read(text: &str, variables: &[(&Scalar, toml::Value)]) -> Result<Document, ConfigError> {
    let mut builder = Config::builder().add_source(File::from_str(text, FileFormat::Toml));
    for (scalar, value) in variables {
        builder = match value {
            toml::Value::Integer(number) => builder.set_override(scalar.name, *number)?,
            other => builder.set_override(scalar.name, other.as_str())?,
        };
    }
    builder.build()?.try_deserialize()
}

/// Of the error no more than the key: its text may hold a value of a server's environment.
fn internal(error: &ConfigError) -> SettingsError {
    let key = match error {
        ConfigError::Type { key: Some(key), .. } | ConfigError::At { key: Some(key), .. } => key,
        _ => "an unknown key",
    };
    SettingsError::Internal(key.to_owned())
}
