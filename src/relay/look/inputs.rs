//! The questions inside a message: input requests, and the URLs of an error -32042.

use super::counting::{Asked, Counting};
use crate::{
    question::{Method, QuestionKind},
    relay::{
        json::{Cursor, Malformed, Next},
        search::URL_ELICITATION_REQUIRED,
        text::{decode, names},
    },
};

/// Counts the questions among input requests, whether they are a map or a list.
pub(super) fn input_requests<'a>(
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

pub(super) fn for_each_input<'a>(
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
pub(super) fn question<'a>(
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
            && let Some((kind, method)) = counting.methods().classify(&decode(method))
        {
            found(kind, method);
        }
        Ok(())
    })
}

/// Counts the URL elicitations of an error -32042: at least one, whatever its list looks like.
pub(super) fn url_elicitations<'a>(
    cursor: &mut Cursor<'a>,
    asked: &mut Asked<'a>,
    counting: &Counting<'_>,
) -> Result<(), Malformed> {
    if cursor.next() != Next::Object {
        return cursor.skip().map(drop);
    }
    let mut required = false;
    let mut listed = 0_u32;
    let enough = counting.enough(QuestionKind::Elicitation);
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

pub(super) fn text_of<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match cursor.next() {
        Next::String => cursor.string().map(Some),
        _ => cursor.skip().map(|_| None),
    }
}
