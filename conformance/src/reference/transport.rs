//! How messages get to a server and back: over its standard input and output, or by HTTP.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, OnceLock},
    thread,
};

use serde_json::Value;

use super::{Address, lock};

/// What takes the messages of a server.
pub(super) trait Receiver: Send + Sync + 'static {
    /// A message has come.
    fn receive(self: &Arc<Self>, message: &Value);

    /// Nothing more will come for the request with this id; for all, if there is none.
    fn ended(&self, request: Option<u64>);

    /// The server knows the session no more, and has not looked at what was sent.
    fn forgotten(&self);
}

/// The client's end of a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Pipe(Pipe),
    Web(Web),
}

/// A server that is a child process.
#[derive(Debug)]
pub(super) struct Pipe {
    child: Mutex<Child>,
    /// Absent once the client has closed its end.
    input: Mutex<Option<ChildStdin>>,
}

/// A server over Streamable HTTP.
#[derive(Debug)]
pub(super) struct Web {
    url: String,
    agent: ureq::Agent,
    revision: &'static str,
    /// Given by the server that has sessions.
    session: Arc<OnceLock<String>>,
}

impl Transport {
    pub(super) fn open(address: &Address, revision: &'static str) -> Result<Self, String> {
        match address {
            Address::Url(url) => Ok(Self::Web(Web {
                url: url.clone(),
                agent: ureq::Agent::config_builder()
                    .http_status_as_error(false)
                    .build()
                    .into(),
                revision,
                session: Arc::default(),
            })),
            Address::Command(words) => {
                let (program, arguments) = words.split_first().ok_or("an empty command")?;
                let mut child = Command::new(program)
                    .args(arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .map_err(|error| format!("{program}: {error}"))?;
                let input = Mutex::new(child.stdin.take());
                Ok(Self::Pipe(Pipe {
                    child: Mutex::new(child),
                    input,
                }))
            }
        }
    }

    /// Begins to read, if there is one stream to read.
    pub(super) fn listen(&self, receiver: &Arc<impl Receiver>) {
        let Self::Pipe(pipe) = self else { return };
        let Some(output) = lock(&pipe.child).stdout.take() else {
            return;
        };
        let receiver = Arc::clone(receiver);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(message) = serde_json::from_str::<Value>(&line) {
                    receiver.receive(&message);
                }
            }
            receiver.ended(None);
        });
    }

    /// Sends a message. A server that is gone is noticed by who reads.
    pub(super) fn write(&self, message: &Value, receiver: &Arc<impl Receiver>) {
        match self {
            Self::Pipe(pipe) => {
                if let Some(input) = lock(&pipe.input).as_mut() {
                    let _ = input.write_all(format!("{message}\n").as_bytes());
                }
            }
            Self::Web(web) => web.write(message, receiver),
        }
    }

    /// Closes the client's end.
    pub(super) fn close(&self, receiver: &Arc<impl Receiver>) {
        match self {
            Self::Pipe(pipe) => drop(lock(&pipe.input).take()),
            // There is no connection to close: the client takes part no more.
            Self::Web(_) => receiver.ended(None),
        }
    }

    /// Waits for the end of the server, if it is the client's.
    pub(super) fn wait(&self) {
        if let Self::Pipe(pipe) = self {
            drop(lock(&pipe.input).take());
            // It was a child of ours a moment ago; there is nothing to do about a failure.
            let _ = lock(&pipe.child).wait();
        }
    }
}

impl Web {
    /// A request is answered by a stream that others read; for the rest there is nothing to read.
    fn write(&self, message: &Value, receiver: &Arc<impl Receiver>) {
        let mut post = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", self.revision);
        if let Some(session) = self.session.get() {
            post = post.header("mcp-session-id", session);
        }
        let body = message.to_string();
        let request = message["id"]
            .as_u64()
            .filter(|_| message["method"].is_string());
        let Some(request) = request else {
            if let Err(error) = post.send(body) {
                eprintln!("{}: {error}", self.url);
            }
            return;
        };
        let (session, receiver) = (Arc::clone(&self.session), Arc::clone(receiver));
        thread::spawn(move || {
            match post.send(body) {
                Ok(response) if response.status() == 404 => return receiver.forgotten(),
                Ok(response) => {
                    let given = response.headers().get("mcp-session-id");
                    if let Some(given) = given.and_then(|given| given.to_str().ok()) {
                        // The same one comes with every response.
                        let _ = session.set(given.to_owned());
                    }
                    read_events(response.into_body().into_reader(), &receiver);
                }
                Err(error) => eprintln!("{error}"),
            }
            receiver.ended(Some(request));
        });
    }
}

/// Reads the events of a stream, each of which has one line of data.
fn read_events(stream: impl Read, receiver: &Arc<impl Receiver>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(data) = line.strip_prefix("data:")
            && let Ok(message) = serde_json::from_str::<Value>(data.trim_start())
        {
            receiver.receive(&message);
        }
    }
}
