//! Which of the client's calls are open: the answers to polls of a task repeat their input
//! requests, and a question that comes while a call of the user's is open belongs to it.

use std::{
    collections::{HashMap, HashSet},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use memchr::memmem::Finder;

use super::{
    json::{Cursor, Malformed, Next},
    text::{decode, names},
};
use crate::arrival::Origin;

const TASKS_GET: &str = "tasks/get";
const CALLS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];
const CANCELLED: &str = "notifications/cancelled";

/// What no call is without, and few answers have: they are searched for it once, and never read.
static METHOD: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("\"method\""));

/// Polls that are remembered at once, and calls.
const MOST: usize = 1024;
/// Longer ids and task names are not remembered.
const LONGEST_NAME: usize = 1024;

/// The client's open polls and calls, by id.
///
/// A poll that is not remembered costs the server a charge for entries it was charged for before,
/// and gives nothing away. Calls are for the word that people are shown, and decide nothing.
#[derive(Debug, Default)]
pub struct Polls(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    polls: HashMap<Box<[u8]>, String>,
    calls: HashSet<Box<[u8]>>,
    /// Set for good once a call found no room: from then on nobody can tell.
    lost_count: bool,
}

impl Polls {
    /// Remembers a message of the client's, before it is sent, if it polls a task or is a call.
    pub fn note(&self, message: &[u8]) {
        if METHOD.find(message).is_some() {
            Sent::each(message, |sent| self.note_one(sent));
        }
    }

    /// The task that was polled with this id, once. A call with this id is over.
    #[must_use]
    pub fn answered(&self, id: &[u8]) -> Option<String> {
        let mut open = self.open();
        open.calls.remove(id);
        open.polls.remove(id)
    }

    /// Where a request of the server's comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let open = self.open();
        match (open.lost_count, open.calls.is_empty()) {
            (true, _) => Origin::Unknown,
            (false, true) => Origin::Background,
            (false, false) => Origin::InCall,
        }
    }

    fn note_one(&self, sent: Sent<'_>) {
        let Some(method) = sent.method else {
            return;
        };
        let mut open = self.open();
        if method == CANCELLED {
            // The one who cancels a call does not wait for it any more.
            if let Some(id) = sent.request_id {
                open.calls.remove(id);
            }
            return;
        }
        let Some(id) = sent.id.filter(|id| id.len() <= LONGEST_NAME) else {
            return;
        };
        if method == TASKS_GET
            && let Some(task) = sent.task.filter(|task| task.len() <= LONGEST_NAME)
        {
            if open.polls.len() >= MOST {
                open.polls.clear();
            }
            open.polls.insert(id.into(), task);
        } else if CALLS.contains(&method.as_str()) {
            if open.calls.len() < MOST {
                open.calls.insert(id.into());
            } else {
                open.lost_count = true;
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message, as far as it matters here.
#[derive(Debug, Default)]
pub(super) struct Sent<'a> {
    pub(super) method: Option<String>,
    pub(super) id: Option<&'a [u8]>,
    task: Option<String>,
    /// The request that a cancellation is about.
    pub(super) request_id: Option<&'a [u8]>,
}

impl<'a> Sent<'a> {
    /// Reads a message, or each of a batch. What cannot be read is left out.
    pub(super) fn each(text: &'a [u8], mut f: impl FnMut(Self)) {
        let mut cursor = Cursor::new(text);
        let mut one = |cursor: &mut Cursor<'a>| {
            f(Self::read(cursor)?);
            Ok(())
        };
        let _ = match cursor.next() {
            Next::Object => one(&mut cursor),
            Next::Array => cursor.array(|member| match member.next() {
                Next::Object => one(member),
                _ => member.skip().map(drop),
            }),
            _ => Ok(()),
        };
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Malformed> {
        let mut sent = Self::default();
        cursor.object(|name, value| {
            if names(name, "method") && value.next() == Next::String {
                sent.method = Some(decode(value.string()?).into_owned());
            } else if names(name, "id") {
                sent.id = Some(value.skip()?);
            } else if names(name, "params") && value.next() == Next::Object {
                value.object(|name, value| {
                    if names(name, "taskId") && value.next() == Next::String {
                        sent.task = Some(decode(value.string()?).into_owned());
                    } else if names(name, "requestId") {
                        sent.request_id = Some(value.skip()?);
                    } else {
                        value.skip()?;
                    }
                    Ok(())
                })?;
            } else {
                value.skip()?;
            }
            Ok(())
        })?;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_taken_once_and_by_its_id() {
        let polls = Polls::default();
        polls.note(br#"{"jsonrpc":"2.0","id":"7","method":"tasks/get","params":{"taskId":"t"}}"#);
        polls.note(
            br#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"taskId":"tasks/get"}}"#,
        );
        assert_eq!(polls.answered(b"7"), None);
        assert_eq!(polls.answered(b"8"), None);
        assert_eq!(polls.answered(br#""7""#).as_deref(), Some("t"));
        assert_eq!(polls.answered(br#""7""#), None);
    }

    #[test]
    fn a_call_is_open_until_it_is_answered_or_cancelled() {
        let polls = Polls::default();
        assert_eq!(polls.origin(), Origin::Background);
        for method in CALLS {
            polls.note(format!(r#"{{"id":1,"method":"{method}","params":{{}}}}"#).as_bytes());
            assert_eq!(polls.origin(), Origin::InCall, "{method}");
            assert_eq!(polls.answered(b"2"), None);
            assert_eq!(polls.origin(), Origin::InCall);
            assert_eq!(polls.answered(b"1"), None);
            assert_eq!(polls.origin(), Origin::Background);
        }
        polls.note(br#"[{"id":1,"method":"tools\/call"},{"id":2,"method":"tools/call"}]"#);
        polls.note(br#"{"method":"notifications/cancelled","params":{"requestId":1}}"#);
        assert_eq!(polls.origin(), Origin::InCall);
        polls.note(br#"{"method":"notifications/cancelled","params":{"requestId":2}}"#);
        assert_eq!(polls.origin(), Origin::Background);
        for other in ["subscriptions/listen", "tools/list", "tasks/get", "ping"] {
            polls.note(format!(r#"{{"id":"tools/call","method":"{other}"}}"#).as_bytes());
            assert_eq!(polls.origin(), Origin::Background, "{other}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let polls = Polls::default();
        for id in 0..10 * MOST {
            for method in [TASKS_GET, CALLS[0]] {
                let message =
                    format!(r#"{{"id":{id},"method":"{method}","params":{{"taskId":"t"}}}}"#);
                polls.note(message.as_bytes());
            }
        }
        assert_eq!(polls.origin(), Origin::Unknown);
        let open = polls.open();
        assert!(open.polls.len() <= MOST && open.calls.len() <= MOST);
    }
}
