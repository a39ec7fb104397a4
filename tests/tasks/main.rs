//! Tasks and URL elicitations: the same windows, whatever door the question comes through.

mod followed;
mod notified;
mod polled;
mod urls;

#[path = "../support/mod.rs"]
mod support;

use mcp_question_throttle::{CallError, ClientSession};
use rmcp::model::GetTaskParams;
use serde_json::Value;
use support::{Handler, Server};

const S: &str = "sampling/createMessage";
const E: &str = "elicitation/create";

async fn poll(
    session: &ClientSession<Handler>,
    server: &mut Server,
    state: Value,
) -> Result<(), CallError> {
    let serve = async {
        let request = server.request("tasks/get").await;
        server.answer(&request, state).await;
    };
    let (result, ()) = tokio::join!(session.get_task(GetTaskParams::new("t")), serve);
    result.map(drop)
}
