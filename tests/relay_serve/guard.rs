//! What does not get in, and what does not get around.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::harness::{Answer, Relayed, Server, call, limited, question, soon};

/// The status of a request written by hand.
async fn status(relay: &Relayed, head: &str) -> u16 {
    let mut stream = TcpStream::connect(relay.address).await.unwrap();
    let request = format!("{head}connection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn pages_of_other_sites_are_kept_out_before_anything_else() {
    let mut server = Server::start(|_| Answer::json("{}")).await;
    let relay = Relayed::with(&limited(&server.url()), |relay| {
        relay
            .with_host("relay.example")
            .with_origin("https://app.example")
    })
    .await;
    for (head, expected) in [
        ("POST /github HTTP/1.1\r\nhost: localhost:1\r\n", 200),
        ("POST /github HTTP/1.1\r\nhost: relay.example\r\n", 200),
        (
            "POST /github HTTP/1.1\r\nhost: localhost\r\norigin: https://app.example\r\n",
            200,
        ),
        (
            "POST /github HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost:6274\r\n",
            200,
        ),
        ("POST /github HTTP/1.1\r\nhost: evil.example\r\n", 403),
        (
            "POST /github HTTP/1.1\r\nhost: localhost\r\norigin: null\r\n",
            403,
        ),
        (
            "POST /github HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.example\r\n",
            403,
        ),
        (
            "POST http://evil.example/github HTTP/1.1\r\nhost: localhost\r\n",
            403,
        ),
        ("POST /github HTTP/1.1\r\n", 403),
        ("GET /nothing HTTP/1.1\r\nhost: evil.example\r\n", 403),
        ("PUT /github HTTP/1.1\r\nhost: evil.example\r\n", 403),
    ] {
        assert_eq!(status(&relay, head).await, expected, "{head}");
    }
    assert_eq!(server.rest().len(), 4);
}

/// What a hostile server answered to a link was a page of the relay's own origin: its script could
/// mute servers, and read every other one with the headers of the settings.
#[tokio::test]
async fn no_browser_shows_a_server_and_no_image_reaches_it() {
    let mut server = Server::start(|_| {
        Answer::new(200, "<script>fetch('/status')</script>")
            .with("content-type", "text/html")
            .with("content-security-policy", "script-src *")
    })
    .await;
    let relay = Relayed::start(&server).await;
    let get = "GET /github HTTP/1.1\r\nhost: localhost\r\n";
    for (fetched, expected) in [
        ("sec-fetch-site: none\r\nsec-fetch-mode: navigate\r\n", 403),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n",
            403,
        ),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
            403,
        ),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: cors\r\norigin: http://localhost:1\r\n",
            200,
        ),
        // fetch() of Node says no more than that.
        ("sec-fetch-mode: cors\r\n", 200),
    ] {
        let found = status(&relay, &format!("{get}{fetched}")).await;
        assert_eq!(found, expected, "{fetched}");
    }
    assert_eq!(server.rest().len(), 2);
    // The page of the relay's own may be linked to.
    let page = "GET / HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n\
                sec-fetch-mode: navigate\r\n";
    assert_eq!(status(&relay, page).await, 200);
    // Older browsers say nothing of it.
    let shown = relay.call().await;
    let policies: Vec<_> = shown
        .headers
        .get_all("content-security-policy")
        .iter()
        .collect();
    assert_eq!(policies, ["default-src 'none'; sandbox"]);
    assert_eq!(shown.headers["x-content-type-options"], "nosniff");
}

/// What MCP servers answer with is no page to any browser, so that nothing is added to it.
#[tokio::test]
async fn json_and_what_is_empty_pass_with_the_servers_headers_alone() {
    for (kind, body, is_sandboxed) in [
        (Some("application/json"), "{}", false),
        (Some("Application/JSON; charset=utf-8"), "{}", false),
        (Some("text/event-stream"), "data: {}\n\n", false),
        (None, "", false),
        (None, "<script></script>", true),
        (Some("text/plain"), "no such session", true),
    ] {
        let server = Server::start(move |_| {
            let answer = Answer::new(200, body);
            match kind {
                Some(kind) => answer.with("content-type", kind),
                None => answer,
            }
        })
        .await;
        let relay = Relayed::start(&server).await;
        let shown = relay.call().await;
        for name in ["content-security-policy", "x-content-type-options"] {
            assert_eq!(
                shown.headers.contains_key(name),
                is_sandboxed,
                "{kind:?} {name}"
            );
        }
    }
}

#[tokio::test]
async fn redirects_are_followed_to_the_server_alone() {
    for (status, to, expected) in [
        (307, "/other?x=1", 200),
        (308, "/other?x=1", 200),
        (301, "/other?x=1", 502),
        (302, "/other?x=1", 502),
        (303, "/other?x=1", 502),
        (307, "http://elsewhere.example/token", 502),
        (307, "/mcp", 502),
    ] {
        let mut server = Server::start(move |seen| match seen.target.as_str() {
            "/mcp" => Answer::new(status, "").with("location", to),
            _ => Answer::json(format!("[{}]", vec![question(1).to_string(); 6].join(","))),
        })
        .await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert_eq!(response.status, expected, "{status} {to}");
        assert!(!response.headers.contains_key("location"));
        if expected == 200 {
            server.next().await;
            let seen = server.next().await;
            assert_eq!(seen.target, "/other?x=1");
            assert_eq!(seen.json(), call(1), "the request is the same");
            // Refusals are not redirected: they go where the question came from.
            let seen = server.next().await;
            assert_eq!(seen.target, "/other?x=1");
            assert!(seen.json().is_array());
        } else {
            let host = match to.strip_prefix("http://") {
                Some(_) => "elsewhere.example".to_owned(),
                None => server.address.to_string(),
            };
            assert!(response.text().contains(&host), "{}", response.text());
            assert!(!response.text().contains("token"), "{}", response.text());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_a_bad_gateway() {
    for (name, value) in [
        ("content-encoding", "gzip"),
        ("content-encoding", "identity, br"),
        ("content-type", "application/json; x=text/event-stream"),
        ("content-type", "text/event-stream; x=application/json"),
    ] {
        let server = Server::start(move |_| Answer::new(200, "{}").with(name, value)).await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        assert_eq!(response.status, 502, "{value}");
        assert!(
            response
                .text()
                .starts_with("mcp-question-throttle: the server")
        );
    }
    let server =
        Server::start(|_| Answer::json("{}").with("content-type", "text/event-stream")).await;
    assert_eq!(Relayed::start(&server).await.call().await.status, 502);
    let server = Server::start(|_| Answer::json("{}").with("content-encoding", "identity")).await;
    assert_eq!(Relayed::start(&server).await.call().await.status, 200);
}

#[tokio::test]
async fn the_endpoint_of_the_first_transport_does_not_pass() {
    let (writer, answer) = Answer::written();
    let answer = std::sync::Mutex::new(Some(answer));
    let server = Server::start(move |_| answer.lock().unwrap().take().unwrap()).await;
    let relay = Relayed::start(&server).await;
    let response = soon(relay.client.get(relay.url()).send()).await.unwrap();
    writer
        .send(": hello\n\nevent: endpoint\ndata: /messages?id=1\n\ndata: {}\n\n".into())
        .unwrap();
    assert_eq!(crate::harness::rest(response).await, b": hello\n\n");
    soon(writer.closed()).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_without_its_url() {
    let settings = "[servers.github]\nurl = \"http://127.0.0.1:1/secret?key=secret\"\n";
    let relay = Relayed::with_settings(settings).await;
    let response = relay.call().await;
    assert_eq!(response.status, 502);
    assert!(
        response.text().contains("no answer from 127.0.0.1:1"),
        "{}",
        response.text()
    );
    assert!(!response.text().contains("secret"), "{}", response.text());
}
