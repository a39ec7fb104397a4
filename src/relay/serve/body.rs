//! A response that is no stream of events, on its way to the client.

use std::{io, mem};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use bytes::Bytes;
use futures::stream;

use super::{failure, headers, judged, judged::Left, stream::Side};
use crate::{
    clock,
    relay::{Fate, Judge, LONGEST_FRAME, Refused, Reply, search::Search},
};

/// What the client is told in place of something that nobody can read for sure.
const UNREADABLE: &str = "the server's answer cannot be read for sure and may hold a question";
/// What the client is told in place of a question without its answer.
const ONLY_A_QUESTION: &str = "the server answered with a question over the limit";

/// Passes a body on, or what is left of it.
pub(super) async fn answer(
    side: Side,
    mut judge: Judge,
    mut response: reqwest::Response,
    mut headers: HeaderMap,
) -> Response {
    let status = response.status();
    let mut body = Vec::new();
    let mut held = side.address.memory.hold();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(error) => {
                let error = error.without_url();
                return failure::answer(
                    StatusCode::BAD_GATEWAY,
                    format_args!("the server's answer broke off: {error}"),
                );
            }
        }
        let has_room = held.cover(body.capacity());
        if !has_room {
            let outcome = "an answer went on in parts";
            side.address.memory.tell(&side.address.server, &outcome);
        }
        if body.len() > LONGEST_FRAME || !has_room {
            return in_parts(judge, response, headers, held.give(body));
        }
    }
    let body = held.give(body);
    if body.trim_ascii().is_empty() {
        return with(status, headers, Body::from(body));
    }
    headers::sandbox(&mut headers);
    let judged = judged::text(&mut judge, &body, clock::now());
    let address = &side.address;
    for _ in 0..judged.dropped {
        address
            .undelivered
            .add(&address.server, &"too many in one body");
    }
    let refusal = judged.replies.iter().find_map(Reply::refusal).cloned();
    if !side.call.has_rounds {
        for reply in judged.replies {
            side.row.refusals.send(reply, address).await;
        }
    }
    match judged.left {
        Left::Whole => with(status, headers, Body::from(body)),
        Left::Changed(bytes) => {
            headers::forget_body(&mut headers);
            // It takes the place of what came.
            drop(body);
            let _ = held.cover(bytes.capacity());
            with(status, headers, Body::from(held.give(bytes)))
        }
        // The call gets no other answer than this.
        Left::Nothing => match (&side.call.id, refusal) {
            (Some(id), Some(refusal)) => {
                headers::forget_body(&mut headers);
                let mut error = Vec::new();
                Refused::new(id, refusal).write(&mut error);
                with(status, headers, Body::from(error))
            }
            (None, Some(_)) => with(StatusCode::ACCEPTED, HeaderMap::new(), Body::empty()),
            (_, None) if judged.fate == Fate::Unreadable => {
                failure::answer(StatusCode::BAD_GATEWAY, UNREADABLE)
            }
            (_, None) => failure::answer(StatusCode::BAD_GATEWAY, ONLY_A_QUESTION),
        },
    }
}

/// Passes a body on that is too long to be judged as a whole, until something like a question is
/// found in it; the connection breaks off then.
fn in_parts(
    judge: Judge,
    response: reqwest::Response,
    mut headers: HeaderMap,
    begun: Bytes,
) -> Response {
    headers::sandbox(&mut headers);
    let status = response.status();
    let mut search = Box::new(judge.search_in_parts());
    if search.finds_in(&begun) {
        judge.withhold();
        return failure::answer(StatusCode::BAD_GATEWAY, UNREADABLE);
    }
    let parts = Parts {
        judge,
        held: begun,
        response: Some(response),
        search,
    };
    let body = stream::try_unfold(parts, async |mut parts| {
        Ok::<_, io::Error>(parts.next().await?.map(|bytes| (bytes, parts)))
    });
    with(status, headers, Body::from_stream(body))
}

/// A long body, of which the last part is held until it is known to be the last.
struct Parts {
    judge: Judge,
    held: Bytes,
    response: Option<reqwest::Response>,
    search: Box<Search>,
}

impl Parts {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(response) = &mut self.response else {
            return Ok(None);
        };
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| io::Error::other(error.without_url()))?;
        let found = match &chunk {
            Some(chunk) => self.search.finds_in(chunk),
            None => self.search.finds_at_end(),
        };
        if found {
            self.judge.withhold();
            return Err(io::Error::other(UNREADABLE));
        }
        let held = mem::take(&mut self.held);
        match chunk {
            Some(chunk) => self.held = chunk,
            None => self.response = None,
        }
        Ok(Some(held))
    }
}

fn with(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
