//! The servers behind the relay: as little of an MCP server over HTTP as a flood needs.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{Method, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use mcp_question_throttle::question::QuestionKind;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time};

use super::Conduct;

/// Between two questions of a flood.
const FLOOD_PAUSE: Duration = Duration::from_millis(20);
/// Between two questions of a polite server.
const POLITE_PAUSE: Duration = Duration::from_secs(6);

struct Server {
    conduct: Conduct,
    /// A flood ends after so many.
    questions: Option<u32>,
}

/// Starts a server on a free port, and gives back its URL.
pub(super) async fn start(conduct: Conduct, questions: Option<u32>) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let server = Arc::new(Server { conduct, questions });
    let router = Router::new().fallback(respond).with_state(server);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(url)
}

async fn respond(State(server): State<Arc<Server>>, method: Method, body: Bytes) -> Response {
    if method == Method::GET {
        let pause = match server.conduct {
            Conduct::AsksNowAndThen => POLITE_PAUSE,
            // Nothing comes, and the stream stays open.
            Conduct::Floods | Conduct::IsSilent => return events(stream::pending()),
        };
        return events(questions("polite", pause));
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    match message["method"].as_str() {
        Some("initialize") => answer(
            &message["id"],
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "demo", "version": env!("CARGO_PKG_VERSION")},
            }),
        ),
        Some("tools/call") => {
            let asked = questions("flood", FLOOD_PAUSE);
            let done = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}});
            match server.questions {
                Some(most) => {
                    let done = stream::iter([done]);
                    events(asked.take(most as usize).chain(done))
                }
                None => events(asked),
            }
        }
        // Answers to questions, refusals among them, and notifications.
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn answer(id: &Value, result: &Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let headers = [
        (CONTENT_TYPE.as_str(), "application/json"),
        ("mcp-session-id", "demo"),
    ];
    (headers, body).into_response()
}

/// Questions without end, two of three for a model.
fn questions(prefix: &'static str, pause: Duration) -> impl stream::Stream<Item = Value> + Send {
    stream::unfold(0_u64, move |asked| async move {
        time::sleep(pause).await;
        let kind = match asked % 3 {
            2 => QuestionKind::Elicitation,
            _ => QuestionKind::Sampling,
        };
        let params = match kind {
            QuestionKind::Sampling => json!({
                "maxTokens": 16,
                "messages": [{"role": "user", "content": {"type": "text", "text": "And now?"}}],
            }),
            QuestionKind::Elicitation => json!({
                "message": "And you?",
                "requestedSchema": {"type": "object", "properties": {}},
            }),
        };
        let question = json!({
            "jsonrpc": "2.0", "id": format!("{prefix}-{asked}"), "method": kind.method(),
            "params": params,
        });
        Some((question, asked + 1))
    })
}

fn events(messages: impl stream::Stream<Item = Value> + Send + 'static) -> Response {
    let chunks = messages.map(|message| Ok::<_, Infallible>(format!("data: {message}\n\n")));
    let mut response = Response::new(Body::from_stream(chunks));
    let kind = axum::http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
