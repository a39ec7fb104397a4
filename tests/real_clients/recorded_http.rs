//! A session over HTTP, recorded on both sides of the relay in one run.
//!
//! What may differ is written down here, and nothing else does:
//!
//! - the path: the client asks at `/NAME`, the server is asked at the path of its URL;
//! - `Host`: each side gets its own;
//! - [`HOP_BY_HOP`]: headers about one connection alone;
//! - `Accept-Encoding`: the server is asked for `identity`, whatever the client takes;
//! - `Content-Length` and `Transfer-Encoding` say how a body is cut up, not what it is: the bodies
//!   are compared as they were before that;
//! - capitals in the names of headers, which mean nothing in HTTP.
//!
//! Exchanges are compared without their order: some are under way side by side.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::time;

use crate::{
    client::PATIENCE,
    peers::{self, skipped},
    relay::{EVERYTHING, Relay, Transport},
    tap::{Exchange, Header, Message, Tap},
};

const HOP_BY_HOP: [&str; 2] = ["connection", "keep-alive"];
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];
const QUESTIONS: [&str; 2] = ["sampling/createMessage", "elicitation/create"];

/// What passed at the client and at the server.
struct Recorded {
    /// What the client says that it saw.
    said: Value,
    client: Vec<Exchange>,
    server: Vec<Exchange>,
    server_path: String,
}

/// Runs a session in which each kind of question is asked `times` times.
async fn record(settings: &str, times: usize) -> Recorded {
    let relay = Relay::new(settings);
    let server = EVERYTHING.direct(Transport::Http).await;
    let (host, server_path) = split(&server.words[0]);
    let at_server = Tap::before(host).await;
    let (_serve, url) = relay
        .serve(&format!("http://{}{server_path}", at_server.address))
        .await;
    let (host, path) = split(&url);
    assert_eq!(path, "/peer");
    let at_client = Tap::before(host).await;
    let url = format!("http://{}{path}", at_client.address);

    peers::install("typescript-v1").await;
    let times = times.to_string();
    let mut client = peers::peer(
        "typescript-v1",
        "typescript-v1/session.mjs",
        &[&url, &times],
    );
    let output = time::timeout(PATIENCE, client.stdin(Stdio::null()).output())
        .await
        .expect("the session ends")
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    Recorded {
        said: serde_json::from_slice(&output.stdout).unwrap(),
        client: at_client.exchanges().await,
        server: at_server.exchanges().await,
        server_path,
    }
}

/// The host and port of a URL, and its path.
fn split(url: &str) -> (String, String) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    (host.to_owned(), format!("/{path}"))
}

/// What the server has to have seen of what the client's side saw.
fn at_the_server(mut exchange: Exchange, server_path: &str) -> Exchange {
    assert_eq!(exchange.request.start.1, "/peer");
    server_path.clone_into(&mut exchange.request.start.1);
    assert!(exchange.request.header("accept-encoding").is_some());
    let is_meant = |header: &Header| header.0 != "accept-encoding";
    exchange.request.headers.retain(is_meant);
    end_to_end(exchange)
}

/// What the server saw, in the same form.
fn as_seen(mut exchange: Exchange) -> Exchange {
    let headers = &mut exchange.request.headers;
    let encodings = headers.extract_if(.., |header| header.0 == "accept-encoding");
    let encodings: Vec<_> = encodings.map(|(_, value)| value).collect();
    assert_eq!(encodings, [b"identity"]);
    end_to_end(exchange)
}

fn end_to_end(mut exchange: Exchange) -> Exchange {
    for headers in [
        &mut exchange.request.headers,
        &mut exchange.response.headers,
    ] {
        headers.retain(|(name, _)| {
            let name = name.as_str();
            name != "host" && !HOP_BY_HOP.contains(&name) && !FRAMING.contains(&name)
        });
    }
    exchange
}

/// The first difference between two records, each as it would be at the server.
fn difference(client: &[Exchange], server: &[Exchange]) -> Option<String> {
    let sorted = |all: &[Exchange]| {
        let mut all = all.to_vec();
        all.sort_unstable();
        all
    };
    let (client, server) = (sorted(client), sorted(server));
    if client.len() != server.len() {
        return Some(format!("{} and {} exchanges", client.len(), server.len()));
    }
    client
        .iter()
        .zip(&server)
        .find(|(client, server)| client != server)
        .map(|(client, server)| format!("at the client {client:#?}, at the server {server:#?}"))
}

/// One byte of a record changed, in each of the ways that there are.
fn changed_in_a_byte(record: &[Exchange]) -> Vec<Vec<Exchange>> {
    type Part = fn(&mut Exchange) -> Option<&mut Vec<u8>>;
    const PARTS: [Part; 4] = [
        |it| Some(&mut it.request.body),
        |it| Some(&mut it.response.body),
        |it| it.request.headers.last_mut().map(|header| &mut header.1),
        |it| it.response.headers.last_mut().map(|header| &mut header.1),
    ];
    let mut all = Vec::new();
    for at in 0..record.len() {
        for part in PARTS {
            let mut changed = record.to_vec();
            if let Some(byte) = part(&mut changed[at]).and_then(|bytes| bytes.last_mut()) {
                *byte ^= 1;
                all.push(changed);
            }
        }
        let mut changed = record.to_vec();
        changed[at].request.headers.swap(0, 1);
        all.push(changed);
        let mut changed = record.to_vec();
        changed[at].response.start.0 = "203".to_owned();
        all.push(changed);
    }
    all
}

#[tokio::test]
async fn a_session_is_equal_byte_for_byte_on_both_sides() {
    if skipped() {
        return;
    }
    let recorded = record("", 1).await;
    assert_eq!(
        recorded.said["asked"],
        json!({"sampling/createMessage": 1, "elicitation/create": 1})
    );
    assert_eq!(recorded.said["streams"], 2, "one of them was resumed");
    for method in ["POST", "GET", "DELETE"] {
        let is_there = |it: &Exchange| it.request.start.0 == method;
        assert!(recorded.client.iter().any(is_there), "{method}");
    }
    let client: Vec<_> = recorded
        .client
        .into_iter()
        .map(|exchange| at_the_server(exchange, &recorded.server_path))
        .collect();
    let server: Vec<_> = recorded.server.into_iter().map(as_seen).collect();
    assert!(client.len() > 25, "a whole session");
    let difference_of = |server: &[Exchange]| difference(&client, server);
    assert_eq!(difference_of(&server), None);
    for changed in changed_in_a_byte(&server) {
        assert!(difference_of(&changed).is_some(), "one byte is seen");
    }
    assert!(difference_of(&server[1..]).is_some(), "one exchange is");
}

/// The questions that were refused are withheld, and a refusal of each is posted: that is all.
#[tokio::test]
async fn questions_over_the_limit_are_all_that_differs() {
    if skipped() {
        return;
    }
    let settings = "[proto]\nsamplingPerMinute = 2\nelicitationPerMinute = 1\n";
    let recorded = record(settings, 4).await;
    assert_eq!(
        recorded.said["asked"],
        json!({"sampling/createMessage": 2, "elicitation/create": 1})
    );
    let results = recorded.said["results"].as_array().unwrap();
    let ended: Vec<_> = results.iter().map(|result| &result["isError"]).collect();
    // Sampling and elicitation take turns.
    let expected = [false, false, false, true, true, true, true, true];
    assert_eq!(ended, expected, "{results:#?}");

    let client: Vec<_> = recorded
        .client
        .into_iter()
        .map(|exchange| at_the_server(exchange, &recorded.server_path))
        .collect();
    let server: Vec<_> = recorded.server.into_iter().map(as_seen).collect();
    let (refusals, mut server): (Vec<_>, Vec<_>) = server.into_iter().partition(is_refusal);
    let mut refused = Vec::new();
    for exchange in &mut server {
        let questions = withhold(&mut exchange.response, &refusals);
        for question in questions {
            let of_this = |refusal: &&Exchange| id(&refusal.request) == question["id"];
            let refusal = refusals.iter().find(of_this).unwrap();
            assert_refusal(refusal, &question, &exchange.request);
            refused.push(question["method"].as_str().unwrap().to_owned());
        }
    }
    refused.sort_unstable();
    let [sampling, elicitation] = QUESTIONS;
    let expected = [elicitation, elicitation, elicitation, sampling, sampling];
    assert_eq!(refused, expected);
    assert_eq!(refusals.len(), refused.len(), "one for each");
    assert_eq!(difference(&client, &server), None);
}

fn is_refusal(exchange: &Exchange) -> bool {
    let message: Value = serde_json::from_slice(&exchange.request.body).unwrap_or_default();
    message["error"]["data"]["cause"] == "limit_exceeded"
}

fn id(message: &Message) -> Value {
    let message: Value = serde_json::from_slice(&message.body).unwrap();
    message["id"].clone()
}

/// Leaves of each refused question its place in the stream, and gives it back.
fn withhold(response: &mut Message, refusals: &[Exchange]) -> Vec<Value> {
    let mut refused = Vec::new();
    let mut left = String::new();
    for event in response.text().split_inclusive("\n\n") {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
        let message: Value = field("data: ")
            .and_then(|data| serde_json::from_str(data).ok())
            .unwrap_or_default();
        let is_refused = QUESTIONS.iter().any(|method| message["method"] == **method)
            && refusals
                .iter()
                .any(|refusal| id(&refusal.request) == message["id"]);
        if is_refused {
            let id = field("id: ").expect("this server's events can be resumed");
            left += &format!("id: {id}\ndata:\n\n");
            refused.push(message);
        } else {
            left += event;
        }
    }
    response.body = left.into_bytes();
    refused
}

/// Asserts a refusal to the letter, as the answer to a question that came in the response to
/// `opening`.
fn assert_refusal(refusal: &Exchange, question: &Value, opening: &Message) {
    let request = &refusal.request;
    assert_eq!(request.start, opening.start);
    // As whoever asked, and without what was asked.
    let sorted = |headers: &[Header]| {
        let mut headers = headers.to_vec();
        headers.retain(|header| !header.0.starts_with("mcp-param-"));
        headers.sort_unstable();
        headers
    };
    assert!(opening.header("mcp-param-region").is_some());
    assert_eq!(sorted(&request.headers), sorted(&opening.headers));
    assert_eq!(request.headers.len(), opening.headers.len() - 1);

    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let retry = &body["error"]["data"]["retryAfterSeconds"];
    assert!((1..=60).contains(&retry.as_u64().unwrap()), "{retry}");
    let (id, method) = (&question["id"], &question["method"]);
    let (limit, max) = match method.as_str().unwrap() {
        "sampling/createMessage" => ("proto.samplingPerMinute", 2),
        _ => ("proto.elicitationPerMinute", 1),
    };
    let message = format!("question refused: {limit} allows {max} per minute; retry in {retry} s");
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{message}","data":{{"cause":"limit_exceeded","limit":"{limit}","scope":"server","method":{method},"max":{max},"windowSeconds":60,"retryAfterSeconds":{retry}}}}}}}"#
    );
    assert_eq!(request.text(), expected);
    assert_eq!(refusal.response.start.0, "202");
    assert!(refusal.response.body.is_empty());
}
