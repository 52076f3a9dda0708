//! The ids of one sequence, numbered without gaps: slot `k` is id `residue + k * step`.

use std::num::NonZeroU64;

use super::block::{IdBlock, Spacing};

/// The largest id ever issued: a BIGINT UNSIGNED's, less the room to add that the dispenser needs above all slots. 2^48 is a
/// 65,536th of what the column holds.
pub const ID_MAX: u64 = u64::MAX - (1 << 48);

/// A signed BIGINT's.
pub const BIGINT_MAX: u64 = i64::MAX as u64;

/// The residue class `id % step == residue` up to a last id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slots {
    residue: u64,
    step: NonZeroU64,
    /// Slots below it are ids of at most `max`.
    end: u64,
}

impl Slots {
    /// `max` above [`ID_MAX`] is taken as [`ID_MAX`].
    pub(super) fn new(offset: u64, step: NonZeroU64, max: u64) -> Self {
        let residue = offset % step;
        let end = max.min(ID_MAX).checked_sub(residue).map_or(0, |width| width / step + 1);
        Slots { residue, step, end }
    }

    /// One above the last slot; at most `ID_MAX + 1`.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The first slot whose id is not below `id`; it may lie at or above the end.
    pub(super) fn at_or_above(&self, id: u64) -> u64 {
        id.saturating_sub(self.residue).div_ceil(self.step.get())
    }

    /// The lowest bound above all ids of the slots before `slot`, where `slot` is not above the end.
    pub(super) fn bound_of(&self, slot: u64) -> u64 {
        slot.checked_sub(1).map_or(0, |last| self.id(last) + 1)
    }

    /// The id of a slot before the end.
    pub(super) fn id(&self, slot: u64) -> u64 {
        debug_assert!(slot < self.end);
        self.residue + slot * self.step.get()
    }

    /// The ids of `count` slots from `first`, all before the end: so nothing here wraps, and nothing is checked again.
    #[inline]
    pub(super) fn block(&self, first: u64, count: NonZeroU64) -> IdBlock {
        debug_assert!(count.get() <= self.end && first <= self.end - count.get());
        // The usual step is worth a branch: the multiplication would wait for the atomic addition before it.
        let width = if self.step.get() == 1 { first } else { first.wrapping_mul(self.step.get()) };
        IdBlock::proved(self.residue.wrapping_add(width), Spacing::by(self.step), count)
    }
}

#[cfg(test)]
mod tests {
    use super::{ID_MAX, Slots};
    use proptest::prelude::*;
    use std::num::NonZeroU64;

    fn slots(offset: u64, step: u64, max: u64) -> Slots {
        Slots::new(offset, NonZeroU64::new(step).unwrap(), max)
    }

    #[track_caller]
    fn check(offset: u64, step: u64, max: u64, first_and_last: Option<(u64, u64)>) {
        let slots = slots(offset, step, max);
        let ends = slots.end.checked_sub(1).map(|last| (slots.id(0), slots.id(last)));
        assert_eq!(ends, first_and_last);
    }

    #[test]
    fn the_ends_of_a_residue_class() {
        check(0, 1, 10, Some((0, 10)));
        check(1, 2, 10, Some((1, 9)));
        check(7, 5, 12, Some((2, 12)));
        check(3, 5, 2, None);
        check(0, 1, u64::MAX, Some((0, ID_MAX)));
        check(u64::MAX, u64::MAX - 1, u64::MAX, Some((1, 1)));
    }

    proptest! {
        #[test]
        fn slots_and_ids_agree(offset: u64, step in 1..=u64::MAX, max: u64, id: u64) {
            let slots = slots(offset, step, max);
            let slot = slots.at_or_above(id);
            if slot < slots.end {
                let found = slots.id(slot);
                prop_assert!(found >= id && found % step == offset % step && found <= max.min(ID_MAX));
                prop_assert!(slot == 0 || slots.id(slot - 1) < id);
                prop_assert_eq!(slots.at_or_above(slots.bound_of(slot)), slot);
                prop_assert!(slots.bound_of(slot + 1) == found + 1);
            } else {
                // No id of the class lies from `id` to the max.
                prop_assert!(slots.end == 0 || slots.id(slots.end - 1) < id);
            }
        }
    }
}
