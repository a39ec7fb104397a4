//! What a frame asks: a partial parse that builds nothing and misses no door.
//!
//! It reads as the most credulous client would. Every occurrence of a repeated member counts,
//! members are matched without regard to case, and -32042 is that code however it is written.

mod counting;
mod inputs;
mod message;
mod tasks;

pub use self::{
    counting::{Asked, Counting},
    message::Message,
    tasks::task_entries,
};
use super::json::{Cursor, Malformed, Next};

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
        Next::Object => Value::Message(Box::new(Message::read(&mut cursor, counting)?)),
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
                    Next::Object => asks |= !Message::read(member, counting)?.asks_nothing(),
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
    ///
    /// # Errors
    ///
    /// The first error of `member`, after which no more members are looked at.
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
                    read = Some(Message::read(cursor, counting)?);
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
