//! Questions that run as tasks of the client (2025-11-25).

use std::sync::Mutex;

use serde_json::{Value, json};

use super::{answers::answer, lock};
use crate::protocol::Kind;

/// The tasks of a connection, by their numbers. Each is done when it is made.
#[derive(Debug, Default)]
pub(super) struct Hosted(Mutex<Vec<Kind>>);

impl Hosted {
    /// The result of a question that became a task.
    pub(super) fn create(&self, kind: Kind) -> Value {
        let mut tasks = lock(&self.0);
        tasks.push(kind);
        json!({"task": task(&json!((tasks.len() - 1).to_string()), "working")})
    }

    /// What the question of a task was.
    pub(super) fn kind(&self, task: &Value) -> Option<Kind> {
        let number: usize = task.as_str()?.parse().ok()?;
        lock(&self.0).get(number).copied()
    }

    /// The result of a request about a task.
    pub(super) fn reply(&self, method: &str, params: &Value) -> Option<Value> {
        let id = &params["taskId"];
        let kind = self.kind(id)?;
        match method {
            "tasks/get" => Some(task(id, "completed")),
            "tasks/result" => {
                let mut result = answer(kind);
                result["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": id}});
                Some(result)
            }
            _ => None,
        }
    }
}

fn task(id: &Value, status: &str) -> Value {
    json!({
        "taskId": id,
        "status": status,
        "createdAt": "2025-11-25T12:00:00Z",
        "lastUpdatedAt": "2025-11-25T12:00:00Z",
        "ttl": 60_000,
        "pollInterval": 50,
    })
}
