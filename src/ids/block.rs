//! The ids of one statement, of whichever kind its generator is. The holder of an [`IdBlock`] owns its ids: it cannot be cloned,
//! only split and spent.

use std::num::NonZeroU64;

/// The most ids that are taken at once: more than a statement of 64 MB can hold rows.
pub(super) const RUN_MAX: u64 = 1 << 32;

/// The distances of the ids of one statement from its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spacing {
    /// The distance of two ids that follow each other within a tick, or in all where there are no ticks.
    pub step: NonZeroU64,
    /// The ticks of timestamps, if they do not adjoin. `None`: however many ids there are, they are one run.
    pub ticks: Option<Ticks>,
}

/// More ids than a tick holds are several runs: the first id of the statement is then the first of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    /// Ids of one tick, a power of two.
    pub ids: NonZeroU64,
    /// From the first id of a tick to the first of the next.
    pub distance: NonZeroU64,
}

impl Spacing {
    /// All ids are one run.
    pub const fn by(step: NonZeroU64) -> Spacing {
        Spacing { step, ticks: None }
    }

    /// The distance of the id of this number, counted from 0, from the first id. `None`: more than a `u64` holds.
    #[inline]
    pub fn offset(&self, number: u64) -> Option<u64> {
        let Some(Ticks { ids, distance }) = self.ticks else { return number.checked_mul(self.step.get()) };
        let in_tick = (number % ids).checked_mul(self.step.get())?;
        (number / ids).checked_mul(distance.get())?.checked_add(in_tick)
    }
}

/// The ids of one statement, ascending. All of them fit in a `u64`; that is checked when the block is made.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "ids that are not used are lost"]
pub struct IdBlock {
    first: u64,
    count: NonZeroU64,
    spacing: Spacing,
}

impl IdBlock {
    /// `None` where the last id would not fit in a `u64`.
    pub fn new(first: u64, spacing: Spacing, count: NonZeroU64) -> Option<Self> {
        first.checked_add(spacing.offset(count.get() - 1)?)?;
        Some(IdBlock { first, count, spacing })
    }

    /// For a caller that has proved that the last id fits; the checks of [`Self::new`] are a tenth of an id's cost.
    #[inline]
    pub(crate) fn proved(first: u64, spacing: Spacing, count: NonZeroU64) -> Self {
        debug_assert!(Self::new(first, spacing, count).is_some());
        IdBlock { first, count, spacing }
    }

    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn last(&self) -> u64 {
        // The last id fits: `new` looks at that, and the callers of `proved` have proved it.
        self.first.saturating_add(self.spacing.offset(self.count.get() - 1).unwrap_or(u64::MAX))
    }

    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    pub fn step(&self) -> u64 {
        self.spacing.step.get()
    }

    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The runs of the block: one, or those of its ticks.
    pub fn runs(self) -> impl Iterator<Item = IdBlock> {
        let IdBlock { first, count, spacing } = self;
        let most = spacing.ticks.map_or(count.get(), |ticks| ticks.ids.get());
        (0..count.get().div_ceil(most)).filter_map(move |nth| {
            let left = NonZeroU64::new((count.get() - nth * most).min(most))?;
            IdBlock::new(first.checked_add(spacing.offset(nth * most)?)?, Spacing::by(spacing.step), left)
        })
    }

    /// The `k`-th id, counted from 0; `None` after the last one.
    pub fn nth(&self, k: u64) -> Option<u64> {
        if k >= self.count.get() {
            return None;
        }
        self.first.checked_add(self.spacing.offset(k)?)
    }
}

/// A number of ids, as tests write it.
#[cfg(test)]
pub(super) fn n(count: u64) -> NonZeroU64 {
    NonZeroU64::new(count).unwrap()
}

#[cfg(test)]
mod tests {
    use super::{IdBlock, Spacing, Ticks, n};

    #[test]
    fn a_run_is_a_block() {
        let block = IdBlock::new(10, Spacing::by(n(3)), n(4)).unwrap();
        assert_eq!((block.first(), block.last(), block.count()), (10, 19, 4));
        assert_eq!(
            (0..5).map(|k| block.nth(k)).collect::<Vec<_>>(),
            [10, 13, 16, 19].map(Some).into_iter().chain([None]).collect::<Vec<_>>()
        );
    }

    #[test]
    fn several_ticks() {
        let spacing = Spacing { step: n(1), ticks: Some(Ticks { ids: n(4), distance: n(256) }) };
        let block = IdBlock::new(1024, spacing, n(9)).unwrap();
        let ids: Vec<_> = (0..9).filter_map(|k| block.nth(k)).collect();
        assert_eq!(ids, [1024, 1025, 1026, 1027, 1280, 1281, 1282, 1283, 1536]);
        assert_eq!((block.last(), block.nth(9)), (1536, None));
    }

    #[test]
    fn a_block_that_would_wrap_is_not_made() {
        let ticks = Some(Ticks { ids: n(2), distance: n(1 << 62) });
        let spacing = Spacing { step: n(1), ticks };
        assert!(IdBlock::new(0, spacing, n(8)).is_some());
        assert!(IdBlock::new(0, spacing, n(9)).is_none());
        for (first, step, count, is_made) in [
            (u64::MAX, 1, 1, true),
            (u64::MAX, 1, 2, false),
            (1, u64::MAX, 2, false),
            (0, u64::MAX, 3, false),
        ] {
            assert_eq!(IdBlock::new(first, Spacing::by(n(step)), n(count)).is_some(), is_made);
        }
    }
}
