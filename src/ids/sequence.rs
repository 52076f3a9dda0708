//! The monotonic sequence as a rule describes it.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::slots::ID_MAX;

/// The number of ids that a store write reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// The demand of 10 minutes: 1,000 to 10,000,000 ids.
    Auto,
    Fixed(NonZeroU64),
}

/// The start of a sequence that is not yet in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seed {
    /// Above max(MAX(id), AUTO_INCREMENT counter) of its tables.
    Tables,
    /// At `start`.
    None,
}

/// A sequence as its rule describes it: ids `id >= start` with `id % step == offset % step`.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceSpec {
    pub start: u64,
    pub step: NonZeroU64,
    pub offset: u64,
    pub batch: Batch,
    /// Share of one batch, above 0 and at most 1: when so much is left, the next batch is reserved.
    pub low_water: f64,
    /// The last id that may be issued; `None`: what the columns hold.
    pub max: Option<u64>,
    pub seed: Seed,
}

impl Default for SequenceSpec {
    /// The defaults of a generator whose keys are left out (docs/rules.md).
    fn default() -> Self {
        SequenceSpec {
            start: 1,
            step: NonZeroU64::MIN,
            offset: 0,
            batch: Batch::Auto,
            low_water: 0.5,
            max: None,
            seed: Seed::Tables,
        }
    }
}

impl SequenceSpec {
    /// The last id that may be issued into columns that hold up to `column_max`.
    pub fn last_id(&self, column_max: u64) -> u64 {
        self.max.unwrap_or(column_max).min(column_max).min(ID_MAX)
    }

    /// True if `other` may issue all numbers that this sequence may issue, by step and offset.
    pub fn is_within(&self, other: &SequenceSpec) -> bool {
        let step = other.step.get();
        self.step.get().is_multiple_of(step) && self.offset % step == other.offset % step
    }
}

#[cfg(test)]
mod tests {
    use super::SequenceSpec;
    use std::num::NonZeroU64;

    #[test]
    fn residue_classes_within_others() {
        let spec = |(step, offset)| SequenceSpec {
            step: NonZeroU64::new(step).unwrap(),
            offset,
            ..SequenceSpec::default()
        };
        for (new, old, expect) in [
            ((1, 0), (1, 0), true),
            ((1, 5), (1, 0), true),
            ((2, 0), (1, 0), true),
            ((10, 3), (1, 0), true),
            ((4, 2), (2, 0), true),
            ((4, 1), (2, 3), true),
            ((1, 0), (2, 0), false),
            ((2, 1), (2, 0), false),
            ((4, 1), (2, 0), false),
            ((3, 0), (2, 0), false),
        ] {
            assert_eq!(spec(new).is_within(&spec(old)), expect, "{new:?} in {old:?}");
        }
    }
}
