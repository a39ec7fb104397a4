//! The servers of a client's own configuration, in the shape `{"mcpServers": {NAME: ...}}` that
//! clients share. Comments and trailing commas may stand in it, as VS Code has it.

use std::{collections::BTreeMap, env, ffi::OsString, fmt, fs, io, path::Path};

use serde::Deserialize;

use super::expand::{ExpandError, expand};
use crate::settings::{Command, Endpoint};

const EXPECTED: &str = "expected {\"mcpServers\": {NAME: {\"command\": string, \"args\": [string], \
                        \"env\": {name: string}}}}, or \"url\": string in place of a command";

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The servers of a file, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    file: String,
    servers: BTreeMap<String, Server>,
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
        let written = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let text = without_comments(written);
        let config: File = serde_json::from_slice(&text).map_err(|error| McpConfigError {
            file: file.to_owned(),
            kind: Kind::Invalid {
                line: error.line(),
                // Of a line of which nothing was read yet, it is 0.
                column: error.column().max(1),
                is_json: error.is_data(),
            },
        })?;
        Ok(Self {
            file: file.to_owned(),
            servers: config.mcp_servers,
        })
    }

    /// How a server is reached, with the variables of this process in place of `${VAR}`,
    /// `${VAR:-default}` and `${env:VAR}`; `None` if there is none of this name, or if it has
    /// neither a command nor a URL.
    ///
    /// # Errors
    ///
    /// [`McpConfigError`] if a variable is not set and has no default, if a value needs what its
    /// client alone knows, as `${input:...}`, or for an `envFile`, which is not read here.
    pub fn endpoint(&self, server: &str) -> Result<Option<Endpoint>, McpConfigError> {
        self.endpoint_with(server, |name| env::var_os(name))
    }

    /// The same, with the variables that `variable` knows.
    ///
    /// # Errors
    ///
    /// As [`endpoint`](Self::endpoint).
    pub fn endpoint_with(
        &self,
        server: &str,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Endpoint>, McpConfigError> {
        let Some(entry) = self.servers.get(server) else {
            return Ok(None);
        };
        entry.endpoint(&variable).map_err(|(key, fault)| {
            let (file, server) = (self.file.clone(), server.to_owned());
            let kind = Kind::Value { server, key, fault };
            McpConfigError { file, kind }
        })
    }

    /// The names of the servers, in byte order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }
}

/// A text with blanks in place of comments, and every line and column where it was. What turns out
/// to be none is left to whoever reads the text.
fn without_comments(written: &[u8]) -> Vec<u8> {
    let mut text = written.to_vec();
    let _ = json_strip_comments::strip_slice(&mut text);
    for (byte, written) in text.iter_mut().zip(written) {
        if *written == b'\n' {
            *byte = b'\n';
        }
    }
    text
}

/// What clients add to it is theirs.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers", alias = "servers")]
    mcp_servers: BTreeMap<String, Server>,
}

/// An entry, as it stands there. `Debug` shows nothing of it.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    #[serde(rename = "envFile")]
    env_file: Option<String>,
    url: Option<String>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    fn endpoint(
        &self,
        variable: &impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Endpoint>, (String, Fault)> {
        let value = |key: String, text: &str| {
            expand(text, variable).map_err(|error| (key, Fault::Expand(error)))
        };
        let Some(program) = &self.command else {
            let url = self.url.as_deref().map(|url| value("url".to_owned(), url));
            return Ok(url.transpose()?.map(Endpoint::Url));
        };
        if self.env_file.is_some() {
            return Err(("envFile".to_owned(), Fault::EnvFile));
        }
        let program = value("command".to_owned(), program)?;
        let args = self.args.iter().enumerate();
        let args = args.map(|(nth, arg)| value(format!("args[{nth}]"), arg));
        let env = self.env.iter().map(|(name, text)| {
            let text = value(format!("env.{name}"), text)?;
            Ok((name.clone(), text))
        });
        let mut command = Command::new(program)
            .with_args(args.collect::<Result<_, _>>()?)
            .with_env(env.collect::<Result<_, _>>()?);
        if let Some(folder) = &self.cwd {
            command = command.with_cwd(value("cwd".to_owned(), folder)?);
        }
        Ok(Some(Endpoint::Command(command)))
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
    Value {
        server: String,
        key: String,
        fault: Fault,
    },
}

/// What is wrong with a server's value.
#[derive(Debug)]
enum Fault {
    Expand(ExpandError),
    EnvFile,
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
            Kind::Value { server, key, fault } => {
                write!(f, "{file}: server {server:?}: {key}: ")?;
                match fault {
                    Fault::Expand(error) => error.fmt(f),
                    Fault::EnvFile => f.write_str(
                        "such a file is not read here; give what it holds in env, or in the \
                         environment of this command",
                    ),
                }
            }
        }
    }
}

impl std::error::Error for McpConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            // The text says what it is, so what caused it comes next.
            Kind::Unreadable(error) => error.source(),
            Kind::Invalid { .. } | Kind::Value { .. } => None,
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
        let endpoint = |server| config.endpoint(server).unwrap();
        let Some(Endpoint::Command(command)) = endpoint("github") else {
            panic!("{config:?}");
        };
        assert_eq!((command.program(), command.args().len()), ("npx", 2));
        assert_eq!(command.env()["TOKEN"], "t");
        assert!(matches!(endpoint("remote"), Some(Endpoint::Url(_))));
        assert_eq!(endpoint("odd"), None);
        assert_eq!(endpoint("GitHub"), None, "names are exact");
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

    /// Clients replace variables before they start a server, so a server that is started from
    /// their file got the text `${TOKEN}` in place of its token.
    #[test]
    fn variables_are_replaced_in_all_that_reaches_the_server() {
        let text = br#"{"mcpServers": {
            "github": {
                "command": "${RUNNER:-npx}", "args": ["--dir=${env:PLACE}"],
                "env": {"TOKEN": "${SECRET}"}, "cwd": "${PLACE}/work"
            },
            "remote": {"url": "https://example.com/${PLACE}"}
        }}"#;
        let config = McpConfig::parse("mcp.json", text).unwrap();
        let variable = |name: &str| match name {
            "PLACE" => Some("here".into()),
            "SECRET" => Some("hunter2".into()),
            _ => None,
        };
        let endpoint = |server| config.endpoint_with(server, variable).unwrap().unwrap();
        let Endpoint::Command(command) = endpoint("github") else {
            panic!("{config:?}");
        };
        assert_eq!(
            (command.program(), command.args()),
            ("npx", &["--dir=here".to_owned()][..])
        );
        assert_eq!(command.env()["TOKEN"], "hunter2");
        assert_eq!(command.cwd(), Some(Path::new("here/work")));
        assert_eq!(
            endpoint("remote"),
            Endpoint::Url("https://example.com/here".to_owned())
        );
        assert!(!format!("{config:?}{:?}", endpoint("github")).contains("hunter2"));
    }

    #[test]
    fn what_the_client_alone_could_fill_in_is_an_error_that_says_where() {
        let error = |entry: &str| {
            let text = format!("{{\"mcpServers\": {{\"github\": {entry}, \"fine\": {{}}}}}}");
            let config = McpConfig::parse("mcp.json", text.as_bytes()).unwrap();
            assert!(
                config.endpoint_with("fine", |_| None).is_ok(),
                "another's is no matter"
            );
            let error = config.endpoint_with("github", |_| None).unwrap_err();
            let error = error.to_string();
            assert!(
                error.starts_with("mcp.json: server \"github\": "),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
            error
        };
        let unset = error(r#"{"command": "x", "env": {"TOKEN": "hunter2 ${GITHUB_PAT}"}}"#);
        assert!(
            unset.contains("env.TOKEN: environment variable GITHUB_PAT is not set"),
            "{unset}"
        );
        let input = error(r#"{"command": "x", "args": ["hunter2", "${input:token}"]}"#);
        assert!(
            input.contains("args[1]: ${input:token} is asked for by VS Code"),
            "{input}"
        );
        let file = error(r#"{"command": "x", "envFile": "hunter2"}"#);
        assert!(
            file.contains("envFile: such a file is not read here"),
            "{file}"
        );
        let url = error(r#"{"url": "https://${HOST}/"}"#);
        assert!(url.contains("url: environment variable HOST"), "{url}");
    }

    /// VS Code's own file has both, and so may every file of settings that it edits.
    #[test]
    fn comments_and_trailing_commas_are_no_matter() {
        let text = b"\xEF\xBB\xBF{ // mine\n\"servers\": {\n/* \"old\": {},\n */\"github\": {\r\n\
            \"command\": \"npx\", \"args\": [\"http://a/*b*/\", \"c\",],\n}, }, // last\n}\n// end";
        let config = McpConfig::parse("mcp.json", text).unwrap();
        let Some(Endpoint::Command(command)) = config.endpoint("github").unwrap() else {
            panic!("{config:?}");
        };
        assert_eq!(command.args(), ["http://a/*b*/", "c"]);
        assert_eq!(config.names().collect::<Vec<_>>(), ["github"]);

        for (text, place) in [
            ("{\n/* a\n */ \"servers\": {\"a\": 1}}", "mcp.json:3:"),
            ("{ // a\n\"servers\": {},, }", "mcp.json:2:"),
            ("{\n \"servers\" / {}}", "mcp.json:2:"),
            ("{\"servers\": {} /* no end", "mcp.json:1:"),
        ] {
            let error = McpConfig::parse("mcp.json", text.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(place), "{text}: {error}");
        }
    }

    /// serde says column 0 of a line of which it has read nothing.
    #[test]
    fn columns_begin_at_one() {
        let error = McpConfig::parse("mcp.json", b"{\"mcpServers\": {\n").unwrap_err();
        assert!(error.to_string().starts_with("mcp.json:2:1: "), "{error}");
    }
}
