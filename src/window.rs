//! The fixed window: the whole counting rule, as a value that is told the time.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// The length of every window (D5).
pub const WINDOW: Duration = Duration::from_secs(60);

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A point on the monotonic clock, in nanoseconds after an [`Epoch`].
///
/// Half the size of an [`Instant`], and small enough for one atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The beginning of time: at or before every other moment.
    pub const START: Self = Self(0);
    /// Where time stands still, 68 years on: what is full then stays so. Windows that open here end
    /// in 63 bits, as a throttle keeps them, and seconds up to here are compared with one number
    /// that fits into the instruction.
    const LAST: Self = Self(i32::MAX as u64 * SECOND);

    /// The moment as a plain number, for an atomic.
    #[must_use]
    pub const fn to_nanos(self) -> u64 {
        self.0
    }

    /// The moment of a number that [`to_nanos`](Self::to_nanos) gave. One of more than 68 years was
    /// not, and becomes the last there is.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        let last = Self::LAST.plus(WINDOW);
        if nanos > last.0 { last } else { Self(nanos) }
    }

    /// The moment of a number that was kept.
    pub(crate) const fn kept(nanos: u64) -> Self {
        Self(nanos)
    }

    /// How long it is until `later`; zero if that has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }

    const fn plus(self, length: Duration) -> Self {
        // No moment is so late that this is reached, and nothing is longer than a window.
        Self(self.0.saturating_add(length.as_nanos() as u64))
    }
}

/// The instant from which moments are counted.
#[derive(Clone, Copy, Debug)]
pub struct Epoch(Instant);

impl Epoch {
    /// Counts from `start`. An earlier instant becomes [`Moment::START`].
    #[must_use]
    pub const fn new(start: Instant) -> Self {
        Self(start)
    }

    /// The moment of `now`. After 68 years it is always the last one.
    #[must_use]
    pub fn moment(&self, now: Instant) -> Moment {
        let since = now.saturating_duration_since(self.0);
        if since.as_secs() >= Moment::LAST.0 / SECOND {
            return Moment::LAST;
        }
        Moment(since.as_secs() * SECOND + u64::from(since.subsec_nanos()))
    }
}

/// Whose window it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Session,
}

/// What keeps a question out of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The window's end, when the count starts anew. `None` if more was asked than the limit
    /// allows in any window.
    pub ends: Option<Moment>,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.ends {
            Some(_) => "the window has no room left until it ends",
            None => "more was asked than any window has room for",
        })
    }
}

impl std::error::Error for Full {}

/// Counts what was admitted in the current 60 seconds, starting with the first admission after
/// the previous window ended (D5).
///
/// It never slides and never ends early. A time before the window's opening counts as the
/// opening, so a clock that stands still or runs backwards gives nothing away.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mcp_question_throttle::window::{Epoch, FixedWindow};
///
/// let start = Instant::now();
/// let epoch = Epoch::new(start);
/// let at = |seconds| epoch.moment(start + Duration::from_secs(seconds));
///
/// let mut window = FixedWindow::default();
/// for second in [10, 20, 30] {
///     window = window.charged(at(second), 3, 1)?;
/// }
/// let full = window.charged(at(69), 3, 1).unwrap_err();
/// assert_eq!(full.ends, Some(at(70)));
/// assert!(window.charged(at(70), 3, 1).is_ok());
/// # Ok::<(), mcp_question_throttle::window::Full>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedWindow {
    /// The beginning of time before the first admission, so that no window is open then.
    ends: Moment,
    used: u32,
}

impl FixedWindow {
    /// The window with `asked` more counted at `now`: this one, or a new one if this has ended.
    ///
    /// This is the whole rule. It changes nothing: the caller, who may have other windows to ask,
    /// puts the new one in the place of this one or drops it. Asking for none opens a window too,
    /// so whoever asks for none does not come here.
    ///
    /// # Errors
    ///
    /// [`Full`] if they don't fit under `limit`, with the window's end.
    #[inline]
    pub const fn charged(&self, now: Moment, limit: u32, asked: u32) -> Result<Self, Full> {
        if asked > limit {
            return Err(Full { ends: None });
        }
        if !self.is_open(now) {
            return Ok(Self {
                ends: now.plus(WINDOW),
                used: asked,
            });
        }
        // In this order since what was used can be over a limit that was lowered.
        if self.used > limit - asked {
            return Err(Full {
                ends: Some(self.ends),
            });
        }
        Ok(Self {
            ends: self.ends,
            used: self.used + asked,
        })
    }

    /// How many were admitted in the window that is open at `now`.
    #[must_use]
    pub const fn used(&self, now: Moment) -> u32 {
        if self.is_open(now) { self.used } else { 0 }
    }

    /// The end of the window that is open at `now`, if there is one.
    #[must_use]
    pub const fn ends(&self, now: Moment) -> Option<Moment> {
        if self.is_open(now) {
            Some(self.ends)
        } else {
            None
        }
    }

    /// The window that ends, or has ended, at `ends` and admitted `used`.
    pub(crate) const fn ending(ends: Moment, used: u32) -> Self {
        Self { ends, used }
    }

    /// When the last window ends or has ended; [`Moment::START`] before the first.
    pub(crate) const fn last_ends(&self) -> Moment {
        self.ends
    }

    /// How many were admitted in the last window, whether it is open or not.
    pub(crate) const fn last_used(&self) -> u32 {
        self.used
    }

    /// Whether the last window has no room at all under `limit`, as long as it is open.
    pub(crate) const fn is_full(&self, limit: u32) -> bool {
        self.used >= limit
    }

    const fn is_open(&self, now: Moment) -> bool {
        now.0 < self.ends.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Moment {
        Moment(millis * 1_000_000)
    }

    fn ask(window: &mut FixedWindow, now: Moment, limit: u32) -> bool {
        ask_for(window, now, limit, 1)
    }

    fn ask_for(window: &mut FixedWindow, now: Moment, limit: u32, asked: u32) -> bool {
        match window.charged(now, limit, asked) {
            Ok(charged) => {
                *window = charged;
                true
            }
            Err(_) => false,
        }
    }

    #[test]
    fn window_starts_at_first() {
        let mut window = FixedWindow::default();
        assert_eq!(window.ends(at(0)), None);
        assert!(ask(&mut window, at(37_200), 1));
        assert_eq!(window.ends(at(37_200)), Some(at(97_200)));
        assert!(!ask(&mut window, at(97_199), 1));
        assert!(ask(&mut window, at(97_200), 1));
    }

    #[test]
    fn window_edge() {
        let mut window = FixedWindow::default();
        assert!(ask(&mut window, at(0), 5));
        for _ in 0..4 {
            assert!(ask(&mut window, at(59_999), 5));
        }
        assert!(!ask(&mut window, at(59_999), 5));
        for _ in 0..5 {
            assert!(ask(&mut window, at(60_000), 5));
        }
        assert!(!ask(&mut window, at(60_000), 5));
    }

    #[test]
    fn window_not_extended() {
        let mut window = FixedWindow::default();
        for second in [0, 30, 59] {
            assert!(ask(&mut window, at(second * 1000), 3));
        }
        assert!(ask(&mut window, at(61_000), 3));
        assert_eq!(window.used(at(61_000)), 1, "a new window, with 2 left");
        assert_eq!(window.ends(at(61_000)), Some(at(121_000)));
    }

    #[test]
    fn window_each_full() {
        let mut window = FixedWindow::default();
        for round in 0..20 {
            let admitted = (0..10)
                .filter(|i| ask(&mut window, at(round * 60_000 + i * 5_000), 5))
                .count();
            assert_eq!(admitted, 5, "window {round}");
        }
    }

    #[test]
    fn window_of_one() {
        let mut window = FixedWindow::default();
        for round in 0..100 {
            let start = round * 60_000;
            assert!(ask(&mut window, at(start), 1));
            assert!(!ask(&mut window, at(start + 59_999), 1));
        }
        assert!(ask(&mut window, at(6_000_000), 1));
    }

    #[test]
    fn idling_saves_nothing_up() {
        let mut window = FixedWindow::default();
        assert!(ask(&mut window, at(0), 2));
        let admitted = (0..10)
            .filter(|_| ask(&mut window, at(3_600_000), 2))
            .count();
        assert_eq!(admitted, 2);
    }

    #[test]
    fn clock_backwards() {
        let mut window = FixedWindow::default();
        assert!(ask(&mut window, at(3_600_000), 2));
        assert!(
            ask(&mut window, at(0), 2),
            "time stands still, room is left"
        );
        let full = window.charged(at(0), 2, 1).unwrap_err();
        assert_eq!(full.ends, Some(at(3_660_000)));
        assert!(!ask(&mut window, at(3_659_999), 2));
        assert!(ask(&mut window, at(3_660_000), 2));
    }

    #[test]
    fn more_than_the_limit_never_fits() {
        let window = FixedWindow::default();
        for asked in [4, u32::MAX] {
            let full = window.charged(at(0), 3, asked).unwrap_err();
            assert_eq!(full, Full { ends: None });
        }
        assert!(window.charged(at(0), 3, 3).is_ok());
    }

    #[test]
    fn a_lowered_limit_keeps_what_was_used() {
        let mut window = FixedWindow::default();
        assert!(ask_for(&mut window, at(0), 5, 5));
        assert!(!ask(&mut window, at(59_999), 3));
        assert_eq!(window.used(at(59_999)), 5);
        assert!(ask_for(&mut window, at(60_000), 3, 3));
    }
}
