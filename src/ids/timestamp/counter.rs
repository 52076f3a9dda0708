//! Numbers handed out without a lock, and the proof that none is handed out twice.
//!
//! # What there is
//! `next` is the first number that nobody has. `floor` is the time: nobody takes a number before it. `limit` is where
//! the numbers end that may be handed out now; 0: none. Numbers are reserved from the store in *zones*, each ours alone.
//! A taker reads `limit`, then `floor` and `next`, chooses where its numbers begin (at or behind both), and puts their end
//! into `next` by a compare-and-swap; if somebody was faster, it chooses again.
//!
//! # Why no number is handed out twice
//! 1. `next` only grows: a taker puts the end of its numbers there, which is above what it found; [`Counter::park`] puts
//!    it at [`PARKED`], above every number, and from there nothing moves it.
//! 2. What a taker has lies between what it found in `next` and what it put there. By 1 no two takers overlap.
//! 3. Every `limit` that was ever published is at most the end of a zone: the one that was current at that time
//!    ([`Counter::publish`]). The zones' ends only grow.
//! 4. A floor is published before its limit (Release), and is at or behind the start of the limit's zone; later floors of
//!    that zone are, too. A taker who read the limit (Acquire) reads the floor afterwards, and so begins at or behind the
//!    zone's start. *This is why the limit is read first.* With 3, all that it takes lies in the zone.
//! 5. A taker who sleeps between its reading and its compare-and-swap finds `next` as it was, and then is as right as it
//!    was when it read; or it fails. Nothing is handed back before [`Counter::park`], which tells where the last taker's
//!    numbers end for good.
//!
//! The zone's end is a bound that the store has committed; nothing here reaches beyond it. Where in the zone the clock puts
//! the floor is no part of the proof: whatever it does, ids are only earlier or later than they might be.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::dispenser::RUN_MAX;
use crate::ids::layout::Numbering;

/// Above or at every number's end, so that no limit lies behind it.
const PARKED: u64 = 1 << 63;

/// Takers write it, all the time.
#[repr(align(128))]
struct Next(AtomicU64);

/// The ticker writes them, once a tick.
#[repr(align(128))]
struct Window {
    floor: AtomicU64,
    limit: AtomicU64,
}

pub(super) struct Counter {
    next: Next,
    window: Window,
}

impl Counter {
    pub(super) fn new() -> Self {
        Counter {
            next: Next(AtomicU64::new(0)),
            window: Window { floor: AtomicU64::new(0), limit: AtomicU64::new(0) },
        }
    }

    /// The first of `count` numbers. `None`: so many are not to be had now, or are more than [`RUN_MAX`].
    #[inline]
    pub(super) fn take(&self, numbering: &Numbering, count: NonZeroU64) -> Option<u64> {
        let limit = self.window.limit.load(Ordering::Acquire);
        let floor = self.window.floor.load(Ordering::Relaxed);
        let mut next = self.next.0.load(Ordering::Relaxed);
        if count.get() > RUN_MAX {
            return None;
        }
        loop {
            let first = numbering.fitting(next.max(floor), count);
            // At most 2^63, a tick and RUN_MAX: cannot wrap.
            let end = first.wrapping_add(count.get());
            if end > limit {
                return None;
            }
            match self.next.0.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(first),
                Err(now) => next = now,
            }
        }
    }

    /// Nobody takes a number before `floor`, which is at or behind the current zone's start, or reaches behind `limit`,
    /// which is at most its end.
    pub(super) fn publish(&self, floor: u64, limit: u64) {
        self.window.floor.store(floor, Ordering::Relaxed);
        self.window.limit.store(limit, Ordering::Release);
    }

    /// Hands out nothing until the next [`Self::publish`].
    pub(super) fn shut(&self) {
        self.window.limit.store(0, Ordering::Release);
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

    /// Where the next number is, at the earliest.
    pub(super) fn position(&self) -> u64 {
        self.next().max(self.window.floor.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, RUN_MAX};
    use crate::ids::layout::presets::Preset;
    use std::num::NonZeroU64;

    fn n(count: u64) -> NonZeroU64 {
        NonZeroU64::new(count).unwrap()
    }

    #[test]
    fn takers_stay_between_the_floor_and_the_limit() {
        let numbering = Preset::find("pd-tso").unwrap().layout().numbering(0).unwrap();
        let counter = Counter::new();
        assert_eq!(counter.take(&numbering, n(1)), None);
        counter.publish(100, 110);
        assert_eq!(counter.take(&numbering, n(4)), Some(100));
        assert_eq!((counter.next(), counter.take(&numbering, n(7))), (104, None));
        assert_eq!(counter.take(&numbering, n(6)), Some(104));
        counter.publish(50, 120);
        assert_eq!((counter.position(), counter.take(&numbering, n(1))), (110, Some(110)));
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
