//! Ids handed out together. Whoever holds an [`IdRange`] owns its ids: it cannot be cloned, only split and spent.

pub mod block;

use std::num::NonZeroU64;

/// The most ids that are taken at once: more than a statement of 64 MB can hold rows.
pub(super) const RUN_MAX: u64 = 1 << 32;

/// `count` ids: `first`, `first + step`, ... All of them fit in a `u64`; that is checked when the range is made.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "ids that are not used are lost"]
pub struct IdRange {
    first: u64,
    step: NonZeroU64,
    count: NonZeroU64,
}

impl IdRange {
    /// `None` where the last id would not fit in a `u64`.
    pub fn new(first: u64, step: NonZeroU64, count: NonZeroU64) -> Option<Self> {
        let width = step.get().checked_mul(count.get() - 1)?;
        first.checked_add(width)?;
        Some(IdRange { first, step, count })
    }

    /// For a caller that has proved that the last id fits; the checks of [`Self::new`] are a tenth of an id's cost.
    #[inline]
    pub(super) fn proved(first: u64, step: NonZeroU64, count: NonZeroU64) -> Self {
        debug_assert!(Self::new(first, step, count).is_some());
        IdRange { first, step, count }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn last(&self) -> u64 {
        self.first + self.step.get() * (self.count.get() - 1)
    }

    pub fn step(&self) -> u64 {
        self.step.get()
    }

    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The `k`-th id, counted from 0; `None` after the last one.
    pub fn nth(&self, k: u64) -> Option<u64> {
        (k < self.count.get()).then(|| self.first + self.step.get() * k)
    }

    /// First id, step and count; who takes them apart owns the ids.
    pub(super) fn into_parts(self) -> (u64, NonZeroU64, NonZeroU64) {
        (self.first, self.step, self.count)
    }
}

/// A number of ids, as tests write it.
#[cfg(test)]
pub(super) fn n(count: u64) -> NonZeroU64 {
    NonZeroU64::new(count).unwrap()
}

#[cfg(test)]
mod tests {
    use super::IdRange;

    use super::n;

    #[test]
    fn a_range_that_would_wrap_is_not_made() {
        assert!(IdRange::new(u64::MAX, n(1), n(1)).is_some());
        assert!(IdRange::new(u64::MAX, n(1), n(2)).is_none());
        assert!(IdRange::new(1, n(u64::MAX), n(2)).is_none());
        assert!(IdRange::new(0, n(u64::MAX), n(3)).is_none());
    }
}
