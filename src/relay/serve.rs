//! Servers over Streamable HTTP, each at a path of one address.
//!
//! Everything passes as if the relay were not there, apart from questions over the limit: at
//! `/NAME` the server configured as NAME, for whom limits are one, however many clients it has.
//!
//! # Sessions
//!
//! | the client | its session |
//! |---|---|
//! | has an `Mcp-Session-Id`, which an `initialize` through this relay was answered with | that one |
//! | has an id whose beginning was not seen, or one beyond the bound | one that all of these share |
//! | has none (2026-07-28, or a server without sessions) | the path: `/NAME`, or `/NAME/LABEL` |
//!
//! Nothing else makes a session: no connection, no token, nothing that a client or a server says
//! about itself.
//!
//! # Outcomes
//!
//! | from the server | the client gets | the server gets |
//! |---|---|---|
//! | no question, or one within the limits | the event or body, byte for byte | |
//! | a request over the limit, up to 2025-11-25 | the event's `id`, `retry` and an empty `data` | the refusal, POSTed under its id |
//! | the same in 2026-07-28 | our error under the id of the call, and the stream ends | its response closed, which cancels |
//! | the same on a `subscriptions/listen` stream | the event's `id` and `retry` | |
//! | a round or an error -32042 over the limit | the refusal, under the call's id | |
//! | what cannot be read for sure and may hold a question | the event's `id` and `retry`; of a body, 502 | |
//! | a body that is nothing but a question over the limit | the refusal, under the call's id | the refusal |
//! | a redirect other than 307 or 308 to itself, an encoded body, an ambiguous type | 502 | |
//! | the `endpoint` event of 2024-11-05 | nothing, and the stream ends | |
//! | an event or a body of more than 16 MiB | the same by what it holds, in parts; cut where a question is found | |
//! | a connection that breaks | what came, and a connection that breaks | |
//!
//! # Order
//!
//! What comes on one stream leaves in its order. Requests over different connections have none in
//! HTTP: a server that asks on a session's stream before the client has opened it may lose its
//! question, with the relay or without. The relay adds nothing to that: on a runtime of one thread,
//! as the command's, requests are seen in the order in which they arrive, and what a session sends
//! after it asked for its stream waits, 1 s at most, until that is on its way over a connection.
//!
//! Refusals reach the server side by side, and the client's own messages between them. What a
//! server replays to a client that resumes is charged again: the ids of events and requests are
//! the server's, and prove nothing.
//!
//! # Transport
//!
//! HTTP/1.1 on both sides; to the server over TLS if its URL is https. Certificates are verified as
//! the system does; a private authority is added to the system's, or on Linux named by
//! `SSL_CERT_FILE` or `SSL_CERT_DIR`, which then stand in place of the system's. They are read when
//! a [`Relay`] is made. A client that begins with HTTP/2 is turned away at once. The server is not
//! offered trailers, and what it sends of them is dropped: the protocol has none.
//!
//! # Browsers
//!
//! All servers and the status page are of one origin. So no page of another site gets in by `Host`,
//! `Origin` or `Sec-Fetch-Site`, no browser shows what a server answers (`Sec-Fetch-Mode`), and a body
//! that is neither JSON nor events gets `Content-Security-Policy: default-src 'none'; sandbox` and
//! `nosniff`. A cookie that a server sets goes back to its path alone.
//!
//! # What is bounded
//!
//! A client's message and what is held of an event or a body: 16 MiB each, and over all connections
//! [`DEFAULT_MEMORY`], of which one server gets half if there are several. What is no longer than
//! 64 KiB is not counted. Nobody waits for room: without it a client's message gets 503, and an event
//! or a body goes on in parts, as one of more than 16 MiB. Refusals on their way:
//! 8 at once and 64 that wait for a session, 4 MiB, 10 s each; beyond, the stream is not read.
//! Sessions of a server: 1024 and 64 labels. Redirects: 5. A client that does not read is waited
//! for, and its server with it. No time limit ends a stream or a call: people are slow. Connections
//! of clients: [`MOST_CONNECTIONS`]; the log says once when there are so many, those without a
//! request are closed then, and others wait to be accepted. A connection without a request for
//! 5 min is closed in any case, and so is one whose client has gone without a word. A head may have
//! about 64 KiB, and in the middle of a message a client may send nothing for 60 s.

mod body;
mod broken;
mod connections;
mod error;
mod events;
mod exchange;
mod failure;
mod guard;
mod headers;
mod judged;
mod memory;
mod metrics;
mod order;
mod refusals;
mod request;
mod router;
mod sessions;
mod shared;
mod sieve;
mod status;
mod stream;
mod upstream;

use std::{
    collections::BTreeMap, env, future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc,
    time::Duration,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use tokio::{net::TcpListener, time};
use tokio_util::sync::CancellationToken;

pub use self::{connections::MOST_CONNECTIONS, error::RelayError, memory::DEFAULT_MEMORY};
use self::{
    guard::Guard,
    memory::Memory,
    sessions::Sessions,
    shared::{Server, Shared},
    status::Board,
    upstream::{Clients, Upstream},
};
use super::notices::Notices;
use crate::{
    Pool, clock,
    limits::ServerName,
    settings::{Endpoint, Loaded, Origin, header_key},
    throttle::Throttle,
    verdict::Verdict,
};

/// Names that no server can have here, since they are paths of their own.
pub const RESERVED: [&str; 5] = ["metrics", "status", ".well-known", ".", ".."];

/// How long calls may go on after the relay was told to end.
pub const GRACE: Duration = Duration::from_secs(5);

/// What need not be escaped in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The path of a server, percent-encoded: `/NAME`.
#[must_use]
pub fn path_of(server: &ServerName) -> String {
    format!("/{}", utf8_percent_encode(server.as_str(), PATH))
}

/// A relay in front of every server of the settings that has a URL.
///
/// The command's `serve` is this and a handful of signals. To embed it, with limits that change
/// while it runs:
///
/// ```no_run
/// use mcp_question_throttle::{relay::serve::Relay, settings};
///
/// # async fn serve(end: tokio::sync::oneshot::Receiver<()>) -> Result<(), Box<dyn std::error::Error>> {
/// let relay = Relay::new(&settings::load("settings.toml")?)?
///     .with_observer(|verdict| eprintln!("{} asked", verdict.server));
/// let throttle = relay.throttle().clone();
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:7460").await?;
/// let serving = tokio::spawn(relay.serve(listener, async {
///     let _ = end.await;
/// }));
/// throttle.update(settings::load("settings.toml")?.settings());
/// # serving.await??; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Relay {
    pool: Pool,
    upstreams: BTreeMap<ServerName, Upstream>,
    /// Where the URL of each stands.
    places: BTreeMap<ServerName, Origin>,
    guard: Guard,
    settings_file: Option<PathBuf>,
    mute_button: bool,
    memory: usize,
}

impl Relay {
    /// A relay for these settings, and nothing counted yet. In headers of the settings `${VAR}`,
    /// `${VAR:-default}` and `${env:VAR}` are variables of this process.
    ///
    /// # Errors
    ///
    /// [`RelayError`] if there is nothing to serve, or a server that cannot be.
    pub fn new(settings: &Loaded) -> Result<Self, RelayError> {
        let throttle = Throttle::new(settings.settings().clone(), clock::now());
        Self::with_throttle(settings, Arc::new(throttle))
    }

    /// A relay that counts in a throttle made elsewhere, that of a [`Pool`] for
    /// instance.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_throttle(settings: &Loaded, throttle: Arc<Throttle>) -> Result<Self, RelayError> {
        let mut clients = Clients::default();
        let mut upstreams = BTreeMap::new();
        let mut places = BTreeMap::new();
        for (name, entry) in settings.servers() {
            let Some(Endpoint::Url(url)) = entry.endpoint() else {
                continue;
            };
            let (server, at) = (name.clone(), |key: &str| {
                let origin = settings.origin(Some(name), key);
                origin.cloned().unwrap_or(Origin::Default)
            });
            if RESERVED.contains(&name.as_str()) {
                let at = at("url");
                return Err(RelayError::Reserved { server, at });
            }
            let url = match Url::parse(url) {
                Ok(url) if url.has_host() => url,
                _ => {
                    let at = at("url");
                    return Err(RelayError::Url { server, at });
                }
            };
            let headers = headers::of_settings(entry, &|name| env::var_os(name));
            let headers = headers.map_err(|(name, reason)| RelayError::Header {
                at: at(&header_key(&name)),
                server: server.clone(),
                name,
                reason,
            })?;
            let upstream = Upstream::new(&mut clients, url, headers)
                .map_err(|error| RelayError::Client(error.into()))?;
            places.insert(server.clone(), at("url"));
            upstreams.insert(server, upstream);
        }
        if upstreams.is_empty() {
            return Err(RelayError::NoServer);
        }
        Ok(Self {
            pool: Pool::with_throttle(throttle),
            upstreams,
            places,
            guard: Guard::default(),
            settings_file: None,
            mute_button: settings.status_page().mute_button,
            memory: DEFAULT_MEMORY,
        })
    }

    /// Calls `observer` with every verdict, outside of every lock.
    #[must_use]
    pub fn with_observer(
        mut self,
        observer: impl Fn(&Verdict<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.pool = self.pool.with_observer(observer);
        self
    }

    /// Lets requests in whose `Host` has this name, apart from loopback and the listen address.
    #[must_use]
    pub fn with_host(mut self, host: impl Into<String>) -> Self {
        self.guard = self.guard.with_host(host.into());
        self
    }

    /// Lets requests in whose `Origin` is this one, as `https://app.example`, apart from loopback.
    #[must_use]
    pub fn with_origin(mut self, origin: impl Into<String>) -> Self {
        self.guard = self.guard.with_origin(origin.into());
        self
    }

    /// Says where the limits are set, so that the first refusal can tell people what to change.
    #[must_use]
    pub fn with_settings_file(mut self, file: Option<PathBuf>) -> Self {
        self.settings_file = file;
        self
    }

    /// Holds no more than so many bytes of messages at once, in place of [`DEFAULT_MEMORY`]; what
    /// is no longer than 64 KiB does not count. With several servers, one of them gets half.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// The throttle in which all questions are counted. Its settings can be changed at any time.
    #[must_use]
    pub const fn throttle(&self) -> &Arc<Throttle> {
        self.pool.throttle()
    }

    /// What is counted, and the last questions of each server. It shares all that with the relay,
    /// also after the relay has begun to serve.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The servers that are served, in byte order of their names.
    pub fn servers(&self) -> impl Iterator<Item = &ServerName> {
        self.upstreams.keys()
    }

    /// Whether it can listen at `address`: no server's URL may lead there. [`serve`](Self::serve)
    /// asks the same.
    ///
    /// # Errors
    ///
    /// [`RelayError::Itself`].
    pub fn check_address(&self, address: SocketAddr) -> Result<(), RelayError> {
        let mut upstreams = self.upstreams.iter();
        let found = upstreams.find(|(_, upstream)| upstream.leads_to(address));
        found.map_or(Ok(()), |(server, _)| {
            let at = self.places.get(server).cloned();
            Err(RelayError::Itself {
                server: server.clone(),
                at: at.unwrap_or(Origin::Default),
            })
        })
    }

    /// Serves at `listener` until `end` is done, and then [`GRACE`] for calls in flight.
    ///
    /// # Errors
    ///
    /// When `listener` has no address, or one that a server's URL leads to.
    ///
    /// # Cancel safety
    ///
    /// When dropped, every connection breaks off.
    pub async fn serve(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        self.check_address(listener.local_addr()?)
            .map_err(io::Error::other)?;
        let shared = Arc::new(self.shared(&listener)?);
        let closing = shared.closing.clone();
        let router = router::router(Arc::clone(&shared));
        let serving = connections::serve(listener, router, closing.clone());
        let out_of_time = async {
            end.await;
            closing.cancel();
            time::sleep(GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = out_of_time => {}
        }
        shared.sum_up();
        Ok(())
    }

    fn shared(self, listener: &TcpListener) -> io::Result<Shared> {
        let pool = self.pool;
        let settings_file = self.settings_file;
        let memory = Memory::shared(self.memory, self.upstreams.len());
        let server = |(name, upstream): (ServerName, Upstream)| {
            let server = Server {
                sessions: Sessions::new(Arc::clone(pool.throttle()), name.clone()),
                reporter: pool.reporter().for_session(),
                upstream: Arc::new(upstream),
                notices: Arc::new(Notices::new(settings_file.clone())),
                undelivered: Arc::default(),
                memory: memory(),
                name,
            };
            (server.name.as_str().to_owned(), server)
        };
        Ok(Shared {
            servers: self.upstreams.into_iter().map(server).collect(),
            guard: self.guard.listening_on(listener.local_addr()?),
            closing: CancellationToken::new(),
            board: Board::new(self.mute_button),
            pool,
        })
    }
}
