//! The ids of one node in their order, numbered. A number is an id without what all ids of the node have in common: it
//! is the id's own bits, so that the next one is an addition away and the id an OR. Numbers have gaps where the ids have.

use std::num::NonZeroU64;

use super::{Layout, NodeError, Span, mask};
use crate::ids::block::{RUN_MAX, Spacing};

/// Numbers reach up to 2^63, so that sums with a run's width fit in a `u64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbering {
    /// The bits that all ids of the node have in common.
    base: u64,
    /// More ids than these are several runs: those of a tick, or more than anybody may take where all ids are one run.
    run_max: u64,
    /// The bits of a number that say where in its run it is.
    run_mask: u64,
    /// The width of a run; `run_max` numbers reach no further.
    run_width: u64,
    sequence_shift: u32,
    sequence_bits: u32,
    timestamp_shift: u32,
    /// The number right after the last tick.
    end: u64,
    spacing: Spacing,
}

/// The width of a run if all ids are one run: sums with a number fit in a `u64`.
const ENDLESS: u64 = 1 << 62;

impl Layout {
    pub fn numbering(&self, node: u64) -> Result<Numbering, NodeError> {
        self.check_node(node)?;
        let sequence = self.sequence.unwrap_or(Span { shift: self.timestamp.shift, bits: 0 });
        let (run_mask, run_width) = if self.is_contiguous() {
            (0, ENDLESS)
        } else {
            (mask(self.timestamp.shift), 1 << (sequence.shift + sequence.bits))
        };
        Ok(Numbering {
            base: self.constant | self.node.unwrap_or(Span::NONE).put(node),
            run_max: (run_width >> sequence.shift).min(RUN_MAX),
            run_mask,
            run_width,
            sequence_shift: sequence.shift,
            sequence_bits: sequence.bits,
            timestamp_shift: self.timestamp.shift,
            // The field fits in 63 bits.
            end: (self.timestamp.max() + 1) << self.timestamp.shift,
            spacing: self.spacing(),
        })
    }
}

impl Numbering {
    /// The end, which is above the last number.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn spacing(&self) -> Spacing {
        self.spacing
    }

    /// The first number of a tick; for a tick after the last one, the end.
    pub fn first_of(&self, tick: u64) -> u64 {
        if tick > self.last_tick() { self.end } else { tick << self.timestamp_shift }
    }

    fn last_tick(&self) -> u64 {
        self.tick_of(self.end - 1)
    }

    pub fn tick_of(&self, number: u64) -> u64 {
        number >> self.timestamp_shift
    }

    /// The first tick that begins at or above a number.
    pub fn tick_from(&self, number: u64) -> u64 {
        self.tick_of(number.saturating_add(mask(self.timestamp_shift)))
    }

    /// The number of ticks that so many ids fill.
    pub fn ticks_of(&self, ids: u64) -> u64 {
        ids.div_ceil(1 << self.sequence_bits)
    }

    /// The width of `count` numbers of one run. `count` is at most a run's.
    #[inline]
    fn width(&self, count: u64) -> u64 {
        debug_assert!(count <= self.run_max);
        count.wrapping_shl(self.sequence_shift)
    }

    /// The number of a tick whose sequence begins at `sequence`.
    pub fn start_of(&self, tick: u64, sequence: u64) -> u64 {
        self.first_of(tick).saturating_add(self.width(sequence))
    }

    /// The end of `count` numbers from `first` on, if they are one run. It may be the end of a tick, where no number is.
    #[inline]
    pub fn run_end(&self, first: u64, count: NonZeroU64) -> Option<u64> {
        if count.get() > self.run_max {
            return None;
        }
        // Neither a number nor an endless run is above 2^63.
        let end = first + self.width(count.get());
        // If ticks are apart, at least one bit of the node or of another field lies between sequence and timestamp: so
        // two runs' width, less one, does not wrap.
        ((end - 1) & self.run_mask < self.run_width).then_some(end)
    }

    /// The first of `count` numbers that are to be taken from `from` on, and their end. They start in the next tick
    /// if the rest of this one is too short for them. `None`: so many are not left.
    #[inline]
    pub fn place(&self, from: u64, count: NonZeroU64) -> Option<(u64, u64)> {
        let (first, end) = if let Some(end) = self.run_end(from, count) {
            (from, end)
        } else {
            let (per_tick, tick, count) = (1 << self.sequence_bits, 1 << self.timestamp_shift, count.get());
            let first = self.tick_from(from).checked_mul(tick)?;
            let ticks = (count / per_tick).checked_mul(tick)?;
            (first, first.checked_add(ticks)?.checked_add(self.width(count % per_tick))?)
        };
        (end <= self.end).then_some((first, end))
    }

    /// The id of a number before the end.
    #[inline]
    pub fn id(&self, number: u64) -> u64 {
        debug_assert!(number < self.end);
        self.base | number
    }

    /// The last id of a tick; for a tick after the last one, the last of all.
    pub fn last_id_of(&self, tick: u64) -> u64 {
        self.id(self.start_of(tick.min(self.last_tick()), mask(self.sequence_bits)))
    }

    pub fn last_id(&self) -> u64 {
        self.last_id_of(self.last_tick())
    }

    /// The first tick all of whose ids are above `id`; `None`: there is none.
    pub fn tick_above(&self, id: u64) -> Option<u64> {
        let (mut low, mut high) = (0, self.last_tick() + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.id(self.first_of(middle)) > id { high = middle } else { low = middle + 1 }
        }
        Some(low).filter(|tick| *tick <= self.last_tick())
    }
}

#[cfg(test)]
mod tests {
    use super::super::presets::{PRESETS, Preset};
    use super::{Layout, Numbering};
    use crate::ids::block::n;
    use proptest::prelude::*;

    fn numbering(preset: &str) -> Numbering {
        Preset::find(preset).unwrap().layout().numbering(0).unwrap()
    }

    #[test]
    fn where_a_run_starts() {
        let check = |preset: &str, from: u64, count: u64, expect: Option<(u64, u64)>| {
            assert_eq!(numbering(preset).place(from, n(count)), expect, "{preset} {from} {count}");
        };
        let tick = 1 << 22;
        check("snowflake", 0, 4096, Some((0, 4096)));
        check("snowflake", 1, 4095, Some((1, 4096)));
        check("snowflake", 1, 4096, Some((tick, 2 * tick)));
        check("snowflake", 4095, 1, Some((4095, 4096)));
        check("snowflake", 4095, 2, Some((tick, tick + 2)));
        check("snowflake", 4096, 1, Some((tick, tick + 1)));
        // More than a tick holds: from its beginning, so that there are as few runs as can be.
        check("snowflake", tick, 10_000, Some((tick, 3 * tick + 1808)));
        check("snowflake", tick + 1, 8192, Some((2 * tick, 4 * tick)));
        check("snowflake", (1 << 63) - tick, 4096, Some(((1 << 63) - tick, (1 << 63) - tick + 4096)));
        check("snowflake", (1 << 63) - tick + 1, 4096, None);
        check("snowflake", 1 << 63, 1, None);
        check("snowflake", 0, u64::MAX, None);
        // One bit lies between.
        let narrow: Layout =
            "timestamp 41 << 11, node 1 << 10, sequence 10 << 0, epoch 2020-01-01T00:00:00Z, tick 1000 us"
                .parse()
                .unwrap();
        let narrow = narrow.numbering(0).unwrap();
        assert_eq!(narrow.place(0, n(1024)), Some((0, 1024)));
        assert_eq!(narrow.run_end(1024, n(1)), None);
        assert_eq!(narrow.run_end(1024, n(1024)), None);
        assert_eq!(narrow.place(1024, n(1024)), Some((2048, 4096)));
        check("pd-tso", 262_143, 9, Some((262_143, 262_152)));
        check("pd-tso", 0, u64::MAX, None);
        // The sequence lies above 16 bits of node.
        check("sonyflake", 255 << 16, 9, Some((255 << 16, 264 << 16)));
        check("cockroach", 7 << 15, 9, Some((7 << 15, 16 << 15)));
    }

    proptest! {
        /// Ids ascend with their numbers, are those of the layout, and a run has its step.
        #[test]
        fn numbers_are_ids(which in 0..PRESETS.len(), tick: u64, sequence: u64, count in 1u64..100_000, node: u64) {
            let layout = PRESETS[which].layout();
            let node = (0..64).map(|bits| node >> bits).find(|node| layout.check_node(*node).is_ok()).unwrap_or(0);
            let numbering = layout.numbering(node).unwrap();
            let (tick, sequence) = (tick % layout.last_tick(), sequence % layout.per_tick());
            let number = numbering.start_of(tick, sequence);
            let id = numbering.id(number);
            prop_assert_eq!(Some(id), layout.compose(tick, node, sequence));
            prop_assert_eq!(numbering.tick_of(number), tick);
            prop_assert_eq!(numbering.tick_from(number), tick + u64::from(sequence > 0));
            prop_assert_eq!(numbering.tick_above(id), Some(tick + 1));
            prop_assert_eq!(numbering.tick_above(numbering.id(numbering.first_of(tick)) - 1), Some(tick));
            prop_assert_eq!(Some(numbering.last_id_of(tick)), layout.compose(tick, node, layout.per_tick().get() - 1));
            prop_assert_eq!(numbering.ticks_of(count), count.div_ceil(layout.per_tick().get()));
            // The number that follows is the next id, and `count` ids lie where they do if they are composed one by one.
            let (first, end) = numbering.place(number, n(count)).unwrap();
            let ids: Vec<_> = (0..count).map(|k| numbering.id(first) + numbering.spacing().offset(k).unwrap()).collect();
            let last = numbering.tick_of(first);
            prop_assert!(first >= number && (first == number || last == tick + 1));
            let first_sequence = (first - numbering.first_of(last)) / numbering.start_of(0, 1).max(1);
            for (k, id) in (0..count).zip(&ids).skip(usize::try_from(count.saturating_sub(9)).unwrap()) {
                let nth = first_sequence + k;
                let per_tick = layout.per_tick().get();
                prop_assert_eq!(Some(*id), layout.compose(last + nth / per_tick, node, nth % per_tick));
            }
            let (next, _) = numbering.place(end, n(1)).unwrap();
            prop_assert!(numbering.id(next) > *ids.last().unwrap());
            prop_assert_eq!(numbering.run_end(number, n(count)).is_some(), first == number && count <= numbering.run_max);
        }
    }

    #[test]
    fn the_ends() {
        for preset in PRESETS {
            let layout = preset.layout();
            let numbering = layout.numbering(0).unwrap();
            assert_eq!(numbering.first_of(u64::MAX), numbering.end());
            assert_eq!(numbering.tick_of(numbering.end() - 1), layout.last_tick());
            let last = numbering.last_id();
            assert_eq!(Some(last), layout.compose(layout.last_tick(), 0, layout.per_tick().get() - 1));
            assert_eq!(numbering.last_id_of(u64::MAX), last);
            assert!(last <= i64::MAX.unsigned_abs());
            assert_eq!(numbering.tick_above(last), None);
            assert_eq!(numbering.tick_above(u64::MAX), None);
        }
    }
}
