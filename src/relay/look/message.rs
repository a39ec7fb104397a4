//! One message, and all its doors.

use super::{
    counting::{Asked, Counting},
    inputs::{input_requests, text_of, url_elicitations},
};
use crate::relay::{
    json::{Cursor, Malformed, Next},
    search::INPUT_REQUESTS,
    text::{decode, names},
};

/// The notification that carries a task's state.
const TASK_NOTIFICATION: &str = "notifications/tasks";

/// One JSON-RPC message, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Message<'a> {
    id: Option<&'a [u8]>,
    asks: Asked<'a>,
    round: Asked<'a>,
    urls: Asked<'a>,
    task: Asked<'a>,
    task_id: Option<&'a [u8]>,
    task_ended: bool,
    is_answer: bool,
    is_task_notification: bool,
}

impl<'a> Message<'a> {
    pub(super) fn read(
        cursor: &mut Cursor<'a>,
        counting: &Counting<'_>,
    ) -> Result<Self, Malformed> {
        let mut read = Self::default();
        // Whether `params` matter is only known with the method, which may come after them.
        let mut params = Carried::default();
        cursor.object(|name, value| {
            if names(name, "method") {
                let method = text_of(value)?;
                if let Some(method) = method.map(decode) {
                    if let Some((kind, method)) = counting.methods().classify(&method) {
                        read.asks.add(kind, b"", method);
                    }
                    read.is_task_notification |= method == TASK_NOTIFICATION;
                }
            } else if names(name, "id") {
                read.id = Some(value.skip()?);
            } else if names(name, "params") {
                params.read_state(value, counting)?;
            } else if names(name, "result") {
                read.is_answer = true;
                let mut result = Carried::default();
                result.read_state(value, counting)?;
                read.task_ended |= result.ended;
                read.round.add_all(result.round);
                read.urls.add_all(result.urls);
            } else if names(name, "error") {
                read.is_answer = true;
                url_elicitations(value, &mut read.urls, counting)?;
            } else {
                value.skip()?;
            }
            Ok(())
        })?;
        if read.is_task_notification {
            read.task_id = params.task_id;
            read.task_ended |= params.ended;
            read.task.add_all(params.round);
            read.task.add_all(params.urls);
        }
        Ok(read)
    }

    /// The id as it was written, of whatever JSON type. Of several, the last.
    #[must_use]
    pub const fn id(&self) -> Option<&'a [u8]> {
        self.id
    }

    /// What it asks by its own method: a request, or without an id a notification.
    #[must_use]
    pub const fn asks(&self) -> &Asked<'a> {
        &self.asks
    }

    /// What it asks as the result of a call, through `inputRequests`.
    #[must_use]
    pub const fn round(&self) -> &Asked<'a> {
        &self.round
    }

    /// What it asks as an error -32042, of a call or of a failed task.
    #[must_use]
    pub const fn urls(&self) -> &Asked<'a> {
        &self.urls
    }

    /// What it asks as a notification of a task's state.
    #[must_use]
    pub const fn task(&self) -> &Asked<'a> {
        &self.task
    }

    /// Whether a client takes it for the answer to a call: it has a `result` or an `error`.
    #[must_use]
    pub const fn is_answer(&self) -> bool {
        self.is_answer
    }

    /// Whether it is a notification of a task's state.
    #[must_use]
    pub const fn is_task_notification(&self) -> bool {
        self.is_task_notification
    }

    /// The task that a notification is about.
    #[must_use]
    pub fn task_id(&self) -> Option<String> {
        self.task_id.map(|id| decode(id).into_owned())
    }

    /// Whether it says of a task that it has ended.
    #[must_use]
    pub const fn ends_task(&self) -> bool {
        self.task_ended
    }

    /// Whether it asks nothing at all.
    #[must_use]
    pub const fn asks_nothing(&self) -> bool {
        self.asks.is_empty()
            && self.round.is_empty()
            && self.urls.is_empty()
            && self.task.is_empty()
    }

    /// All that it asks, together.
    #[must_use]
    pub fn all(self) -> Asked<'a> {
        let mut all = self.asks;
        for more in [self.round, self.urls, self.task] {
            all.add_all(more);
        }
        all
    }
}

/// What a result, or the state of a task, carries.
#[derive(Debug, Default)]
struct Carried<'a> {
    round: Asked<'a>,
    urls: Asked<'a>,
    task_id: Option<&'a [u8]>,
    ended: bool,
}

impl<'a> Carried<'a> {
    /// Reads a result, with the result or error of a task inside.
    fn read_state(
        &mut self,
        cursor: &mut Cursor<'a>,
        counting: &Counting<'_>,
    ) -> Result<(), Malformed> {
        if cursor.next() != Next::Object {
            return cursor.skip().map(drop);
        }
        cursor.object(|name, value| {
            if names(name, INPUT_REQUESTS) {
                input_requests(value, &mut self.round, counting)
            } else if names(name, "result") && value.next() == Next::Object {
                let round = &mut self.round;
                value.object(|name, value| match names(name, INPUT_REQUESTS) {
                    true => input_requests(value, round, counting),
                    false => value.skip().map(drop),
                })
            } else if names(name, "error") {
                url_elicitations(value, &mut self.urls, counting)
            } else if names(name, "taskId") {
                self.task_id = text_of(value)?;
                Ok(())
            } else if names(name, "status") {
                let status = text_of(value)?.map(decode);
                self.ended |= matches!(
                    status.as_deref(),
                    Some("completed" | "failed" | "cancelled")
                );
                Ok(())
            } else {
                value.skip().map(drop)
            }
        })
    }
}
