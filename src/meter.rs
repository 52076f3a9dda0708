//! Counters and durations. The code that does the work writes them, and the code that shows them reads them.

use std::array;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Buckets of a [`Timing`], the last one without an end.
const BUCKETS: usize = 23;
/// The first bucket's upper end; each end is twice the one before: up to 1 us, 2 us, 4 us, ... 2.1 s.
const FIRST_NANOS: u64 = 1_000;
/// Threads that write take turns with these: cores that wrote one cache line would wait for each
/// other at every statement.
const SHARDS: usize = 8;

/// Numbers that many threads add to, in sums that are each right. The prefetcher of x86-64 takes
/// cache lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

#[derive(Debug)]
struct Sharded<const N: usize>([Shard<N>; SHARDS]);

impl<const N: usize> Default for Sharded<N> {
    fn default() -> Self {
        Sharded(array::from_fn(|_| Shard(array::from_fn(|_| AtomicU64::new(0)))))
    }
}

impl<const N: usize> Sharded<N> {
    fn add(&self, nth: usize, n: u64) {
        if let Some(number) = self.0.get(own_shard()).and_then(|shard| shard.0.get(nth)) {
            number.fetch_add(n, Ordering::Relaxed);
        }
    }

    fn sum(&self, nth: usize) -> u64 {
        let numbers = self.0.iter().filter_map(|shard| shard.0.get(nth));
        numbers.map(|number| number.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

fn own_shard() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS);
    }
    OWN.get()
}

/// A count that all threads may add to at each statement.
#[derive(Debug, Default)]
pub struct Counter(Sharded<1>);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.add(0, n);
    }

    pub fn get(&self) -> u64 {
        self.0.sum(0)
    }
}

/// Durations of one kind, counted in buckets. The numbers of one reading are only nearly of one moment.
#[derive(Debug, Default)]
pub struct Timing {
    /// The count of each bucket, and at the end the nanoseconds of all durations.
    numbers: Sharded<{ BUCKETS + 1 }>,
}

/// [`Timing`] at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// Each bucket's upper end (`None`: it has none), and how many took at most that long.
    pub up_to: Vec<(Option<Duration>, u64)>,
    pub sum: Duration,
}

impl Timing {
    pub fn note(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // Microseconds, rounded up, in so many bits.
        let bits = u64::BITS - nanos.saturating_sub(1).wrapping_div(FIRST_NANOS).leading_zeros();
        let bucket = (bits as usize).min(BUCKETS - 1);
        self.numbers.add(bucket, 1);
        self.numbers.add(BUCKETS, nanos);
    }

    pub fn read(&self) -> Timed {
        let mut so_far = 0;
        let up_to = (0..BUCKETS).map(|nth| {
            so_far += self.numbers.sum(nth);
            ((nth < BUCKETS - 1).then(|| Duration::from_nanos(FIRST_NANOS << nth)), so_far)
        });
        Timed { up_to: up_to.collect(), sum: Duration::from_nanos(self.numbers.sum(BUCKETS)) }
    }
}

impl Timed {
    pub fn count(&self) -> u64 {
        self.up_to.last().map_or(0, |&(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Counter, SHARDS, Timing};
    use std::time::Duration;

    #[test]
    fn what_takes_how_long_falls_where() {
        for (nanos, bucket) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (4_000, 2),
            (2_097_152_000, 21),
            (2_097_152_001, 22),
            (u64::MAX, BUCKETS - 1),
        ] {
            let timing = Timing::default();
            timing.note(Duration::from_nanos(nanos));
            let read = timing.read();
            let first = read.up_to.iter().position(|&(_, count)| count == 1);
            let found = (first, read.sum.as_nanos(), read.count());
            assert_eq!(found, (Some(bucket), u128::from(nanos), 1), "{nanos}");
        }
        let ends: Vec<_> = Timing::default().read().up_to.iter().map(|(end, _)| *end).collect();
        assert_eq!(
            (ends[0], ends[21], ends[22]),
            (Some(Duration::from_micros(1)), Some(Duration::from_micros(2_097_152)), None)
        );
    }

    #[test]
    fn what_many_threads_add_is_all_there() {
        let (counter, timing) = (Counter::default(), Timing::default());
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    (0..1_000).for_each(|_| counter.add(3));
                    timing.note(Duration::from_nanos(5));
                });
            }
        });
        let threads = 2 * SHARDS as u64;
        assert_eq!(counter.get(), threads * 3_000);
        assert_eq!((timing.read().count(), timing.read().sum), (threads, Duration::from_nanos(5 * threads)));
    }
}
