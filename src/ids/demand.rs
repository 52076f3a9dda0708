//! The demand for ids, and so how many to reserve.

use std::time::Duration;

use tokio::time::Instant;

use super::sequence::Batch;

/// The time that an automatic batch should last.
const BATCH_LASTS: Duration = Duration::from_mins(10);
const BATCH_MIN: u64 = 1_000;
const BATCH_MAX: u64 = 10_000_000;
/// An automatic batch takes no more than one in so many of the ids that are left: a crash loses up to two batches, and
/// a SMALLINT column has 32,767 ids.
const LEFT_SHARE: u64 = 1_000;
/// Demand is averaged over at least this long, so that one bulk insert does not look like ten minutes of them.
const WINDOW_MIN: Duration = Duration::from_secs(10);

pub(super) struct Demand {
    since: Instant,
    issued_then: u64,
    per_second: f64,
}

impl Demand {
    pub(super) fn new(now: Instant) -> Self {
        Demand { since: now, issued_then: 0, per_second: 0.0 }
    }

    /// Ids a second, by the count of those issued so far.
    #[allow(clippy::cast_precision_loss)] // An estimate.
    pub(super) fn measure(&mut self, now: Instant, issued: u64) -> f64 {
        let window = now.saturating_duration_since(self.since);
        let new = issued.saturating_sub(self.issued_then);
        self.per_second = new as f64 / window.max(WINDOW_MIN).as_secs_f64();
        if window >= WINDOW_MIN {
            self.since = now;
            self.issued_then = issued;
        }
        self.per_second
    }

    pub(super) fn per_second(&self) -> f64 {
        self.per_second
    }
}

/// Ids that one store write reserves, at least one; `left` are left below the max.
pub(super) fn batch_ids(batch: Batch, per_second: f64, left: u64) -> u64 {
    match batch {
        Batch::Fixed(ids) => ids.get(),
        Batch::Auto => {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates.
            let wanted = (per_second * BATCH_LASTS.as_secs_f64()) as u64;
            wanted.clamp(BATCH_MIN, BATCH_MAX).min(left / LEFT_SHARE).max(1)
        }
    }
}

/// The number of ids left of a batch at which the next batch is reserved.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Saturates; a share.
pub(super) fn low_ids(batch: u64, low_water: f64) -> u64 {
    (batch as f64 * low_water).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::{Batch, Demand, batch_ids, low_ids};
    use std::num::NonZeroU64;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn automatic_batches_last_ten_minutes_within_limits() {
        let check = |per_second: f64, left: u64, expect: u64| {
            assert_eq!(batch_ids(Batch::Auto, per_second, left), expect, "{per_second}/s, {left} left");
        };
        let big = i64::MAX as u64;
        check(0.0, big, 1_000);
        check(100.0, big, 60_000);
        check(1e6, big, 10_000_000);
        check(f64::INFINITY, big, 10_000_000);
        check(0.0, 32_767, 32);
        check(1e6, 2_147_483_647, 2_147_483);
        check(0.0, 100, 1);
        assert_eq!(batch_ids(Batch::Fixed(NonZeroU64::new(7).unwrap()), 1e6, 3), 7);
    }

    #[test]
    fn low_water_of_a_batch() {
        let found = [(1, 0.5), (10, 0.5), (10, 1.0), (3, 0.01), (u64::MAX, 1.0)].map(|(b, w)| low_ids(b, w));
        assert_eq!(found, [1, 5, 10, 1, u64::MAX]);
    }

    #[test]
    fn demand_is_that_of_the_last_window_of_ten_seconds_or_more() {
        let start = Instant::now();
        let mut demand = Demand::new(start);
        let mut check = |seconds: u64, issued: u64, expect: f64| {
            let found = demand.measure(start + Duration::from_secs(seconds), issued);
            assert!((found - expect).abs() < 1e-9, "after {seconds} s: {found}, not {expect}");
        };
        check(0, 100, 10.0);
        check(1, 1_000, 100.0);
        check(20, 2_000, 100.0);
        check(22, 2_500, 50.0);
        check(120, 2_500, 5.0);
        check(220, 2_500, 0.0);
    }
}
