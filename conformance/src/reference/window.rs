//! One budget for a while: a fixed window, and what wrong clients have in its place.

use std::time::{Duration, Instant};

use super::wrong::Wrong;

/// How much of its first window is over before a client asks its clock for the edges.
const OVER_BY_THE_CLOCK: f64 = 0.4;

/// A budget.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) opened: Instant,
    pub(super) used: u32,
    /// When each admitted question came, for who remembers them.
    admitted: Vec<Instant>,
}

impl Window {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            opened: now,
            used: 0,
            admitted: Vec::new(),
        }
    }

    /// Lets time pass. `epoch` is when the client began.
    pub(super) fn advance(
        &mut self,
        now: Instant,
        length: Duration,
        max: u32,
        wrong: Option<Wrong>,
        epoch: Instant,
    ) {
        match wrong {
            Some(Wrong::SlidingLog) => {
                self.admitted.retain(|&at| now - at < length);
                self.opened = self.admitted.first().copied().unwrap_or(now);
                self.used = u32::try_from(self.admitted.len()).unwrap_or(u32::MAX);
            }
            Some(Wrong::TokenBucket) => {
                let each = length / max.max(1);
                while self.used > 0 && now - self.opened >= each {
                    self.used -= 1;
                    self.opened += each;
                }
                if self.used == 0 {
                    self.opened = now;
                }
            }
            Some(Wrong::AlignedToClock) => {
                let since = (now - epoch) + length.mul_f64(OVER_BY_THE_CLOCK);
                let into = since.as_secs_f64() % length.as_secs_f64();
                let edge = now
                    .checked_sub(Duration::from_secs_f64(into))
                    .unwrap_or(now);
                if edge.saturating_duration_since(self.opened) > length / 2 {
                    self.used = 0;
                }
                self.opened = edge;
            }
            _ if now - self.opened >= length => *self = Self::new(now),
            Some(Wrong::Slides) => self.opened = now,
            _ => {}
        }
    }

    pub(super) fn charge(&mut self, now: Instant, asked: u32) {
        self.used += asked;
        self.admitted.extend((0..asked).map(|_| now));
    }
}
