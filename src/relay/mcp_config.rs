//! The servers of a client's own configuration, in the shape `{"mcpServers": {NAME: ...}}` that
//! clients share.

use std::{collections::BTreeMap, fmt, fs, io, path::Path};

use serde::Deserialize;

use crate::settings::{Command, Endpoint};

const EXPECTED: &str = "expected {\"mcpServers\": {NAME: {\"command\": string, \"args\": [string], \
                        \"env\": {name: string}}}}, or \"url\": string in place of a command";

/// The servers of a file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    servers: BTreeMap<String, Option<Endpoint>>,
}

impl McpConfig {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`McpConfigError`], with the line; never with a value, since most may be secrets.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, McpConfigError> {
        let file = path.as_ref().display().to_string();
        match fs::read(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(McpConfigError {
                file,
                kind: Kind::Unreadable(error),
            }),
        }
    }

    /// Reads the text of a file; `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn parse(file: &str, text: &[u8]) -> Result<Self, McpConfigError> {
        let config: File = serde_json::from_slice(text).map_err(|error| McpConfigError {
            file: file.to_owned(),
            kind: Kind::Invalid {
                line: error.line(),
                column: error.column(),
                is_json: error.is_data(),
            },
        })?;
        let servers = config
            .mcp_servers
            .into_iter()
            .map(|(name, server)| (name, server.into_endpoint()))
            .collect();
        Ok(Self { servers })
    }

    /// How a server is reached; `None` if there is none of this name, or if it has neither a
    /// command nor a URL.
    #[must_use]
    pub fn endpoint(&self, server: &str) -> Option<&Endpoint> {
        self.servers.get(server)?.as_ref()
    }

    /// The names of the servers, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }
}

/// What clients add to it is theirs.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers", alias = "servers")]
    mcp_servers: BTreeMap<String, Server>,
}

#[derive(Deserialize)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    url: Option<String>,
}

impl Server {
    fn into_endpoint(self) -> Option<Endpoint> {
        let command = self.command.map(|program| {
            Command::new(program)
                .with_args(self.args)
                .with_env(self.env)
        });
        command
            .map(Endpoint::Command)
            .or_else(|| self.url.map(Endpoint::Url))
    }
}

/// A client's configuration that cannot be used.
#[derive(Debug)]
pub struct McpConfigError {
    file: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Unreadable(io::Error),
    Invalid {
        line: usize,
        column: usize,
        is_json: bool,
    },
}

impl McpConfigError {
    /// Whether the file could not be read at all.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self.kind, Kind::Unreadable(_))
    }
}

impl fmt::Display for McpConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, kind } = self;
        match kind {
            Kind::Unreadable(error) => write!(f, "cannot read {file}: {error}"),
            Kind::Invalid {
                line,
                column,
                is_json,
            } => {
                let found = if *is_json {
                    "something else"
                } else {
                    "no JSON"
                };
                write!(f, "{file}:{line}:{column}: {EXPECTED}; found {found}")
            }
        }
    }
}

impl std::error::Error for McpConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Unreadable(error) => Some(error),
            Kind::Invalid { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_that_clients_share_is_read() {
        let text = br#"{
            "theme": "dark",
            "mcpServers": {
                "github": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "t"}, "disabled": false},
                "remote": {"type": "http", "url": "https://example.com/mcp"},
                "odd": {}
            }
        }"#;
        let config = McpConfig::parse("mcp.json", text).unwrap();
        let Some(Endpoint::Command(command)) = config.endpoint("github") else {
            panic!("{config:?}");
        };
        assert_eq!((command.program(), command.args().len()), ("npx", 2));
        assert_eq!(command.env()["TOKEN"], "t");
        assert!(matches!(config.endpoint("remote"), Some(Endpoint::Url(_))));
        assert_eq!(config.endpoint("odd"), None);
        assert_eq!(config.endpoint("GitHub"), None, "names are exact");
        assert_eq!(
            config.names().collect::<Vec<_>>(),
            ["github", "odd", "remote"]
        );
    }

    #[test]
    fn errors_name_the_line_and_no_value() {
        let error = |text: &str| {
            McpConfig::parse("mcp.json", text.as_bytes())
                .unwrap_err()
                .to_string()
        };
        let wrong =
            error("{\"mcpServers\": {\n\"a\": {\"command\": \"x\",\n\"args\": \"hunter2\"}}}");
        assert!(wrong.starts_with("mcp.json:3:"), "{wrong}");
        assert!(wrong.contains("expected {\"mcpServers\""), "{wrong}");
        assert!(!wrong.contains("hunter2"), "{wrong}");
        assert!(error("{\n\"mcpServers\": {,").starts_with("mcp.json:2:"));
        assert!(error("{}").ends_with("found something else"));
    }
}
