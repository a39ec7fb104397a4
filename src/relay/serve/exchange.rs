//! One request of a client, and the server's response to it.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode,
        header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER},
        request,
    },
    response::Response,
};
use bytes::Bytes;
use futures::TryStreamExt;
use percent_encoding::percent_decode_str;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::{
    Server, Shared, body, failure, guard, headers,
    headers::SESSION_ID,
    memory::FREE,
    path_of,
    refusals::Address,
    request::Call,
    sessions::Row,
    stream::{Side, Stream},
};
use crate::{clock, relay::Judge};

/// A client's message may be this long.
const LONGEST_BODY: usize = 16 * 1024 * 1024;

/// How long a client may send nothing in the middle of a message.
const STALL: Duration = Duration::from_secs(60);

const ONE_SECOND: HeaderValue = HeaderValue::from_static("1");

const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS];

/// Passes a request on to its server, and the response back.
pub(super) async fn exchange(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(reason) = guard::is_of_a_program(&parts.headers) {
        return failure::answer(StatusCode::FORBIDDEN, reason);
    }
    let Some((server, label)) = find(&shared, parts.uri.path()) else {
        let reason = "no such server: the path is /NAME or /NAME/LABEL, NAME as in the settings";
        return failure::answer(StatusCode::NOT_FOUND, reason);
    };
    if !METHODS.contains(&parts.method) {
        let mut response = failure::answer(
            StatusCode::METHOD_NOT_ALLOWED,
            "a server takes GET, POST, DELETE and OPTIONS",
        );
        let allowed = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let body = match read(body, server).await {
        Ok(body) => body,
        Err(failed) => return failed,
    };
    let call = Call::read(&parts.headers, &body);
    let id = match call.has_rounds {
        // That revision has no sessions, whatever a client sends.
        true => None,
        false => parts.headers.get(SESSION_ID),
    };
    let row = match id {
        Some(id) => server.sessions.of_id(id.as_bytes(), clock::now()),
        None => server.sessions.of_path(label.as_deref()),
    };
    if call.id.is_none() {
        row.questions.note_answer(&body);
    }
    let opening = match parts.method {
        Method::GET => Some(row.openings.begin(id)),
        _ => {
            row.openings.settle(id).await;
            None
        }
    };
    let sent = headers::to_server(&parts.headers);
    let response = server
        .upstream
        .send(&parts.method, parts.uri.query(), &sent, &body, opening)
        .await;
    let response = match response {
        Ok(response) => response,
        Err(failure) => {
            tracing::warn!(server = server.name.as_str(), "{failure}");
            return failure::answer(StatusCode::BAD_GATEWAY, failure);
        }
    };
    let row = follow_session(server, &parts, &call, row, &response);
    let judge = Judge::of_stream(
        Arc::clone(&row.session),
        server.reporter.clone(),
        Arc::clone(&server.notices),
        Arc::clone(&row.questions),
    );
    judge.polls().note(&body);
    // A long id is kept as long as the response, and so is what was counted for it.
    let long_id = call.id.as_ref().is_some_and(|id| id.len() > FREE);
    let kept = long_id.then(|| body.clone());
    drop(body);
    let session = response.headers().get(SESSION_ID);
    let side = Side {
        address: Address {
            server: server.name.clone(),
            upstream: Arc::clone(&server.upstream),
            url: response.url().clone(),
            headers: Arc::new(headers::of_refusal(&sent, session)),
            undelivered: Arc::clone(&server.undelivered),
            memory: server.memory.clone(),
        },
        row,
        call,
        _kept: kept,
        ends: match parts.method {
            // Nobody waits for the answer to a call there, and clients open it again.
            Method::GET => shared.closing.clone(),
            _ => CancellationToken::new(),
        },
    };
    answer(side, judge, response).await
}

async fn answer(side: Side, judge: Judge, response: reqwest::Response) -> Response {
    let mut headers = headers::to_client(response.headers(), &path_of(&side.address.server));
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let reason = "the server went over to another protocol, which nobody asked for";
        return failure::answer(StatusCode::BAD_GATEWAY, reason);
    }
    let is_encoded = headers.get_all(CONTENT_ENCODING).iter().any(|encoding| {
        !encoding
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(b"identity")
    });
    if is_encoded {
        let reason = "the server encoded its answer, though it was asked not to";
        return failure::answer(StatusCode::BAD_GATEWAY, reason);
    }
    match is_stream(&headers) {
        Some(true) => {
            headers::forget_body(&mut headers);
            let status = response.status();
            let mut answer = Response::new(Stream::new(side, judge, response).into_body());
            *answer.status_mut() = status;
            *answer.headers_mut() = headers;
            answer
        }
        Some(false) => body::answer(side, judge, response, headers).await,
        None => {
            let reason = "the server's Content-Type can be read in two ways";
            failure::answer(StatusCode::BAD_GATEWAY, reason)
        }
    }
}

/// Whether a body is a stream of events; `None` if clients may differ about that.
fn is_stream(headers: &HeaderMap) -> Option<bool> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let Some(first) = types.next() else {
        return Some(false);
    };
    let text = first.as_bytes().to_ascii_lowercase();
    let text = String::from_utf8_lossy(&text);
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_stream = essence == "text/event-stream";
    // Some clients look for the type anywhere in the header.
    let another = match is_stream {
        true => text.contains("json"),
        false => text.contains("event-stream"),
    };
    (types.next().is_none() && !another).then_some(is_stream)
}

/// The server and the label of a path: `/NAME` or `/NAME/LABEL`.
fn find<'s>(shared: &'s Shared, path: &str) -> Option<(&'s Server, Option<String>)> {
    let decode = |part: &str| -> Option<String> {
        let text = percent_decode_str(part).decode_utf8().ok()?;
        Some(text.into_owned())
    };
    let path = path.strip_prefix('/')?;
    let (name, label) = match path.split_once('/') {
        Some((name, "")) => (name, None),
        Some((name, label)) => (name, Some(label.strip_suffix('/').unwrap_or(label))),
        None => (path, None),
    };
    let server = shared.servers.get(decode(name)?.as_str())?;
    match label {
        Some(label) if label.contains('/') => None,
        Some(label) => Some((server, Some(decode(label)?))),
        None => Some((server, None)),
    }
}

async fn read(body: Body, server: &Server) -> Result<Bytes, Response> {
    let mut chunks = body.into_data_stream();
    let mut held = server.memory.hold();
    let mut all = Vec::new();
    loop {
        let Ok(next) = time::timeout(STALL, chunks.try_next()).await else {
            let reason = format_args!("nothing of the message came for {STALL:?}");
            return Err(failure::answer(StatusCode::REQUEST_TIMEOUT, reason));
        };
        match next {
            Ok(Some(chunk)) => all.extend_from_slice(&chunk),
            Ok(None) => {
                // It may be there for long.
                all.shrink_to_fit();
                let fits = held.cover(all.capacity());
                debug_assert!(fits, "less than before");
                return Ok(held.give(all));
            }
            Err(error) => {
                let reason = format_args!("the request's body cannot be read: {error}");
                return Err(failure::answer(StatusCode::BAD_REQUEST, reason));
            }
        }
        if all.len() > LONGEST_BODY {
            let reason = format_args!("a message may have {LONGEST_BODY} bytes at most");
            return Err(failure::answer(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        if !held.cover(all.capacity()) {
            let outcome = "a client's message was answered with 503";
            server.memory.tell(&server.name, &outcome);
            drop(held);
            drain(chunks, all).await;
            let reason = "the relay holds as much of messages as it may; try again";
            let mut response = failure::answer(StatusCode::SERVICE_UNAVAILABLE, reason);
            response.headers_mut().insert(RETRY_AFTER, ONE_SECOND);
            return Err(response);
        }
    }
}

/// Reads what is left of a message and keeps nothing, since many a client hears no answer before it
/// has sent all.
async fn drain(mut chunks: BodyDataStream, begun: Vec<u8>) {
    let mut length = begun.len();
    drop(begun);
    while let Ok(Ok(Some(chunk))) = time::timeout(STALL, chunks.try_next()).await {
        length += chunk.len();
        if length > LONGEST_BODY {
            return;
        }
    }
}

/// The session that a response belongs to: an `initialize` may begin one, and others end one.
fn follow_session(
    server: &Server,
    request: &request::Parts,
    call: &Call,
    row: Arc<Row>,
    response: &reqwest::Response,
) -> Arc<Row> {
    let status = response.status();
    if call.is_initialize && !call.has_rounds && status.is_success() {
        return match response.headers().get(SESSION_ID) {
            Some(id) => server.sessions.begin(id.as_bytes(), clock::now()),
            None => row,
        };
    }
    let ends = match request.method {
        Method::DELETE => status.is_success() || status == StatusCode::NOT_FOUND,
        _ => status == StatusCode::NOT_FOUND,
    };
    if ends && let Some(id) = request.headers.get(SESSION_ID) {
        server.sessions.end(id.as_bytes());
    }
    row
}
