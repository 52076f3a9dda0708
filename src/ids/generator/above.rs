//! Staying above the ids that are in a table, however they came there.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Advanced, REACH_MAX, Sequence, bound_above};
use crate::ids::errors::TakeError;

impl Sequence {
    /// Call it with the highest id of a table, which any client may have stored: ids issued here afterwards are above it, as
    /// [`Sequence::advance_past`] has it. True if the generator was not above it yet, and now is.
    pub async fn pass(&self, highest: u64, deadline: Duration) -> Result<bool, TakeError> {
        let is_above = self.slots.at_or_above(highest.saturating_add(1)) <= self.dispenser.next();
        Ok(!is_above && self.advance(highest, deadline).await? == Advanced::Past)
    }

    /// Like [`Self::pass`], but ids of others may also lie below `highest` in a range that is reserved here, and nobody can
    /// look there: the ids that are reserved up to `highest` are given up. True if it is certain that no generator has issued
    /// `highest`.
    pub async fn rise_above(&self, highest: u64, deadline: Duration) -> Result<bool, TakeError> {
        let is_reserved_here = self.dispenser.has_left(self.slots.at_or_above(highest));
        // Nobody else issues ids up to it that were not reserved before. The store need not be there.
        if highest < self.bound.load(Ordering::Relaxed) {
            self.dispenser.raise_floor(self.slots.at_or_above(bound_above(highest)));
            return Ok(is_reserved_here);
        }
        let bound = self.raise_floor_from(highest, deadline).await?;
        Ok(is_reserved_here || highest >= bound)
    }

    /// Explicit ids above it are not followed.
    pub fn reach(&self) -> u64 {
        self.bound.load(Ordering::Relaxed).saturating_add(REACH_MAX)
    }

    /// The last id of a range below `id` that is reserved here, and not used up. Where a table's highest id lies above it, in another proxy's range,
    /// ids of others may yet lie in this range.
    pub fn last_below(&self, id: u64) -> Option<u64> {
        let last = |end| self.slots.bound_of(end).saturating_sub(1);
        self.dispenser.ends().map(last).find(|last| *last < id)
    }
}
