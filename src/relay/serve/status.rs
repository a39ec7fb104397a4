//! The status page, and what it shows as JSON and as events.
//!
//! The page is three files without any build step, and loads nothing from elsewhere. It writes
//! what it is sent as text only.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
            X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
        },
    },
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Shared, failure, path_of};
use crate::{clock, throttle::ServerSnapshot};

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const JS: &str = include_str!("page/page.js");

/// Where the page expects the token of its mute button.
const NO_TOKEN: &str = r#"<meta name="mute-token" content="">"#;
const TOKEN: HeaderName = HeaderName::from_static("x-mute-token");
const CSP: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// How often watchers are told.
const EVERY: Duration = Duration::from_millis(500);
/// Pages that can be open at once.
const MOST_WATCHERS: usize = 32;
/// Of a server's last questions the page shows so many.
const SHOWN: usize = 30;
/// What a mute button sends is shorter than this.
const LONGEST_ORDER: usize = 4096;

/// What the page needs besides the counts.
#[derive(Debug)]
pub(super) struct Board {
    began: Instant,
    /// What the mute button has to send; `None` if there is none.
    token: Option<String>,
    watchers: Arc<Semaphore>,
    /// What all watchers are told, and when it was written.
    latest: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Board {
    /// With a mute button, or without.
    pub(super) fn new(mute_button: bool) -> Self {
        Self {
            began: clock::now(),
            // Without randomness there is no button rather than one that can be guessed.
            token: mute_button.then(token).flatten(),
            watchers: Arc::new(Semaphore::new(MOST_WATCHERS)),
            latest: Mutex::default(),
        }
    }
}

fn token() -> Option<String> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Err(error) => {
            tracing::error!(%error, "no mute button: there is no randomness for its token");
            None
        }
    }
}

/// All that is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    version: &'static str,
    uptime_ms: u64,
    saturated: u64,
    would_saturate: u64,
    servers: Vec<ServerStatus>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerStatus {
    #[serde(flatten)]
    counted: ServerSnapshot,
    /// The path at which it is served; absent for a server that is none of this relay's.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    unreadable: u64,
    undelivered: u64,
}

/// The status as JSON, with so many of each server's last questions.
fn json(shared: &Shared, recent: usize) -> String {
    let snapshot = shared.snapshot();
    let servers = snapshot.servers.into_iter().map(|mut counted| {
        if let Some(usage) = &mut counted.usage {
            usage.recent.truncate(recent);
        }
        let served = shared.servers.get(counted.server.as_str());
        ServerStatus {
            path: served.map(|server| path_of(&server.name)),
            unreadable: served.map_or(0, |server| server.notices.unreadable()),
            undelivered: served.map_or(0, |server| server.undelivered.count()),
            counted,
        }
    });
    let uptime = clock::now().saturating_duration_since(shared.board.began);
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        saturated: snapshot.saturated,
        would_saturate: snapshot.would_saturate,
        servers: servers.collect(),
    };
    // Names and numbers, which always serialise.
    serde_json::to_string(&status).unwrap_or_default()
}

/// `GET /`
pub(super) async fn page(State(shared): State<Arc<Shared>>) -> Response {
    let html = match &shared.board.token {
        // The token is hexadecimal, so nothing has to be escaped.
        Some(token) => HTML.replace(NO_TOKEN, &NO_TOKEN.replace("\"\"", &format!("\"{token}\""))),
        None => HTML.to_owned(),
    };
    let mut response = file("text/html; charset=utf-8", html);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, CSP);
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// `GET /status/page.css`
pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", CSS)
}

/// `GET /status/page.js`
pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", JS)
}

/// `GET /status`
pub(super) async fn status(State(shared): State<Arc<Shared>>) -> Response {
    file("application/json", json(&shared, usize::MAX))
}

/// `GET /status/events`: the status twice a second.
pub(super) async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(watching) = Arc::clone(&shared.board.watchers).try_acquire_owned() else {
        let reason = "too many pages are open";
        return failure::answer(StatusCode::SERVICE_UNAVAILABLE, reason);
    };
    let closing = shared.closing.clone();
    let watcher = Watcher {
        ticks: tokio::time::interval(EVERY),
        shared,
        _watching: watching,
    };
    let events = stream::unfold(watcher, async |mut watcher| {
        watcher.ticks.tick().await;
        let event = Event::default().data(&*watcher.latest());
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let events = events.take_until(closing.cancelled_owned());
    let mut response = Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response();
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

struct Watcher {
    ticks: tokio::time::Interval,
    shared: Arc<Shared>,
    _watching: OwnedSemaphorePermit,
}

impl Watcher {
    /// The status, written anew if nobody has just done so.
    fn latest(&self) -> Arc<str> {
        let board = &self.shared.board;
        let mut latest = board.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        match &*latest {
            Some((at, text)) if now.saturating_duration_since(*at) < EVERY / 2 => Arc::clone(text),
            _ => {
                let text: Arc<str> = json(&self.shared, SHOWN).into();
                *latest = Some((now, Arc::clone(&text)));
                text
            }
        }
    }
}

/// What the mute button sends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    server: String,
    muted: bool,
}

/// `POST /status/mute`
pub(super) async fn mute(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let refuse = |status, reason: &str| failure::answer(status, reason);
    let Some(token) = &shared.board.token else {
        return refuse(
            StatusCode::NOT_FOUND,
            "the mute button is off: see status.muteButton",
        );
    };
    if !is_same_origin(&headers) {
        return refuse(
            StatusCode::FORBIDDEN,
            "only the status page itself may mute",
        );
    }
    if !headers
        .get(TOKEN)
        .is_some_and(|sent| equal(sent.as_bytes(), token.as_bytes()))
    {
        return refuse(StatusCode::FORBIDDEN, "the page is old: load it again");
    }
    let is_json = headers
        .get(CONTENT_TYPE)
        .is_some_and(|it| it == "application/json");
    let order = match serde_json::from_slice::<Order>(&body) {
        Ok(order) if is_json && body.len() <= LONGEST_ORDER => order,
        _ => return refuse(StatusCode::BAD_REQUEST, "no order to mute"),
    };
    let Some(server) = shared.servers.get(&order.server) else {
        return refuse(StatusCode::NOT_FOUND, "no such server");
    };
    let throttle = shared.pool.throttle();
    if order.muted {
        throttle.mute(&server.name);
    } else {
        throttle.unmute(&server.name);
    }
    tracing::warn!(
        server = server.name.as_str(),
        muted = order.muted,
        "muted or unmuted on the status page"
    );
    file("application/json", json(&shared, SHOWN))
}

/// Whether the request comes from a page of ours: a browser says in `Origin` which page sent it.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let origin: Option<Uri> = text(ORIGIN).and_then(|origin| origin.parse().ok());
    let origin = origin.as_ref().and_then(Uri::authority);
    match (origin, text(HOST)) {
        (Some(origin), Some(host)) => origin.as_str().eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Whether two texts are equal, in the same time wherever they differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differences == 0
}

fn file(kind: &'static str, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
