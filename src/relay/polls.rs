//! Which of the client's calls poll a task: the answers to them repeat their input requests.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use memchr::memmem;

use super::{
    json::{Cursor, Malformed, Next},
    text::{decode, names},
};

const TASKS_GET: &str = "tasks/get";

/// Polls that are remembered at once.
const MOST: usize = 1024;
/// Longer ids and task names are not remembered.
const LONGEST_NAME: usize = 1024;

/// The client's open polls, by id.
///
/// A poll that is not remembered costs the server a charge for entries it was charged for before,
/// and gives nothing away.
#[derive(Debug, Default)]
pub struct Polls(Mutex<HashMap<Box<[u8]>, String>>);

impl Polls {
    /// Remembers a message of the client's, before it is sent, if it polls a task.
    pub fn note(&self, message: &[u8]) {
        if memmem::find(message, TASKS_GET.as_bytes()).is_none() {
            return;
        }
        if let Some((id, task)) = poll(message) {
            let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if polls.len() >= MOST {
                polls.clear();
            }
            polls.insert(id.into(), task);
        }
    }

    /// The task that was polled with this id, once.
    #[must_use]
    pub fn take(&self, id: &[u8]) -> Option<String> {
        let mut polls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        polls.remove(id)
    }
}

/// The id and the task of a poll.
fn poll(message: &[u8]) -> Option<(&[u8], String)> {
    let (mut id, mut task, mut is_poll) = (None, None, false);
    let read = Cursor::new(message).over(|cursor| {
        if cursor.next() != Next::Object {
            return Err(Malformed);
        }
        cursor.object(|name, value| {
            if names(name, "method") && value.next() == Next::String {
                is_poll = decode(value.string()?) == TASKS_GET;
            } else if names(name, "id") {
                id = Some(value.skip()?);
            } else if names(name, "params") && value.next() == Next::Object {
                value.object(|name, value| {
                    if names(name, "taskId") && value.next() == Next::String {
                        task = Some(decode(value.string()?).into_owned());
                        Ok(())
                    } else {
                        value.skip().map(drop)
                    }
                })?;
            } else {
                value.skip()?;
            }
            Ok(())
        })
    });
    match (read, is_poll, id, task) {
        (Ok(_), true, Some(id), Some(task))
            if id.len() <= LONGEST_NAME && task.len() <= LONGEST_NAME =>
        {
            Some((id, task))
        }
        _ => None,
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
        assert_eq!(polls.take(b"7"), None);
        assert_eq!(polls.take(b"8"), None);
        assert_eq!(polls.take(br#""7""#).as_deref(), Some("t"));
        assert_eq!(polls.take(br#""7""#), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let polls = Polls::default();
        for id in 0..10 * MOST {
            polls.note(
                format!(r#"{{"id":{id},"method":"tasks/get","params":{{"taskId":"t"}}}}"#)
                    .as_bytes(),
            );
        }
        assert!(polls.0.lock().unwrap().len() <= MOST);
    }
}
