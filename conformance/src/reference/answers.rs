//! What handlers answer, and what wrong clients answer in their place.

use serde_json::{Value, json};

use super::wrong::Wrong;
use crate::protocol::Kind;

/// What every handler answers, and at once.
pub(super) fn answer(kind: Kind) -> Value {
    match kind {
        Kind::Sampling => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "No."},
            "model": "none",
        }),
        Kind::Elicitation => json!({"action": "accept", "content": {"there": true}}),
    }
}

/// The answer that a wrong client makes up in place of a refusal.
pub(super) fn fabricated(wrong: Option<Wrong>, kind: Kind) -> Option<Value> {
    match wrong {
        Some(Wrong::AnswersDecline) => Some(json!({"action": "decline"})),
        Some(Wrong::AnswersCancel) => Some(json!({"action": "cancel"})),
        Some(Wrong::AnswersAccept) => Some(answer(kind)),
        _ => None,
    }
}

/// Whether the parameters of a question are what its method wants.
pub(super) fn is_readable(kind: Kind, params: &Value) -> bool {
    match kind {
        Kind::Sampling => params["messages"].is_array(),
        Kind::Elicitation => params["message"].is_string(),
    }
}
