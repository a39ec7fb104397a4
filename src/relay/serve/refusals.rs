//! Refusals on their way back to the server: one POST each, a few at a time.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use tokio::{sync::Semaphore, time};

use super::upstream::Upstream;
use crate::{limits::ServerName, relay::Reply};

/// Refusals that are posted at once, per session.
const MOST_IN_FLIGHT: usize = 8;
/// Refusals that wait for that. With more, no stream of the session is read.
const MOST_QUEUED: usize = 64;
/// How much memory they may take.
const MOST_BYTES: u32 = 4 * 1024 * 1024;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a response no more than this is read, so that its connection can be used again.
const MOST_DISCARDED: usize = 64 * 1024;

/// Refusals that did not reach their server.
#[derive(Debug, Default)]
pub(super) struct Undelivered(AtomicU64);

impl Undelivered {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, server: &ServerName, reason: &dyn fmt::Display) {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        // The 1st, 10th, 100th, ...
        if count == 10_u64.pow(count.ilog10()) {
            tracing::warn!(server = %server, undelivered = count, "a refusal did not reach the server: {reason}");
        }
    }
}

/// The refusals of one session.
#[derive(Debug)]
pub(super) struct Refusals {
    room: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    in_flight: Arc<Semaphore>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            room: Arc::new(Semaphore::new(MOST_IN_FLIGHT + MOST_QUEUED)),
            bytes: Arc::new(Semaphore::new(MOST_BYTES as usize)),
            in_flight: Arc::new(Semaphore::new(MOST_IN_FLIGHT)),
        }
    }
}

/// Where the refusals of a stream go, and as whose.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) server: ServerName,
    pub(super) upstream: Arc<Upstream>,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) undelivered: Arc<Undelivered>,
}

impl Refusals {
    /// Sends a refusal, as soon as there is room for it.
    ///
    /// # Cancel safety
    ///
    /// When dropped before it is done, nothing is sent.
    pub(super) async fn send(&self, reply: Reply, to: &Address) {
        let size = u32::try_from(reply.size()).unwrap_or(u32::MAX);
        // Nobody closes them, so they are always had.
        let (Ok(room), Ok(bytes)) = (
            Arc::clone(&self.room).acquire_owned().await,
            Arc::clone(&self.bytes)
                .acquire_many_owned(size.min(MOST_BYTES))
                .await,
        ) else {
            return;
        };
        let in_flight = Arc::clone(&self.in_flight);
        let to = to.clone();
        tokio::spawn(async move {
            let _held = (room, bytes);
            // In the order of their coming: a semaphore is fair.
            let _in_flight = in_flight.acquire().await;
            match time::timeout(PATIENCE, post(&reply, &to)).await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => to.undelivered.add(&to.server, &reason),
                Err(_) => to
                    .undelivered
                    .add(&to.server, &format_args!("no answer in {PATIENCE:?}")),
            }
        });
    }
}

async fn post(reply: &Reply, to: &Address) -> Result<(), String> {
    let mut body = Vec::new();
    reply.write(&mut body);
    let upstream = &to.upstream;
    let mut response = upstream
        .once(
            &Method::POST,
            upstream.url().clone(),
            &to.headers,
            &Bytes::from(body),
        )
        .await
        .map_err(|failure| failure.to_string())?;
    let status = response.status();
    let mut discarded = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        discarded += chunk.len();
        if discarded > MOST_DISCARDED {
            break;
        }
    }
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("it answered {}", status.as_u16()))
    }
}
