//! How often, and how long. Written by whoever does the work, read by whoever shows it.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a [`Timing`], the last one without an end.
const BUCKETS: usize = 13;
/// The first bucket's upper end; each one is four times as wide as the one before: up to 1 us, 4 us, ... 4.2 s.
const FIRST_NANOS: u64 = 1_000;

/// How long something took. All of it together is only nearly of one moment.
#[derive(Debug)]
pub struct Timing {
    counts: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// [`Timing`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// Each bucket's upper end (`None`: it has none), and how many took at most that long.
    pub up_to: Vec<(Option<Duration>, u64)>,
    pub sum: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { counts: array::from_fn(|_| AtomicU64::new(0)), nanos: AtomicU64::new(0) }
    }
}

impl Timing {
    pub fn note(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = (0..BUCKETS - 1).find(|&nth| nanos <= end_nanos(nth)).unwrap_or(BUCKETS - 1);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn read(&self) -> Timed {
        let mut so_far = 0;
        let up_to = self.counts.iter().enumerate().map(|(nth, count)| {
            so_far += count.load(Ordering::Relaxed);
            ((nth < BUCKETS - 1).then(|| Duration::from_nanos(end_nanos(nth))), so_far)
        });
        Timed { up_to: up_to.collect(), sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

impl Timed {
    pub fn count(&self) -> u64 {
        self.up_to.last().map_or(0, |&(_, count)| count)
    }
}

const fn end_nanos(bucket: usize) -> u64 {
    FIRST_NANOS << (2 * bucket)
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Timing};
    use std::time::Duration;

    #[test]
    fn what_takes_how_long_falls_where() {
        for (nanos, bucket) in
            [(0, 0), (1_000, 0), (1_001, 1), (4_000, 1), (16_001, 3), (u64::MAX, BUCKETS - 1)]
        {
            let timing = Timing::default();
            timing.note(Duration::from_nanos(nanos));
            let read = timing.read();
            let first = read.up_to.iter().position(|&(_, count)| count == 1);
            assert_eq!(
                (first, read.sum.as_nanos(), read.count()),
                (Some(bucket), u128::from(nanos), 1),
                "{nanos}"
            );
        }
        let ends: Vec<_> = Timing::default().read().up_to.iter().map(|(end, _)| *end).collect();
        assert_eq!(
            (ends[0], ends[11], ends[12]),
            (Some(Duration::from_micros(1)), Some(Duration::from_micros(4_194_304)), None)
        );
    }
}
