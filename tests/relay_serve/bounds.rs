//! What is bounded, and how it ends.

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::watch};

use crate::harness::{
    Answer, Relayed, Response_, Server, call, chunk, events, limited, question, result, soon,
};

const MIB: usize = 1024 * 1024;

/// `total` bytes of one letter, a part at a time.
fn letters(total: usize) -> impl Iterator<Item = Bytes> {
    let part = Bytes::from(vec![b'x'; 64 * 1024]);
    (0..total / part.len()).map(move |_| part.clone())
}

fn streamed(parts: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    Body::from_stream(stream::iter(parts.map(Ok::<_, std::io::Error>)))
}

#[tokio::test]
async fn a_long_event_passes_in_parts_unless_it_may_ask() {
    let long = |tail: &'static str| {
        let head = Bytes::from_static(b"id: 1\ndata: {\"x\":\"");
        let parts = [head].into_iter().chain(letters(17 * MIB));
        parts.chain([Bytes::from_static(tail.as_bytes())])
    };
    let after = events([result(1)]);
    for (tail, is_cut) in [
        ("\"}\n\n", false),
        ("\",\"method\":\"elicitation/create\"}\n\n", true),
    ] {
        let end = Bytes::from(after.clone());
        let server =
            Server::start(move |_| Answer::events(streamed(long(tail).chain([end.clone()])))).await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert!(response.body.ends_with(after.as_bytes()));
        if is_cut {
            assert!(!response.body.windows(8).any(|it| it == b"elicitat"));
            assert!(response.body.len() > 16 * MIB);
        } else {
            let whole: Vec<u8> = long(tail).flatten().chain(after.bytes()).collect();
            assert!(response.body == whole, "it is the same");
        }
    }
}

#[tokio::test]
async fn a_question_at_the_start_of_a_long_event_lets_nothing_of_it_pass() {
    let head = "id: 1\ndata: {\"method\":\"elicitation/create\",\"x\":\"";
    let server = Server::start(move |_| {
        let parts = [Bytes::from_static(head.as_bytes())].into_iter();
        let tail = Bytes::from_static(b"\"}\n\ndata: {}\n\n");
        Answer::events(streamed(parts.chain(letters(17 * MIB)).chain([tail])))
    })
    .await;
    let relay = Relayed::start(&server).await;
    assert_eq!(relay.call().await.text(), "id: 1\ndata:\n\ndata: {}\n\n");
}

#[tokio::test]
async fn a_long_body_passes_in_parts_unless_it_may_ask() {
    for (tail, is_cut) in [("\"}", false), ("\",\"code\":-32042", true)] {
        let server = Server::start(move |_| {
            let head = Bytes::from_static(b"{\"x\":\"");
            let parts = [head].into_iter().chain(letters(17 * MIB));
            Answer::json(streamed(parts.chain([Bytes::from_static(tail.as_bytes())])))
        })
        .await;
        let relay = Relayed::start(&server).await;
        let response = relay.post(&call(1)).send().await.unwrap();
        let body = soon(response.bytes()).await;
        assert_eq!(body.is_err(), is_cut, "{tail}");
        if let Ok(body) = body {
            assert_eq!(body.len(), 17 * MIB + 8);
        }
    }
}

#[tokio::test]
async fn a_clients_message_has_a_bound() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let relay = Relayed::start(&server).await;
    let most = relay.client.post(relay.url()).body(vec![b' '; 16 * MIB]);
    assert_eq!(most.send().await.unwrap().status(), 200);
    assert_eq!(server.next().await.body.len(), 16 * MIB);
    let more = relay
        .client
        .post(relay.url())
        .body(vec![b' '; 16 * MIB + 1]);
    assert_eq!(more.send().await.unwrap().status(), 413);
    assert!(server.rest().is_empty());
}

#[tokio::test]
async fn refusals_are_posted_eight_at_a_time() {
    // The server answers no refusal before the test lets it.
    let (release, released) = watch::channel(false);
    let mut server = Server::start(move |seen| {
        if seen.json()["method"].is_string() {
            return Answer::events(events((1..=305).map(question).chain([result(1)])));
        }
        let mut released = released.clone();
        let body = stream::once(async move {
            released.wait_for(|released| *released).await.unwrap();
            Ok::<_, std::io::Error>(Bytes::new())
        });
        Answer::new(202, Body::from_stream(body))
    })
    .await;
    let relay = Relayed::start(&server).await;
    let response = relay.post(&call(1)).send().await.unwrap();
    server.next().await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(server.next().await.json()["id"].as_i64().unwrap());
    }
    assert!(server.rest().is_empty(), "no more while none is answered");
    ids.sort_unstable();
    assert_eq!(
        ids,
        (6..14).collect::<Vec<_>>(),
        "in the order of the questions"
    );
    release.send(true).unwrap();
    let expected = events((1..=5).map(question).chain([result(1)]));
    assert_eq!(Response_::of(response).await.text(), expected);
    for _ in 8..300 {
        ids.push(server.next().await.json()["id"].as_i64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (6..306).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_that_breaks_off_does_so_for_the_client_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let relay = Relayed::with_settings(&limited(&format!("http://{address}/"))).await;
    let sent = tokio::spawn(relay.post(&call(1)).send());
    let (mut server, _) = soon(listener.accept()).await.unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n";
    server.write_all(head.as_bytes()).await.unwrap();
    let mut response = soon(sent).await.unwrap().unwrap();
    assert_eq!(chunk(&mut response).await, "data: {}\n\n");
    drop(server);
    assert!(soon(response.chunk()).await.is_err());
}

#[tokio::test]
async fn at_the_end_streams_close_and_calls_are_waited_for() {
    let (stream_writer, stream) = Answer::written();
    let (call_writer, answer) = Answer::written();
    let answers = std::sync::Mutex::new(vec![answer, stream]);
    let server = Server::start(move |_| answers.lock().unwrap().pop().unwrap()).await;
    let mut relay = Relayed::start(&server).await;
    let mut stream = soon(relay.client.get(relay.url()).send()).await.unwrap();
    let called = soon(relay.post(&call(1)).send()).await.unwrap();
    relay.end();
    assert_eq!(soon(stream.chunk()).await.unwrap(), None);
    soon(stream_writer.closed()).await;
    let answer = events([result(1)]);
    call_writer.send(answer.clone().into()).unwrap();
    drop(call_writer);
    assert_eq!(Response_::of(called).await.text(), answer);
    relay.served().await;
}
