//! What an operator sees of the relay, and does: status, metrics, mute.

use std::{
    io::Write,
    process::{Command, Stdio},
    time::Duration,
};

use axum::body::Body;
use futures::StreamExt;
use mcp_question_throttle::clock;
use serde_json::{Value, json};

use crate::harness::{Answer, Relayed, Response_, Server, call, events, question, result, soon};

/// A server that asks so often within each call.
async fn asking(times: u64) -> Server {
    Server::start(move |seen| match seen.method.as_str() {
        "POST" if seen.json()["method"] == "tools/call" => {
            let asked = (0..times).map(question);
            Answer::events(events(asked.chain([result(1)])))
        }
        _ => Answer::new(202, Body::empty()),
    })
    .await
}

async fn get(relay: &Relayed, path: &str) -> Response_ {
    let request = relay.client.get(format!("http://{}{path}", relay.address));
    Response_::of(request.send().await.unwrap()).await
}

async fn status(relay: &Relayed) -> Value {
    let status = get(relay, "/status").await;
    assert_eq!(status.headers["content-type"], "application/json");
    serde_json::from_slice(&status.body).unwrap()
}

fn with_button(server: &Server) -> String {
    let url = server.url();
    format!(
        "[proto]\nelicitationPerMinute = 5\n[status]\nmuteButton = true\n\
         [servers.github]\nurl = {url:?}\n[servers.'a\"b\\c<i>']\nurl = {url:?}\n"
    )
}

#[tokio::test]
async fn the_status_has_every_server_and_what_it_asked() {
    let server = asking(12).await;
    let relay = Relayed::with_settings(&with_button(&server)).await;
    let before = status(&relay).await;
    let names = |status: &Value| -> Vec<_> {
        let servers = status["servers"].as_array().unwrap().iter();
        servers
            .map(|it| it["server"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&before), ["a\"b\\c<i>", "github"], "before they ask");
    assert_eq!(
        before["servers"][1]["elicitation"]["window"],
        json!({"used": 0, "limit": 5, "remaining": 5, "refused": 0})
    );

    relay.call().await;
    let after = status(&relay).await;
    let github = &after["servers"][1];
    assert_eq!(github["path"], "/github");
    assert_eq!(github["elicitation"]["admitted"], 5);
    assert_eq!(github["elicitation"]["refusedByServerLimit"], 7);
    let usage = &github["usage"];
    assert_eq!(
        usage["counts"],
        json!([
            {"kind": "elicitation", "origin": "in_call", "verdict": "admitted", "questions": 5},
            {"kind": "elicitation", "origin": "in_call", "verdict": "refused", "cause": "limit_exceeded",
             "limit": "proto.elicitationPerMinute", "questions": 7},
        ])
    );
    assert_eq!(usage["recent"].as_array().unwrap().len(), 12);
    assert_eq!(usage["elicitation"]["open"], 5, "nobody has answered");
}

/// The client's answers pass by the relay, which knows the questions by their ids.
#[tokio::test]
async fn answers_end_questions_and_cancellations_do() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "POST" if seen.json()["method"] == "tools/call" => {
            let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
            Answer::events(events([question(0), question("x"), question(2), cancelled, result(1)]))
        }
        _ => Answer::new(202, Body::empty()),
    })
    .await;
    let relay = Relayed::start(&server).await;
    relay.call().await;
    for id in [json!("x"), json!("unknown")] {
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}});
        relay.post(&answer).send().await.unwrap();
    }
    let elicitation = &status(&relay).await["servers"][0]["usage"]["elicitation"];
    let ended =
        ["open", "answered", "expired", "cancelled"].map(|key| elicitation[key].as_u64().unwrap());
    assert_eq!(ended, [1, 1, 0, 1]);
}

/// A question on a stream that no call opened.
#[tokio::test]
async fn a_stream_of_no_call_is_background() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "GET" => Answer::events(events([question(0)])),
        _ => Answer::new(202, Body::empty()),
    })
    .await;
    let relay = Relayed::start(&server).await;
    let stream = relay
        .client
        .get(relay.url())
        .header("accept", "text/event-stream");
    Response_::of(stream.send().await.unwrap()).await;
    let usage = &status(&relay).await["servers"][0]["usage"];
    assert_eq!(usage["counts"][0]["origin"], "background");
}

#[tokio::test]
async fn the_page_is_whole_and_lets_nothing_else_in() {
    let server = asking(0).await;
    let relay = Relayed::start(&server).await;
    let page = get(&relay, "/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
    ));
    assert!(policy.contains("frame-ancestors 'none'"));
    assert!(
        page.text()
            .contains(r#"<meta name="mute-token" content="">"#),
        "no button unless it is on"
    );
    for (path, kind) in [
        ("/status/page.css", "text/css; charset=utf-8"),
        ("/status/page.js", "text/javascript; charset=utf-8"),
    ] {
        assert!(page.text().contains(path.trim_start_matches('/')));
        let file = get(&relay, path).await;
        assert_eq!(
            (file.status, &file.headers["content-type"]),
            (200, &kind.parse().unwrap())
        );
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
    }
    // The page writes text, and knows no other way to write.
    let script = get(&relay, "/status/page.js").await;
    for way in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
    ] {
        assert!(!script.text().contains(way), "{way}");
    }
    for elsewhere in ["http://", "https://", "//"] {
        let css = get(&relay, "/status/page.css").await;
        assert!(!page.text().contains(elsewhere) && !css.text().contains(elsewhere));
    }
}

#[tokio::test]
async fn events_show_a_flood_within_a_second() {
    let server = asking(9).await;
    let relay = Relayed::start(&server).await;
    let request = relay
        .client
        .get(format!("http://{}/status/events", relay.address));
    let stream = request.send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut chunks = stream.bytes_stream();
    soon(chunks.next()).await.unwrap().unwrap();
    relay.call().await;
    let asked = clock::now();
    let mut text = String::new();
    while !text.contains(r#""refusedByServerLimit":4"#) {
        let chunk = soon(chunks.next()).await.unwrap().unwrap();
        text.push_str(str::from_utf8(&chunk).unwrap());
    }
    let took = clock::now() - asked;
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn watchers_are_bounded_and_end_with_the_relay() {
    let server = asking(0).await;
    let mut relay = Relayed::start(&server).await;
    let events = || {
        relay
            .client
            .get(format!("http://{}/status/events", relay.address))
            .send()
    };
    let mut open = Vec::new();
    for _ in 0..32 {
        let stream = events().await.unwrap();
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    assert_eq!(events().await.unwrap().status(), 503);
    relay.end();
    for stream in open {
        soon(stream.bytes()).await.unwrap();
    }
    relay.served().await;
}

async fn order(relay: &Relayed, headers: &[(&str, &str)], body: &str) -> u16 {
    let mut request = relay
        .client
        .post(format!("http://{}/status/mute", relay.address));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.body(body.to_owned()).send().await.unwrap();
    answer.status().as_u16()
}

#[tokio::test]
async fn only_the_page_itself_can_mute() {
    let server = asking(3).await;
    let relay = Relayed::with_settings(&with_button(&server)).await;
    let page = get(&relay, "/").await;
    let (_, rest) = page
        .text()
        .split_once("name=\"mute-token\" content=\"")
        .unwrap();
    let token = &rest[..32];
    assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let own = format!("http://{}", relay.address);
    let (muted, json) = (
        r#"{"server": "github", "muted": true}"#,
        ("content-type", "application/json"),
    );

    let elsewhere = format!("http://127.0.0.1:{}", relay.address.port() ^ 1);
    for (headers, body, expected) in [
        (vec![json, ("origin", &*own)], muted, 403),
        (vec![json, ("x-mute-token", token)], muted, 403),
        (
            vec![json, ("origin", &*elsewhere), ("x-mute-token", token)],
            muted,
            403,
        ),
        (
            vec![json, ("origin", "null"), ("x-mute-token", token)],
            muted,
            403,
        ),
        (
            vec![json, ("origin", &*own), ("x-mute-token", &"0".repeat(32))],
            muted,
            403,
        ),
        (
            vec![
                ("content-type", "text/plain"),
                ("origin", &*own),
                ("x-mute-token", token),
            ],
            muted,
            400,
        ),
        (
            vec![json, ("origin", &*own), ("x-mute-token", token)],
            "{}",
            400,
        ),
        (
            vec![json, ("origin", &*own), ("x-mute-token", token)],
            r#"{"server": "x", "muted": true}"#,
            404,
        ),
    ] {
        assert_eq!(
            order(&relay, &headers, body).await,
            expected,
            "{headers:?} {body}"
        );
    }
    assert_eq!(get(&relay, "/status/mute").await.status, 405);
    assert!(relay.throttle.muted().is_empty());

    let headers = [json, ("origin", &*own), ("x-mute-token", token)];
    assert_eq!(order(&relay, &headers, muted).await, 200);
    assert_eq!(relay.throttle.muted().len(), 1);
    let answer = relay.call().await;
    assert!(
        !answer.text().contains("elicitation/create"),
        "{}",
        answer.text()
    );
    assert_eq!(
        status(&relay).await["servers"][1]["elicitation"]["refusedWhileMuted"],
        3
    );

    let unmuted = r#"{"server": "github", "muted": false}"#;
    assert_eq!(order(&relay, &headers, unmuted).await, 200);
    assert!(relay.call().await.text().contains("elicitation/create"));
}

#[tokio::test]
async fn without_the_setting_nobody_can_mute() {
    let server = asking(0).await;
    let relay = Relayed::start(&server).await;
    let own = format!("http://{}", relay.address);
    let headers = [
        ("content-type", "application/json"),
        ("origin", &*own),
        ("x-mute-token", ""),
    ];
    let body = r#"{"server": "github", "muted": true}"#;
    assert_eq!(order(&relay, &headers, body).await, 404);
    assert!(relay.throttle.muted().is_empty());
}

/// What Prometheus' own parser for Python makes of a text.
fn parse(format: &str, text: &str) -> Vec<(String, Value, f64)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers");
    let mut child = Command::new(format!("{folder}/run"))
        .args([
            "prometheus",
            &format!("{folder}/prometheus/check.py"),
            format,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{format} does not parse:\n{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Both formats, read by a parser that nobody here wrote, agree with the status; the name of a
/// server with every character that has to be escaped comes out as it is.
#[tokio::test]
async fn the_metrics_are_read_by_prometheus_own_parser() {
    let server = asking(12).await;
    let relay = Relayed::with_settings(&with_button(&server)).await;
    let odd = format!("http://{}/a%22b%5Cc%3Ci%3E", relay.address);
    relay.call().await;
    let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {"action": "accept"}});
    relay.post(&answer).send().await.unwrap();
    relay
        .client
        .post(odd)
        .header("content-type", "application/json")
        .body(call(1).to_string())
        .send()
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    let status = status(&relay).await;

    for (format, accept) in [
        ("classic", "text/plain"),
        (
            "openmetrics",
            "application/openmetrics-text; version=1.0.0,text/plain;q=0.5",
        ),
    ] {
        let request = relay
            .client
            .get(format!("http://{}/metrics", relay.address));
        let scraped = Response_::of(request.header("accept", accept).send().await.unwrap()).await;
        let kind = scraped.headers["content-type"].to_str().unwrap();
        assert_eq!(
            kind.starts_with("application/openmetrics-text"),
            format == "openmetrics",
            "{kind}"
        );
        let samples = parse(format, scraped.text());
        let value = |name: &str, labels: &[(&str, &str)]| {
            let name = format!("mcp_question_throttle_{name}");
            let mut found = samples.iter().filter(|(sample, found, _)| {
                *sample == name && labels.iter().all(|(key, value)| found[*key] == *value)
            });
            let (_, _, value) = found
                .next()
                .unwrap_or_else(|| panic!("no {name} {labels:?}"));
            assert!(found.next().is_none(), "{name} {labels:?} twice");
            *value
        };
        for (at, name) in ["a\"b\\c<i>", "github"].into_iter().enumerate() {
            let counted = &status["servers"][at]["elicitation"];
            let labels = [("server", name), ("kind", "elicitation")];
            let with = |more: &[(&'static str, &'static str)]| [&labels, more].concat();
            assert_eq!(
                value("questions_total", &with(&[("verdict", "admitted")])),
                counted["admitted"].as_f64().unwrap()
            );
            let refused = with(&[
                ("verdict", "refused"),
                ("limit", "proto.elicitationPerMinute"),
                ("cause", "limit_exceeded"),
                ("origin", "in_call"),
            ]);
            assert_eq!(
                value("questions_total", &refused),
                counted["refusedByServerLimit"].as_f64().unwrap()
            );
            assert_eq!(value("window_used", &labels), 5.0);
            assert_eq!(value("window_limit", &labels), 5.0);
            let answered = f64::from(u8::from(name == "github"));
            assert_eq!(value("questions_open", &labels), 5.0 - answered);
            assert_eq!(value("time_to_answer_seconds_count", &labels), answered);
            assert_eq!(
                value("time_to_answer_seconds_bucket", &with(&[("le", "+Inf")])),
                answered
            );
            assert_eq!(value("server_muted", &labels[..1]), 0.0);
        }
        for (name, labels, _) in &samples {
            let server = labels["server"].as_str();
            assert!(
                matches!(server, Some("a\"b\\c<i>" | "github")),
                "{name} {labels}"
            );
        }
    }
}

/// Memory stays bounded by construction; that the totals of a long flood are exact is shown here.
#[tokio::test]
async fn a_long_flood_is_counted_to_the_last_question() {
    const FLOOD: u64 = 3_000;
    let server = Server::start(|seen| match seen.method.as_str() {
        "POST" if seen.json()["method"] == "tools/call" => {
            let asked = (0..FLOOD).map(|id| format!("data: {}\n\n", question(id)));
            let all: Vec<_> = asked
                .chain([events([result(1)])])
                .map(Ok::<_, std::io::Error>)
                .collect();
            Answer::events(Body::from_stream(futures::stream::iter(all)))
        }
        _ => Answer::new(202, Body::empty()),
    })
    .await;
    let relay = Relayed::start(&server).await;
    relay.call().await;
    let status = status(&relay).await;
    let github = &status["servers"][0];
    let refused = github["elicitation"]["refusedByServerLimit"]
        .as_u64()
        .unwrap();
    // On a slow machine it takes more than a minute, and a new window has room again.
    let admitted = github["elicitation"]["admitted"].as_u64().unwrap();
    assert_eq!((admitted % 5, admitted + refused), (0, FLOOD));
    assert_eq!(
        github["usage"]["counts"][1]["questions"].as_u64().unwrap(),
        refused
    );
    assert_eq!(github["usage"]["recent"].as_array().unwrap().len(), 256);
}
