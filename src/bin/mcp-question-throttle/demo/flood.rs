//! The flooding server: an MCP server over stdio that asks, and asks, and asks.
//!
//! It writes raw JSON-RPC, since a well-behaved server library would wait for answers. Its tool
//! `flood` asks; its tool `report` tells what was asked and what came back.

use std::{
    fmt,
    io::{self, BufRead, Write},
    thread,
    time::Duration,
};

use mcp_question_throttle::question::QuestionKind;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::exit::{self, Exit};

/// How many questions a round has.
pub(crate) const ROUND: u32 = 5;
/// The tool that floods.
pub(crate) const FLOOD: &str = "flood";
/// The tool that tells what the server saw.
pub(crate) const REPORT: &str = "report";

/// How a server asks, by the protocol revision that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Era {
    /// By requests of its own, while a call of the client runs.
    #[value(name = "2025-11-25")]
    Requests,
    /// By rounds: a call's result says what is asked, and the client calls again with answers.
    #[value(name = "2026-07-28")]
    Rounds,
}

impl Era {
    /// The protocol revision.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "2025-11-25",
            Self::Rounds => "2026-07-28",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Era {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Flood a client with questions, over stdio
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The protocol revision, which says how to ask
    #[arg(long, value_enum)]
    era: Era,
    /// The kind of question
    #[arg(long)]
    kind: QuestionKind,
    /// How many questions to ask in all
    #[arg(long)]
    questions: u32,
    /// How many microseconds to wait before each question
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// What the server saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seen {
    /// Questions it asked.
    pub(crate) asked: u32,
    /// Answers it got.
    pub(crate) answers: u32,
    /// Errors it got in place of an answer.
    pub(crate) refusals: u32,
    /// The first of these errors, as it stood on the wire.
    pub(crate) first_refusal: Option<Value>,
}

/// Serves until the client closes the connection.
pub(crate) fn run(options: &Options) -> Exit {
    let mut server = Server {
        options,
        seen: Seen::default(),
        flooding: None,
    };
    for line in io::stdin().lock().lines() {
        let served = line.and_then(|line| match serde_json::from_str(&line) {
            Ok(message) => server.receive(&message),
            Err(error) => Err(error.into()),
        });
        if let Err(error) = served {
            return exit::fail(Exit::Internal, format_args!("flooding server: {error}"));
        }
    }
    Exit::Success
}

struct Server<'a> {
    options: &'a Options,
    seen: Seen,
    /// The call whose questions are still to be answered (in [`Era::Requests`]).
    flooding: Option<Value>,
}

impl Server<'_> {
    fn receive(&mut self, message: &Value) -> io::Result<()> {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            None => self.receive_reply(message),
            Some("initialize") => reply(id, &self.initialized()),
            Some("server/discover") => reply(id, &self.discovered()),
            Some("tools/list") => reply(id, &self.tools()),
            Some("tools/call") if params["name"] == FLOOD => self.flood(id, params),
            Some("tools/call") if params["name"] == REPORT => {
                reply(id, &self.completed(&json!(self.seen)))
            }
            Some(_) if id.is_null() => Ok(()),
            Some(method) => fail(id, method),
        }
    }

    fn flood(&mut self, id: &Value, params: &Value) -> io::Result<()> {
        match self.options.era {
            Era::Requests => {
                self.flooding = Some(id.clone());
                let first = self.seen.asked;
                self.seen.asked = self.options.questions;
                let questions = first..self.options.questions;
                let pause = self.pause();
                let kind = self.options.kind;
                // Asked from a thread of its own, so that answers are read meanwhile, and no
                // question waits for one.
                thread::spawn(move || {
                    for number in questions {
                        thread::sleep(pause);
                        if ask(kind, number).is_err() {
                            // The client is gone, and with it everyone who could be told.
                            return;
                        }
                    }
                });
                Ok(())
            }
            Era::Rounds => {
                let answers = params["inputResponses"].as_object();
                self.seen.answers += answers.map_or(0, |all| count(all.len()));
                let left = self.options.questions - self.seen.asked;
                if left == 0 {
                    return reply(id, &self.completed(&Value::Null));
                }
                let first = self.seen.asked;
                self.seen.asked += left.min(ROUND);
                thread::sleep(self.pause() * left.min(ROUND));
                let questions: serde_json::Map<_, _> = (first..self.seen.asked)
                    .map(|number| (format!("question-{number}"), question(self.options.kind)))
                    .collect();
                let round = json!({
                    "resultType": "input_required",
                    "inputRequests": questions,
                    "requestState": self.seen.asked.to_string(),
                });
                reply(id, &round)
            }
        }
    }

    /// A reply to a question that was sent as a request.
    fn receive_reply(&mut self, message: &Value) -> io::Result<()> {
        match message.get("error") {
            None => self.seen.answers += 1,
            Some(error) => {
                self.seen.refusals += 1;
                self.seen.first_refusal.get_or_insert_with(|| error.clone());
            }
        }
        if self.seen.answers + self.seen.refusals < self.options.questions {
            return Ok(());
        }
        match self.flooding.take() {
            Some(call) => reply(&call, &self.completed(&Value::Null)),
            None => Ok(()),
        }
    }

    const fn pause(&self) -> Duration {
        Duration::from_micros(self.options.pause_us)
    }

    fn initialized(&self) -> Value {
        json!({
            "protocolVersion": self.options.era,
            "capabilities": {"tools": {}},
            "serverInfo": server_info(),
        })
    }

    fn discovered(&self) -> Value {
        json!({
            "resultType": "complete",
            "supportedVersions": [self.options.era],
            "capabilities": {"tools": {}},
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        })
    }

    fn tools(&self) -> Value {
        let tool = |name, description| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
        let mut result = json!({"tools": [
            tool(FLOOD, "Asks as often as it can"),
            tool(REPORT, "Tells what was asked and what came back"),
        ]});
        if self.options.era == Era::Rounds {
            result["resultType"] = json!("complete");
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
        result
    }

    /// The result of a call.
    fn completed(&self, structured: &Value) -> Value {
        let mut result = json!({"content": []});
        if !structured.is_null() {
            result["structuredContent"] = structured.clone();
        }
        if self.options.era == Era::Rounds {
            result["resultType"] = json!("complete");
        }
        result
    }
}

fn server_info() -> Value {
    json!({"name": "flooding-server", "version": env!("CARGO_PKG_VERSION")})
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn question(kind: QuestionKind) -> Value {
    let params = match kind {
        QuestionKind::Sampling => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "Are we there yet?"}}],
            "maxTokens": 16,
        }),
        QuestionKind::Elicitation => json!({
            "message": "Are we there yet?",
            "requestedSchema": {
                "type": "object",
                "properties": {"yes": {"type": "boolean"}},
            },
        }),
    };
    json!({"method": kind.method(), "params": params})
}

fn ask(kind: QuestionKind, number: u32) -> io::Result<()> {
    let mut request = question(kind);
    request["jsonrpc"] = json!("2.0");
    request["id"] = json!(number);
    send(&request)
}

fn reply(id: &Value, result: &Value) -> io::Result<()> {
    send(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn fail(id: &Value, method: &str) -> io::Result<()> {
    let error = json!({"code": -32601, "message": format!("no method {method}")});
    send(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

/// Writes one line. The lock keeps the lines of both threads apart.
fn send(message: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}
