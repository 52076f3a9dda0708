//! The ids taken from each generator, whatever version of the rules is active; and whether an
//! operator has stopped it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::ids::TakeError;
use crate::meter::{Counter, Timing};
use crate::rules::model::GeneratorName;
use crate::table_name::TableName;
use crate::table_use::TableUse;

/// Why requests got no ids, in a word for each.
const REFUSED: [&str; 8] = ["store", "exhausted", "ahead", "clock", "too_many", "paused", "closed", "locks"];

/// The number of tables that are counted apart: an application that makes tables under ever new names must not fill the
/// memory.
const TABLES_MAX: usize = 10_000;

/// The name under which all further tables are counted.
const OTHERS: &str = "(others)";

/// The least time between two lines of the log about colliding ids.
const COLLISION_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct TakenIds {
    by_generator: ArcSwap<BTreeMap<GeneratorName, Arc<OfGenerator>>>,
    /// By table: those that statements have named, [`TABLES_MAX`] of them.
    by_table: Mutex<BTreeMap<TableName, Arc<TableUse>>>,
    /// The waits of requests that were not served at once.
    pub waited: Timing,
}

#[derive(Debug, Default)]
pub struct OfGenerator {
    ids: Counter,
    /// Requests that got no ids, by why, in the order of [`REFUSED`].
    refused: [AtomicU64; REFUSED.len()],
    is_paused: AtomicBool,
    /// The highest id that was given away at a door; 0: none was.
    last_at_door: AtomicU64,
    /// Ids that were in their table already.
    collisions: AtomicU64,
    /// When a collision was logged last.
    collision_told: Mutex<Option<Instant>>,
    /// Statements whose rows the server numbers itself.
    native: AtomicU64,
    /// The generator had no ids, and the rule has the server number rows meanwhile: nobody waits for it until it was
    /// raised above them.
    is_away: AtomicBool,
    failing: Failing,
}

/// A time without ids: since when, and how many requests got none.
#[derive(Debug, Default)]
struct Failing {
    /// True if `since` is set. Each request reads this, and so takes no lock.
    is_on: AtomicBool,
    since: Mutex<Option<(Instant, u64)>>,
}

impl Failing {
    /// Counts a request that got no ids. True if it is the first.
    fn add(&self) -> bool {
        let mut since = self.since.lock();
        self.is_on.store(true, Ordering::Relaxed);
        let is_first = since.is_none();
        since.get_or_insert_with(|| (Instant::now(), 0)).1 += 1;
        is_first
    }

    /// Ends the time without ids. Returns how long it was, and how many requests got none; `None`: there was none.
    fn end(&self) -> Option<(Duration, u64)> {
        if !self.is_on.swap(false, Ordering::Relaxed) {
            return None;
        }
        let since = self.since.lock().take();
        since.map(|(since, count)| (since.elapsed(), count))
    }
}

impl TakenIds {
    pub fn of(&self, name: &GeneratorName) -> Arc<OfGenerator> {
        if let Some(found) = self.by_generator.load().get(name) {
            return Arc::clone(found);
        }
        self.know([name]);
        self.by_generator.load().get(name).cloned().unwrap_or_default()
    }

    /// Has counts for all of these from here on. The map is copied once, not once for each.
    pub fn know<'a>(&self, names: impl IntoIterator<Item = &'a GeneratorName>) {
        let known = self.by_generator.load();
        let new: Vec<_> = names.into_iter().filter(|name| !known.contains_key(*name)).collect();
        if new.is_empty() {
            return;
        }
        self.by_generator.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            for name in &new {
                all.entry(GeneratorName::clone(name)).or_default();
            }
            all
        });
    }

    /// Forgets generators that are closed for good, unless an operator has stopped them.
    pub(super) fn forget(&self, names: &[&GeneratorName]) {
        self.by_generator.rcu(|all| {
            let mut all = BTreeMap::clone(all);
            for name in names {
                if all.get(name).is_some_and(|of| !of.is_paused()) {
                    all.remove(name);
                }
            }
            all
        });
    }

    /// The counts of a table, and the state of the looks at it.
    pub fn usage_of(&self, schema: &str, table: &str) -> Arc<TableUse> {
        let mut tables = self.by_table.lock();
        let name = TableName::new(schema, table);
        if tables.len() >= TABLES_MAX && !tables.contains_key(&name) {
            let others = tables.entry(TableName::new(OTHERS, OTHERS)).or_default();
            return Arc::new(others.of_another());
        }
        Arc::clone(tables.entry(name).or_default())
    }

    pub fn tables_used(&self) -> Vec<(TableName, Arc<TableUse>)> {
        let tables = self.by_table.lock();
        let used = tables.iter().filter(|(_, usage)| usage.get().0 > 0);
        used.map(|(name, usage)| (name.clone(), Arc::clone(usage))).collect()
    }

    /// The ids that `take` takes without a wait. `None` also while the generator is paused, or is not known yet.
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
    pub(super) fn note(&self, name: &GeneratorName, ids: u64) {
        self.ids.add(ids);
        // A load; the rest is for once an outage.
        if self.failing.is_on.load(Ordering::Relaxed)
            && let Some((lasted, requests)) = self.failing.end()
        {
            let lasted = format!("{lasted:.1?}");
            tracing::info!(generator = %name, requests, lasted, "the generator gives ids again; the fields say how many requests got none, and for how long");
        }
    }

    pub(super) fn note_refused(&self, name: &GeneratorName, error: &TakeError) {
        // The others are about one statement, or a moment of a change.
        let is_lasting = !matches!(
            error,
            TakeError::TooMany { .. } | TakeError::Closed { .. } | TakeError::Successor { .. }
        );
        if is_lasting && self.failing.add() {
            tracing::warn!(
                generator = %name,
                %error,
                "the generator gives no ids: INSERTs into its tables fail with 1467, or the server numbers their rows if the rule says so; doors give none"
            );
        }
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

    /// Counts a collision. True if the log should have a line about it: once in [`COLLISION_PAUSE`].
    pub(super) fn note_collision(&self) -> bool {
        self.collisions.fetch_add(1, Ordering::Relaxed);
        let mut told = self.collision_told.lock();
        let is_due = told.is_none_or(|told| told.elapsed() >= COLLISION_PAUSE);
        if is_due {
            *told = Some(Instant::now());
        }
        is_due
    }

    pub(super) fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    pub(super) fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(super) fn note_native(&self) {
        self.native.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements that went on without its ids: the server numbered their rows.
    pub fn native(&self) -> u64 {
        self.native.load(Ordering::Relaxed)
    }

    /// INSERTs that the server answered with 1062 because of an id of the generator's, those that were sent again included.
    pub fn collisions(&self) -> u64 {
        self.collisions.load(Ordering::Relaxed)
    }

    pub(crate) fn note_at_door(&self, last: u64) {
        self.last_at_door.fetch_max(last, Ordering::Relaxed);
    }

    /// The highest id that this process has given away at a door.
    pub(crate) fn last_at_door(&self) -> Option<u64> {
        Some(self.last_at_door.load(Ordering::Relaxed)).filter(|&last| last > 0)
    }

    /// Ids taken since this process began.
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

    /// Stops the generator, or ends that. True if that changes anything.
    pub fn pause(&self, is_paused: bool) -> bool {
        self.is_paused.swap(is_paused, Ordering::Relaxed) != is_paused
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{Failing, OTHERS, TABLES_MAX, TakenIds};
    use crate::ids::TakeError;
    use crate::rules::model::GeneratorName;

    #[test]
    fn an_outage_begins_and_ends_once() {
        let failing = Failing::default();
        assert!(failing.end().is_none(), "nothing has failed");
        assert!(failing.add() && !failing.add() && !failing.add());
        assert_eq!(failing.end().map(|(_, count)| count), Some(3));
        assert!(failing.end().is_none() && failing.add());
    }

    #[test]
    fn tables_under_ever_new_names_are_counted_as_one() {
        let taken = TakenIds::default();
        for n in 0..TABLES_MAX + 5 {
            taken.usage_of("s", &format!("t{n}")).note(2);
        }
        taken.usage_of("s", "t7").note(2);
        let [one, other] = [TABLES_MAX, TABLES_MAX + 1].map(|n| taken.usage_of("s", &format!("t{n}")));
        one.looks.due.store(1, Ordering::Relaxed);
        assert_eq!(other.looks.due.load(Ordering::Relaxed), 0, "each is looked at for itself");
        let tables = taken.tables_used();
        assert_eq!(tables.len(), TABLES_MAX + 1);
        let count = |schema: &str, table: &str| {
            let of = tables.iter().find(|(name, _)| (&*name.schema, &*name.table) == (schema, table));
            of.map(|(_, usage)| usage.get())
        };
        assert_eq!((count("s", "t7"), count(OTHERS, OTHERS)), (Some((2, 4)), Some((5, 10))));
    }

    #[test]
    fn each_generator_has_its_own() {
        let taken = TakenIds::default();
        let [a, b] = ["a", "b"].map(|name| GeneratorName { schema: "s".into(), name: name.into() });
        taken.of(&a).note(&a, 3);
        taken.of(&a).note(&a, 4);
        taken.of(&b).note_refused(&b, &TakeError::NotOpen { generator: "s.b".into() });
        assert_eq!((taken.of(&a).ids(), taken.of(&b).ids()), (7, 0));
        let refused: Vec<_> = taken.of(&b).refused().filter(|(_, count)| *count > 0).collect();
        assert_eq!(refused, [("closed", 1)]);
        assert!(taken.of(&a).pause(true) && !taken.of(&a).pause(true) && taken.of(&a).is_paused());
        assert!(!taken.of(&b).is_paused() && taken.of(&a).pause(false));
        assert!(taken.of(&a).note_collision() && !taken.of(&a).note_collision());
        assert_eq!((taken.of(&a).collisions(), taken.of(&b).collisions()), (2, 0));
    }
}
