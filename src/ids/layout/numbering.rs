//! The ids of one node in their order, numbered: number = tick * ids of a tick + sequence.

use std::num::NonZeroU64;

use super::{Layout, NodeError, Span, mask};
use crate::ids::range::block::Spacing;

/// Numbers reach up to 2^63, so that sums with what one statement takes fit in a `u64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// What all ids of the node have in common.
    base: u64,
    sequence_bits: u32,
    sequence_shift: u32,
    timestamp_shift: u32,
    /// One behind the last number.
    end: u64,
    spacing: Spacing,
}

impl Layout {
    pub fn numbering(&self, node: u64) -> Result<Numbering, NodeError> {
        self.check_node(node)?;
        let sequence = self.sequence.unwrap_or(Span { shift: self.timestamp.shift, bits: 0 });
        Ok(Numbering {
            base: self.constant | self.node.unwrap_or(Span::NONE).put(node),
            sequence_bits: sequence.bits,
            sequence_shift: sequence.shift,
            timestamp_shift: self.timestamp.shift,
            // Both fields fit in 63 bits.
            end: (self.timestamp.max() + 1) << sequence.bits,
            spacing: self.spacing(),
        })
    }
}

impl Numbering {
    pub fn end(&self) -> u64 {
        self.end
    }

    /// All ids of the node are one run.
    #[inline]
    fn is_contiguous(&self) -> bool {
        self.spacing.ticks.is_none()
    }

    /// How the ids of one statement lie.
    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The first number of a tick; of a tick behind the last one, the end.
    pub fn first_of(&self, tick: u64) -> u64 {
        if tick > (self.end - 1) >> self.sequence_bits { self.end } else { tick << self.sequence_bits }
    }

    pub fn tick_of(&self, number: u64) -> u64 {
        number >> self.sequence_bits
    }

    /// The tick that begins at or behind a number.
    pub fn tick_from(&self, number: u64) -> u64 {
        self.tick_of(number.saturating_add(mask(self.sequence_bits)))
    }

    /// Where `count` numbers start that are to be taken from `first` on: in the next tick, if the rest of this one is too
    /// short for them. All ids of a contiguous layout are one run, and there they start at `first`.
    #[inline]
    pub fn fitting(&self, first: u64, count: NonZeroU64) -> u64 {
        let last = mask(self.sequence_bits);
        // What is before it in its tick, and the count: neither is near 2^63.
        if self.is_contiguous() || (first & last) + (count.get() - 1) <= last || first & last == 0 {
            first
        } else {
            (first | last) + 1
        }
    }

    /// Numbers from this one on whose ids follow each other by the step.
    #[inline]
    pub fn run_from(&self, number: u64) -> u64 {
        let last = mask(self.sequence_bits);
        if self.is_contiguous() { self.end - number } else { last - (number & last) + 1 }
    }

    /// The id of a number before the end.
    #[inline]
    pub fn id(&self, number: u64) -> u64 {
        debug_assert!(number < self.end);
        if self.is_contiguous() {
            return self.base | (number << self.sequence_shift);
        }
        let sequence = number & mask(self.sequence_bits);
        self.base
            | ((number >> self.sequence_bits) << self.timestamp_shift)
            | (sequence << self.sequence_shift)
    }

    /// The first number whose id is above `id`; `None`: there is none.
    pub fn above(&self, id: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(middle) > id { high = middle } else { low = middle + 1 }
        }
        Some(low).filter(|number| *number < self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::{PRESETS, Preset};
    use proptest::prelude::*;
    use std::num::NonZeroU64;

    fn n(count: u64) -> NonZeroU64 {
        NonZeroU64::new(count).unwrap()
    }

    #[test]
    fn where_a_run_starts() {
        let check = |preset: &str, first: u64, count: u64, expect: u64| {
            let numbering = Preset::find(preset).unwrap().layout().numbering(0).unwrap();
            assert_eq!(numbering.fitting(first, n(count)), expect, "{preset} {first} {count}");
        };
        check("snowflake", 0, 4096, 0);
        check("snowflake", 1, 4095, 1);
        check("snowflake", 1, 4096, 4096);
        check("snowflake", 4095, 1, 4095);
        check("snowflake", 4095, 2, 4096);
        // More than a tick holds: from its beginning, so that there are as few runs as can be.
        check("snowflake", 8192, 10_000, 8192);
        check("snowflake", 8193, 10_000, 12_288);
        check("snowflake", 1 << 63, 1, 1 << 63);
        check("pd-tso", 262_143, 9, 262_143);
        check("sonyflake", 255, 9, 255);
        check("cockroach", 7, 9, 7);
    }

    proptest! {
        /// Ids ascend with their numbers, are those of the layout, and a run has its step.
        #[test]
        fn numbers_are_ids(which in 0..PRESETS.len(), number: u64, node: u64) {
            let layout = PRESETS[which].layout();
            let node = (0..64).map(|bits| node >> bits).find(|node| layout.check_node(*node).is_ok()).unwrap_or(0);
            let numbering = layout.numbering(node).unwrap();
            let number = number % (numbering.end() - 1);
            let (tick, sequence) = (numbering.tick_of(number), number % layout.per_tick());
            let id = numbering.id(number);
            prop_assert_eq!(Some(id), layout.compose(tick, node, sequence));
            let next = numbering.id(number + 1);
            prop_assert!(next > id);
            if numbering.run_from(number) > 1 {
                prop_assert_eq!(next - id, numbering.spacing().step.get());
            }
            prop_assert!(numbering.first_of(tick) <= number && number < numbering.first_of(tick + 1));
            prop_assert_eq!(numbering.tick_from(number), tick + u64::from(sequence > 0));
            prop_assert_eq!(numbering.above(id), Some(number + 1));
            prop_assert_eq!(numbering.above(id - 1), Some(number));
        }
    }

    #[test]
    fn the_ends() {
        for preset in PRESETS {
            let layout = preset.layout();
            let numbering = layout.numbering(0).unwrap();
            assert_eq!(numbering.first_of(u64::MAX), numbering.end());
            assert_eq!(numbering.tick_of(numbering.end() - 1), layout.last_tick());
            let last = numbering.id(numbering.end() - 1);
            assert!(last <= i64::MAX.unsigned_abs());
            assert_eq!(numbering.above(last), None);
            assert_eq!(numbering.above(u64::MAX), None);
        }
    }
}
