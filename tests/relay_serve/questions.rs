//! Server requests in events and in bodies: the first five of each kind pass.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{
    Answer, Relayed, Response_, Server, call, events, limited, question, result, soon,
};

/// A server that answers calls with `script`, and takes refusals.
async fn asking(script: impl Fn() -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |seen| match seen.json()["method"].as_str() {
        Some(_) => script(),
        None => Answer::new(202, ""),
    })
    .await
}

#[tokio::test]
async fn what_is_over_the_limit_goes_back_to_the_server() {
    let all: Vec<_> = (1..=8).map(question).chain([result("c")]).collect();
    let stream = events(all.clone());
    let mut server =
        asking(move || Answer::events(stream.clone()).with("mcp-session-id", "no")).await;
    let relay = Relayed::start(&server).await;
    let response = relay
        .post(&call("c"))
        .header("authorization", "Bearer token")
        .header("cookie", "a=1")
        .header("mcp-session-id", "s")
        .header("mcp-protocol-version", "2025-11-25")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "t")
        .header("mcp-param-x", "1")
        .header("x-tenant", "me")
        .send();
    let response = Response_::of(response.await.unwrap()).await;
    let passed = events(all[..5].iter().cloned().chain([result("c")]));
    assert_eq!(response.text(), passed);
    assert_eq!(response.headers["content-type"], "text/event-stream");

    assert_eq!(server.next().await.json(), call("c"));
    let mut refused = Vec::new();
    for _ in 6..=8 {
        let seen = server.next().await;
        assert_eq!(seen.target, "/mcp");
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("accept", Some("application/json, text/event-stream")),
            ("accept-encoding", Some("identity")),
            ("authorization", Some("Bearer token")),
            ("cookie", Some("a=1")),
            ("mcp-session-id", Some("s")),
            ("mcp-protocol-version", Some("2025-11-25")),
            ("x-tenant", Some("me")),
            ("mcp-method", None),
            ("mcp-name", None),
            ("mcp-param-x", None),
        ] {
            assert_eq!(seen.header(name), value, "{name}");
        }
        let message = seen.json();
        assert_eq!(message["error"]["code"], -32603);
        assert_eq!(message["error"]["data"]["cause"], "limit_exceeded");
        assert_eq!(message["error"]["data"]["max"], 5);
        refused.push(message["id"].as_i64().unwrap());
    }
    // They are posted side by side.
    refused.sort_unstable();
    assert_eq!(refused, [6, 7, 8]);
    assert!(server.rest().is_empty());
}

#[tokio::test]
async fn a_refusal_has_the_id_as_it_was_written() {
    let ids = [
        "\"7\"",
        "1.50",
        "-3",
        "true",
        "[1, 2]",
        "{\"a\":1}",
        "12345678901234567890123",
    ];
    let mut stream = events((1..=5).map(question));
    for id in ids {
        stream += &format!("data: {{\"method\":\"elicitation/create\",\"id\":{id}}}\n\n");
    }
    let mut server = asking(move || Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    assert_eq!(relay.call().await.text(), events((1..=5).map(question)));
    server.next().await;
    let mut bodies = Vec::new();
    for _ in ids {
        bodies.push(server.next().await.body);
    }
    for id in ids {
        let start = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\"");
        assert!(
            bodies.iter().any(|body| body.starts_with(start.as_bytes())),
            "{id}"
        );
    }
}

#[tokio::test]
async fn a_withheld_event_leaves_its_place_in_the_stream() {
    let stream = events((1..=5).map(question))
        + ": comment\r\n"
        + &format!(
            "id: 6\r\nevent: message\r\nretry: 100\r\ndata: {}\r\n\r\n",
            question(6)
        )
        + &format!("data: {}\nid: 7\n\n", question(7))
        + &format!("data: {}\n\n", question(8))
        + &format!("data: {}\n\n", result(1));
    let server = asking(move || Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    let expected = events((1..=5).map(question))
        + ": comment\r\n"
        + "id: 6\r\nretry: 100\r\ndata:\n\n"
        + "id: 7\ndata:\n\n"
        + &format!("data: {}\n\n", result(1));
    assert_eq!(relay.call().await.text(), expected);
}

#[tokio::test]
async fn a_question_without_id_is_dropped_and_nobody_told() {
    let notification = json!({"jsonrpc": "2.0", "method": "sampling/createMessage"});
    let all = vec![notification; 7];
    let stream = events(all.iter().cloned().chain([result(1)]));
    let mut server = asking(move || Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    let expected = events(all[..5].iter().cloned().chain([result(1)]));
    assert_eq!(relay.call().await.text(), expected);
    server.next().await;
    assert!(server.rest().is_empty());
}

/// Six questions, however they are written down: the sixth does not pass.
async fn sixth_is_refused(stream: &[u8], step: usize) -> String {
    let owned = stream.to_vec();
    let mut server = asking(move || Answer::events_in_steps(&owned, step)).await;
    let relay = Relayed::start(&server).await;
    let response = relay.call().await;
    server.next().await;
    assert_eq!(server.next().await.json()["id"], 6);
    String::from_utf8(response.body.to_vec()).unwrap()
}

#[tokio::test]
async fn questions_are_found_however_lines_end_and_bytes_arrive() {
    for (end, step) in [
        ("\n", 1),
        ("\r\n", 1),
        ("\r", 1),
        ("\r\n", 7),
        ("\r", 1000),
        ("\n", 1000),
    ] {
        let event = |id: i32| format!("event: odd{end}data:{}{end}{end}", question(id));
        let before: String = (1..=5).map(event).collect();
        let stream = format!("\u{feff}{before}{}", event(6));
        let left = sixth_is_refused(stream.as_bytes(), step).await;
        assert_eq!(
            left.trim_end(),
            format!("\u{feff}{before}").trim_end(),
            "{end:?} {step}"
        );
    }
}

#[tokio::test]
async fn the_last_event_need_not_end() {
    let before = events((1..=5).map(question));
    let left = sixth_is_refused(format!("{before}data: {}", question(6)).as_bytes(), 1000).await;
    assert_eq!(left, before);
}

#[tokio::test]
async fn data_over_several_lines_is_one_message() {
    let before = events((1..=5).map(question));
    let sixth = "data: {\"method\":\ndata:\"elicitation/create\"\nid: 9\ndata: ,\"id\":6}\n\n";
    let left = sixth_is_refused(format!("{before}{sixth}").as_bytes(), 5).await;
    assert_eq!(left, format!("{before}id: 9\ndata:\n\n"));
}

/// Events that are no message to the standard, and a question to some reader.
#[tokio::test]
async fn what_only_some_readers_take_for_a_question_is_withheld() {
    let question = r#"{"id":6,"method":"elicitation/create"}"#;
    let next = "data: {\"id\":1,\"result\":{}}\n\n";
    for (event, left) in [
        // Each line of data for itself.
        (
            format!("data: {{\"a\":\ndata: {question}\ndata: }}\n\n"),
            "",
        ),
        (
            format!("id: 5\ndata: [\ndata: {question}\n\n"),
            "id: 5\ndata:\n\n",
        ),
        // Lines of data put together without anything between them.
        (
            "data: {\"id\":6,\"method\":\"elicitation/\ndata: create\"}\n\n".to_owned(),
            "",
        ),
        // Lines that end elsewhere.
        (
            format!(": \u{2028}data: {question}\u{2028}\u{2028}\n\n"),
            "",
        ),
        // Both.
        (
            ":\u{b}data: {\"id\":6,\"method\":\"elicitation/\u{2028}data: create\"}\n\n".to_owned(),
            "",
        ),
        (
            "data: {\"id\":6,\r\"method\":\"elicitation/\ndata: create\"}\n\n".to_owned(),
            "",
        ),
        (format!(":\u{2028}Data: {question}\n\n"), "\n"),
        (format!("id: 1\u{85}data: {question}\n\n"), ""),
        // An event that only others take to have ended.
        (
            "data: {\"id\":6,\r\r\"method\":\"elicitation/\ndata: create\"}\n\n".to_owned(),
            "data: {\"id\":6,\r\r",
        ),
        (
            "data: {\"id\":6,\rxx \"method\":\"elicitation/create\"}\n\n".to_owned(),
            "",
        ),
        // Other names of the field.
        (format!("Data: {question}\n\n"), ""),
        (format!(" data: {question}\n\n"), ""),
        (format!("{question}\n\n"), ""),
        // No JSON.
        (format!("data: {question}{question}\n\n"), ""),
        (format!("data: {}\n\n", &question[..question.len() - 1]), ""),
        (format!("data: \0{question}\n\n"), ""),
    ] {
        let stream = format!("{event}{next}");
        let server = asking(move || Answer::events(stream.clone())).await;
        let relay = Relayed::start(&server).await;
        let got = relay.call().await;
        let got = got.text();
        assert_eq!(got, format!("{left}{next}"), "{event:?}");
        assert!(!got.contains("elicitation"), "{event:?}");
    }
}

#[tokio::test]
async fn a_vendors_question_counts_where_it_is_named() {
    let form = |id: i32| json!({"id": id, "method": "openai/form"});
    let stream = events((1..=6).map(form));
    let mut server = asking(move || Answer::events(stream.clone())).await;
    let settings = format!(
        "{}[proto.questions]\n\"openai/form\" = \"elicitation\"\n",
        limited(&server.url())
    );
    let relay = Relayed::with_settings(&settings).await;
    assert_eq!(relay.call().await.text(), events((1..=5).map(form)));
    server.next().await;
    assert_eq!(server.next().await.json()["id"], 6);
}

#[tokio::test]
async fn a_batch_loses_its_refused_members() {
    let all: Vec<Value> = (1..=7).map(question).chain([result("c")]).collect();
    let body = Value::from(all.clone()).to_string();
    let stream = format!("id: 1\ndata: {body}\n\n");
    for is_stream in [false, true] {
        let (body, stream) = (body.clone(), stream.clone());
        let mut server = asking(move || match is_stream {
            true => Answer::events(stream.clone()),
            false => Answer::json(body.clone())
                .with("etag", "\"e\"")
                .with("content-digest", "sha-256=:x:"),
        })
        .await;
        let relay = Relayed::start(&server).await;
        let response = relay.call().await;
        let left = Value::from([&all[..5], &[result("c")]].concat()).to_string();
        if is_stream {
            assert_eq!(response.text(), format!("id: 1\ndata: {left}\n\n"));
        } else {
            assert_eq!(response.text(), left);
            assert_eq!(response.headers["content-length"], left.len().to_string());
            assert!(!response.headers.contains_key("etag"));
            assert!(!response.headers.contains_key("content-digest"));
        }
        server.next().await;
        let refusals = server.next().await.json();
        let ids: Vec<_> = refusals
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["id"])
            .collect();
        assert_eq!(ids, [6, 7]);
    }
}

#[tokio::test]
async fn a_body_that_is_only_a_question_ends_the_call() {
    let mut server = asking(move || Answer::json(question("q").to_string())).await;
    let relay = Relayed::start(&server).await;
    for _ in 0..5 {
        assert_eq!(relay.call().await.text(), question("q").to_string());
    }
    let response = relay.call().await;
    assert_eq!(response.status, 200);
    let answer: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!(1), &json!(-32603))
    );
    for _ in 0..6 {
        assert_eq!(server.next().await.json()["method"], "tools/call");
    }
    assert_eq!(server.next().await.json()["id"], "q");
}

#[tokio::test]
async fn a_body_that_nobody_can_read_for_sure_is_not_sent() {
    let two = format!("{}\n{}", question(1), question(2));
    let server = asking(move || Answer::new(200, two.clone()).with("content-type", "text/x")).await;
    let relay = Relayed::start(&server).await;
    let response = relay.call().await;
    assert_eq!(response.status, 502);
    assert!(
        response.text().contains("may hold a question"),
        "{}",
        response.text()
    );
}

#[tokio::test]
async fn all_streams_of_all_clients_share_the_servers_window() {
    let stream = events((1..=3).map(question));
    let mut server = asking(move || Answer::events(stream.clone())).await;
    let relay = Relayed::start(&server).await;
    assert_eq!(relay.call().await.text(), events((1..=3).map(question)));
    let other = reqwest::Client::new()
        .get(relay.url())
        .header("mcp-session-id", "x");
    // A GET has no body for the script to read, so it is the server's second answer.
    drop(other);
    let second = relay.post(&call(2)).header("mcp-session-id", "x").send();
    let second = Response_::of(soon(second).await.unwrap()).await;
    assert_eq!(second.text(), events((1..=2).map(question)));
    server.next().await;
    server.next().await;
    assert_eq!(server.next().await.json()["id"], 3);
    let snapshot = relay.throttle.snapshot(mcp_question_throttle::clock::now());
    let elicitation = &snapshot.servers[0].elicitation;
    assert_eq!(
        (elicitation.admitted, elicitation.refused_by_server_limit),
        (5, 1)
    );
}

#[tokio::test]
async fn an_observer_hears_every_verdict() {
    let stream = events((1..=7).map(question));
    let server = asking(move || Answer::events(stream.clone())).await;
    let (heard, mut verdicts) = mpsc::unbounded_channel();
    let relay = Relayed::with(&limited(&server.url()), |relay| {
        relay.with_observer(move |verdict| {
            let server = verdict.server.as_str().to_owned();
            heard
                .send((server, verdict.refusal.is_some(), verdict.elicitation))
                .unwrap();
        })
    })
    .await;
    relay.call().await;
    let heard: Vec<_> = std::iter::from_fn(|| verdicts.try_recv().ok()).collect();
    let expected = [false, false, false, false, false, true, true];
    assert_eq!(
        heard,
        expected.map(|refused| ("github".to_owned(), refused, 1))
    );
}
