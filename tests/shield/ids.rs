//! Requests that share an id.

use mcp_question_throttle::Throttled;
use rmcp::{model::JsonRpcMessage, transport::Transport};
use serde_json::{Value, json};

use super::{
    ELICITATION, SAMPLING, lines, refused,
    support::{Handler, connect, limits, pipe_of, question},
};

#[tokio::test(start_paused = true)]
async fn flood_identical_with_one_id() {
    let (handler, mut entered) = Handler::blocked();
    let (log, gate) = (handler.log.clone(), handler.gate.clone());
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    server
        .send_raw(&lines(&vec![question(ELICITATION, "same"); 100]))
        .await;
    let replies = server.receive_all(96).await;
    assert_eq!(refused(&replies), 96);
    for _ in 0..4 {
        entered.recv().await.unwrap();
    }
    gate.add_permits(4);
    let answers = server.receive_all(4).await;
    assert_eq!(log.questions().len(), 4, "no hidden deduplication");
    for reply in replies.iter().chain(&answers) {
        assert_eq!(reply["id"], "same");
    }
    assert!(
        answers
            .iter()
            .all(|answer| answer["result"]["action"] == "accept")
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_share_an_id_each_get_an_answer_of_their_kind() {
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let all = [question(SAMPLING, 7), ping, question(ELICITATION, 7)];
    server.send_raw(&lines(&all)).await;
    for _ in 0..3 {
        entered.recv().await.unwrap();
    }
    gate.add_permits(3);
    let replies = server.receive_all(3).await;
    assert!(replies.iter().all(|reply| reply["id"] == 7), "{replies:?}");
    let count = |field: &str| {
        let has = |reply: &&Value| reply["result"][field].is_string();
        replies.iter().filter(has).count()
    };
    assert_eq!((count("model"), count("action")), (1, 1), "{replies:?}");

    // The id is free again, and another type of id is another id.
    server
        .send_raw(&lines(&[question(SAMPLING, 7), question(SAMPLING, "7")]))
        .await;
    gate.add_permits(2);
    let mut ids: Vec<_> = server
        .receive_all(2)
        .await
        .iter()
        .map(|reply| reply["id"].to_string())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["\"7\"", "7"]);
}

/// rmcp answered a question with what the handler of an earlier, cancelled one under the same id
/// had to say: it tells its open requests apart by nothing but the id.
#[tokio::test(start_paused = true)]
async fn a_cancelled_question_never_answers_for_another() {
    let (handler, mut entered) = Handler::blocked();
    let gate = handler.gate.clone();
    let (_session, mut server) = connect(Throttled::new(handler, limits(4, 4))).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 7}});
    server
        .send_raw(&lines(&vec![question(ELICITATION, 7); 2]))
        .await;
    for _ in 0..2 {
        entered.recv().await.unwrap();
    }
    server
        .send_raw(&lines(&[cancel, question(SAMPLING, 7)]))
        .await;
    while entered.recv().await.unwrap() != SAMPLING {}
    // The cancelled handlers wait in front of the other one, and take the first permits.
    gate.add_permits(3);
    let reply = server.receive().await;
    assert_eq!(reply["id"], 7);
    assert!(reply["result"]["model"].is_string(), "{reply}");
    server
        .send(&json!({"jsonrpc": "2.0", "id": 8, "method": "ping"}))
        .await;
    gate.add_permits(1);
    assert_eq!(server.receive().await["id"], 8, "and nothing in between");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_free_is_handed_on_as_it_is() {
    let throttled = Throttled::new((), limits(9, 9));
    let (client, mut server) = pipe_of(1 << 16);
    let mut shield = throttled.shield(client);
    for id in [json!("a"), json!(-1), json!("")] {
        server.send(&question(ELICITATION, id.clone())).await;
        let Some(JsonRpcMessage::Request(request)) = shield.receive().await else {
            panic!("the question is handed on");
        };
        assert_eq!(request.id.clone().into_json_value(), id);
    }
}
