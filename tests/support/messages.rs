//! What a scripted server says, and how a refusal is known.

use serde_json::{Value, json};

/// A well-formed question.
pub fn question(method: &str, id: impl Into<Value>) -> Value {
    let params = match method {
        "sampling/createMessage" => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": "2 + 2?"}}],
            "maxTokens": 16,
        }),
        _ => json!({
            "message": "Your name?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        }),
    };
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// An `input_required` result.
pub fn round(entries: &[(&str, &str)], state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required"});
    if !entries.is_empty() {
        result["inputRequests"] = inputs(entries);
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

/// Input requests: key and method of each.
pub fn inputs(entries: &[(&str, &str)]) -> Value {
    entries
        .iter()
        .map(|(key, method)| {
            let mut entry = question(method, 0);
            let fields = entry.as_object_mut().unwrap();
            fields.remove("jsonrpc");
            fields.remove("id");
            if *method == "roots/list" {
                fields.remove("params");
            }
            ((*key).to_owned(), entry)
        })
        .collect()
}

/// A finished tool call.
pub fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
}

pub fn is_refusal(message: &Value) -> bool {
    message["error"]["code"] == -32603 && message["error"]["data"]["cause"].is_string()
}

/// The state of a task.
pub fn task(id: &str, status: &str) -> Value {
    json!({
        "resultType": "complete", "taskId": id, "status": status,
        "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttlMs": null, "pollIntervalMs": 50,
    })
}

/// The state of a task that asks.
pub fn asking(id: &str, entries: &[(&str, &str)]) -> Value {
    let mut task = task(id, "input_required");
    task["inputRequests"] = inputs(entries);
    task
}

/// The error that asks to open so many URLs.
pub fn log_in_first(count: usize) -> Value {
    let elicitations: Vec<_> = (0..count)
        .map(|n| json!({"mode": "url", "message": "log in", "url": "https://x", "elicitationId": n.to_string()}))
        .collect();
    json!({"code": -32042, "message": "log in first", "data": {"elicitations": elicitations}})
}
