//! The one translation between rmcp's types and ours.

use rmcp::model::{
    ConstString, CustomNotification, DetailedTask, ErrorCode, ErrorData, InputRequest,
    InputRequests, JsonObject, ServerNotification, ServerRequest, TaskPayload,
    TaskStatusNotificationMethod,
};
use serde_json::Value;

use crate::{
    question::{Method, QuestionKind},
    refusal::{CODE, Refusal},
    throttle::Entry,
};

/// The code of an error that asks to open URLs first (2025-11-25).
const URL_ELICITATION_REQUIRED: i32 = -32042;

impl From<&Refusal> for ErrorData {
    fn from(refusal: &Refusal) -> Self {
        // A refusal's data is a map of strings and numbers, which always serialises.
        let data = serde_json::to_value(refusal.data()).ok();
        Self::new(ErrorCode(CODE), refusal.to_string(), data)
    }
}

impl From<Refusal> for ErrorData {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}

/// A message of a server, known by its method.
pub(crate) trait Message {
    /// The method as it stood on the wire; empty for one that this version of rmcp does not name.
    fn method(&self) -> &str;
}

impl Message for ServerRequest {
    fn method(&self) -> &str {
        match self {
            Self::PingRequest(request) => request.method.as_str(),
            Self::CreateMessageRequest(request) => request.method.as_str(),
            Self::ListRootsRequest(request) => request.method.as_str(),
            Self::ElicitRequest(request) => request.method.as_str(),
            // Also where rmcp puts a question that it cannot parse.
            Self::CustomRequest(request) => &request.method,
            _ => "",
        }
    }
}

impl Message for ServerNotification {
    fn method(&self) -> &str {
        match self {
            Self::CancelledNotification(notification) => notification.method.as_str(),
            Self::ProgressNotification(notification) => notification.method.as_str(),
            Self::LoggingMessageNotification(notification) => notification.method.as_str(),
            Self::ResourceUpdatedNotification(notification) => notification.method.as_str(),
            Self::ResourceListChangedNotification(notification) => notification.method.as_str(),
            Self::ToolListChangedNotification(notification) => notification.method.as_str(),
            Self::PromptListChangedNotification(notification) => notification.method.as_str(),
            Self::SubscriptionsAcknowledgedNotification(notification) => {
                notification.method.as_str()
            }
            Self::TaskStatusNotification(notification) => notification.method.as_str(),
            // Also where rmcp puts a question without an id.
            Self::CustomNotification(notification) => &notification.method,
            _ => "",
        }
    }
}

impl Message for InputRequest {
    fn method(&self) -> &str {
        match self {
            Self::CreateMessage(request) => request.method.as_str(),
            Self::Elicitation(request) => request.method.as_str(),
            Self::ListRoots(request) => request.method.as_str(),
            _ => "",
        }
    }
}

/// An entry of a round as the request that the handler would get outside of one; `None` for a
/// kind of entry that this version does not know.
pub(crate) fn request_of(input: InputRequest) -> Option<ServerRequest> {
    match input {
        InputRequest::CreateMessage(request) => Some(ServerRequest::CreateMessageRequest(request)),
        InputRequest::Elicitation(request) => Some(ServerRequest::ElicitRequest(request)),
        InputRequest::ListRoots(request) => Some(ServerRequest::ListRootsRequest(request)),
        _ => None,
    }
}

/// The URL elicitations that an error asks for, as keys and contents; `None` for another error.
///
/// It asks for one even where the list is missing or malformed: by its code alone the person is
/// sent somewhere.
pub(crate) fn url_elicitations(code: i64, data: Option<&Value>) -> Option<Vec<(String, Vec<u8>)>> {
    if code != i64::from(URL_ELICITATION_REQUIRED) {
        return None;
    }
    let listed = data
        .and_then(|data| data.get("elicitations"))
        .and_then(Value::as_array)
        .filter(|listed| !listed.is_empty());
    Some(match listed {
        Some(listed) => listed
            .iter()
            .enumerate()
            .map(|(index, elicitation)| {
                (
                    format!("elicitations/{index}"),
                    elicitation.to_string().into_bytes(),
                )
            })
            .collect(),
        None => vec![(
            "elicitations".to_owned(),
            data.map(Value::to_string).unwrap_or_default().into_bytes(),
        )],
    })
}

/// How many URL elicitations an error asks for; `None` for another error.
pub(crate) fn count_url_elicitations(error: &ErrorData) -> Option<u32> {
    url_elicitations(i64::from(error.code.0), error.data.as_ref())
        .map(|listed| u32::try_from(listed.len()).unwrap_or(u32::MAX))
}

/// What a task's state asks, apart from what is no question.
pub(crate) fn task_entries(
    task: &DetailedTask,
    classify: impl Fn(&str) -> Option<(QuestionKind, Method)>,
) -> Vec<Entry> {
    match &task.payload {
        TaskPayload::InputRequired { input_requests } => input_entries(input_requests, classify),
        TaskPayload::Failed { error } => failed_entries(error),
        _ => Vec::new(),
    }
}

/// The questions among input requests.
pub(crate) fn input_entries(
    inputs: &InputRequests,
    classify: impl Fn(&str) -> Option<(QuestionKind, Method)>,
) -> Vec<Entry> {
    inputs
        .iter()
        .filter_map(|(key, input)| {
            let (kind, method) = classify(input.method())?;
            Some(Entry {
                kind,
                method,
                key: key.clone(),
                // What was parsed serialises again; were it ever not so, equal keys would count
                // as one question, and it would still be charged.
                content: serde_json::to_vec(input).unwrap_or_default(),
            })
        })
        .collect()
}

/// A task's state as it was notified, where rmcp could not parse it: it asks all the same.
#[derive(Debug)]
pub(crate) struct UnparsedTask<'a>(&'a Value);

impl<'a> UnparsedTask<'a> {
    /// `None` for another notification.
    pub(crate) fn of(notification: &'a CustomNotification) -> Option<Self> {
        let params = notification.params.as_ref()?;
        (notification.method == TaskStatusNotificationMethod::VALUE).then_some(Self(params))
    }

    /// The task's id, or nothing where it has none.
    pub(crate) fn id(&self) -> &'a str {
        self.0["taskId"].as_str().unwrap_or_default()
    }

    /// What it asks, apart from what is no question.
    pub(crate) fn entries(
        &self,
        classify: impl Fn(&str) -> Option<(QuestionKind, Method)>,
    ) -> Vec<Entry> {
        let entry = |key: String, input: &Value| {
            let (kind, method) = classify(input.get("method")?.as_str()?)?;
            let content = input.to_string().into_bytes();
            Some(Entry {
                kind,
                method,
                key,
                content,
            })
        };
        let mut entries: Vec<_> = match &self.0["inputRequests"] {
            Value::Object(inputs) => inputs
                .iter()
                .filter_map(|(key, input)| entry(key.clone(), input))
                .collect(),
            Value::Array(inputs) => inputs
                .iter()
                .enumerate()
                .filter_map(|(index, input)| entry(index.to_string(), input))
                .collect(),
            _ => Vec::new(),
        };
        if let Some(error) = self.0["error"].as_object() {
            entries.extend(failed_entries(error));
        }
        entries
    }
}

fn failed_entries(error: &JsonObject) -> Vec<Entry> {
    let code = error.get("code").and_then(code_of).unwrap_or_default();
    url_elicitations(code, error.get("data"))
        .unwrap_or_default()
        .into_iter()
        .map(|(key, content)| Entry {
            kind: QuestionKind::Elicitation,
            method: QuestionKind::Elicitation.into(),
            key,
            content,
        })
        .collect()
}

/// A code as its reader may take it: in any notation or, as some decoders allow, in quotes.
fn code_of(code: &Value) -> Option<i64> {
    let number = match code {
        Value::String(text) => text.trim().parse().ok()?,
        code => code.as_f64()?,
    };
    // Codes have 32 bits, so none is lost.
    (number.fract() == 0.0).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_elicitation_error_counts_its_entries_and_at_least_one() {
        let count = |code, data: Option<Value>| {
            count_url_elicitations(&ErrorData::new(ErrorCode(code), "", data))
        };
        let three = json!({"elicitations": [{}, {}, {}]});
        assert_eq!(count(-32042, Some(three.clone())), Some(3));
        for odd in [
            None,
            Some(json!(null)),
            Some(json!({})),
            Some(json!({"elicitations": []})),
            Some(json!({"elicitations": "many"})),
            Some(json!([1, 2])),
        ] {
            assert_eq!(count(-32042, odd.clone()), Some(1), "{odd:?}");
        }
        assert_eq!(count(-32603, Some(three)), None);
    }

    /// The error of a failed task goes to its caller as it stood on the wire.
    #[test]
    fn a_failed_task_asks_whatever_its_code_is_written_like() {
        let count = |code: Value| {
            let error = json!({"code": code, "message": "", "data": {"elicitations": [{}, {}]}});
            failed_entries(error.as_object().unwrap()).len()
        };
        for asks in [
            json!(-32042),
            json!(-32042.0),
            json!("-32042"),
            json!(" -3.2042e4 "),
        ] {
            assert_eq!(count(asks.clone()), 2, "{asks}");
        }
        for not in [
            json!(-32042.5),
            json!(-32603),
            json!("NaN"),
            json!(null),
            json!([-32042]),
        ] {
            assert_eq!(count(not.clone()), 0, "{not}");
        }
    }
}
