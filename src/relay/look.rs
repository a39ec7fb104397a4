//! What a frame asks: a partial parse that builds nothing and misses no door.
//!
//! It reads as the most credulous client would. Every occurrence of a repeated member counts,
//! members are matched without regard to case, and -32042 is that code however it is written.

use std::cmp::Ordering;

use super::{
    json::{Cursor, Malformed, Next},
    search::{INPUT_REQUESTS, URL_ELICITATION_REQUIRED},
    text::{decode, names},
};
use crate::{
    limits::{LimitName, ProtoSettings, ThrottleMode},
    question::{Method, QuestionKind, QuestionMethods},
    throttle::{Ask, Entry},
};

/// The notification that carries a task's state.
const TASK_NOTIFICATION: &str = "notifications/tasks";

/// What counts as a question, and how far counting is of use.
#[derive(Clone, Copy, Debug)]
pub struct Counting<'s> {
    methods: &'s QuestionMethods,
    /// By kind: the tightest limit in force. A round with more entries can never fit, whatever
    /// follows, so the rest of it is skipped uncounted.
    enough: [u32; 2],
}

impl<'s> Counting<'s> {
    /// Counts by the settings in force for a server.
    #[must_use]
    pub fn by(settings: &'s ProtoSettings) -> Self {
        let tightest = |kind: QuestionKind| {
            if settings.throttle_mode == ThrottleMode::Observe {
                // All of it will pass, so all of it is counted.
                return u32::MAX;
            }
            LimitName::WINDOWS
                .into_iter()
                .filter(|name| name.kind() == Some(kind))
                .filter_map(|name| settings.window_limit(name)?.bound())
                .min()
                .unwrap_or(u32::MAX)
        };
        Self {
            methods: &settings.questions,
            enough: QuestionKind::ALL.map(tightest),
        }
    }

    /// Which methods are questions.
    #[must_use]
    pub const fn methods(&self) -> &'s QuestionMethods {
        self.methods
    }
}

/// Questions of one frame, by kind.
#[derive(Clone, Debug, Default)]
pub struct Asked<'a> {
    counts: [u32; 2],
    /// By kind: the key (as written) and the method of the first entry in the order of keys.
    first: [Option<(&'a [u8], Method)>; 2],
}

impl<'a> Asked<'a> {
    /// Whether nothing is asked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts[0] == 0 && self.counts[1] == 0
    }

    /// How many questions of a kind.
    #[must_use]
    pub const fn count(&self, kind: QuestionKind) -> u32 {
        self.counts[kind as usize]
    }

    /// All of it, for [`Session::admit`](crate::throttle::Session::admit).
    #[must_use]
    pub fn ask(&self) -> Ask<'_> {
        QuestionKind::ALL.into_iter().fold(Ask::new(), |ask, kind| {
            match &self.first[kind as usize] {
                Some((_, method)) => ask.and(kind, method, self.count(kind)),
                None => ask,
            }
        })
    }

    fn add(&mut self, kind: QuestionKind, key: &'a [u8], method: Method) {
        self.add_many(kind, key, method, 1);
    }

    fn add_many(&mut self, kind: QuestionKind, key: &'a [u8], method: Method, count: u32) {
        let at = kind as usize;
        self.counts[at] = self.counts[at].saturating_add(count);
        match &self.first[at] {
            Some((first, _)) if by_key(first, key) != Ordering::Greater => {}
            _ => self.first[at] = Some((key, method)),
        }
    }

    fn add_all(&mut self, other: Self) {
        for (kind, first) in QuestionKind::ALL.into_iter().zip(other.first) {
            if let Some((key, method)) = first {
                self.add_many(kind, key, method, other.counts[kind as usize]);
            }
        }
    }

    fn is_enough(&self, counting: &Counting<'_>) -> bool {
        self.counts[0] > counting.enough[0] || self.counts[1] > counting.enough[1]
    }
}

fn by_key(a: &[u8], b: &[u8]) -> Ordering {
    if a.contains(&b'\\') || b.contains(&b'\\') {
        decode(a).cmp(&decode(b))
    } else {
        a.cmp(b)
    }
}

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

/// One JSON value from the wire.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A message.
    Message(Box<Message<'a>>),
    /// A batch of messages (2025-03-26).
    Batch(Batch<'a>),
    /// A string, a number or a word, which no client takes for a message.
    Scalar,
}

/// Reads `text` as exactly one JSON value. A byte order mark before it is skipped.
///
/// # Errors
///
/// [`NotOneValue`] if it is anything else; it has to be searched then.
pub fn read<'a>(text: &'a [u8], counting: &Counting<'_>) -> Result<Value<'a>, NotOneValue> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut cursor = Cursor::new(text);
    let value = match cursor.next() {
        Next::Object => Value::Message(Box::new(message(&mut cursor, counting)?)),
        Next::Array => Value::Batch(Batch::read(&mut cursor, counting)?),
        Next::String | Next::Other => {
            cursor.skip()?;
            Value::Scalar
        }
    };
    cursor.end()?;
    Ok(value)
}

/// The text is a half value, several, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOneValue;

impl From<Malformed> for NotOneValue {
    fn from(_: Malformed) -> Self {
        Self
    }
}

/// An array of messages, valid as JSON.
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    text: &'a [u8],
    asks: bool,
}

impl<'a> Batch<'a> {
    fn read(cursor: &mut Cursor<'a>, counting: &Counting<'_>) -> Result<Self, Malformed> {
        let mut asks = false;
        let text = cursor.over(|cursor| {
            cursor.array(|member| {
                match member.next() {
                    Next::Object => asks |= !message(member, counting)?.asks_nothing(),
                    // No revision has batches in batches, yet some reader may unpack them.
                    Next::Array => {
                        member.skip()?;
                        asks = true;
                    }
                    Next::String | Next::Other => {
                        member.skip()?;
                    }
                }
                Ok(())
            })
        })?;
        Ok(Self { text, asks })
    }

    /// Whether no member can ask anything, so that the batch can pass as it is.
    #[must_use]
    pub const fn asks_nothing(&self) -> bool {
        !self.asks
    }

    /// Goes through the members: their bytes, and the message if it is one.
    pub fn for_each<E>(
        &self,
        counting: &Counting<'_>,
        mut member: impl FnMut(&'a [u8], Option<Message<'a>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut result = Ok(());
        let read = Cursor::new(self.text).array(|cursor| {
            let mut read = None;
            let is_object = cursor.next() == Next::Object;
            let bytes = cursor.over(|cursor| {
                if is_object {
                    read = Some(message(cursor, counting)?);
                } else {
                    cursor.skip()?;
                }
                Ok(())
            })?;
            result = member(bytes, read);
            match result {
                Ok(()) => Ok(()),
                Err(_) => Err(Malformed),
            }
        });
        debug_assert!(read.is_ok() || result.is_err(), "a batch is well formed");
        result
    }
}

fn message<'a>(cursor: &mut Cursor<'a>, counting: &Counting<'_>) -> Result<Message<'a>, Malformed> {
    let mut read = Message::default();
    // Whether `params` matter is only known with the method, which may come after them.
    let mut params = Carried::default();
    cursor.object(|name, value| {
        if names(name, "method") {
            let method = text_of(value)?;
            if let Some(method) = method.map(decode) {
                if let Some((kind, method)) = counting.methods.classify(&method) {
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

/// Counts the questions among input requests, whether they are a map or a list.
fn input_requests<'a>(
    cursor: &mut Cursor<'a>,
    asked: &mut Asked<'a>,
    counting: &Counting<'_>,
) -> Result<(), Malformed> {
    for_each_input(cursor, |key, value| {
        if asked.is_enough(counting) {
            return value.skip().map(drop);
        }
        question(value, counting, |kind, method| asked.add(kind, key, method))
    })
}

fn for_each_input<'a>(
    cursor: &mut Cursor<'a>,
    mut input: impl FnMut(&'a [u8], &mut Cursor<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    match cursor.next() {
        Next::Object => cursor.object(input),
        Next::Array => cursor.array(|value| input(b"", value)),
        Next::String | Next::Other => cursor.skip().map(drop),
    }
}

/// Reads an input request, and tells of each question's method in it.
fn question<'a>(
    cursor: &mut Cursor<'a>,
    counting: &Counting<'_>,
    mut found: impl FnMut(QuestionKind, Method),
) -> Result<(), Malformed> {
    if cursor.next() != Next::Object {
        return cursor.skip().map(drop);
    }
    cursor.object(|name, value| {
        if !names(name, "method") {
            return value.skip().map(drop);
        }
        if let Some(method) = text_of(value)?
            && let Some((kind, method)) = counting.methods.classify(&decode(method))
        {
            found(kind, method);
        }
        Ok(())
    })
}

/// Counts the URL elicitations of an error -32042: at least one, whatever its list looks like.
fn url_elicitations<'a>(
    cursor: &mut Cursor<'a>,
    asked: &mut Asked<'a>,
    counting: &Counting<'_>,
) -> Result<(), Malformed> {
    if cursor.next() != Next::Object {
        return cursor.skip().map(drop);
    }
    let mut required = false;
    let mut listed = 0_u32;
    let enough = counting.enough[QuestionKind::Elicitation as usize];
    cursor.object(|name, value| {
        if names(name, "code") {
            required |= is_url_code(value)?;
        } else if names(name, "data") && value.next() == Next::Object {
            value.object(|name, value| {
                if !names(name, "elicitations") {
                    return value.skip().map(drop);
                }
                for_each_input(value, |_, value| {
                    if listed <= enough {
                        listed += 1;
                    }
                    value.skip().map(drop)
                })
            })?;
        } else {
            value.skip()?;
        }
        Ok(())
    })?;
    if required {
        let kind = QuestionKind::Elicitation;
        asked.add_many(kind, b"elicitations", kind.into(), listed.max(1));
    }
    Ok(())
}

/// A code, as a number in any notation or, as some decoders allow, in quotes.
fn is_url_code(cursor: &mut Cursor<'_>) -> Result<bool, Malformed> {
    let code = match cursor.next() {
        Next::String => decode(cursor.string()?),
        _ => decode(cursor.skip()?),
    };
    Ok(code.trim().parse() == Ok(URL_ELICITATION_REQUIRED))
}

fn text_of<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match cursor.next() {
        Next::String => cursor.string().map(Some),
        _ => cursor.skip().map(|_| None),
    }
}

/// The input requests of a task's state, to be told from those that were seen; `None` if there
/// are more than `most`, or if they do not account for all that the message asks.
#[must_use]
pub fn task_entries(text: &[u8], counting: &Counting<'_>, most: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let read = Cursor::new(text).object(|name, value| {
        if (names(name, "result") || names(name, "params")) && value.next() == Next::Object {
            value.object(|name, value| match names(name, INPUT_REQUESTS) {
                true => for_each_input(value, |key, value| {
                    entry(key, value, counting, &mut entries)?;
                    if entries.len() > most {
                        Err(Malformed)
                    } else {
                        Ok(())
                    }
                }),
                false => value.skip().map(drop),
            })
        } else {
            value.skip().map(drop)
        }
    });
    read.is_ok().then_some(entries)
}

fn entry<'a>(
    key: &[u8],
    cursor: &mut Cursor<'a>,
    counting: &Counting<'_>,
    entries: &mut Vec<Entry>,
) -> Result<(), Malformed> {
    let mut methods = Vec::new();
    let content = cursor.over(|cursor| {
        question(cursor, counting, |kind, method| {
            methods.push((kind, method));
        })
    })?;
    entries.extend(methods.into_iter().map(|(kind, method)| Entry {
        kind,
        method,
        key: decode(key).into_owned(),
        content: content.to_vec(),
    }));
    Ok(())
}
