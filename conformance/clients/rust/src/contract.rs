//! What the runner tells a client, and what the client tells the runner.

use std::{
    collections::BTreeMap,
    env,
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};

/// The error by which a server asks a person to open URLs first (2025-11-25).
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// What the environment and the last argument say.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The servers to connect to, one after another.
    pub servers: Vec<Server>,
    /// The revision of the protocol to speak.
    pub revision: Revision,
    /// The file with the limits to hold; the client's own defaults without it.
    pub limits: Option<PathBuf>,
    /// How long a handler takes for an answer.
    pub answer_delay: Duration,
    /// Arguments by the name of a tool, where a scenario of the official suite wants special ones.
    pub arguments: BTreeMap<String, Map<String, Value>>,
    log: Option<Arc<File>>,
}

/// A configured server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name in the configuration.
    pub name: String,
    /// How it is reached.
    pub address: Address,
}

/// How a server is reached.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Address {
    /// By Streamable HTTP.
    Url(String),
    /// Over the standard input and output of this program, with its arguments.
    Command(Vec<String>),
}

/// The two ways in which the protocol begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// 2025-11-25: `initialize`.
    Initialize,
    /// 2026-07-28: `server/discover`.
    Discover,
}

/// Writes down that a handler was entered.
#[derive(Clone, Debug)]
pub struct Log {
    server: String,
    file: Option<Arc<File>>,
}

impl Contract {
    /// Reads the environment and the arguments of this process.
    ///
    /// # Errors
    ///
    /// Says which variable is missing or cannot be understood.
    pub fn of_process() -> Result<Self, String> {
        let log = match env::var_os("QUESTION_CONFORMANCE_LOG") {
            Some(path) => {
                let file = OpenOptions::new().create(true).append(true).open(&path);
                let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
                Some(Arc::new(file))
            }
            None => None,
        };
        Ok(Self {
            servers: servers()?,
            revision: match text("MCP_CONFORMANCE_PROTOCOL_VERSION")?.as_deref() {
                Some("2026-07-28") => Revision::Discover,
                _ => Revision::Initialize,
            },
            limits: env::var_os("QUESTION_CONFORMANCE_LIMITS").map(PathBuf::from),
            answer_delay: Duration::from_millis(
                match text("QUESTION_CONFORMANCE_ANSWER_DELAY_MS")? {
                    Some(delay) => delay.parse().map_err(|_| {
                        format!(
                            "QUESTION_CONFORMANCE_ANSWER_DELAY_MS: {delay:?} is no whole number"
                        )
                    })?,
                    None => 0,
                },
            ),
            arguments: arguments()?,
            log,
        })
    }

    /// The log of the handlers of one server.
    #[must_use]
    pub fn log(&self, server: &str) -> Log {
        Log {
            server: server.to_owned(),
            file: self.log.clone(),
        }
    }
}

impl Log {
    /// A handler was entered with a request or notification of this method.
    pub fn entered(&self, method: &str) {
        if let Some(file) = &self.file {
            // One write, so that lines of handlers that run side by side stay whole.
            let line = format!("{}\t{method}\n", self.server);
            if let Err(error) = (&**file).write_all(line.as_bytes()) {
                eprintln!("QUESTION_CONFORMANCE_LOG: {error}");
            }
        }
    }

    /// A call failed with this error. If it asks a person to open URLs, a client shows them, so
    /// that the call can succeed at the next try; no library that is used here does it by itself.
    pub fn urls_shown(&self, code: i32, data: Option<&Value>) {
        if code != URL_ELICITATION_REQUIRED {
            return;
        }
        let urls = data.and_then(|data| data["elicitations"].as_array());
        for _ in urls.into_iter().flatten() {
            self.entered("elicitation/create");
        }
    }
}

fn servers() -> Result<Vec<Server>, String> {
    if let Some(json) = text("MCP_CONFORMANCE_SERVERS")? {
        let servers: BTreeMap<String, Address> = serde_json::from_str(&json)
            .map_err(|error| format!("MCP_CONFORMANCE_SERVERS: {error}"))?;
        let servers = servers.into_iter();
        return Ok(servers
            .map(|(name, address)| Server { name, address })
            .collect());
    }
    let last = env::args().skip(1).last();
    let address = match last {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => Address::Url(url),
        Some(line) => Address::Command(
            shlex::split(&line).ok_or_else(|| format!("{line:?} is no command line"))?,
        ),
        None => {
            return Err(
                "no server: neither MCP_CONFORMANCE_SERVERS nor a last argument".to_owned(),
            );
        }
    };
    Ok(vec![Server {
        name: "server".to_owned(),
        address,
    }])
}

/// The calls that the official suite names in the context of a scenario.
fn arguments() -> Result<BTreeMap<String, Map<String, Value>>, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Context {
        #[serde(default)]
        tool_calls: Vec<ToolCall>,
    }
    #[derive(Deserialize)]
    struct ToolCall {
        name: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    }
    let Some(json) = text("MCP_CONFORMANCE_CONTEXT")? else {
        return Ok(BTreeMap::new());
    };
    let context: Context =
        serde_json::from_str(&json).map_err(|error| format!("MCP_CONFORMANCE_CONTEXT: {error}"))?;
    let calls = context.tool_calls.into_iter();
    Ok(calls.map(|call| (call.name, call.arguments)).collect())
}

fn text(name: &str) -> Result<Option<String>, String> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
