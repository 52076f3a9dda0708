//! The limit up to which a bound may be raised without a second word. A bound is not lowered while proxies run, so a typing
//! error ends a generator.

use std::fmt;

/// A raise to at most so many times what is in use is nobody's typing error.
const TIMES_MAX: u64 = 1_000;
/// Ids that count as in use at least: else each raise of a generator that has just begun, with none in use, would need a second word.
const IN_USE_MIN: u64 = 1_000;

/// The facts that are known of a generator that is to be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The generator's bound; 0: it is not made.
    pub bound: u64,
    /// The highest id in its tables, where that is known.
    pub highest: Option<u64>,
    /// The last id that it may issue.
    pub max: u64,
}

impl Reach {
    /// Why a raise to `to` needs a second word; `None`: it needs none.
    pub fn far(&self, to: u64) -> Option<Far> {
        let in_use = self.bound.max(self.highest.unwrap_or(0)).max(IN_USE_MIN);
        (to > self.bound && (to > in_use.saturating_mul(TIMES_MAX) || to > self.max / 2))
            .then_some(Far { reach: *self, to })
    }
}

/// A raise that takes up most of what a generator has, or much more than it ever used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Far {
    reach: Reach,
    to: u64,
}

impl fmt::Display for Far {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Far { reach: Reach { bound, highest, max }, to } = self;
        write!(f, "{to} is far above its bound, {bound}, and ")?;
        match highest {
            Some(highest) => write!(f, "the highest id in its tables, {highest}")?,
            None => write!(f, "the ids in its tables are not known")?,
        }
        let left = (max + 1).saturating_sub(*to);
        write!(
            f,
            "; of its ids up to the last, {max}, {left} would be left, and a bound cannot be lowered while proxies run"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Reach;

    #[test]
    fn what_needs_a_second_word() {
        let max = i64::MAX.unsigned_abs();
        for ((bound, highest, max), to, expect) in [
            ((0, None, max), 1_000_000, false),
            ((0, None, max), 1_000_001, true),
            ((0, Some(70_000), max), 70_000_000, false),
            ((0, Some(70_000), max), 70_000_001, true),
            ((70_000, Some(7), max), 70_000_000, false),
            ((70_000, None, max), max + 1, true),
            // The bound stands there already.
            ((max + 1, None, max), max + 1, false),
            // Half of an INT's.
            ((1 << 30, None, 2_147_483_647), 1 << 30, false),
            ((1 << 29, None, 2_147_483_647), (1 << 30) - 1, false),
            ((1 << 29, None, 2_147_483_647), 1 << 30, true),
        ] {
            let reach = Reach { bound, highest, max };
            assert_eq!(reach.far(to).is_some(), expect, "{reach:?} to {to}");
        }
        let said = Reach { bound: 5_001, highest: Some(5_000), max: 9_000 }.far(9_000).unwrap().to_string();
        assert!(
            said.contains("5001") && said.contains("5000") && said.contains(", 1 would be left"),
            "{said}"
        );
    }
}
