//! A client of the relay: it calls a tool, and answers what it is asked in the meantime.

use std::time::Duration;

use futures::StreamExt;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time;

use super::Conduct;

/// How long a person takes who is quick.
const THINKS: Duration = Duration::from_millis(400);
/// Between two tries, where something went wrong.
const PAUSE: Duration = Duration::from_secs(1);

/// Calls the server at `url` for as long as the process runs.
pub(super) async fn keep_calling(url: String, conduct: Conduct) {
    let Ok(client) = Client::builder().no_proxy().build() else {
        return;
    };
    let caller = Caller { client, url };
    loop {
        let served = match conduct {
            Conduct::Floods => caller.call().await,
            Conduct::AsksNowAndThen => caller.listen().await,
            Conduct::IsSilent => return,
        };
        match served {
            // A flood that was told to end has ended.
            Ok(()) if conduct == Conduct::Floods => return,
            _ => time::sleep(PAUSE).await,
        }
    }
}

struct Caller {
    client: Client,
    url: String,
}

impl Caller {
    /// Calls a tool, to its end.
    async fn call(&self) -> reqwest::Result<()> {
        let session = self.initialize().await?;
        let call = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "flood"},
        });
        let stream = self.post(&call, &session).send().await?;
        self.answer_all(stream, &session).await
    }

    /// Listens to what belongs to no call.
    async fn listen(&self) -> reqwest::Result<()> {
        let session = self.initialize().await?;
        let request = self.client.get(&self.url);
        let request = request.header("accept", "text/event-stream");
        let stream = request.header("mcp-session-id", &session).send().await?;
        self.answer_all(stream, &session).await
    }

    async fn initialize(&self) -> reqwest::Result<String> {
        let initialize = json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"sampling": {}, "elicitation": {}},
                "clientInfo": {"name": "demo", "version": env!("CARGO_PKG_VERSION")},
            },
        });
        let answer = self.post(&initialize, "").send().await?;
        let session = answer.headers().get("mcp-session-id");
        let session = session.and_then(|id| id.to_str().ok()).unwrap_or_default();
        Ok(session.to_owned())
    }

    fn post(&self, message: &Value, session: &str) -> RequestBuilder {
        let request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.to_string());
        match session {
            "" => request,
            session => request.header("mcp-session-id", session),
        }
    }

    /// Answers what comes until the stream ends.
    async fn answer_all(&self, stream: Response, session: &str) -> reqwest::Result<()> {
        let mut chunks = stream.bytes_stream();
        let mut text = Vec::new();
        while let Some(chunk) = chunks.next().await {
            text.extend_from_slice(&chunk?);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                self.answer(&line, session);
            }
        }
        Ok(())
    }

    /// Answers a line of a stream, if it is a question, when a person has thought about it.
    fn answer(&self, line: &[u8], session: &str) {
        let message = line.strip_prefix(b"data: ");
        let message: Value = message
            .and_then(|message| serde_json::from_slice(message).ok())
            .unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("sampling/createMessage") => json!({
                "role": "assistant", "model": "demo",
                "content": {"type": "text", "text": "Soon."},
            }),
            Some("elicitation/create") => json!({"action": "accept", "content": {}}),
            _ => return,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let answer = self.post(&answer, session);
        tokio::spawn(async move {
            time::sleep(THINKS).await;
            // A relay that is gone ends the stream too.
            let _ = answer.send().await;
        });
    }
}
