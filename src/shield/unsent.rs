//! Refusals on their way to the server: kept as id and verdict, their text made when written.

use std::{collections::VecDeque, mem::size_of};

use futures::FutureExt;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ErrorData, RequestId},
    transport::Transport,
};
use tokio::task::JoinSet;

use crate::refusal::Refusal;

/// How many bytes of unsent refusals are kept, ids included.
pub(super) const MAX_BYTES: usize = 4 << 20;
/// By how many entries the queue grows: one that doubled could take twice what it needs.
const GROWTH: usize = 1024;
/// How many refusals are written at once, where the transport does not take one immediately.
const WRITERS: usize = 8;

/// A refusal, and the id it answers.
#[derive(Debug)]
struct Unsent {
    id: RequestId,
    refusal: Refusal,
}

impl Unsent {
    /// What is held for it outside of the queue itself.
    fn id_bytes(&self) -> usize {
        match &self.id {
            RequestId::Number(_) => 0,
            // Beside the text, the two counts of an `Arc`.
            RequestId::String(text) => text.len() + 2 * size_of::<usize>(),
        }
    }
}

/// The queue of unsent refusals, and those that are being written.
#[derive(Default)]
pub(super) struct Outbox {
    queue: VecDeque<Unsent>,
    /// Of the ids in the queue.
    id_bytes: usize,
    /// What the last refusal read like on the wire: in a flood, the next one mostly does too.
    last: Option<(Refusal, ErrorData)>,
    /// Tasks of their own, so that a write goes on while nobody polls the shield: rmcp awaits
    /// other sends in place, and those wait for this one.
    writers: JoinSet<()>,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.writers.is_empty()
    }

    /// Whether nothing more should be read. What was read before is still taken, and can go over
    /// the bound by its own size.
    pub(super) fn is_full(&self) -> bool {
        let growth = if self.queue.len() == self.queue.capacity() {
            GROWTH * size_of::<Unsent>()
        } else {
            0
        };
        self.bytes() + growth > MAX_BYTES
    }

    /// What the queue holds, its spare room included.
    pub(super) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Unsent>() + self.id_bytes
    }

    /// Begins to write a refusal at once if nothing else waits to be written, and keeps it
    /// otherwise.
    pub(super) fn refuse<T: Transport<RoleClient>>(
        &mut self,
        id: RequestId,
        refusal: Refusal,
        transport: &mut T,
    ) {
        let unsent = Unsent { id, refusal };
        if self.is_empty() {
            self.write(unsent, transport);
        } else {
            self.push(unsent);
        }
    }

    fn push(&mut self, unsent: Unsent) {
        if self.queue.len() == self.queue.capacity() {
            self.queue.reserve_exact(GROWTH);
        }
        self.id_bytes += unsent.id_bytes();
        self.queue.push_back(unsent);
    }

    fn pop(&mut self) -> Option<Unsent> {
        let unsent = self.queue.pop_front()?;
        self.id_bytes -= unsent.id_bytes();
        // The memory of a flood goes with it.
        if self.queue.capacity() - self.queue.len() > 2 * GROWTH {
            self.queue.shrink_to(self.queue.len() + GROWTH);
        }
        Some(unsent)
    }

    /// Begins to write the oldest refusal, if there is one and a writer is free. Says whether it
    /// did.
    pub(super) fn write_one<T: Transport<RoleClient>>(&mut self, transport: &mut T) -> bool {
        while !self.writers.is_empty() && self.writers.try_join_next().is_some() {}
        if self.writers.len() >= WRITERS {
            return false;
        }
        let Some(unsent) = self.pop() else {
            return false;
        };
        self.write(unsent, transport);
        true
    }

    fn write<T: Transport<RoleClient>>(&mut self, unsent: Unsent, transport: &mut T) {
        let error = self.error(unsent.refusal);
        let send = transport
            .send(ClientJsonRpcMessage::error(error, Some(unsent.id)))
            .map(|sent| {
                if sent.is_err() {
                    // rmcp sees the same on its own sends, and the end of the connection by reading.
                    tracing::debug!("a refusal could not be sent");
                }
            });
        // Most transports take it at once, which saves a task.
        let mut write = Box::pin(send);
        if (&mut write).now_or_never().is_none() {
            self.writers.spawn(write);
        }
    }

    /// The error of a refusal.
    fn error(&mut self, refusal: Refusal) -> ErrorData {
        match &self.last {
            Some((last, error)) if last.reads_like(&refusal) => error.clone(),
            _ => {
                let error = ErrorData::from(&refusal);
                self.last = Some((refusal, error.clone()));
                error
            }
        }
    }

    /// Whether a writer is at work.
    pub(super) fn is_writing(&self) -> bool {
        !self.writers.is_empty()
    }

    /// Waits until a writer is done.
    ///
    /// # Cancel safety
    ///
    /// Safe: the writers go on by themselves.
    pub(super) async fn written(&mut self) {
        // A writer that panicked has lost its refusal; there is nothing else to do about it.
        let _ended = self.writers.join_next().await;
    }

    /// Gives up what is unsent, and waits until no writer holds on to the transport.
    pub(super) async fn close(&mut self) {
        self.queue = VecDeque::new();
        self.id_bytes = 0;
        self.writers.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(outbox: &mut Outbox, id: impl Fn(usize) -> RequestId) -> usize {
        let mut count = 0;
        while !outbox.is_full() {
            outbox.push(Unsent {
                id: id(count),
                refusal: Refusal::internal(),
            });
            count += 1;
        }
        count
    }

    #[test]
    fn thousands_of_small_refusals_fit_and_not_many_large_ones() {
        let mut outbox = Outbox::default();
        let small = fill(&mut outbox, |n| RequestId::String(n.to_string().into()));
        assert!(small >= 16_384, "{small}");
        assert!(outbox.bytes() <= MAX_BYTES, "{}", outbox.bytes());

        let mut outbox = Outbox::default();
        let long = "x".repeat(100_000);
        let large = fill(&mut outbox, |_| RequestId::String(long.as_str().into()));
        assert!(large <= MAX_BYTES / 100_000 + 1, "{large}");
        assert!(outbox.bytes() < MAX_BYTES + 100_100, "{}", outbox.bytes());

        while outbox.pop().is_some() {}
        assert!(outbox.bytes() < MAX_BYTES / 16, "{}", outbox.bytes());
    }
}
