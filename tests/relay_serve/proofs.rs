//! What the other tests here would not notice: each of these fails when one guard is out.

use serde_json::{Value, json};

use crate::harness::{Answer, Relayed, Response_, Server, call, events, question, result, soon};

/// Answers calls with these events, and takes refusals.
async fn asking(stream: String) -> Server {
    Server::start(move |seen| match seen.json()["method"].as_str() {
        Some(_) => Answer::events(stream.clone()),
        None => Answer::new(202, ""),
    })
    .await
}

/// What the status says of the only server.
async fn status(relay: &Relayed) -> Value {
    let url = format!("http://{}/status", relay.address);
    let status = soon(relay.client.get(url).send()).await.unwrap();
    let status: Value = serde_json::from_slice(&soon(status.bytes()).await.unwrap()).unwrap();
    status["servers"][0].clone()
}

/// That the client gets an error is not enough: the request, with all that it carries, must not
/// have left for the other place.
#[tokio::test]
async fn nothing_is_sent_to_where_a_server_redirects() {
    for status in [301, 302, 303, 307, 308] {
        let mut elsewhere = Server::start(|_| Answer::json("{}")).await;
        let to = elsewhere.url();
        let mut server =
            Server::start(move |_| Answer::new(status, "").with("location", &to)).await;
        let relay = Relayed::start(&server).await;
        let sent = relay.post(&call(1)).header("authorization", "Bearer token");
        let response = Response_::of(soon(sent.send()).await.unwrap()).await;
        assert_eq!(response.status, 502, "{status}");
        let host = elsewhere.address.to_string();
        assert!(response.text().contains(&host), "{}", response.text());
        assert!(!response.headers.contains_key("location"));
        assert_eq!(server.next().await.json(), call(1));
        assert!(server.rest().is_empty(), "{status}");
        assert!(elsewhere.rest().is_empty(), "{status}");
    }
}

/// The stream of a `GET` can be a resumed one. A refusal with its `Last-Event-ID` would be taken
/// for another resumption.
#[tokio::test]
async fn a_refusal_resumes_nothing() {
    let stream = events((1..=6).map(question));
    let mut server = Server::start(move |seen| match seen.body.is_empty() {
        true => Answer::events(stream.clone()),
        false => Answer::new(202, ""),
    })
    .await;
    let relay = Relayed::start(&server).await;
    let opened = relay
        .client
        .get(relay.url())
        .header("accept", "text/event-stream")
        .header("last-event-id", "7")
        .header("mcp-session-id", "s")
        .header("authorization", "Bearer token");
    let response = Response_::of(soon(opened.send()).await.unwrap()).await;
    assert_eq!(response.text(), events((1..=5).map(question)));
    let opening = server.next().await;
    assert_eq!(opening.header("last-event-id"), Some("7"));
    let refusal = server.next().await;
    for (name, value) in [
        ("last-event-id", None),
        ("mcp-session-id", Some("s")),
        ("authorization", Some("Bearer token")),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
    ] {
        assert_eq!(refusal.header(name), value, "{name}");
    }
    assert_eq!(refusal.json()["id"], Value::from(6));
    assert!(server.rest().is_empty());
}

/// What a withheld event leaves tells the server nothing: each question needs its refusal.
#[tokio::test]
async fn every_withheld_request_is_refused_to_its_server() {
    let sixth = format!("id: 6\nevent: message\ndata: {}\n\n", question(6));
    let seventh = format!("data: {}", question(7));
    let mut server = asking(events((1..=5).map(question)) + &sixth + &seventh).await;
    let relay = Relayed::start(&server).await;
    let left = events((1..=5).map(question)) + "id: 6\ndata:\n\n";
    assert_eq!(relay.call().await.text(), left);
    assert_eq!(server.next().await.json(), call(1));
    let mut refused = Vec::new();
    for _ in 6..=7 {
        let refusal = server.next().await.json();
        let data = &refusal["error"]["data"];
        assert_eq!(data["limit"], "proto.elicitationPerMinute", "{refusal}");
        refused.push(refusal["id"].as_i64().unwrap());
    }
    refused.sort_unstable();
    assert_eq!(refused, [6, 7]);
    assert!(server.rest().is_empty());
}

/// Nothing without an id can be answered. A question with one comes after them all, so that a
/// reply to any of them would be there before the refusal of that.
#[tokio::test]
async fn questions_without_an_id_are_counted_and_nothing_is_posted_for_them() {
    let notification = json!({"jsonrpc": "2.0", "method": "elicitation/create"});
    let asked = vec![notification; 7];
    let all = asked.iter().cloned().chain([question(8), result(1)]);
    let mut server = asking(events(all)).await;
    let relay = Relayed::start(&server).await;
    let left = events(asked[..5].iter().cloned().chain([result(1)]));
    assert_eq!(relay.call().await.text(), left);
    assert_eq!(server.next().await.json(), call(1));
    assert_eq!(server.next().await.json()["id"], 8);
    assert!(server.rest().is_empty());
    let elicitation = &status(&relay).await["elicitation"];
    assert_eq!(elicitation["admitted"], 5, "{elicitation}");
    assert_eq!(elicitation["refusedByServerLimit"], 3, "{elicitation}");
}

/// What nobody can read for sure is no question of anyone: it is withheld, counted apart, charged
/// to no window and answered by nobody.
#[tokio::test]
async fn what_cannot_be_read_for_sure_is_counted_apart() {
    let two = format!("data: {}{}\n\n", question(1), question(2));
    let odd = format!("Data: {}\n\n: {}\n", question(3), question(4));
    let asked = (5..=10).map(question);
    let mut server = asking(two + &odd + &events(asked)).await;
    let relay = Relayed::start(&server).await;
    let response = relay.call().await;
    assert_eq!(response.text(), events((5..=9).map(question)));
    assert_eq!(server.next().await.json(), call(1));
    assert_eq!(server.next().await.json()["id"], 10);
    assert!(server.rest().is_empty());
    let status = status(&relay).await;
    assert_eq!(status["unreadable"], 3, "{status}");
    assert_eq!(status["elicitation"]["admitted"], 5, "{status}");
}

/// A refusal that its server does not take is lost, not sent again, and the operator can see it.
#[tokio::test]
async fn a_refusal_that_is_not_taken_is_counted_and_not_sent_again() {
    let stream = events((1..=7).map(question));
    let mut server = Server::start(move |seen| match seen.json()["method"].as_str() {
        Some(_) => Answer::events(stream.clone()),
        None => Answer::new(500, "no"),
    })
    .await;
    let relay = Relayed::start(&server).await;
    relay.call().await;
    assert_eq!(server.next().await.json(), call(1));
    let mut refused = [0_i64; 2];
    for id in &mut refused {
        *id = server.next().await.json()["id"].as_i64().unwrap();
    }
    refused.sort_unstable();
    assert_eq!(refused, [6, 7]);
    soon(async {
        while status(&relay).await["undelivered"] != 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(server.rest().is_empty(), "each was sent once");
}
