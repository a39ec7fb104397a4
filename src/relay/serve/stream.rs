//! A response that is a stream of events, on its way to the client.

use std::{collections::VecDeque, io, mem, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use reqwest::Response;
use tokio_util::sync::CancellationToken;

use super::{memory::Held, refusals::Address, request::Call, sessions::Row, sieve::Sieve};
use crate::{
    clock,
    refusal::Refusal,
    relay::{Judge, Refused, Reply},
};

/// Whose stream it is.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) row: Arc<Row>,
    pub(super) address: Address,
    pub(super) call: Call,
    /// The call's message, if a long id of it is kept.
    pub(super) _kept: Option<Bytes>,
    /// When it fires, the stream ends.
    pub(super) ends: CancellationToken,
}

/// A stream in progress.
#[derive(Debug)]
pub(super) struct Stream {
    side: Side,
    /// `None` once the server is not read any more.
    response: Option<Response>,
    sieve: Sieve,
    out: Vec<u8>,
    replies: VecDeque<Reply>,
    /// For all of these.
    held: Held,
    /// The connection to the server broke.
    failed: Option<reqwest::Error>,
    closed: bool,
}

impl Stream {
    pub(super) fn new(side: Side, judge: Judge, response: Response) -> Self {
        Self {
            held: side.address.memory.hold(),
            side,
            response: Some(response),
            sieve: Sieve::new(judge),
            out: Vec::new(),
            replies: VecDeque::new(),
            failed: None,
            closed: false,
        }
    }

    /// As the body of our response. Dropping it closes the server's.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::unfold(self, async |mut stream| {
            let next = stream.next().await?;
            Some((next, stream))
        }))
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if !self.replies.is_empty() {
                if !self.out.is_empty() {
                    return self.give();
                }
                while let Some(reply) = self.replies.pop_front() {
                    self.side.row.refusals.send(reply, &self.side.address).await;
                }
            }
            if self.closed {
                return self.give();
            }
            if self.take_piece() {
                continue;
            }
            if !self.out.is_empty() {
                return self.give();
            }
            if self.response.is_none() {
                self.closed = true;
                return self.failed.take().map(|error| Err(io::Error::other(error)));
            }
            self.read().await;
        }
    }

    fn give(&mut self) -> Option<io::Result<Bytes>> {
        if self.out.is_empty() {
            return None;
        }
        let out = mem::take(&mut self.out);
        self.sieve.compact();
        let given = self.held.give(out);
        self.count();
        Some(Ok(given))
    }

    /// Counts what is held now; `false` if it is more than there is room for.
    fn count(&mut self) -> bool {
        let replies = self.replies.iter().map(Reply::size).sum::<usize>();
        self.held
            .cover(self.sieve.capacity() + self.out.capacity() + replies)
    }

    async fn read(&mut self) {
        let Some(response) = &mut self.response else {
            return;
        };
        let chunk = tokio::select! {
            biased;
            () = self.side.ends.cancelled() => Ok(None),
            chunk = response.chunk() => chunk,
        };
        match chunk {
            Ok(Some(chunk)) => {
                self.sieve.feed(&chunk);
                if !self.count() {
                    self.sieve.hold_no_more();
                    let address = &self.side.address;
                    let outcome = "what was not whole of an event went on in parts";
                    address.memory.tell(&address.server, &outcome);
                }
            }
            Ok(None) => self.end(),
            Err(error) => {
                let error = error.without_url();
                tracing::debug!(server = self.side.address.server.as_str(), %error, "a stream broke off");
                self.failed = Some(error);
                self.end();
            }
        }
    }

    fn end(&mut self) {
        self.response = None;
        self.sieve.end();
    }

    /// Judges the next piece that is complete, if there is one.
    fn take_piece(&mut self) -> bool {
        let Some(sifted) = self.sieve.next(clock::now(), &mut self.out) else {
            return false;
        };
        let address = &self.side.address;
        if sifted.is_endpoint {
            tracing::warn!(
                server = address.server.as_str(),
                "the server speaks HTTP+SSE of 2024-11-05, which is not relayed"
            );
        }
        for _ in 0..sifted.dropped {
            let reason = "too many in one event";
            address.undelivered.add(&address.server, &reason);
        }
        if sifted.is_endpoint {
            self.close();
        }
        self.tell(sifted.replies);
        true
    }

    /// Refuses to the server what it asked, in the way of its revision.
    fn tell(&mut self, replies: Vec<Reply>) {
        let call = &self.side.call;
        if !call.has_rounds {
            self.replies.extend(replies);
            return;
        }
        // Here clients send no responses: a response that is closed is a cancelled call.
        let refusal = replies.iter().find_map(Reply::refusal);
        if let (Some(id), Some(refusal), false) = (&call.id, refusal, call.is_listen) {
            let error = error_event(id, refusal.clone());
            self.out.extend_from_slice(&error);
            self.close();
        }
    }

    /// Reads no more of the server, and ends after what is to be sent.
    fn close(&mut self) {
        self.response = None;
        self.closed = true;
    }
}

/// Our error in place of what a call would have returned.
fn error_event(id: &[u8], refusal: Refusal) -> Vec<u8> {
    let mut event = b"data: ".to_vec();
    Refused::new(id, refusal).write(&mut event);
    event.extend_from_slice(b"\n\n");
    event
}
