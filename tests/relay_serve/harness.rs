//! A scripted server, a relay in front of it, and what both sides saw.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, Method, StatusCode},
    response::Response,
};
use bytes::Bytes;
use futures::{StreamExt, stream};
use mcp_question_throttle::{
    relay::serve::Relay,
    settings::{self, Environment},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot, watch},
    time,
};

/// Longer than anything here takes; whoever waits this long has met a deadlock.
const PATIENCE: Duration = Duration::from_secs(300);

/// A request as the server saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// What the server answers.
pub(crate) struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, String)>,
    body: Body,
    after: Option<watch::Receiver<bool>>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Body>) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap(),
            headers: Vec::new(),
            body: body.into(),
            after: None,
        }
    }

    pub(crate) fn json(body: impl Into<Body>) -> Self {
        Self::new(200, body).with("content-type", "application/json")
    }

    /// A stream of events, whole.
    pub(crate) fn events(events: impl Into<Body>) -> Self {
        Self::new(200, events).with("content-type", "text/event-stream")
    }

    /// A stream of events that arrives `step` bytes at a time.
    pub(crate) fn events_in_steps(events: &[u8], step: usize) -> Self {
        let chunks: Vec<_> = events
            .chunks(step)
            .map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk)))
            .collect();
        Self::events(Body::from_stream(stream::iter(chunks)))
    }

    /// A stream of events that the test writes.
    pub(crate) fn written() -> (mpsc::UnboundedSender<Bytes>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let chunks = stream::unfold(receiver, async |mut receiver| {
            let chunk: Bytes = receiver.recv().await?;
            Some((Ok::<_, std::io::Error>(chunk), receiver))
        });
        (sender, Self::events(Body::from_stream(chunks)))
    }

    /// Nothing of it comes before that is true.
    pub(crate) fn after(mut self, is_released: watch::Receiver<bool>) -> Self {
        self.after = Some(is_released);
        self
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.parse().unwrap(), value.to_owned()));
        self
    }
}

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

/// A server that does what its script says, and tells what it saw.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::unbounded_channel();
        let script: Arc<Script> = Arc::new(script);
        let router = Router::new().fallback(move |request: Request| {
            let (script, sender) = (Arc::clone(&script), sender.clone());
            async move {
                let (parts, body) = request.into_parts();
                let seen = Seen {
                    method: parts.method,
                    target: parts.uri.to_string(),
                    headers: parts.headers,
                    body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
                };
                let answer = script(&seen);
                // The test may have seen enough.
                let _ = sender.send(seen);
                if let Some(mut after) = answer.after {
                    let _ = after.wait_for(|is_released| *is_released).await;
                }
                let mut response = Response::new(answer.body);
                *response.status_mut() = answer.status;
                for (name, value) in answer.headers {
                    response.headers_mut().append(name, value.parse().unwrap());
                }
                response
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The next request, once it is there.
    pub(crate) async fn next(&mut self) -> Seen {
        let next = time::timeout(PATIENCE, self.seen.recv()).await;
        next.expect("the server was asked").unwrap()
    }

    /// The requests that came so far and were not looked at.
    pub(crate) fn rest(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.seen.try_recv().ok()).collect()
    }
}

/// A relay, and a client of it.
pub(crate) struct Relayed {
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    pub(crate) throttle: Arc<mcp_question_throttle::throttle::Throttle>,
    end: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

/// Five questions of each kind for the server `github`.
pub(crate) fn limited(url: &str) -> String {
    format!(
        "[proto]\nsamplingPerMinute = 5\nelicitationPerMinute = 5\n[servers.github]\nurl = {url:?}\n"
    )
}

impl Relayed {
    /// In front of a server named `github`, with room for five questions of each kind.
    pub(crate) async fn start(server: &Server) -> Self {
        Self::with_settings(&limited(&server.url())).await
    }

    pub(crate) async fn with_settings(text: &str) -> Self {
        Self::with(text, |relay| relay).await
    }

    pub(crate) async fn with(text: &str, change: impl FnOnce(Relay) -> Relay) -> Self {
        let loaded = settings::parse("settings.toml", text, &Environment::empty()).unwrap();
        let relay = change(Relay::new(&loaded).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let throttle = Arc::clone(relay.throttle());
        let (end, ended) = oneshot::channel();
        let served = tokio::spawn(relay.serve(listener, async {
            let _ = ended.await;
        }));
        Self {
            address,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            throttle,
            end: Some(end),
            served,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/github", self.address)
    }

    pub(crate) fn post(&self, message: &Value) -> reqwest::RequestBuilder {
        self.client
            .post(self.url())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.to_string())
    }

    /// Calls a tool, and gives back all that came.
    pub(crate) async fn call(&self) -> Response_ {
        Response_::of(self.post(&call(1)).send().await.unwrap()).await
    }

    pub(crate) fn end(&mut self) {
        self.end.take().unwrap().send(()).unwrap();
    }

    pub(crate) async fn served(self) {
        let served = time::timeout(PATIENCE, self.served).await;
        served.expect("it ended").unwrap().unwrap();
    }
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Response_ {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Response_ {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: time::timeout(PATIENCE, response.bytes())
                .await
                .expect("the response ended")
                .unwrap(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

pub(crate) fn call(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": "t"}})
}

pub(crate) fn question(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "elicitation/create", "params": {"message": "q"}})
}

pub(crate) fn result(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "result": {"content": []}})
}

/// One event after another.
pub(crate) fn events(messages: impl IntoIterator<Item = Value>) -> String {
    let event = |message| format!("data: {message}\n\n");
    messages.into_iter().map(event).collect()
}

/// The next chunk of a response.
pub(crate) async fn chunk(response: &mut reqwest::Response) -> Bytes {
    let chunk = time::timeout(PATIENCE, response.chunk()).await;
    chunk.expect("something came").unwrap().expect("it goes on")
}

/// Waits for something that has to happen.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    time::timeout(PATIENCE, future).await.expect("it happened")
}

/// All that is left of a response.
pub(crate) async fn rest(response: reqwest::Response) -> Vec<u8> {
    let chunks = response.bytes_stream().map(|chunk| chunk.unwrap().to_vec());
    soon(chunks.concat()).await
}
