//! The shield over Streamable HTTP: a server that floods on both of its streams at once, the one
//! of a call and the one that belongs to none.

mod support;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use mcp_question_throttle::{ClientSession, Shield, Throttled};
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage},
    transport::{StreamableHttpClientTransport, Transport},
};
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Handler,
    http::{EVENTS, event, read_request},
    is_refusal, limits, question,
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How many questions go over each of the two streams, and how many of all are admitted.
const FLOOD: usize = 250;
const LIMIT: u32 = 16;
/// How many refusals may be on their way at once, and how many bytes of them may wait for that.
const MAX_WRITES: usize = 8;
const MAX_UNSENT: usize = 4 << 20;

/// Answered, refused and once each, whether the server takes its replies at once or leaves them
/// lying until it can write no more questions. What it leaves lying is little at any time.
#[rstest]
#[tokio::test]
async fn a_flood_on_both_streams_is_refused(#[values(false, true)] holds_replies: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let flood = Arc::new(Flood::new(holds_replies));
    tokio::spawn(Arc::clone(&flood).serve(listener));

    let (handler, _) = Handler::open();
    let throttled = Throttled::new(handler.clone(), limits(LIMIT, LIMIT));
    let most_unsent = Arc::<AtomicUsize>::default();
    let handed_on = Arc::<AtomicUsize>::default();
    let transport = Watched {
        shield: throttled.shield(StreamableHttpClientTransport::from_uri(url)),
        most_unsent: Arc::clone(&most_unsent),
        handed_on: Arc::clone(&handed_on),
    };
    let session = ClientSession::new(throttled.serve(transport).await.unwrap());
    // Its answer comes after all questions of its stream, and when every one has its reply.
    let called = session.call_tool(CallToolRequestParams::new("t")).await;
    called.unwrap();

    assert_eq!(handler.log.questions().len(), LIMIT as usize);
    let replies = flood.replies.lock().unwrap().clone();
    assert_eq!(replies.len(), 2 * FLOOD);
    assert!(replies.values().all(|replies| replies.len() == 1));
    let refused = replies.values().filter(|replies| is_refusal(&replies[0]));
    assert_eq!(refused.count(), 2 * FLOOD - LIMIT as usize);

    // Nearly all was refused on reading: the wrapper saw what was admitted, and what slipped past.
    let handed_on = handed_on.load(Ordering::Relaxed);
    let few = LIMIT as usize..=2 * LIMIT as usize;
    assert!(few.contains(&handed_on), "{handed_on} handed on");
    let at_once = flood.most_open.load(Ordering::Relaxed);
    assert!((1..=MAX_WRITES).contains(&at_once), "{at_once} at once");
    let unsent = most_unsent.load(Ordering::Relaxed);
    assert!(unsent <= MAX_UNSENT, "{unsent} bytes");
    // The connection has survived it.
    let called = session.call_tool(CallToolRequestParams::new("t")).await;
    called.unwrap();
}

/// rmcp's HTTP transport sends nothing while it holds a message that the shield does not read: both
/// would wait for ever where more replies are open than the shield reads on with.
#[rstest]
#[tokio::test]
async fn what_no_limit_holds_is_answered_however_much_comes_at_once(
    #[values(false, true)] holds_replies: bool,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let flood = Arc::new(Flood::new(holds_replies));
    tokio::spawn(Arc::clone(&flood).serve(listener));

    let (handler, _) = Handler::open();
    let throttled = Throttled::new(handler.clone(), limits(0, 0));
    let transport = StreamableHttpClientTransport::from_uri(url);
    let session = ClientSession::connect(throttled, transport).await.unwrap();
    let called = session.call_tool(CallToolRequestParams::new("t")).await;
    called.unwrap();

    assert_eq!(handler.log.questions().len(), 2 * FLOOD);
    let replies = flood.replies.lock().unwrap().clone();
    assert_eq!(replies.len(), 2 * FLOOD);
    for replies in replies.values() {
        assert_eq!(replies.len(), 1);
        assert!(replies[0]["result"].is_object(), "{replies:?}");
    }
}

/// A shield whose queue is looked at whenever it has read or is to send.
struct Watched<T> {
    shield: Shield<T>,
    most_unsent: Arc<AtomicUsize>,
    /// How many requests of the server have come through.
    handed_on: Arc<AtomicUsize>,
}

impl<T: Transport<RoleClient>> Watched<T> {
    fn look(&self) {
        let unsent = self.shield.unsent_bytes();
        self.most_unsent.fetch_max(unsent, Ordering::Relaxed);
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.look();
        self.shield.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.look();
        let message = self.shield.receive().await;
        self.look();
        if let Some(JsonRpcMessage::Request(_)) = &message {
            self.handed_on.fetch_add(1, Ordering::Relaxed);
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.shield.close().await
    }
}

/// The flooding server.
struct Flood {
    /// By the id of the question.
    replies: Mutex<BTreeMap<String, Vec<Value>>>,
    replied: watch::Sender<usize>,
    /// Refusals that have come and are not acknowledged yet.
    open: AtomicUsize,
    most_open: AtomicUsize,
    /// How many streams are still being filled while replies are held.
    filling: watch::Sender<usize>,
    called: watch::Sender<bool>,
}

impl Flood {
    fn new(holds_replies: bool) -> Self {
        Self {
            replies: Mutex::default(),
            replied: watch::Sender::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
            filling: watch::Sender::new(if holds_replies { 2 } else { 0 }),
            called: watch::Sender::new(false),
        }
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((connection, _)) = listener.accept().await {
            connection.set_nodelay(true).unwrap();
            let flood = Arc::clone(&self);
            tokio::spawn(async move {
                let mut connection = BufReader::new(connection);
                while let Some((method, body)) = read_request(&mut connection).await {
                    flood.respond(connection.get_mut(), &method, &body).await;
                }
            });
        }
    }

    async fn respond(&self, connection: &mut TcpStream, method: &str, body: &Value) {
        let answer = |result: Value| {
            let id = &body["id"];
            event(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
        };
        if method == "GET" {
            write(connection, EVENTS).await;
            wait(&self.called, |called| *called).await;
            self.ask(connection, "on no call").await;
            std::future::pending().await
        }
        match body["method"].as_str() {
            Some("initialize") => {
                let result = json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "flooding", "version": "1"},
                });
                write(connection, &format!("{EVENTS}{}", answer(result))).await;
                connection.shutdown().await.unwrap();
            }
            Some("tools/call") => {
                write(connection, EVENTS).await;
                if !self.called.send_replace(true) {
                    self.ask(connection, "on the call").await;
                }
                wait(&self.replied, |replied| *replied >= 2 * FLOOD).await;
                write(connection, &answer(json!({"content": []}))).await;
                connection.shutdown().await.unwrap();
            }
            Some(_) => accept(connection).await,
            None => {
                self.take(body).await;
                accept(connection).await;
            }
        }
    }

    /// Asks a stream full: first what fits without being read, and then the rest.
    async fn ask(&self, connection: &mut TcpStream, stream: &str) {
        let questions: String = (0..FLOOD)
            .map(|n| event(&question("elicitation/create", format!("{stream} {n}"))))
            .collect();
        let mut rest = questions.as_bytes();
        // Where it would block, the client has stopped to read.
        while let Ok(written @ 1..) = connection.try_write(rest) {
            rest = &rest[written..];
        }
        self.filling
            .send_modify(|streams| *streams = streams.saturating_sub(1));
        connection.write_all(rest).await.unwrap();
    }

    /// Takes a reply, and leaves a refusal lying while the streams are filled.
    async fn take(&self, reply: &Value) {
        let id = reply["id"].as_str().unwrap().to_owned();
        self.replies
            .lock()
            .unwrap()
            .entry(id)
            .or_default()
            .push(reply.clone());
        self.replied.send_modify(|replied| *replied += 1);
        if is_refusal(reply) {
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_open.fetch_max(open, Ordering::Relaxed);
            wait(&self.filling, |streams| *streams == 0).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

async fn write(connection: &mut TcpStream, text: &str) {
    connection.write_all(text.as_bytes()).await.unwrap();
}

async fn accept(connection: &mut TcpStream) {
    write(
        connection,
        "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
}

async fn wait<T>(state: &watch::Sender<T>, is_so: impl FnMut(&T) -> bool) {
    state.subscribe().wait_for(is_so).await.unwrap();
}
