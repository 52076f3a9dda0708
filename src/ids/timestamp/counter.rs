//! Numbers handed out without a lock, and the proof that none is handed out twice.
//!
//! # What there is
//! `next` is the first number that nobody has; the time raises it, too: nobody takes a number before that. `limit` is where
//! the numbers end that may be handed out now; 0: none. Numbers are reserved from the store in *ranges*, each ours alone.
//! A taker reads `limit`, then `next`, chooses where its numbers begin (at or above `next`), and puts their end into `next` by
//! a compare-and-swap; if somebody was faster, it chooses again.
//!
//! # Why no number is handed out twice
//! 1. `next` only grows: a taker puts the end of its numbers there, which is above what it found; [`Counter::publish`]
//!    raises it; [`Counter::park`] puts it at [`PARKED`], above every number, and from there nothing moves it.
//! 2. What a taker has lies between what it found in `next` and what it put there. By 1 no two takers overlap.
//! 3. Every `limit` that was ever published is at most the end of a range: the one that was current at that time
//!    ([`Counter::publish`]). The ranges' ends only grow.
//! 4. Before a limit is published (Release), `next` is raised to the start of the limit's range, or above it. A taker who
//!    read the limit (Acquire) reads `next` afterwards, and so begins at or above the range's start. *This is why the limit
//!    is read first.* With 3, all that it takes lies in the range.
//! 5. A taker who sleeps between its reading and its compare-and-swap finds `next` as it was, and then is as right as it
//!    was when it read; or it fails. Nothing is handed back before [`Counter::park`], which returns where the last
//!    taker's numbers end for good.
//!
//! The range's end is a bound that the store has committed; nothing here reaches beyond it. Where in the range the clock puts
//! `next` is no part of the proof: whatever it does, ids are only earlier or later than they might be.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::block::RUN_MAX;
use crate::ids::layout::Numbering;

/// Above or at every number's end, so that no limit lies above it.
const PARKED: u64 = 1 << 63;

/// Takers write it, all the time.
#[repr(align(128))]
struct Next(AtomicU64);

/// The ticker writes it, once a tick.
#[repr(align(128))]
struct Limit(AtomicU64);

pub(super) struct Counter {
    next: Next,
    limit: Limit,
}

impl Counter {
    pub(super) fn new() -> Self {
        Counter { next: Next(AtomicU64::new(0)), limit: Limit(AtomicU64::new(0)) }
    }

    /// The first of `count` numbers, if they are a run right after the last taker's, as nearly always. Branches, and no
    /// choice of values: so the swap waits for `next` alone.
    #[inline]
    pub(super) fn take_run(&self, numbering: &Numbering, count: NonZeroU64) -> Option<u64> {
        let limit = self.limit.0.load(Ordering::Acquire);
        let next = self.next.0.load(Ordering::Relaxed);
        let end = numbering.run_end(next, count)?;
        (end <= limit && self.put(next, end).is_ok()).then_some(next)
    }

    /// The first of `count` numbers, wherever. `None`: so many are not to be had now, or are more than [`RUN_MAX`].
    pub(super) fn take(&self, numbering: &Numbering, count: NonZeroU64) -> Option<u64> {
        let limit = self.limit.0.load(Ordering::Acquire);
        let mut next = self.next.0.load(Ordering::Relaxed);
        if count.get() > RUN_MAX {
            return None;
        }
        loop {
            let (first, end) = numbering.place(next, count)?;
            if end > limit {
                return None;
            }
            match self.put(next, end) {
                Ok(_) => return Some(first),
                Err(now) => next = now,
            }
        }
    }

    /// `end` in the place of `next`, if that is still there.
    #[inline]
    fn put(&self, next: u64, end: u64) -> Result<u64, u64> {
        self.next.0.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed)
    }

    /// Nobody takes a number below `start`, which is at or above the current range's start, or reaches above `limit`, which is
    /// at most the range's end.
    pub(super) fn publish(&self, start: u64, limit: u64) {
        self.next.0.fetch_max(start, Ordering::Relaxed);
        self.limit.0.store(limit, Ordering::Release);
    }

    /// Hands out nothing until the next [`Self::publish`].
    pub(super) fn shut(&self) {
        self.limit.0.store(0, Ordering::Release);
    }

    /// Hands out nothing any more; returns the first number that nobody has. `None`: parked already.
    pub(super) fn park(&self) -> Option<u64> {
        self.shut();
        Some(self.next.0.swap(PARKED, Ordering::Relaxed)).filter(|stood| *stood < PARKED)
    }

    /// The first number that nobody has, at this moment.
    pub(super) fn next(&self) -> u64 {
        self.next.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, RUN_MAX};
    use crate::ids::block::n;
    use crate::ids::layout::presets::Preset;

    #[test]
    fn takers_stay_between_the_start_and_the_limit() {
        let numbering = Preset::find("pd-tso").unwrap().layout().numbering(0).unwrap();
        let counter = Counter::new();
        assert_eq!(counter.take(&numbering, n(1)), None);
        counter.publish(100, 110);
        assert_eq!(counter.take(&numbering, n(4)), Some(100));
        assert_eq!((counter.next(), counter.take(&numbering, n(7))), (104, None));
        assert_eq!(counter.take(&numbering, n(6)), Some(104));
        counter.publish(50, 120);
        assert_eq!((counter.next(), counter.take(&numbering, n(1))), (110, Some(110)));
        counter.publish(200, numbering.end());
        assert_eq!(counter.take(&numbering, n(RUN_MAX + 1)), None);
        assert_eq!(counter.take(&numbering, n(RUN_MAX)), Some(200));
        counter.shut();
        assert_eq!(counter.take(&numbering, n(1)), None);
    }

    /// Also if the ticker was about to publish as it was closed.
    #[test]
    fn a_parked_counter_hands_out_nothing_whatever_is_published() {
        let numbering = Preset::find("snowflake").unwrap().layout().numbering(0).unwrap();
        let counter = Counter::new();
        counter.publish(5, 10);
        assert_eq!(counter.take(&numbering, n(2)), Some(5));
        assert_eq!((counter.park(), counter.park()), (Some(7), None));
        counter.publish(20, numbering.end());
        assert_eq!(counter.take(&numbering, n(1)), None);
    }
}
