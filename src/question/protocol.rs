//! The names that the protocol itself gives to requests and notifications, of every revision from
//! 2024-11-05 to 2026-07-28, with tasks (SEP-2663).
//!
//! One that is no question (section 3 of the design) cannot be made one: `ping` counted as a
//! question is refused sooner or later, and the client that refuses it is taken for dead.
//! `roots/list` is missing on purpose: it asks for something, so an embedder may count it.

/// Whether `method` is one of the protocol's own that are no questions, whichever side sends it.
pub(super) fn is_no_question(method: &str) -> bool {
    NO_QUESTIONS.binary_search(&method).is_ok()
}

/// In byte order.
const NO_QUESTIONS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::{BadMethod, QuestionKind, QuestionMethods};

    #[test]
    fn the_names_are_in_the_order_they_are_searched_in() {
        assert!(NO_QUESTIONS.is_sorted());
    }

    /// `"ping" = "sampling"` was called valid, and pings over the limit got an error.
    #[test]
    fn no_other_message_of_the_protocol_can_be_made_a_question() {
        for method in NO_QUESTIONS {
            for kind in QuestionKind::ALL {
                assert_eq!(
                    QuestionMethods::new().with(*method, kind),
                    Err(BadMethod::NoQuestion((*method).into()))
                );
            }
        }
        for free in ["roots/list", "acme/ping", "Ping", "notifications/acme/ask"] {
            let methods = QuestionMethods::new().with(free, QuestionKind::Sampling);
            assert!(methods.is_ok(), "{free}");
        }
    }
}
