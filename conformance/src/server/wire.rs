//! The messages of the scripted servers.

use serde_json::{Map, Value, json};

use crate::{
    protocol::{Kind, Revision},
    scenario::{BadEntry, CallMethod, Ids, Server, Shape, UrlList},
};

/// What a client declares that follows the tasks of servers (SEP-2663).
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The text of every question, which no client has a reason to repeat.
const TEXT: &str = "Are we there yet?";

/// A question: with an id if it has one.
pub(super) fn question(kind: Kind, shape: Shape, id: Option<&Value>) -> Value {
    let mut message = json!({"jsonrpc": "2.0", "method": kind.method()});
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    match shape {
        Shape::NoParams => {}
        Shape::NullParams => message["params"] = Value::Null,
        Shape::EmptyParams => message["params"] = json!({}),
        Shape::WrongType => {
            message["params"] = params(kind, Shape::Plain);
            let member = match kind {
                Kind::Sampling => "messages",
                Kind::Elicitation => "message",
            };
            message["params"][member] = json!(5);
        }
        Shape::Plain | Shape::Url | Shape::WithTools | Shape::AsTask | Shape::NoId => {
            message["params"] = params(kind, shape);
        }
    }
    message
}

/// The parameters of a well-formed question.
pub(super) fn params(kind: Kind, shape: Shape) -> Value {
    match (kind, shape) {
        (_, Shape::AsTask) => {
            let mut params = params(kind, Shape::Plain);
            params["task"] = json!({"ttl": 60_000});
            params
        }
        (Kind::Sampling, Shape::WithTools) => {
            let mut params = params(kind, Shape::Plain);
            params["tools"] = json!([{
                "name": "look",
                "description": "Looks out of the window.",
                "inputSchema": {"type": "object"},
            }]);
            params["toolChoice"] = json!({"mode": "auto"});
            params
        }
        (Kind::Sampling, _) => json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": TEXT}}],
            "maxTokens": 16,
        }),
        (Kind::Elicitation, Shape::Url) => json!({
            "mode": "url",
            "message": TEXT,
            "url": "https://example.com/connect",
            "elicitationId": "connect",
        }),
        (Kind::Elicitation, _) => json!({
            "message": TEXT,
            "requestedSchema": {
                "type": "object",
                "properties": {"there": {"type": "boolean", "default": true}},
            },
        }),
    }
}

/// The id of the question number `number` of a session.
pub(super) fn id(style: Ids, number: u32) -> Value {
    // The number makes an id unique; only its type and looks vary.
    match (style, number % 6) {
        (Ids::Numbers, _) | (Ids::EveryType, 0) => json!(number),
        (Ids::Strings, _) | (Ids::EveryType, 1) => json!(format!("question-{number}")),
        // Looks like the one before the last.
        (Ids::EveryType, 2) => json!((number - 2).to_string()),
        (Ids::EveryType, 3) => json!(-i64::from(number)),
        (Ids::EveryType, 4) => json!((1_u64 << 53) - u64::from(number)),
        (Ids::EveryType, _) => json!(format!(" \u{fc} \"{number}\"\\ ")),
    }
}

pub(super) fn request(method: &str, id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method})
}

/// A request about a task of the client's.
pub(super) fn about_task(method: &str, id: &Value, task: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": task}})
}

/// What a server may say at any time, and what is no question.
pub(super) fn notifications() -> [Value; 3] {
    let said =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    [
        said(
            "notifications/message",
            json!({"level": "info", "data": "still here"}),
        ),
        said("notifications/tools/list_changed", json!({})),
        said(
            "notifications/elicitation/complete",
            json!({"elicitationId": "connect"}),
        ),
    ]
}

pub(super) fn cancelled(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
           "params": {"requestId": id, "reason": "changed my mind"}})
}

pub(super) fn reply(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// The result of `initialize`, or of `server/discover`.
pub(super) fn handshake(revision: Revision, server: &Server, calls_itself: &str) -> Value {
    let mut capabilities = json!({"tools": {}});
    if !server.prompts.is_empty() {
        capabilities["prompts"] = json!({});
    }
    if !server.resources.is_empty() {
        capabilities["resources"] = json!({});
    }
    let info = json!({"name": calls_itself, "version": "1.0.0"});
    match revision {
        Revision::Requests => json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": info,
        }),
        Revision::Rounds => {
            capabilities["extensions"] = json!({TASKS_EXTENSION: {}});
            json!({
                "resultType": "complete",
                "supportedVersions": [revision],
                "capabilities": capabilities,
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": info},
            })
        }
    }
}

/// The result of `tools/list` and its siblings.
pub(super) fn list(revision: Revision, server: &Server, method: CallMethod) -> Value {
    let entries: Vec<Value> = server
        .calls(method)
        .iter()
        .map(|call| match method {
            CallMethod::Tool => json!({"name": call.name, "inputSchema": {"type": "object"}}),
            CallMethod::Prompt => json!({"name": call.name}),
            CallMethod::Resource => json!({"name": call.name, "uri": uri(&call.name)}),
        })
        .collect();
    let mut result = match method {
        CallMethod::Tool => json!({"tools": entries}),
        CallMethod::Prompt => json!({"prompts": entries}),
        CallMethod::Resource => json!({"resources": entries}),
    };
    if revision == Revision::Rounds {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result
}

/// The result of a call that asks no more.
pub(super) fn complete(revision: Revision, method: CallMethod, name: &str) -> Value {
    let text = json!({"type": "text", "text": "done"});
    let mut result = match method {
        CallMethod::Tool => json!({"content": [text]}),
        CallMethod::Prompt => json!({"messages": [{"role": "user", "content": text}]}),
        CallMethod::Resource => json!({"contents": [{"uri": uri(name), "text": "done"}]}),
    };
    if revision == Revision::Rounds {
        result["resultType"] = json!("complete");
        if method == CallMethod::Resource {
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
    }
    result
}

/// An entry of `inputRequests`.
pub(super) fn entry(kind: Kind) -> Value {
    json!({"method": kind.method(), "params": params(kind, Shape::Plain)})
}

/// Another question than that of an entry, to stand under the same key.
pub(super) fn changed(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let params = &mut entry["params"];
    match params.get("message") {
        Some(_) => params["message"] = json!("Are we nearly there?"),
        None => params["maxTokens"] = json!(17),
    }
    entry
}

/// An entry that is no question.
pub(super) fn roots_entry() -> Value {
    json!({"method": "roots/list"})
}

/// An entry that no one can read.
pub(super) fn bad_entry(bad: BadEntry) -> Value {
    match bad {
        BadEntry::Null => Value::Null,
        BadEntry::NoParams => json!({"method": Kind::Elicitation.method()}),
        BadEntry::UnknownMethod => json!({"method": "elicitation/conjure", "params": {}}),
        BadEntry::WrongType => {
            let mut entry = entry(Kind::Elicitation);
            entry["params"]["message"] = json!(5);
            entry
        }
    }
}

/// A round. Without entries it has a state alone.
pub(super) fn input_required(entries: &Map<String, Value>, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required"});
    if !entries.is_empty() {
        result["inputRequests"] = json!(entries);
    }
    if let Some(state) = state {
        result["requestState"] = json!(state);
    }
    result
}

fn task(name: &str, result_type: &str, status: &str) -> Value {
    json!({
        "resultType": result_type,
        "taskId": name,
        "status": status,
        "createdAt": "2026-07-28T12:00:00Z",
        "lastUpdatedAt": "2026-07-28T12:00:00Z",
        "ttlMs": null,
        "pollIntervalMs": 50,
    })
}

/// The result of a call that became a task.
pub(super) fn task_created(name: &str) -> Value {
    task(name, "task", "working")
}

/// A task that does not ask.
pub(super) fn task_works(name: &str) -> Value {
    task(name, "complete", "working")
}

/// A notification of a task that asks.
pub(super) fn task_notified(name: &str, entries: &Map<String, Value>) -> Value {
    let mut params = task_asks(name, entries);
    if let Some(members) = params.as_object_mut() {
        // It is no result.
        members.remove("resultType");
    }
    json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params})
}

/// A task that asks.
pub(super) fn task_asks(name: &str, entries: &Map<String, Value>) -> Value {
    let mut result = task(name, "complete", "input_required");
    result["inputRequests"] = json!(entries);
    result
}

/// A task that failed.
pub(super) fn task_failed(name: &str, error: &Value) -> Value {
    let mut failed = task(name, "complete", "failed");
    failed["error"] = error.clone();
    failed
}

/// A task that is done.
pub(super) fn task_completed(name: &str, result: &Value) -> Value {
    let mut completed = task(name, "complete", "completed");
    completed["result"] = result.clone();
    completed
}

/// The result of `tasks/update` and `tasks/cancel`.
pub(super) fn acknowledged() -> Value {
    json!({"resultType": "complete"})
}

/// The error that wants URLs opened before the call is made again.
pub(super) fn urls_required(id: &Value, count: usize, list: UrlList) -> Value {
    let elicitations: Vec<Value> = (0..count)
        .map(|number| {
            let mut url = params(Kind::Elicitation, Shape::Url);
            url["elicitationId"] = json!(format!("connect-{number}"));
            url
        })
        .collect();
    let mut message = error(id, -32042, "open these first");
    let list = match list {
        UrlList::NoData => return message,
        UrlList::Complete => json!(elicitations),
        UrlList::Text => json!("https://example.com/connect"),
        UrlList::Empty => json!([]),
        UrlList::Numbers => json!(vec![5; count]),
    };
    message["error"]["data"] = json!({"elicitations": list});
    message
}

/// The URI of a resource.
pub(super) fn uri(name: &str) -> String {
    format!("scenario:///{name}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_ids_of_a_session_are_equal() {
        for style in [Ids::Numbers, Ids::Strings, Ids::EveryType] {
            let ids: HashSet<String> = (1..=1000).map(|n| id(style, n).to_string()).collect();
            assert_eq!(ids.len(), 1000, "{style:?}");
        }
    }
}
