//! Connections of both sides: slow, gone, or of another kind.

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::harness::{Answer, Relayed, Response_, Server, call, chunk, limited, soon};

/// A relay in front of a server whose connections the test holds in its hands.
async fn by_hand() -> (Relayed, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (Relayed::with_settings(&limited(&url)).await, listener)
}

/// The next connection, once a whole call came over it.
async fn called(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = soon(listener.accept()).await.unwrap();
    read_call(&mut stream).await;
    stream
}

async fn read_call(stream: &mut TcpStream) -> String {
    let end = call(1).to_string();
    let mut text = String::new();
    while !text.ends_with(&end) {
        text.push(char::from(soon(stream.read_u8()).await.unwrap()));
    }
    assert_eq!(text.matches("POST ").count(), 1);
    text
}

/// Whether the other side closed it.
async fn is_closed(stream: &mut TcpStream) -> bool {
    !matches!(soon(stream.read(&mut [0])).await, Ok(1..))
}

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                        transfer-encoding: chunked\r\n\r\na\r\ndata: {}\n\n\r\n";
const HALF_A_BODY: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{";

#[tokio::test]
async fn a_server_that_is_busy_says_when_to_come_back() {
    for status in [429, 500, 503] {
        let mut server =
            Server::start(move |_| Answer::new(status, "later").with("retry-after", "7")).await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert_eq!((response.status, response.text()), (status, "later"));
        assert_eq!(response.headers["retry-after"], "7");
        server.next().await;
        assert!(server.rest().is_empty(), "it was asked once");
    }
}

#[tokio::test]
async fn a_head_may_come_in_pieces() {
    let (relay, listener) = by_hand().await;
    let answer = tokio::spawn(relay.post(&call(1)).send());
    let mut server = called(&listener).await;
    server.set_nodelay(true).unwrap();
    for byte in ANSWER {
        server.write_all(&[*byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
    assert_eq!((answer.status, answer.text()), (200, "{}"));
}

/// The server is not offered any, so these are more than it may send.
#[tokio::test]
async fn trailers_are_dropped_and_nothing_else() {
    let (relay, listener) = by_hand().await;
    for (kind, body) in [
        ("application/json", "[]"),
        ("text/event-stream", "data: []\n\n"),
    ] {
        let mut request = relay.post(&call(1)).header("te", "trailers");
        request = request.header("connection", "te");
        let answer = tokio::spawn(request.send());
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        let head = read_call(&mut server).await;
        assert!(!head.to_ascii_lowercase().contains("\r\nte:"), "{head}");
        let sent = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntrailer: x-a\r\nconnection: close\r\n\
             transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nx-a: 1\r\n\r\n",
            body.len()
        );
        server.write_all(sent.as_bytes()).await.unwrap();
        let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
        assert_eq!(answer.text(), body);
        assert_eq!(answer.headers.get("trailer"), None);
    }
}

/// At whatever point a client goes away, its server hears of it.
#[tokio::test]
async fn a_client_that_goes_away_cancels_its_call() {
    let (relay, listener) = by_hand().await;
    for answered in [&b""[..], b"HTTP/1.1 200 OK\r\n", HALF_A_BODY] {
        let answer = tokio::spawn(relay.post(&call(1)).send());
        let mut server = called(&listener).await;
        server.write_all(answered).await.unwrap();
        answer.abort();
        assert!(is_closed(&mut server).await, "{answered:?}");
    }
    let answer = tokio::spawn(relay.post(&call(1)).send());
    let mut server = called(&listener).await;
    server.write_all(STREAM).await.unwrap();
    let mut answer = soon(answer).await.unwrap().unwrap();
    assert_eq!(
        chunk(&mut answer).await,
        Bytes::from_static(b"data: {}\n\n")
    );
    drop(answer);
    assert!(is_closed(&mut server).await);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    let (relay, listener) = by_hand().await;
    for _ in 0..3 {
        let answer = tokio::spawn(relay.post(&call(1)).send());
        let mut server = called(&listener).await;
        server.write_all(ANSWER).await.unwrap();
        // Closed without a word in its head.
        drop(server);
        let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
        assert_eq!((answer.status, answer.text()), (200, "{}"));
    }
}

/// Whether the server began with it nobody knows.
#[tokio::test]
async fn a_call_that_was_sent_is_not_sent_again() {
    let (relay, listener) = by_hand().await;
    let answer = tokio::spawn(relay.post(&call(1)).send());
    let mut server = called(&listener).await;
    server.write_all(ANSWER).await.unwrap();
    assert_eq!(soon(answer).await.unwrap().unwrap().status(), 200);
    let answer = tokio::spawn(relay.post(&call(1)).send());
    read_call(&mut server).await;
    drop(server);
    let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
    assert_eq!(answer.status, 502);
    assert!(
        answer.text().contains("no answer from 127.0.0.1"),
        "{}",
        answer.text()
    );
    // Anything else on its way would be there before this.
    let next = tokio::spawn(relay.post(&call(1)).send());
    let mut server = called(&listener).await;
    server.write_all(ANSWER).await.unwrap();
    assert_eq!(soon(next).await.unwrap().unwrap().status(), 200);
}

/// Two readers of one connection must not differ about where a request ends: what one of them takes
/// for a body may be another request to the other, with the headers of the settings.
#[tokio::test]
async fn a_request_is_one_to_its_server_however_it_is_framed() {
    const INNER: &str = "POST /inner HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let chunked = format!("{:x}\r\n{INNER}\r\n0\r\n\r\n", INNER.len());
    let length = INNER.len();
    for (framing, body, passes) in [
        (format!("content-length: {length}"), INNER, true),
        (
            format!("content-length: {length}\r\nconnection: content-length"),
            INNER,
            true,
        ),
        ("transfer-encoding: chunked".to_owned(), &*chunked, true),
        (
            "transfer-encoding: Chunked\r\nconnection: transfer-encoding".to_owned(),
            &chunked,
            true,
        ),
        // The length is not believed beside chunks.
        (
            "content-length: 5\r\ntransfer-encoding: chunked".to_owned(),
            &chunked,
            true,
        ),
        (
            "content-length: 0\r\ncontent-length: 9".to_owned(),
            INNER,
            false,
        ),
        ("content-length: +5".to_owned(), INNER, false),
        ("content-length: 0, 9".to_owned(), INNER, false),
        (
            "transfer-encoding: chunked, identity".to_owned(),
            &chunked,
            false,
        ),
        ("transfer-encoding: xchunked".to_owned(), &chunked, false),
        ("content-length : 5".to_owned(), INNER, false),
        ("x: a\r\n content-length: 5".to_owned(), INNER, false),
        ("x: a\rb".to_owned(), INNER, false),
    ] {
        let (relay, listener) = by_hand().await;
        let mut client = TcpStream::connect(relay.address).await.unwrap();
        let request =
            format!("POST /github HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n\r\n{body}");
        client.write_all(request.as_bytes()).await.unwrap();
        if !passes {
            let mut answer = String::new();
            let _ = soon(client.read_to_string(&mut answer)).await;
            assert!(answer.starts_with("HTTP/1.1 4"), "{framing}: {answer}");
            assert!(answer.contains("connection: close"), "{framing}: {answer}");
            continue;
        }
        let (mut server, _) = soon(listener.accept()).await.unwrap();
        let mut seen = String::new();
        while !seen.ends_with(INNER) {
            seen.push(char::from(soon(server.read_u8()).await.unwrap()));
        }
        let head = seen.strip_suffix(INNER).unwrap().to_ascii_lowercase();
        assert!(head.ends_with("\r\n\r\n"), "{framing}: {seen}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {length}\r\n")),
            "{framing}: {seen}"
        );
        assert_eq!(
            head.matches("content-length").count(),
            1,
            "{framing}: {seen}"
        );
        assert!(!head.contains("transfer-encoding"), "{framing}: {seen}");
        server.write_all(ANSWER).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("{}") {
            answer.push(char::from(soon(client.read_u8()).await.unwrap()));
        }
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{framing}: {answer}");
    }
}

/// The length of a response in chunks was passed on with it: a client took what came after so many
/// bytes for the answer to its next request, which may have been one to another server.
#[tokio::test]
async fn a_response_is_one_to_its_client_however_it_is_framed() {
    const INNER: &str = "HTTP/1.1 200 OK\r\nx-inner: 1\r\ncontent-length: 0\r\n\r\n";
    let length = INNER.len();
    let chunked = format!("{length:x}\r\n{INNER}\r\n0\r\n\r\n");
    for (framing, body, expected) in [
        (format!("content-length: {length}"), INNER, INNER),
        (
            "content-length: 1\r\ntransfer-encoding: chunked".to_owned(),
            &*chunked,
            INNER,
        ),
        (
            "content-length: 1\r\ncontent-length: 9".to_owned(),
            INNER,
            "",
        ),
        ("x: a\r\nset-cookie: b".to_owned(), "", ""),
    ] {
        let (relay, listener) = by_hand().await;
        let answer = tokio::spawn(relay.post(&call(1)).send());
        let mut server = called(&listener).await;
        let sent = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{framing}\r\n\r\n{body}");
        server.write_all(sent.as_bytes()).await.unwrap();
        drop(server);
        let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
        assert!(!answer.headers.contains_key("x-inner"), "{framing}");
        match answer.status {
            200 => assert_eq!(answer.text(), expected, "{framing}"),
            other => assert_eq!((other, expected), (502, ""), "{framing}"),
        }
    }
}

#[tokio::test]
async fn no_server_gets_another_protocol_to_its_client() {
    let (relay, listener) = by_hand().await;
    for status in ["101 Switching Protocols", "103 Early Hints"] {
        let answer = tokio::spawn(relay.post(&call(1)).send());
        let mut server = called(&listener).await;
        let head =
            format!("HTTP/1.1 {status}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
        server.write_all(head.as_bytes()).await.unwrap();
        server.write_all(ANSWER).await.unwrap();
        drop(server);
        let answer = Response_::of(soon(answer).await.unwrap().unwrap()).await;
        let expected = if status.starts_with("101") { 502 } else { 200 };
        assert_eq!(answer.status, expected, "{status}");
        assert!(!answer.headers.contains_key("upgrade"), "{status}");
    }
}

#[tokio::test]
async fn a_client_that_begins_with_http2_is_turned_away() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let relay = Relayed::start(&server).await;
    let mut client = TcpStream::connect(relay.address).await.unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    client.write_all(&settings).await.unwrap();
    let mut answer = Vec::new();
    // It may be reset as well, since not all that was sent is read.
    let _ = soon(client.read_to_end(&mut answer)).await;
    assert_eq!(answer, b"");
    assert!(server.rest().is_empty());
}
