//! What is taken of each generator, whatever version of the rules is active; and whether an
//! operator has stopped it.

use std::array;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;

use crate::ids::TakeError;
use crate::meter::{Counter, Timing};
use crate::rules::model::GeneratorName;

/// Why requests got no ids, in a word for each.
const REFUSED: [&str; 8] = ["store", "exhausted", "ahead", "clock", "too_many", "paused", "closed", "locks"];

#[derive(Debug, Default)]
pub struct Taken {
    by_generator: ArcSwap<BTreeMap<GeneratorName, Arc<OfGenerator>>>,
    /// Of requests that were not served at once.
    pub waited: Timing,
}

#[derive(Debug)]
pub struct OfGenerator {
    ids: Counter,
    /// As [`REFUSED`] names them.
    refused: [AtomicU64; REFUSED.len()],
    is_paused: AtomicBool,
}

impl Default for OfGenerator {
    fn default() -> Self {
        let refused = array::from_fn(|_| AtomicU64::new(0));
        OfGenerator { ids: Counter::default(), refused, is_paused: AtomicBool::new(false) }
    }
}

impl Taken {
    pub fn of(&self, name: &GeneratorName) -> Arc<OfGenerator> {
        if let Some(found) = self.by_generator.load().get(name) {
            return Arc::clone(found);
        }
        self.by_generator.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            all.entry(name.clone()).or_default();
            all
        });
        self.by_generator.load().get(name).cloned().unwrap_or_default()
    }

    /// What `take` takes without a wait; nothing while the generator is paused, or not known yet.
    pub(super) fn at_once<T>(
        &self,
        name: &GeneratorName,
        take: impl FnOnce(&OfGenerator) -> Option<T>,
    ) -> Option<T> {
        let by_generator = self.by_generator.load();
        take(by_generator.get(name).filter(|of| !of.is_paused())?)
    }
}

impl OfGenerator {
    pub(super) fn note(&self, ids: u64) {
        self.ids.add(ids);
    }

    pub(super) fn note_refused(&self, error: &TakeError) {
        let nth = match error {
            TakeError::StoreAway { .. } => 0,
            TakeError::Exhausted { .. } | TakeError::EndOfLife { .. } | TakeError::NoneAbove { .. } => 1,
            TakeError::Ahead { .. } => 2,
            TakeError::Clock { .. } => 3,
            TakeError::TooMany { .. } => 4,
            TakeError::Paused { .. } => 5,
            TakeError::NotOpen { .. } | TakeError::Successor { .. } | TakeError::Closed { .. } => 6,
            TakeError::Unguarded { .. } => 7,
        };
        if let Some(count) = self.refused.get(nth) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Since this process began.
    pub fn ids(&self) -> u64 {
        self.ids.get()
    }

    /// Requests that got no ids, by why.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSED.into_iter().zip(&self.refused).map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Whether that changes anything.
    pub fn pause(&self, is_paused: bool) -> bool {
        self.is_paused.swap(is_paused, Ordering::Relaxed) != is_paused
    }
}

#[cfg(test)]
mod tests {
    use super::Taken;
    use crate::ids::TakeError;
    use crate::rules::model::GeneratorName;

    #[test]
    fn each_generator_has_its_own() {
        let taken = Taken::default();
        let [a, b] = ["a", "b"].map(|name| GeneratorName { schema: "s".into(), name: name.into() });
        taken.of(&a).note(3);
        taken.of(&a).note(4);
        taken.of(&b).note_refused(&TakeError::NotOpen { generator: "s.b".into() });
        assert_eq!((taken.of(&a).ids(), taken.of(&b).ids()), (7, 0));
        let refused: Vec<_> = taken.of(&b).refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(refused, [("closed", 1)]);
        assert!(taken.of(&a).pause(true) && !taken.of(&a).pause(true) && taken.of(&a).is_paused());
        assert!(!taken.of(&b).is_paused() && taken.of(&a).pause(false));
    }
}
