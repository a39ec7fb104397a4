//! Answers of the relay's own, in plain words: clients show them to people.

use std::fmt;

use axum::{
    body::Body,
    http::{
        HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::Response,
};

/// An answer that says what is wrong.
pub(super) fn answer(status: StatusCode, reason: impl fmt::Display) -> Response {
    let text = format!("mcp-question-throttle: {reason}\n");
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
