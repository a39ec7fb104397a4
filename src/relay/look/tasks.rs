//! The input requests of a task, one by one.

use super::{
    counting::Counting,
    inputs::{for_each_input, question},
};
use crate::{
    relay::{
        json::{Cursor, Malformed, Next},
        search::INPUT_REQUESTS,
        text::{decode, names},
    },
    throttle::Entry,
};

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
