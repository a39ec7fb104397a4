//! What is bounded, and how it ends.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    time,
};

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

/// A string of so many letters: a client's message that is no call.
fn message(letters: usize) -> Value {
    "x".repeat(letters).into()
}

async fn shortages(relay: &Relayed) -> u64 {
    let url = format!("http://{}/metrics", relay.address);
    let metrics = Response_::of(soon(relay.client.get(url).send()).await.unwrap()).await;
    let name = "mcp_question_throttle_memory_shortages_total{server=\"github\"} ";
    let line = metrics
        .text()
        .lines()
        .find_map(|line| line.strip_prefix(name));
    line.unwrap().parse().unwrap()
}

/// Each connection may hold 16 MiB, and there was no bound over all of them.
#[tokio::test]
async fn what_all_clients_send_at_once_has_a_bound() {
    // Messages are held until they are answered.
    let (release, released) = watch::channel(false);
    let mut server = Server::start(move |_| Answer::json("{}").after(released.clone())).await;
    let relay = Relayed::with(&limited(&server.url()), |it| it.with_memory(2 * MIB)).await;
    // While one arrives it may take twice its length, so that there may be room for one or for two.
    let mut held = Vec::new();
    let refused = loop {
        let mut sent = tokio::spawn(relay.post(&message(MIB)).send());
        tokio::select! {
            _ = server.next() => held.push(sent),
            response = &mut sent => break Response_::of(response.unwrap().unwrap()).await,
        }
        assert!(held.len() < 3, "no bound");
    };
    assert!(!held.is_empty());
    assert_eq!(
        (refused.status, &refused.headers["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    assert!(refused.text().contains("holds as much"), "{refused:?}");
    assert_eq!(shortages(&relay).await, 1);

    // What is small passes all the same.
    let small = tokio::spawn(relay.post(&call(1)).send());
    server.next().await;
    release.send(true).unwrap();
    for sent in held.into_iter().chain([small]) {
        assert_eq!(soon(sent).await.unwrap().unwrap().status(), 200);
    }
    // There is room again.
    assert_eq!(
        soon(relay.post(&message(MIB)).send())
            .await
            .unwrap()
            .status(),
        200
    );
    assert_eq!(server.next().await.body.len(), MIB + 2);
    assert!(server.rest().is_empty());
}

#[tokio::test]
async fn messages_that_are_half_there_do_not_wait_for_one_another() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let relay = Relayed::with(&limited(&server.url()), |it| it.with_memory(2 * MIB)).await;
    let mut halves = Vec::new();
    for _ in 0..8 {
        let (rest, body) = mpsc::unbounded_channel();
        rest.send(Bytes::from(vec![b' '; MIB])).unwrap();
        let body = stream::unfold(body, async |mut body| {
            let part: Bytes = body.recv().await?;
            Some((Ok::<_, std::io::Error>(part), body))
        });
        let body = reqwest::Body::wrap_stream(body);
        let sent = tokio::spawn(relay.client.post(relay.url()).body(body).send());
        halves.push((rest, sent));
    }
    // All are told apart, though none has ended.
    while shortages(&relay).await < 6 {
        tokio::task::yield_now().await;
    }
    assert!(server.rest().is_empty());
    let mut passed = 0;
    for (rest, sent) in halves {
        rest.send(Bytes::from_static(b"{}")).unwrap();
        drop(rest);
        match soon(sent).await.unwrap().unwrap().status().as_u16() {
            200 => passed += 1,
            other => assert_eq!(other, 503),
        }
    }
    assert!((1..=2).contains(&passed), "{passed}");
    for _ in 0..passed {
        assert_eq!(server.next().await.body.len(), MIB + 2);
    }
    assert!(server.rest().is_empty());
}

/// One that sent half a message held its connection for ever.
#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_go_on_is_given_up() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let relay = Relayed::start(&server).await;
    let head = "POST /github HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 4\r\n\r\n";
    for (pause, expected) in [(40, "HTTP/1.1 200 "), (70, "HTTP/1.1 408 ")] {
        let mut client = TcpStream::connect(relay.address).await.unwrap();
        client.write_all(head.as_bytes()).await.unwrap();
        for byte in b"true" {
            // It may have been given up by now.
            let _ = client.write_all(&[*byte]).await;
            time::sleep(Duration::from_secs(pause)).await;
        }
        let mut answer = String::new();
        let _ = soon(client.read_to_string(&mut answer)).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    assert_eq!(server.next().await.body, "true");
    assert!(server.rest().is_empty());
}

/// A question that is judged as a whole within the bounds, and found in parts beyond them.
#[tokio::test]
async fn without_room_an_answer_goes_on_in_parts() {
    let long = |tail: &'static str| {
        let head = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"x\":\"");
        let tail = Bytes::from_static(tail.as_bytes());
        [head].into_iter().chain(letters(MIB)).chain([tail])
    };
    let (question, other) = ("\",\"method\":\"elicitation/create\"}", "\"}");
    for (tail, memory, is_cut) in [
        (question, 4 * MIB, false),
        (question, MIB / 2, true),
        (other, MIB / 2, false),
    ] {
        let whole: Vec<u8> = long(tail).flatten().collect();
        let server = Server::start(move |_| Answer::json(streamed(long(tail)))).await;
        let relay = Relayed::with(&limited(&server.url()), |it| it.with_memory(memory)).await;
        let body = soon(relay.post(&call(1)).send())
            .await
            .unwrap()
            .bytes()
            .await;
        assert_eq!(body.is_err(), is_cut, "{tail} {memory}");
        assert!(body.is_err() || body.unwrap() == whole);

        let after = "data: {\"after\":1}\n\n";
        let server = Server::start(move |_| {
            let ends = [
                Bytes::from_static(b"\n\n"),
                Bytes::from_static(after.as_bytes()),
            ];
            let event = [Bytes::from_static(b"data: ")]
                .into_iter()
                .chain(long(tail));
            Answer::events(streamed(event.chain(ends)))
        })
        .await;
        let relay = Relayed::with(&limited(&server.url()), |it| it.with_memory(memory)).await;
        let events = relay.call().await;
        assert!(events.text().ends_with(after));
        assert_eq!(
            events.text().contains("elicitation"),
            tail == question && !is_cut
        );
        assert!(is_cut || events.body.len() == whole.len() + "data: \n\n".len() + after.len());
        assert_eq!(shortages(&relay).await > 0, memory < MIB);
    }
}

/// What is read from the server and not taken by the client counts as long as it is there.
#[tokio::test]
async fn what_a_client_does_not_read_is_counted() {
    // More than the system's buffers take.
    let event = Bytes::from(format!("data: \"{}\"\n\n", "x".repeat(12 * MIB)));
    let whole = event.clone();
    let server = Server::start(move |_| Answer::events(event.clone())).await;
    let relay = Relayed::with(&limited(&server.url()), |it| it.with_memory(24 * MIB)).await;
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut response = soon(relay.post(&call(1)).send()).await.unwrap();
        // Once something of it is there, it was whole.
        chunk(&mut response).await;
        assert!(shortages(&relay).await <= unread.len() as u64);
        unread.push(response);
    }
    assert!(relay.call().await.body == whole);
    assert!(shortages(&relay).await >= 1);
    drop(unread);
    // There is room again once the relay has heard of it.
    loop {
        let before = shortages(&relay).await;
        assert!(relay.call().await.body == whole);
        if shortages(&relay).await == before {
            break;
        }
    }
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
