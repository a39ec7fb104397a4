//! Whether a question belongs to a call that the user made: over a pipe and over HTTP.

mod support;

use std::sync::{Arc, Mutex};

use mcp_question_throttle::{ClientSession, Door, Origin, Pool, Throttled};
use rmcp::{
    model::{
        CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams,
        SubscriptionFilter,
    },
    transport::StreamableHttpClientTransport,
};
use rstest::rstest;
use serde_json::{Value, json};
use support::{
    Guard::{self, Wrapper, WrapperAndShield},
    Handler, Server, connect, connect_modern, done,
    http::{EVENTS, event, read_request},
    limits, question, round,
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
};

/// What was seen of questions: by which door, and where from.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Door, Origin)>>>);

impl Seen {
    fn watched(&self, limit: u32) -> Throttled<Handler> {
        let sink = self.clone();
        let pool = Pool::new(limits(limit, limit)).with_observer(move |verdict| {
            sink.0.lock().unwrap().push((verdict.door, verdict.origin));
        });
        pool.wrap("a", Handler::open().0).unwrap()
    }

    fn take(&self) -> Vec<(Door, Origin)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn origins(&self) -> Vec<Origin> {
        self.take().into_iter().map(|(_, origin)| origin).collect()
    }
}

/// Asks once and waits for the reply.
async fn asks(server: &mut Server, id: u64) {
    server.send(&question("elicitation/create", id)).await;
    assert_eq!(server.receive().await["id"], id);
}

/// A server that asks before, during and after each kind of call, and more often than it may.
#[rstest]
#[tokio::test(start_paused = true)]
async fn over_a_pipe_what_comes_during_a_call_belongs_to_it(
    #[values(Wrapper, WrapperAndShield)] guard: Guard,
    #[values("tools/call", "prompts/get", "resources/read")] method: &str,
) {
    let seen = Seen::default();
    let (session, mut server) = guard.connect(seen.watched(2)).await;
    // Without a shield nobody sees the calls on rmcp's own peer.
    let outside = match guard {
        Wrapper => Origin::Unknown,
        WrapperAndShield => Origin::Background,
    };
    asks(&mut server, 1).await;
    assert_eq!(seen.take(), [(Door::ServerRequest, outside)]);
    let scripted = async {
        let call = server.request(method).await;
        for id in [2, 3, 4] {
            asks(&mut server, id).await;
        }
        let result = match method {
            "tools/call" => json!({"content": []}),
            "prompts/get" => json!({"messages": []}),
            _ => json!({"contents": []}),
        };
        server.answer(&call, result).await;
    };
    let call = async {
        match method {
            "tools/call" => drop(
                session
                    .call_tool(CallToolRequestParams::new("t"))
                    .await
                    .unwrap(),
            ),
            "prompts/get" => {
                drop(
                    session
                        .get_prompt(GetPromptRequestParams::new("p"))
                        .await
                        .unwrap(),
                );
            }
            _ => drop(
                session
                    .read_resource(ReadResourceRequestParams::new("r:r"))
                    .await
                    .unwrap(),
            ),
        }
    };
    tokio::join!(scripted, call);
    assert_eq!(seen.origins(), [Origin::InCall; 3], "refused ones too");
    asks(&mut server, 5).await;
    assert_eq!(seen.origins(), [outside]);
}

#[tokio::test(start_paused = true)]
async fn another_request_is_no_call() {
    let seen = Seen::default();
    let (session, mut server) = connect(seen.watched(9)).await;
    let scripted = async {
        let list = server.request("tools/list").await;
        asks(&mut server, 1).await;
        server.answer(&list, json!({"tools": []})).await;
    };
    let (listed, ()) = tokio::join!(session.list_tools(None), scripted);
    listed.unwrap();
    assert_eq!(seen.origins(), [Origin::Background]);
}

/// The answer was on the wire before the question, whatever the client is busy with.
#[tokio::test(start_paused = true)]
async fn what_follows_the_answer_is_background() {
    let seen = Seen::default();
    let (session, mut server) = connect(seen.watched(9)).await;
    let scripted = async {
        let call = server.request("tools/call").await;
        let answer = json!({"jsonrpc": "2.0", "id": call["id"], "result": {"content": []}});
        let (before, after) = (
            question("elicitation/create", 1),
            question("elicitation/create", 2),
        );
        server
            .send_raw(&format!("{before}\n{answer}\n{after}\n"))
            .await;
        server.receive_all(2).await;
    };
    let (called, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), scripted);
    called.unwrap();
    let mut origins = seen.origins();
    origins.sort_by_key(|origin| origin.as_str());
    assert_eq!(origins, [Origin::Background, Origin::InCall]);
}

#[tokio::test(start_paused = true)]
async fn an_open_subscription_is_no_call_and_a_round_is_in_one() {
    let seen = Seen::default();
    let (session, mut server) = connect_modern(seen.watched(9)).await;
    let listening = async {
        let listen = server.request("subscriptions/listen").await;
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        server
            .send(&json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": {"_meta": meta, "notifications": {}},
            }))
            .await;
    };
    let (subscribed, ()) = tokio::join!(session.listen(SubscriptionFilter::default()), listening);
    let subscription = subscribed.unwrap();
    asks(&mut server, 1).await;
    assert_eq!(seen.take(), [(Door::ServerRequest, Origin::Background)]);

    let scripted = async {
        let call = server.request("tools/call").await;
        let input = round(&[("k", "elicitation/create")], None);
        server.answer(&call, input).await;
        let again = server.request("tools/call").await;
        server.answer(&again, done()).await;
    };
    let (called, ()) = tokio::join!(session.call_tool(CallToolRequestParams::new("t")), scripted);
    called.unwrap();
    assert_eq!(seen.take(), [(Door::Round, Origin::InCall)]);
    drop(subscription);
}

/// A server of 2025-11-25 over HTTP that asks on both of its streams while a call is open: on the
/// call's own, and on the one that belongs to none.
#[tokio::test]
async fn over_http_the_stream_tells() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (answers, mut answered) = mpsc::unbounded_channel();
    let streams = Streams {
        answers,
        on_call: watch::channel(false).0,
        background_answered: watch::channel(false).0,
    };
    tokio::spawn(serve(listener, Arc::new(streams)));

    let seen = Seen::default();
    let transport = StreamableHttpClientTransport::from_uri(url);
    let session = ClientSession::connect(seen.watched(9), transport)
        .await
        .unwrap();
    session
        .call_tool(CallToolRequestParams::new("t"))
        .await
        .unwrap();
    let ids = [
        answered.recv().await.unwrap(),
        answered.recv().await.unwrap(),
    ];
    assert_eq!(ids, [json!("background"), json!("in call")]);
    assert_eq!(seen.origins(), [Origin::Background, Origin::InCall]);
}

struct Streams {
    answers: mpsc::UnboundedSender<Value>,
    on_call: watch::Sender<bool>,
    background_answered: watch::Sender<bool>,
}

async fn serve(listener: TcpListener, streams: Arc<Streams>) {
    while let Ok((connection, _)) = listener.accept().await {
        let streams = Arc::clone(&streams);
        tokio::spawn(async move {
            let mut connection = BufReader::new(connection);
            while let Some((method, body)) = read_request(&mut connection).await {
                respond(connection.get_mut(), &streams, &method, &body).await;
            }
        });
    }
}

async fn respond(connection: &mut TcpStream, streams: &Streams, method: &str, body: &Value) {
    if method == "GET" {
        connection.write_all(EVENTS.as_bytes()).await.unwrap();
        let mut on_call = streams.on_call.subscribe();
        on_call.wait_for(|open| *open).await.unwrap();
        let asked = question("elicitation/create", "background");
        connection
            .write_all(event(&asked).as_bytes())
            .await
            .unwrap();
        std::future::pending::<()>().await;
    } else if body["method"] == "initialize" {
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "scripted", "version": "1"},
        });
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
        connection.write_all(EVENTS.as_bytes()).await.unwrap();
        connection
            .write_all(event(&answer).as_bytes())
            .await
            .unwrap();
        connection.shutdown().await.unwrap();
    } else if body["method"] == "tools/call" {
        connection.write_all(EVENTS.as_bytes()).await.unwrap();
        streams.on_call.send_replace(true);
        let mut background = streams.background_answered.subscribe();
        background.wait_for(|answered| *answered).await.unwrap();
        let asked = question("elicitation/create", "in call");
        connection
            .write_all(event(&asked).as_bytes())
            .await
            .unwrap();
        streams
            .on_call
            .subscribe()
            .wait_for(|open| !*open)
            .await
            .unwrap();
        let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": {"content": []}});
        connection
            .write_all(event(&answer).as_bytes())
            .await
            .unwrap();
        connection.shutdown().await.unwrap();
    } else {
        if body.get("result").is_some() {
            streams.answers.send(body["id"].clone()).unwrap();
            match body["id"].as_str() {
                Some("background") => drop(streams.background_answered.send_replace(true)),
                _ => drop(streams.on_call.send_replace(false)),
            }
        }
        let accepted = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
        connection.write_all(accepted.as_bytes()).await.unwrap();
    }
}
