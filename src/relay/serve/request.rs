//! What a client's message says, as far as the relay has to know.

use axum::http::HeaderMap;

use super::headers::PROTOCOL_VERSION;
use crate::relay::{
    json::{Cursor, Malformed, Next},
    text::decode,
};

/// The first revision without protocol sessions and without responses of clients.
const WITHOUT_SESSIONS: &[u8] = b"2026-07-28";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// A client's message. The client is not distrusted, so it is read as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// The id of a request, as it was written.
    pub(super) id: Option<Box<[u8]>>,
    pub(super) is_initialize: bool,
    /// It opens a stream that ends with no answer, for notifications.
    pub(super) is_listen: bool,
    /// It is of a revision in which only rounds ask.
    pub(super) has_rounds: bool,
}

impl Call {
    /// Reads a request's headers and body.
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Self {
        let mut call = Self::default();
        let mut id = None;
        let mut version = None;
        let mut is_call = false;
        let read = Cursor::new(body).over(|cursor| {
            if cursor.next() != Next::Object {
                return Err(Malformed);
            }
            cursor.object(|name, value| {
                match &*decode(name) {
                    "id" => id = Some(value.skip()?),
                    "method" if value.next() == Next::String => {
                        let method = decode(value.string()?);
                        is_call = true;
                        call.is_initialize = method == "initialize";
                        call.is_listen = method == "subscriptions/listen";
                    }
                    "params" if value.next() == Next::Object => version = meta_version(value)?,
                    _ => {
                        value.skip()?;
                    }
                }
                Ok(())
            })
        });
        if read.is_err() {
            call = Self::default();
        } else if is_call {
            call.id = id.map(Box::from);
        }
        let header = headers.get(PROTOCOL_VERSION).map(|value| value.as_bytes());
        // Revisions are named by dates, so their names are in order.
        call.has_rounds = header
            .or(version.as_deref().map(str::as_bytes))
            .is_some_and(|version| version >= WITHOUT_SESSIONS);
        call
    }
}

fn meta_version(params: &mut Cursor<'_>) -> Result<Option<String>, Malformed> {
    let mut version = None;
    params.object(|name, value| {
        if decode(name) != "_meta" || value.next() != Next::Object {
            return value.skip().map(drop);
        }
        value.object(|name, value| {
            if decode(name) == META_VERSION && value.next() == Next::String {
                version = Some(decode(value.string()?).into_owned());
                Ok(())
            } else {
                value.skip().map(drop)
            }
        })
    })?;
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(version: &str, body: &str) -> Call {
        let mut headers = HeaderMap::new();
        if !version.is_empty() {
            headers.insert(PROTOCOL_VERSION, version.parse().unwrap());
        }
        Call::read(&headers, body.as_bytes())
    }

    #[test]
    fn a_call_is_known_by_its_body() {
        let call = read(
            "",
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#,
        );
        assert_eq!(call.id.as_deref(), Some(&br#""a""#[..]));
        assert!(call.is_initialize && !call.is_listen && !call.has_rounds);
        assert!(read("", r#"{"id":1,"method":"subscriptions/listen"}"#).is_listen);
        assert_eq!(read("", r#"{"id":1,"result":{}}"#), Call::default());
        assert_eq!(
            read("", r#"{"id":1,"method":"initialize""#),
            Call::default()
        );
        assert_eq!(read("", "[]"), Call::default());
        assert_eq!(read("", ""), Call::default());
    }

    #[test]
    fn the_revision_is_that_of_the_header_or_else_of_the_body() {
        let body = |version: &str| {
            format!(r#"{{"params":{{"_meta":{{"{META_VERSION}":"{version}"}}}},"id":1}}"#)
        };
        assert!(read("", &body("2026-07-28")).has_rounds);
        assert!(!read("2025-11-25", &body("2026-07-28")).has_rounds);
        assert!(read("2026-07-28", "").has_rounds);
        assert!(!read("2025-03-26", "").has_rounds);
        assert!(!read("", "").has_rounds);
    }
}
