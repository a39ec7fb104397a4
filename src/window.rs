//! The fixed window: the whole counting rule, as a value that is told the time.

use std::time::{Duration, Instant};

/// The length of every window (D5).
pub const WINDOW: Duration = Duration::from_secs(60);

/// A point on the monotonic clock, in nanoseconds after an [`Epoch`].
///
/// Half the size of an [`Instant`], and small enough for one atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The beginning of time: at or before every other moment.
    pub const START: Self = Self(0);

    /// The moment as a plain number, for an atomic.
    #[must_use]
    pub const fn to_nanos(self) -> u64 {
        self.0
    }

    /// The moment of a number that [`to_nanos`](Self::to_nanos) gave.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// How long it is until `later`; zero if that has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }

    const fn plus(self, length: Duration) -> Self {
        // Nothing here is longer than a window, and u64 nanoseconds last for 584 years.
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

    /// The moment of `now`.
    #[must_use]
    pub fn moment(&self, now: Instant) -> Moment {
        let since = now.saturating_duration_since(self.0);
        Moment(since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos()))
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
///     assert!(window.room(at(second), 3, 1).is_ok());
///     window.charge(at(second), 1);
/// }
/// let full = window.room(at(69), 3, 1).unwrap_err();
/// assert_eq!(full.ends, Some(at(70)));
/// assert!(window.room(at(70), 3, 1).is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedWindow {
    /// The beginning of time before the first admission, so that no window is open then.
    ends: Moment,
    used: u32,
}

impl FixedWindow {
    /// Whether `asked` more fit under `limit` at `now`. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`] if they don't, with the window's end.
    pub const fn room(&self, now: Moment, limit: u32, asked: u32) -> Result<(), Full> {
        if self.used(now).saturating_add(asked) <= limit {
            Ok(())
        } else if asked > limit {
            Err(Full { ends: None })
        } else {
            // `asked <= limit` holds here, so an ended window has room and an open one has an end.
            Err(Full {
                ends: self.ends(now),
            })
        }
    }

    /// Counts `asked` at `now`, opening a new window if the last one has ended. The caller has
    /// asked [`room`](Self::room) at the same moment.
    pub const fn charge(&mut self, now: Moment, asked: u32) {
        if asked > 0 {
            *self = self.open_at(now, Moment::START);
            self.used = self.used.saturating_add(asked);
        }
    }

    /// The window after counting `asked` at `now`; `None` if they don't fit under `limit`. A
    /// window that opens does so at `earliest` or later.
    #[inline]
    pub(crate) fn charged_within(
        &self,
        now: Moment,
        earliest: Moment,
        limit: u32,
        asked: u32,
    ) -> Option<Self> {
        let Self { ends, used } = self.open_at(now, earliest);
        // In this order since what was used can be over a limit that was lowered.
        let fits = asked <= limit && used <= limit - asked;
        fits.then(|| Self {
            ends,
            used: used + asked,
        })
    }

    /// The window to count in at `now`: this one, or an empty one if this has ended.
    #[inline]
    const fn open_at(&self, now: Moment, earliest: Moment) -> Self {
        if self.is_open(now) {
            return *self;
        }
        let opens = if now.0 > earliest.0 { now } else { earliest };
        Self {
            ends: opens.plus(WINDOW),
            used: 0,
        }
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
        let admitted = window.room(now, limit, 1).is_ok();
        if admitted {
            window.charge(now, 1);
        }
        admitted
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
        window.charge(at(0), 1);
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
        let full = window.room(at(0), 2, 1).unwrap_err();
        assert_eq!(full.ends, Some(at(3_660_000)));
        assert!(!ask(&mut window, at(3_659_999), 2));
        assert!(ask(&mut window, at(3_660_000), 2));
    }

    #[test]
    fn more_than_the_limit_never_fits() {
        let window = FixedWindow::default();
        assert_eq!(window.room(at(0), 3, 4), Err(Full { ends: None }));
        assert_eq!(window.room(at(0), 3, u32::MAX), Err(Full { ends: None }));
        assert_eq!(window.room(at(0), 3, 3), Ok(()));
    }

    #[test]
    fn a_lowered_limit_keeps_what_was_used() {
        let mut window = FixedWindow::default();
        window.charge(at(0), 5);
        assert!(window.room(at(59_999), 3, 1).is_err());
        assert_eq!(window.used(at(59_999)), 5);
        assert!(window.room(at(60_000), 3, 3).is_ok());
    }
}
