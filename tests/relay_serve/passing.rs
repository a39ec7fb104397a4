//! What is not a question passes as if the relay were not there.

use bytes::Bytes;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Relayed, Response_, Server, call, chunk, rest, soon};

#[tokio::test]
async fn a_request_and_its_answer_pass_with_headers_and_bytes() {
    // Odd spacing, an unknown member and a repeated one: no reader of ours may have touched it.
    let body = r#"{ "jsonrpc":"2.0", "id" : 1,"result":{"x":0.10,"x":1e3},"future":[ ] }"#;
    let mut server = Server::start(move |_| {
        Answer::json(body)
            .with("mcp-session-id", "s-1")
            .with("etag", "\"e\"")
            .with("set-cookie", "a=1")
            .with("set-cookie", "b=2")
            .with("alt-svc", "h3=\":443\"")
            .with("connection", "x-hop")
            .with("x-hop", "1")
            .with(
                "www-authenticate",
                "Bearer resource_metadata=\"https://a.example/x\"",
            )
    })
    .await;
    let relay = Relayed::start(&server).await;
    let sent = r#"{ "jsonrpc": "2.0", "id":1, "method":"tools/call","params":{"name":"t"} }"#;
    let response = relay
        .client
        .post(format!("{}?a=b%20c", relay.url()))
        .header("authorization", "Bearer token")
        .header("mcp-param-colour", "red")
        .header("mcp-protocol-version", "2025-11-25")
        .header("accept-encoding", "gzip")
        .header("connection", "x-mine")
        .header("x-mine", "1")
        .body(sent);
    let response = Response_::of(response.send().await.unwrap()).await;

    let seen = server.next().await;
    assert_eq!(seen.method, Method::POST);
    assert_eq!(seen.target, "/mcp?a=b%20c");
    assert_eq!(seen.body, sent);
    let host = server.address.to_string();
    for (name, value) in [
        ("authorization", Some("Bearer token")),
        ("mcp-param-colour", Some("red")),
        ("mcp-protocol-version", Some("2025-11-25")),
        ("accept-encoding", Some("identity")),
        ("host", Some(host.as_str())),
        ("x-mine", None),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    assert_eq!(response.status, 200);
    assert_eq!(response.text(), body);
    for (name, value) in [
        ("content-type", Some("application/json")),
        ("content-length", Some(body.len().to_string().as_str())),
        ("mcp-session-id", Some("s-1")),
        ("etag", Some("\"e\"")),
        (
            "www-authenticate",
            Some("Bearer resource_metadata=\"https://a.example/x\""),
        ),
        ("alt-svc", None),
        ("x-hop", None),
    ] {
        let found = response.headers.get(name).map(|it| it.to_str().unwrap());
        assert_eq!(found, value, "{name}");
    }
    let cookies: Vec<_> = response.headers.get_all("set-cookie").iter().collect();
    // They are for this server, of the many at this host.
    assert_eq!(cookies, ["a=1; Path=/github", "b=2; Path=/github"]);
}

#[tokio::test]
async fn every_status_and_body_passes() {
    for (status, body) in [
        (202, ""),
        (204, ""),
        (
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#,
        ),
        (401, "login first"),
        (404, "<html>no session</html>"),
        (429, "not ours"),
        (500, "{\"half\":"),
    ] {
        let server = Server::start(move |_| Answer::new(status, body)).await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert_eq!((response.status, response.text()), (status, body));
    }
}

#[tokio::test]
async fn a_stream_passes_byte_for_byte_and_at_once() {
    let (writer, answer) = Answer::written();
    let answer = std::sync::Mutex::new(Some(answer));
    let mut server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
    let relay = Relayed::start(&server).await;
    let opened = relay
        .client
        .get(relay.url())
        .header("accept", "text/event-stream")
        .header("last-event-id", "7")
        .header("mcp-session-id", "s")
        .send();
    let mut response = soon(opened).await.unwrap();
    let seen = server.next().await;
    assert_eq!(seen.method, Method::GET);
    assert_eq!(seen.header("last-event-id"), Some("7"));
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    // Each piece is there before the next is written.
    for piece in [
        &b"\xEF\xBB\xBF: hello\n"[..],
        b"\n",
        b"id: 1\r\nevent: message\r\ndata: {\"method\":\"notifications/message\"}\r\n\r\n",
        b": ping\n",
        b"data: {\"a\":1,\ndata:  \"b\":[]}\n\n",
        b"retry: 5\rid: 2\rdata\r\r",
        b"unknown: field\ndata: not json\n\n",
        b"data: \xff\xfe\n\n",
    ] {
        writer.send(Bytes::from_static(piece)).unwrap();
        let mut got = Vec::new();
        while got.len() < piece.len() {
            got.extend_from_slice(&chunk(&mut response).await);
        }
        assert_eq!(got, piece);
    }
    writer.send(Bytes::from_static(b"data: {\"half\"")).unwrap();
    drop(writer);
    assert_eq!(rest(response).await, b"data: {\"half\"");
}

#[tokio::test]
async fn a_session_is_ended_by_the_client() {
    let mut server = Server::start(|_| Answer::new(200, "")).await;
    let relay = Relayed::start(&server).await;
    let delete = relay
        .client
        .delete(relay.url())
        .header("mcp-session-id", "s");
    assert_eq!(delete.send().await.unwrap().status(), 200);
    let seen = server.next().await;
    assert_eq!(seen.method, Method::DELETE);
    assert_eq!(seen.header("mcp-session-id"), Some("s"));
}

#[tokio::test]
async fn names_are_percent_encoded_and_others_are_not_found() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let settings = format!("[servers.\"a/b c\"]\nurl = {:?}\n", server.url());
    let relay = Relayed::with_settings(&settings).await;
    for (path, status) in [
        ("/a%2Fb%20c", 200),
        ("/a%2Fb%20c/", 200),
        ("/a%2Fb%20c/label", 200),
        ("/a%2Fb%20c/label/more", 404),
        ("/a/b c", 404),
        // A page of the relay's own, to look at.
        ("/", 405),
        ("/github", 404),
        ("/.well-known/oauth-protected-resource", 404),
    ] {
        let url = format!("http://{}{path}", relay.address);
        let response = relay.client.post(url).body(call(1).to_string()).send();
        assert_eq!(response.await.unwrap().status(), status, "{path}");
    }
    assert_eq!(server.next().await.target, "/mcp");
    let put = relay
        .client
        .put(format!("http://{}/a%2Fb%20c", relay.address));
    let response = put.send().await.unwrap();
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "GET, POST, DELETE, OPTIONS");
}

#[tokio::test]
async fn headers_of_the_settings_are_there_unless_the_client_has_its_own() {
    let mut server = Server::start(|_| Answer::json(json!({}).to_string())).await;
    let settings = format!(
        "[servers.github]\nurl = \"{}?key=k\"\nheaders = {{ Authorization = \"Bearer ours\", X-A = \"a\" }}\n",
        server.url()
    );
    let relay = Relayed::with_settings(&settings).await;
    relay.call().await;
    let seen = server.next().await;
    assert_eq!(seen.header("authorization"), Some("Bearer ours"));
    assert_eq!(seen.header("x-a"), Some("a"));
    assert_eq!(seen.target, "/mcp?key=k");
    let own = relay
        .post(&call(1))
        .header("authorization", "Bearer theirs");
    own.send().await.unwrap();
    let seen = server.next().await;
    assert_eq!(seen.headers.get_all("authorization").iter().count(), 1);
    assert_eq!(seen.header("authorization"), Some("Bearer theirs"));
}
