//! Servers over Streamable HTTP, each under its name: `http://127.0.0.1:PORT/NAME`.
//!
//! In 2025-11-25 `initialize` opens a session with an id of its own, and a server that is to close the
//! connection forgets it instead: the client hears 404 then, and has to open another. In 2026-07-28 the protocol has
//! none, and a session of the record is what lies between two discoveries.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::post,
};
use futures::stream;
use serde_json::Value;
use tokio::{net::TcpListener, sync::mpsc};

use super::{
    Stage,
    session::{Outgoing, Session},
};
use crate::{mutex::lock, protocol::Revision};

const SESSION_ID: &str = "mcp-session-id";
/// Longer than any message of a client under test.
const LONGEST_BODY: usize = 16 << 20;

/// All servers of a scenario, on one port.
#[derive(Debug)]
pub(crate) struct Web {
    listener: TcpListener,
    address: SocketAddr,
}

impl Web {
    pub(crate) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(crate) fn url(&self, server: &str) -> String {
        format!("http://{}/{server}", self.address)
    }

    /// Plays servers for whoever connects.
    pub(crate) async fn serve(self, stage: Stage) -> io::Result<()> {
        let router = Router::new()
            .route("/{server}", post(receive))
            .layer(DefaultBodyLimit::max(LONGEST_BODY))
            .with_state(Arc::new(Sessions {
                stage,
                open: Mutex::default(),
            }));
        axum::serve(self.listener, router).await
    }
}

/// The sessions of a run: by id, or by the server's name where sessions have none.
#[derive(Debug)]
struct Sessions {
    stage: Stage,
    open: Mutex<HashMap<String, Streams>>,
}

/// A session, and the responses that are being written.
#[derive(Clone, Debug)]
struct Streams {
    session: Session,
    /// By the id of the request that they answer.
    responses: Arc<Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>>,
    /// Whether the server knows it no more.
    is_over: Arc<AtomicBool>,
}

async fn receive(
    State(sessions): State<Arc<Sessions>>,
    Path(server): Path<String>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    let mut servers = sessions.stage.scenario.servers.iter();
    let Some(place) = servers.position(|one| one.name == server) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Some((key, streams)) = sessions.find(place, &server, &headers, &message) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut response = streams.receive(&message);
    let has_id = sessions.stage.revision == Revision::Requests;
    if let (true, Ok(value)) = (has_id, HeaderValue::from_str(&key)) {
        response.headers_mut().insert(SESSION_ID, value);
    }
    response
}

impl Sessions {
    /// The session that a message belongs to, opened if the message does so.
    fn find(
        &self,
        place: usize,
        server: &str,
        headers: &HeaderMap,
        message: &Value,
    ) -> Option<(String, Streams)> {
        let mut open = lock(&self.open);
        let key = match self.stage.revision {
            Revision::Requests if message["method"] == "initialize" => {
                format!("session-{}", open.len() + 1)
            }
            Revision::Requests => headers.get(SESSION_ID)?.to_str().ok()?.to_owned(),
            Revision::Rounds => server.to_owned(),
        };
        let opens = match self.stage.revision {
            Revision::Requests => message["method"] == "initialize",
            Revision::Rounds => {
                let is_new = !open.contains_key(&key);
                is_new || message["method"] == "server/discover"
            }
        };
        if opens {
            let (session, outgoing) = Session::open(self.stage.clone(), place);
            let streams = Streams {
                session,
                responses: Arc::default(),
                is_over: Arc::default(),
            };
            tokio::spawn(streams.clone().write(outgoing));
            open.insert(key.clone(), streams);
        }
        let streams = open.get(&key).cloned()?;
        let is_over = streams.is_over.load(Ordering::Acquire);
        (!is_over).then_some((key, streams))
    }
}

impl Streams {
    /// Takes a message; a request is answered by a stream of events that ends with its reply.
    fn receive(&self, message: &Value) -> Response {
        let request = message
            .get("id")
            .filter(|_| message.get("method").is_some());
        let Some(id) = request else {
            self.session.receive(message);
            return StatusCode::ACCEPTED.into_response();
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        lock(&self.responses).insert(id.to_string(), sender);
        self.session.receive(message);
        let events = stream::unfold(receiver, async |mut receiver| {
            let message: Value = receiver.recv().await?;
            let event = Event::default().event("message").data(message.to_string());
            Some((Ok::<_, Infallible>(event), receiver))
        });
        Sse::new(events).into_response()
    }

    /// Puts what the session writes into the responses to which it belongs.
    async fn write(self, mut outgoing: mpsc::UnboundedReceiver<Outgoing>) {
        while let Some(next) = outgoing.recv().await {
            let (messages, about) = match next {
                Outgoing::Write { messages, about } => (messages, about),
                Outgoing::Close { last, about } => {
                    // Before the client knows that the call has ended, and makes the next one.
                    self.is_over.store(true, Ordering::Release);
                    (vec![last], about)
                }
            };
            let mut responses = lock(&self.responses);
            for message in messages {
                let is_reply = message.get("method").is_none() && message["id"] == about;
                if let Some(response) = responses.get(&about.to_string()) {
                    // The client may have gone.
                    let _ = response.send(message);
                }
                if is_reply {
                    responses.remove(&about.to_string());
                }
            }
        }
    }
}
