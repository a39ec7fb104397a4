//! The router: all that is served at one address.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};

use super::{Shared, exchange, failure, metrics, status};

/// Everything that is served, behind the guard.
///
/// Pages of the relay's own get a route each; names that they take are no server names, see
/// [`RESERVED`](super::RESERVED). Whatever has no route is a request to a server.
pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(status::page))
        .route("/metrics", get(metrics::scrape))
        .route("/status", get(status::status))
        .route("/status/events", get(status::events))
        .route("/status/mute", post(status::mute))
        .route("/status/page.css", get(status::style))
        .route("/status/page.js", get(status::script))
        .fallback(exchange::exchange)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// Comes before anything else.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match shared.guard.check(request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(reason) => failure::answer(StatusCode::FORBIDDEN, reason),
    }
}
