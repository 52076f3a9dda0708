//! The time for the ids: the wall clock as far as it can be believed.

use std::time::{Duration, Instant, SystemTime};

use crate::ids::layout::Moment;

/// Both clocks of a machine at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The clock that people set; it may go anywhere.
    pub wall: Moment,
    /// The clock that only goes on, from an origin of its own.
    pub monotonic: Duration,
}

pub trait Clock: Send + Sync + 'static {
    fn read(&self) -> Reading;
}

/// The machine's own. Its monotonic clock stands still while the machine is suspended: waking up is a leap then.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    pub fn new() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn read(&self) -> Reading {
        Reading { wall: SystemTime::now().into(), monotonic: self.origin.elapsed() }
    }
}

/// Follows the wall clock: time that never goes back and does not leap.
///
/// A wall clock that goes back changes nothing: time stands until it is caught up with. One that leaps by more than
/// `max_forward` against the monotonic clock is not followed: time goes on by the monotonic clock.
pub(super) struct Watch {
    max_forward: Duration,
    /// The followed reading that was furthest ahead of the monotonic clock. Leaps are measured from it, so that a clock that
    /// goes back and returns has not leapt.
    trusted: Reading,
    time: Moment,
    leap: Option<Duration>,
}

impl Watch {
    pub(super) fn new(first: Reading, max_forward: Duration) -> Self {
        Watch { max_forward, trusted: first, time: first.wall, leap: None }
    }

    pub(super) fn see(&mut self, reading: Reading) -> Moment {
        let elapsed = reading.monotonic.saturating_sub(self.trusted.monotonic);
        let expected = later(self.trusted.wall, elapsed);
        let ahead = Duration::from_micros(reading.wall.micros().saturating_sub(expected.micros()));
        if ahead > self.max_forward {
            self.leap = Some(ahead);
            self.time = self.time.max(expected);
            return self.time;
        }
        self.leap = None;
        if reading.wall >= expected {
            self.trusted = reading;
        }
        self.time = self.time.max(reading.wall);
        self.time
    }

    /// The leap of the wall clock, while it is not followed.
    pub(super) fn leap(&self) -> Option<Duration> {
        self.leap
    }

    /// The time as it was seen last.
    pub(super) fn time(&self) -> Moment {
        self.time
    }
}

fn later(moment: Moment, by: Duration) -> Moment {
    Moment::from_micros(moment.micros().saturating_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::{Reading, Watch};
    use crate::ids::layout::Moment;
    use std::time::Duration;

    /// Readings (wall, monotonic) in seconds from a start, the time that `see` returns for each, and if it is a leap.
    fn check(readings: &[(u64, u64, u64, bool)]) {
        let at = |seconds: u64| Moment::from_micros((1_000_000 + seconds) * 1_000_000);
        let reading = |wall, monotonic| Reading { wall: at(wall), monotonic: Duration::from_secs(monotonic) };
        let mut watch = Watch::new(reading(0, 7), Duration::from_hours(1));
        for &(wall, monotonic, time, is_leap) in readings {
            let found = watch.see(reading(wall, 7 + monotonic));
            assert_eq!((found, watch.leap().is_some()), (at(time), is_leap), "{wall} {monotonic}");
        }
    }

    #[test]
    fn time_follows_the_wall_clock_forward() {
        check(&[(1, 1, 1, false), (10, 10, 10, false), (3_000, 11, 3_000, false), (6_600, 11, 6_600, false)]);
    }

    #[test]
    fn it_stands_while_the_wall_clock_is_behind() {
        check(&[
            (100, 100, 100, false),
            (40, 101, 100, false),
            (99, 160, 100, false),
            (101, 162, 101, false),
        ]);
    }

    #[test]
    fn a_leap_is_not_followed_until_it_is_taken_back() {
        check(&[
            (100, 100, 100, false),
            (3_702, 101, 101, true),
            (3_710, 109, 109, true),
            (120, 120, 120, false),
            (3_720, 120, 3_720, false),
        ]);
    }

    #[test]
    fn a_clock_that_goes_back_and_comes_again_has_not_leapt() {
        check(&[(100, 100, 100, false), (0, 101, 100, false), (3_650, 102, 3_650, false)]);
        // Two hours back, and again where it was.
        check(&[(9, 9, 9, false), (9_000, 9, 9, true), (9, 9, 9, false)]);
    }
}
