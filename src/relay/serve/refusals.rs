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
use reqwest::Url;
use tokio::{sync::Semaphore, time};

use super::{memory::Memory, upstream::Upstream};
use crate::{limits::ServerName, relay::Reply};

/// Refusals that are posted at once, per session.
const MOST_IN_FLIGHT: usize = 8;
/// Refusals that wait for that. With more, no stream of the session is read.
const MOST_QUEUED: usize = 64;
/// How much memory they may take.
const MOST_BYTES: u32 = 4 * 1024 * 1024;
/// Longer ones need room in what all servers' messages may take.
const SMALL: usize = 1024;
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
            tracing::warn!(
                server = server.as_str(),
                undelivered = count,
                "a refusal did not reach the server: {reason}"
            );
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
    /// Where the request of the stream was answered.
    pub(super) url: Url,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) undelivered: Arc<Undelivered>,
    pub(super) memory: Memory,
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
        let mut held = to.memory.hold_beyond(SMALL);
        if !held.cover(reply.size()) {
            let reason = "its id is long, and too much of messages is held at once";
            to.undelivered.add(&to.server, &reason);
            return;
        }
        let in_flight = Arc::clone(&self.in_flight);
        let to = to.clone();
        tokio::spawn(async move {
            let _held = (room, bytes, held);
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
            to.url.clone(),
            &to.headers,
            Some(body.into()),
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures::FutureExt;

    use super::*;
    use crate::{
        clock,
        refusal::Refusal,
        relay::{Refused, serve::upstream::Clients},
    };

    fn reply(id_length: usize) -> Reply {
        Reply::One(Refused::new(&vec![b'1'; id_length], Refusal::internal()))
    }

    /// A server that takes connections and never answers.
    fn silent(memory: usize) -> (TcpListener, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let clients = &mut Clients::default();
        let upstream = Upstream::new(clients, url.parse().unwrap(), HeaderMap::new());
        let address = Address {
            server: ServerName::new("github").unwrap(),
            upstream: Arc::new(upstream.unwrap()),
            url: url.parse().unwrap(),
            headers: Arc::default(),
            undelivered: Arc::default(),
            memory: Memory::shared(memory, 1)(),
        };
        (listener, address)
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_nobody_takes_wait_up_to_a_bound_and_ten_seconds_each() {
        let (_listener, to) = silent(0);
        let refusals = Refusals::default();
        let before = clock::now();
        for _ in 0..MOST_IN_FLIGHT + MOST_QUEUED {
            refusals.send(reply(1), &to).await;
        }
        assert_eq!((clock::now() - before), Duration::ZERO);
        // There is room again once the first have had their time.
        refusals.send(reply(1), &to).await;
        assert_eq!((clock::now() - before).as_secs(), PATIENCE.as_secs());
        assert!(to.undelivered.count() > 0);
        // Everything that was sent is over after nine times, and none was tried twice.
        drop(refusals.room.acquire_many(72).await.unwrap());
        assert_eq!((clock::now() - before).as_secs(), 10 * PATIENCE.as_secs());
        assert_eq!(to.undelivered.count(), 73);
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_long_ids_wait_up_to_a_number_of_bytes() {
        let (_listener, to) = silent(usize::MAX);
        let refusals = Refusals::default();
        let most = MOST_BYTES as usize;
        // One that is longer than that waits alone.
        assert!(refusals.send(reply(2 * most), &to).now_or_never().is_some());
        assert!(refusals.send(reply(1), &to).now_or_never().is_none());
        refusals.send(reply(most / 2), &to).await;
        assert!(refusals.send(reply(most / 2), &to).now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn those_with_long_ids_need_room_that_all_sessions_share() {
        const KIB: usize = 1024;
        let (_listener, to) = silent(100 * KIB);
        let sessions = [Refusals::default(), Refusals::default()];
        sessions[0].send(reply(60 * KIB), &to).await;
        assert_eq!(to.undelivered.count(), 0);
        sessions[1].send(reply(60 * KIB), &to).await;
        assert_eq!(to.undelivered.count(), 1);
        // Once the first has had its time there is room again.
        drop(sessions[0].room.acquire_many(72).await.unwrap());
        sessions[1].send(reply(60 * KIB), &to).await;
        assert_eq!(to.undelivered.count(), 2, "the first was not taken");
        drop(sessions[1].room.acquire_many(72).await.unwrap());
        assert_eq!(to.undelivered.count(), 3, "and the last was sent");
    }
}
