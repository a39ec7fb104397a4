//! Refusals that wait for the server to read.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use super::super::refused::Reply;

/// How many bytes of refusals wait, their ids included. Beyond it the server is not read any
/// more until it reads.
pub const MOST_UNSENT: usize = 4 * 1024 * 1024;

/// A queue that is bounded in bytes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Reply>,
    bytes: usize,
    closed: bool,
}

impl Queue {
    /// Adds a reply if there is room, or gives it back. One that is larger than the bound has
    /// room when nothing else waits. A closed queue takes everything and keeps nothing.
    pub(super) fn try_push(&self, reply: Reply) -> Result<(), Reply> {
        let mut state = self.lock();
        state.add(reply)?;
        self.changed.notify_all();
        Ok(())
    }

    /// Adds a reply, and waits for room.
    pub(super) fn push(&self, reply: Reply) {
        let mut state = self.lock();
        let mut reply = reply;
        while let Err(back) = state.add(reply) {
            reply = back;
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.changed.notify_all();
    }

    /// Writes the next replies as lines, about `bytes` of them, once there are any; `false` says
    /// that the queue was closed.
    pub(super) fn write_next(&self, out: &mut Vec<u8>, bytes: usize) -> bool {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        while out.len() < bytes
            && let Some(reply) = state.waiting.pop_front()
        {
            state.bytes -= reply.size();
            reply.write(out);
            out.push(b'\n');
        }
        self.changed.notify_all();
        true
    }

    /// Drops what waits and whatever comes, since nobody will read it.
    pub(super) fn close(&self) {
        *self.lock() = State {
            closed: true,
            ..State::default()
        };
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, reply: Reply) -> Result<(), Reply> {
        if self.closed {
            return Ok(());
        }
        let size = reply.size();
        if self.bytes + size > MOST_UNSENT && !self.waiting.is_empty() {
            return Err(reply);
        }
        self.bytes += size;
        self.waiting.push_back(reply);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{refusal::Refusal, relay::Refused};

    fn reply(id: usize) -> Reply {
        Reply::One(Refused::new(id.to_string().as_bytes(), Refusal::internal()))
    }

    fn fill(queue: &Queue) -> usize {
        (0..)
            .take_while(|id| queue.try_push(reply(*id)).is_ok())
            .count()
    }

    #[test]
    fn it_is_bounded_in_bytes_and_holds_at_least_16384_small_refusals() {
        let queue = Queue::default();
        let held = fill(&queue);
        assert!(held >= 16_384, "{held}");
        assert!(queue.lock().bytes <= MOST_UNSENT);
        let mut out = Vec::new();
        assert!(queue.write_next(&mut out, 1));
        assert!(out.starts_with(br#"{"jsonrpc":"2.0","id":0,"#), "in order");
        assert!(queue.try_push(reply(0)).is_ok(), "there is room again");
    }

    #[test]
    fn one_huge_id_is_answered_all_the_same() {
        let queue = Queue::default();
        let huge = vec![b'1'; MOST_UNSENT + 1];
        let reply = Reply::One(Refused::new(&huge, Refusal::internal()));
        assert!(queue.try_push(reply.clone()).is_ok());
        assert!(queue.try_push(reply).is_err(), "but only one at a time");
    }

    #[test]
    fn closing_lets_whoever_waits_go_on() {
        let queue = Queue::default();
        fill(&queue);
        std::thread::scope(|scope| {
            scope.spawn(|| queue.push(reply(0)));
            queue.close();
        });
        assert!(!queue.write_next(&mut Vec::new(), 1));
    }
}
