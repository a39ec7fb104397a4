//! rmcp's own Streamable HTTP client through the relay, without a throttle of its own.

use rmcp::{
    model::{CallToolRequestParams, ProtocolVersion},
    service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};

use crate::{
    harness::{Answer, Relayed, Server, events, result, soon},
    support::{Handler, Log},
};

fn elicitation(id: i32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {
        "message": "q", "requestedSchema": {"type": "object", "properties": {}}
    }})
}

fn answer(message: &Value, result: &Value) -> Answer {
    Answer::json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())
}

/// A bare client, connected through the relay.
async fn connect(
    relay: &Relayed,
    lifecycle: ClientLifecycleMode,
) -> (RunningService<RoleClient, Handler>, Log) {
    let (handler, _) = Handler::open();
    let log = handler.log.clone();
    let transport = StreamableHttpClientTransport::from_uri(relay.url());
    let connecting = handler.serve_with_lifecycle(transport, lifecycle);
    (soon(connecting).await.unwrap(), log)
}

#[tokio::test]
async fn a_flood_of_requests_ends_at_the_relay() {
    let mut server = Server::start(|seen| {
        let Ok(message) = serde_json::from_slice::<Value>(&seen.body) else {
            return Answer::new(405, "");
        };
        match message["method"].as_str() {
            Some("initialize") => answer(
                &message,
                &json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted", "version": "1.0.0"},
                }),
            )
            .with("mcp-session-id", "s"),
            Some("tools/call") => Answer::events(events(
                (1..=8)
                    .map(elicitation)
                    .chain([result(message["id"].clone())]),
            )),
            _ => Answer::new(202, ""),
        }
    })
    .await;
    let relay = Relayed::start(&server).await;
    let (session, log) = connect(&relay, ClientLifecycleMode::Initialize).await;
    soon(session.call_tool(CallToolRequestParams::new("t")))
        .await
        .unwrap();
    // Five answers of the client and three of the relay, in the client's session.
    let (mut answered, mut refused) = (Vec::new(), Vec::new());
    while answered.len() + refused.len() < 8 {
        let seen = server.next().await;
        let Ok(message) = serde_json::from_slice::<Value>(&seen.body) else {
            continue;
        };
        if message.get("method").is_none() {
            assert_eq!(seen.header("mcp-session-id"), Some("s"));
            assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
            let id = message["id"].as_i64().unwrap();
            match message["error"]["data"]["cause"].as_str() {
                Some(_) => refused.push(id),
                None => answered.push(id),
            }
        }
    }
    answered.sort_unstable();
    refused.sort_unstable();
    assert_eq!(answered, [1, 2, 3, 4, 5]);
    assert_eq!(refused, [6, 7, 8]);
    assert_eq!(log.questions().len(), 5);
    soon(session.cancel()).await.unwrap();
}

#[tokio::test]
async fn a_round_that_does_not_fit_ends_its_call() {
    let mut server = Server::start(|seen| {
        let Ok(message) = serde_json::from_slice::<Value>(&seen.body) else {
            return Answer::new(405, "");
        };
        match message["method"].as_str() {
            Some("server/discover") => answer(
                &message,
                &json!({
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}},
                    "ttlMs": 0,
                    "cacheScope": "private",
                    "_meta": {"io.modelcontextprotocol/serverInfo": {
                        "name": "scripted", "version": "1.0.0"
                    }},
                }),
            ),
            Some("tools/call") => {
                let count = match message["params"]["name"].as_str() {
                    _ if !message["params"]["inputResponses"].is_null() => 0,
                    Some("few") => 3,
                    _ => 6,
                };
                let entries: serde_json::Map<_, _> = (0..count)
                    .map(|key| {
                        let mut entry = elicitation(0);
                        let entry = entry.as_object_mut().unwrap();
                        entry.remove("jsonrpc");
                        entry.remove("id");
                        (key.to_string(), Value::from(entry.clone()))
                    })
                    .collect();
                if entries.is_empty() {
                    let result = json!({"resultType": "complete", "content": []});
                    return answer(&message, &result);
                }
                let round = json!({
                    "resultType": "input_required", "inputRequests": entries, "requestState": "s"
                });
                answer(&message, &round)
            }
            _ => Answer::new(202, ""),
        }
    })
    .await;
    let relay = Relayed::start(&server).await;
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let (session, log) = connect(&relay, lifecycle).await;
    soon(session.call_tool(CallToolRequestParams::new("few")))
        .await
        .unwrap();
    assert_eq!(log.questions().len(), 3);
    let refused = soon(session.call_tool(CallToolRequestParams::new("many"))).await;
    let Err(ServiceError::McpError(error)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(error.code.0, -32603);
    assert_eq!(error.data.unwrap()["cause"], "limit_exceeded");
    assert_eq!(log.questions().len(), 3, "nobody sees half of it");
    soon(session.cancel()).await.unwrap();
    let calls = |seen: &crate::harness::Seen| {
        let message: Option<Value> = serde_json::from_slice(&seen.body).ok();
        message.is_some_and(|message| message["method"] == "tools/call")
    };
    let calls = server.rest().iter().filter(|seen| calls(seen)).count();
    assert_eq!(calls, 3, "the refused call is not made again");
}
