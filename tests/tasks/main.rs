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
use support::{Handler, Server, asking, done, task};

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

/// States of a task, up to one that asks again after its end, and how many questions are charged
/// by then.
fn a_whole_life() -> [(Value, u64); 4] {
    let mut completed = task("t", "completed");
    completed["result"] = done();
    let asks = asking("t", &[("a", E)]);
    [
        (asks.clone(), 1),
        (asks.clone(), 1),
        (completed, 1),
        (asks, 2),
    ]
}
