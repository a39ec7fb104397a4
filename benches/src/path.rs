//! The whole path of a question, from the bytes of the server to the bytes of the reply: bare
//! rmcp beside the wrapper, and beside the wrapper with the shield.
//!
//! One thread, an in-memory pipe, and a server that only writes lines made beforehand and counts
//! the lines it gets: nearly all that is measured is the client's.

#![expect(deprecated, reason = "rmcp marks sampling so, which servers still ask")]

use std::{
    any::Any,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_question_throttle::{
    Throttled,
    limits::{Invalid, Limit, ProtoSettings},
};
use rmcp::{
    ClientHandler, ServiceExt,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, ErrorData, Implementation,
        SamplingMessage,
    },
    service::{RequestContext, RoleClient},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// How many questions are written before their replies are read.
const BURST: usize = 32;
/// How many questions of the deaf server beside it are refused and never read.
const UNREAD: usize = 5_000;
/// What no run here asks.
const NO_LIMIT_MET: u32 = 1_000_000;

/// What stands between a server and the handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// Nothing: the control.
    Bare,
    Wrapper,
    Shield,
}

/// What becomes of the questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// All but the first are refused.
    Refused,
}

/// Asks `count` questions, and gives back how many replies were as the scenario says: `path`,
/// what guards the handler, `answers` or `refuses`, what is asked, and `beside` if all that is
/// done while another server floods and never reads.
pub(crate) fn run(scenario: &str, count: usize) -> Result<usize, Box<dyn Error>> {
    let words: Vec<_> = scenario.split(' ').collect();
    let (guard, fate, word, beside) = match words[..] {
        [_, guard, fate, word] => (guard, fate, word, false),
        [_, guard, fate, word, "beside"] => (guard, fate, word, true),
        _ => return Err(format!("no scenario {scenario:?}").into()),
    };
    let (guard, fate, question) = (guard_of(guard)?, fate_of(fate)?, Question::of(word)?);
    let limit = match fate {
        Fate::Answered => NO_LIMIT_MET,
        Fate::Refused => 1,
    };
    runtime()?.block_on(async {
        let _deaf = if beside {
            Some(deaf(UNREAD).await?)
        } else {
            None
        };
        ask(guard, fate, limit, question, count).await
    })
}

/// How much resident memory grows while a server writes up to `count` questions and reads nothing.
pub(crate) fn resident_growth(count: usize) -> Result<usize, Box<dyn Error>> {
    runtime()?.block_on(async {
        let before = crate::decide::resident()?;
        let (_running, _server, written) = deaf(count).await?;
        // Far more than the pipe and the transport hold by themselves.
        if written < 16_384.min(count) {
            return Err(format!("the server was stopped after {written}").into());
        }
        Ok(crate::decide::resident()?.saturating_sub(before))
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
}

/// A server that writes up to `count` questions and reads nothing. It is given back, with how
/// many it has written, when nothing more goes through.
async fn deaf(count: usize) -> Result<(Box<dyn Any>, DuplexStream, usize), Box<dyn Error>> {
    let question = Question::of("sampling")?;
    let handler = Person {
        asked: Arc::default(),
        answer: question.answer.clone(),
    };
    let (running, mut server) = connect(Guard::Shield, handler, 1).await?;
    let mut written = 0;
    while written < count {
        let line = question.line(written);
        // The client runs in this very thread: what it can take, it has taken long before.
        let write = server.write_all(line.as_bytes());
        if tokio::time::timeout(Duration::from_secs(1), write)
            .await
            .is_err()
        {
            break;
        }
        written += 1;
    }
    Ok((running, server, written))
}

fn guard_of(word: &str) -> Result<Guard, Box<dyn Error>> {
    Ok(match word {
        "bare" => Guard::Bare,
        "wrapper" => Guard::Wrapper,
        "shield" => Guard::Shield,
        other => return Err(format!("no guard {other:?}").into()),
    })
}

fn fate_of(word: &str) -> Result<Fate, Box<dyn Error>> {
    Ok(match word {
        "answers" => Fate::Answered,
        "refuses" => Fate::Refused,
        other => return Err(format!("no fate {other:?}").into()),
    })
}

/// What is asked, and what a person answers.
struct Question {
    method: &'static str,
    params: Value,
    answer: Value,
}

impl Question {
    fn of(word: &str) -> Result<Self, Box<dyn Error>> {
        let text = json!({"type": "string"});
        Ok(match word {
            "sampling" => Self {
                method: "sampling/createMessage",
                params: json!({
                    "messages": [
                        {"role": "user", "content": {"type": "text", "text": "What is 2 + 2?"}},
                    ],
                    "maxTokens": 100,
                }),
                answer: json!("4"),
            },
            "field" => Self::form(json!({"name": text}), json!({"name": "Ada"})),
            "form" => Self::form(
                json!({
                    "name": text, "email": text, "street": text,
                    "city": text, "country": text, "phone": text,
                }),
                json!({
                    "name": "Ada", "email": "ada@example.org", "street": "1 High Street",
                    "city": "London", "country": "England", "phone": "555 0100",
                }),
            ),
            // rmcp tries one kind of field after the other, which takes most of the time here.
            "mixed" => Self::form(
                json!({
                    "name": {"type": "string", "title": "Name", "minLength": 1},
                    "email": {"type": "string", "format": "email"},
                    "age": {"type": "integer", "minimum": 0, "maximum": 150},
                    "share": {"type": "number", "minimum": 0.0, "maximum": 1.0},
                    "news": {"type": "boolean", "default": false},
                    "plan": {"type": "string", "enum": ["free", "team", "company"]},
                }),
                json!({
                    "name": "Ada", "email": "ada@example.org", "age": 36,
                    "share": 0.5, "news": true, "plan": "team",
                }),
            ),
            other => return Err(format!("no question {other:?}").into()),
        })
    }

    fn line(&self, id: usize) -> String {
        let Self { method, params, .. } = self;
        let question = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        format!("{question}\n")
    }

    fn form(properties: Value, answer: Value) -> Self {
        let names: Vec<_> = properties
            .as_object()
            .into_iter()
            .flat_map(|properties| properties.keys().cloned())
            .collect();
        Self {
            method: "elicitation/create",
            params: json!({
                "message": "Please fill in this form.",
                "requestedSchema": {"type": "object", "properties": properties, "required": names},
            }),
            answer,
        }
    }
}

fn limits(limit: u32) -> Result<ProtoSettings, Invalid> {
    let limit = Limit::new(limit)?;
    Ok(ProtoSettings::default()
        .with_sampling_per_minute(limit)
        .with_sampling_session_per_minute(limit)
        .with_elicitation_per_minute(limit)
        .with_elicitation_session_per_minute(limit))
}

/// A client, held so that its connection lasts, and its server's end of the pipe.
async fn connect(
    guard: Guard,
    handler: Person,
    limit: u32,
) -> Result<(Box<dyn Any>, DuplexStream), Box<dyn Error>> {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let serve = async {
        let running: Box<dyn Any> = match guard {
            Guard::Bare => Box::new(handler.serve(client).await?),
            Guard::Wrapper => {
                let throttled = Throttled::new(handler, limits(limit)?);
                Box::new(throttled.serve(client).await?)
            }
            Guard::Shield => {
                let throttled = Throttled::new(handler, limits(limit)?);
                let shield = throttled.shield(client);
                Box::new(throttled.serve(shield).await?)
            }
        };
        Ok::<_, Box<dyn Error>>(running)
    };
    let (running, greeted) = tokio::join!(serve, greet(&mut server));
    greeted?;
    Ok((running?, server))
}

async fn ask(
    guard: Guard,
    fate: Fate,
    limit: u32,
    question: Question,
    count: usize,
) -> Result<usize, Box<dyn Error>> {
    let asked = Arc::<AtomicUsize>::default();
    let handler = Person {
        asked: Arc::clone(&asked),
        answer: question.answer.clone(),
    };
    let (_running, mut server) = connect(guard, handler, limit).await?;
    // The first one opens the windows, and shows that all is as it seems.
    server.write_all(question.line(0).as_bytes()).await?;
    let first = replies(&mut server, 1).await?;
    if !String::from_utf8_lossy(&first).contains("result") {
        return Err("the first question was not answered".into());
    }
    let lines: Vec<_> = (1..=BURST).map(|id| question.line(id)).collect();
    let mut sent = 0;
    let mut last = Vec::new();
    while sent < count {
        let burst = BURST.min(count - sent);
        server.write_all(lines[..burst].concat().as_bytes()).await?;
        last = replies(&mut server, burst).await?;
        sent += burst;
    }
    let is_refusal = String::from_utf8_lossy(&last).contains(r#""cause":"limit_exceeded""#);
    if is_refusal != (fate == Fate::Refused) {
        return Err("the last reply is not as the scenario says".into());
    }
    let asked = asked.load(Ordering::Relaxed) - 1;
    Ok(match fate {
        Fate::Answered => asked,
        Fate::Refused => sent - asked,
    })
}

/// The handshake of 2025-11-25.
async fn greet(server: &mut DuplexStream) -> Result<(), Box<dyn Error>> {
    let initialize: Value = serde_json::from_slice(&replies(server, 1).await?)?;
    let answer = json!({"jsonrpc": "2.0", "id": initialize["id"], "result": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "serverInfo": {"name": "bench", "version": "1.0.0"},
    }});
    server.write_all(format!("{answer}\n").as_bytes()).await?;
    replies(server, 1).await.map(drop)
}

/// Reads so many lines, and gives back what was read last.
async fn replies(server: &mut DuplexStream, count: usize) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut read = Vec::with_capacity(1 << 16);
    let mut lines = 0;
    while lines < count {
        read.clear();
        if server.read_buf(&mut read).await? == 0 {
            return Err("the client has gone".into());
        }
        // As quick as can be: a refusal is longer than an answer, and this is not the client's work.
        lines += memchr::memchr_iter(b'\n', &read).count();
    }
    Ok(read)
}

/// Answers at once, whatever is asked.
#[derive(Clone, Debug)]
struct Person {
    asked: Arc<AtomicUsize>,
    answer: Value,
}

impl ClientHandler for Person {
    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(CreateMessageResult::new(
            SamplingMessage::assistant_text("4"),
            "a model".to_owned(),
        ))
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(self.answer.clone()))
    }

    fn get_info(&self) -> ClientConfig {
        let capabilities = serde_json::from_value(json!({"sampling": {}, "elicitation": {}}))
            .unwrap_or_else(|_| ClientCapabilities::default());
        ClientConfig::new(capabilities, Implementation::new("bench", "1.0.0"))
    }
}
