//! Which headers pass, in which direction.

use std::ffi::OsString;

use axum::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCEPT, ACCEPT_ENCODING, ALT_SVC, AUTHORIZATION, CONNECTION, CONTENT_LENGTH,
        CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, ETAG, EXPECT, Entry, HOST,
        PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
        UPGRADE, X_CONTENT_TYPE_OPTIONS,
    },
};

use crate::{relay::expand::expand, settings::ServerEntry};

/// The id of a protocol session.
pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision of the protocol that is spoken.
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

const LAST_EVENT_ID: &str = "last-event-id";
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const SANDBOX: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Headers that concern one connection alone.
const HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Headers that tell of a body as it was.
const ABOUT_THE_BODY: [HeaderName; 6] = [
    CONTENT_LENGTH,
    ETAG,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

/// What a client's request carries on to the server.
pub(super) fn to_server(client: &HeaderMap) -> HeaderMap {
    let mut headers = end_to_end(client);
    for name in [HOST, CONTENT_LENGTH, EXPECT] {
        headers.remove(name);
    }
    for name in [AUTHORIZATION, COOKIE] {
        if let Entry::Occupied(mut secrets) = headers.entry(name) {
            secrets.iter_mut().for_each(|it| it.set_sensitive(true));
        }
    }
    // What is encoded cannot be looked at.
    headers.insert(ACCEPT_ENCODING, IDENTITY);
    headers
}

/// What the refusal of a server's question carries, which came in the response to a request
/// with these headers.
pub(super) fn of_refusal(request: &HeaderMap, session: Option<&HeaderValue>) -> HeaderMap {
    let left_out = |name: &str| {
        name == LAST_EVENT_ID
            || name.starts_with("content-")
            || name == "mcp-method"
            || name == "mcp-name"
            || name.starts_with("mcp-param-")
    };
    let mut headers = HeaderMap::new();
    for (name, value) in request {
        if !left_out(name.as_str()) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, JSON_OR_EVENTS);
    if let Some(session) = session
        && !headers.contains_key(SESSION_ID)
    {
        headers.insert(SESSION_ID, session.clone());
    }
    headers
}

/// What the response of the server at `path` carries on to the client.
pub(super) fn to_client(server: &HeaderMap, path: &str) -> HeaderMap {
    let mut headers = end_to_end(server);
    // Beside chunks it is not true, and what came after so many bytes would be the answer to the
    // client's next request. Ours is that of the body.
    headers.remove(CONTENT_LENGTH);
    // It would lead around the relay.
    headers.remove(ALT_SVC);
    if let Entry::Occupied(mut cookies) = headers.entry(SET_COOKIE) {
        for cookie in cookies.iter_mut() {
            if let Some(bound) = bound_to(cookie, path) {
                *cookie = bound;
            }
        }
    }
    headers
}

/// Has a browser that shows a body all the same run none of it: it is of one origin with our pages.
///
/// JSON passes as it is, since no browser takes that for a page.
pub(super) fn sandbox(headers: &mut HeaderMap) {
    if !is_json(headers) {
        headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = only.as_bytes().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
}

/// A cookie that goes back to one server alone: the others are at the same host. A `Domain` is that
/// of the server's own host, and of none here.
fn bound_to(cookie: &HeaderValue, path: &str) -> Option<HeaderValue> {
    let is_kept = |part: &&[u8]| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = name.trim_ascii();
        !name.eq_ignore_ascii_case(b"path") && !name.eq_ignore_ascii_case(b"domain")
    };
    let mut parts = cookie.as_bytes().split(|byte| *byte == b';');
    // The first is the cookie itself, whatever its name.
    let mut bound = parts.next().unwrap_or_default().to_vec();
    for part in parts.filter(is_kept) {
        bound.push(b';');
        bound.extend_from_slice(part);
    }
    bound.extend_from_slice(b"; Path=");
    bound.extend_from_slice(path.as_bytes());
    HeaderValue::from_bytes(&bound).ok()
}

/// The headers of an entry, with their variables replaced; or the name of one that has no value, and
/// why. Their values never show in `Debug`.
pub(super) fn of_settings(
    entry: &ServerEntry,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<HeaderMap, (String, String)> {
    let mut headers = HeaderMap::new();
    for (name, text) in entry.headers() {
        let wrong = |reason: String| (name.clone(), reason);
        let text = expand(text, variable).map_err(|error| wrong(error.to_string()))?;
        let named: Result<HeaderName, _> = name.parse();
        let (Ok(named), Ok(mut value)) = (named, HeaderValue::from_str(&text)) else {
            return Err(wrong("with its variables it is no header".to_owned()));
        };
        value.set_sensitive(true);
        headers.append(named, value);
    }
    Ok(headers)
}

/// Drops what is not true of a body that was replaced.
pub(super) fn forget_body(headers: &mut HeaderMap) {
    for name in ABOUT_THE_BODY {
        headers.remove(name);
    }
}

fn end_to_end(all: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = all
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut headers = HeaderMap::with_capacity(all.len());
    for (name, value) in all {
        if !HOP_BY_HOP.contains(name) && !named.contains(name) {
            headers.append(name, value.clone());
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        map
    }

    #[test]
    fn what_concerns_one_connection_stays_there() {
        let client = map(&[
            ("connection", "keep-alive, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("host", "127.0.0.1"),
            ("content-length", "2"),
            ("accept-encoding", "gzip, br"),
            ("authorization", "Bearer t"),
            ("mcp-param-x", "1"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ]);
        let expected = map(&[
            ("authorization", "Bearer t"),
            ("mcp-param-x", "1"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("accept-encoding", "identity"),
        ]);
        assert_eq!(to_server(&client), expected);
    }

    #[test]
    fn a_cookie_goes_back_to_its_server_alone() {
        for (cookie, expected) in [
            ("a=1", "a=1; Path=/github"),
            ("a=1; Path=/; Secure", "a=1; Secure; Path=/github"),
            (
                "path=1;domain = b.example ;PATH=/x; HttpOnly; SameSite=Lax",
                "path=1; HttpOnly; SameSite=Lax; Path=/github",
            ),
            ("", "; Path=/github"),
        ] {
            let sent = to_client(&map(&[("set-cookie", cookie)]), "/github");
            assert_eq!(sent[SET_COOKIE], expected, "{cookie}");
        }
    }

    #[test]
    fn a_refusal_carries_who_asks_and_not_what_was_asked() {
        let request = map(&[
            ("authorization", "Bearer t"),
            ("cookie", "a=1"),
            ("mcp-session-id", "s"),
            ("mcp-protocol-version", "2025-11-25"),
            ("x-tenant", "t"),
            ("accept", "text/event-stream"),
            ("accept-encoding", "identity"),
            ("content-type", "text/plain"),
            ("content-language", "en"),
            ("last-event-id", "5"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "n"),
            ("mcp-param-x", "1"),
        ]);
        let expected = map(&[
            ("authorization", "Bearer t"),
            ("cookie", "a=1"),
            ("mcp-session-id", "s"),
            ("mcp-protocol-version", "2025-11-25"),
            ("x-tenant", "t"),
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("content-type", "application/json"),
        ]);
        let other = HeaderValue::from_static("other");
        assert_eq!(of_refusal(&request, Some(&other)), expected);
        assert_eq!(
            of_refusal(&HeaderMap::new(), Some(&other))[SESSION_ID],
            "other"
        );
    }
}
