//! Why a question is refused, and for how long.

use std::{fmt, num::NonZeroU8, time::Duration};

use crate::{limits::LimitName, window::WINDOW};

/// How long to wait before asking again: whole seconds, rounded up, 1 to 60.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(NonZeroU8);

impl RetryAfter {
    /// Rounds `wait` up to whole seconds, at least 1 and at most the length of a window.
    #[must_use]
    pub fn from_wait(wait: Duration) -> Self {
        Self::from_nanos(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The same for a wait in nanoseconds.
    #[inline]
    pub(crate) fn from_nanos(wait: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let longest = WINDOW.as_secs() * SECOND;
        // The first second begins after nothing, and the 60th ends at `longest`.
        let begun = wait.min(longest).saturating_sub(1) / SECOND;
        Self(NonZeroU8::MIN.saturating_add(begun as u8))
    }

    /// The wait in seconds.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0.get() as u64
    }
}

impl From<RetryAfter> for Duration {
    fn from(retry: RetryAfter) -> Self {
        Self::from_secs(retry.as_secs())
    }
}

/// Why a question was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// What is left in a window is less than what is asked.
    LimitExceeded {
        /// The limit in the way; of several, the one whose window ends last.
        limit: LimitName,
        /// Its value.
        max: u32,
        /// `None` if more was asked at once than the limit allows in any window.
        retry_after: Option<RetryAfter>,
    },
    /// The table of servers is full (D10).
    LimiterSaturated {
        /// A lower bound; `None` while every row has a session.
        retry_after: Option<RetryAfter>,
    },
    /// The call needed more rounds than `proto.askRounds` (D8).
    RoundsExceeded {
        /// The setting's value.
        max: u32,
    },
    /// Nobody answered within `proto.askTTL` (D9).
    QuestionExpired {
        /// The setting's value.
        ttl: Duration,
    },
    /// The operator has muted the server: every question of it is refused until that is undone.
    ServerMuted,
    /// A state that cannot be: refused to be safe (D13).
    Internal,
}

impl Cause {
    /// The value of `data.cause`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::LimitExceeded { .. } => "limit_exceeded",
            Self::LimiterSaturated { .. } => "limiter_saturated",
            Self::RoundsExceeded { .. } => "rounds_exceeded",
            Self::QuestionExpired { .. } => "question_expired",
            Self::ServerMuted => "server_muted",
            Self::Internal => "internal",
        }
    }
}

/// The value of `data.cause`.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_whole_seconds_from_1_to_60() {
        let seconds = |nanos| RetryAfter::from_wait(Duration::from_nanos(nanos)).as_secs();
        assert_eq!(seconds(0), 1);
        assert_eq!(seconds(1), 1);
        assert_eq!(seconds(1_000_000_000), 1);
        assert_eq!(seconds(1_000_000_001), 2);
        assert_eq!(seconds(60_000_000_000), 60);
        assert_eq!(seconds(u64::MAX), 60);
    }
}
