//! Tables assigned to generators in the store: while rules change from one generator to another, two must not issue for
//! one table.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Map;

use super::fence::{issued_below, raise_bound};
use super::nodes::living;
use super::slots::ID_MAX;
use crate::ids::fence::moves::Moves;
use crate::store::record::{change, decode, encode};
use crate::store::{
    BindingRecord, CREATED_AT_ONCE_MAX, FORMAT, Json, Key, Outcome, Revision, Store, StoreError, Versioned,
};

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 16;

/// The result of an assignment: what the generator must be above before it issues for the table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the generator's ids must be above the floor before it issues for the table"]
pub struct Assigned {
    /// Ids must be above it: give it to [`super::Sequence::open`], or to `raise_floor` if the generator is open.
    pub floor: u64,
    /// The generator that issued for the table before, if it was another.
    pub moved_from: Option<String>,
    /// The changes that this made in the old generator's records. A process that has that generator open continues by them.
    pub moves: Moves,
}

/// Assigns `schema.table` to the generator `schema.name`. `floor_of_table`: max(MAX(id), AUTO_INCREMENT counter) of the
/// table. Where it was assigned to another generator, the new one's bound is first raised to the other's; that of a timestamp
/// generator (`is_sequence` is false) is no id: what it must stay above stands in the binding alone.
///
/// A proxy that has the old rules goes on issuing from the old generator, and raises its bound past that: so a table moves
/// only while no other proxy lives.
pub async fn assign(
    store: &Arc<dyn Store>,
    table: &str,
    generator: &str,
    is_sequence: bool,
    owner: &str,
    floor_of_table: u64,
) -> Result<Assigned, StoreError> {
    let key = Key::binding(table);
    let to = To { store, generator, is_sequence, owner, key: &key };
    let mut last_error = None;
    let mut assigned = Assigned { floor: floor_of_table, moved_from: None, moves: Moves::default() };
    for _ in 0..ATTEMPTS_MAX {
        let found = store.load(&key).await?;
        let (expected, old) = match &found {
            Some(found) => (Some(found.revision), Some(decode::<BindingRecord>(&key, &found.value)?)),
            None => (None, None),
        };
        if let Some(old) = &old {
            if old.generator == generator {
                if !is_sequence {
                    assigned.floor = assigned.floor.max(old.floor);
                }
                return to.settled(assigned).await;
            }
            alone(&**store, table, &old.generator, owner).await?;
            // Proxies that were away reserve there no more. The old one may have issued all below its bound.
            assigned.moves =
                std::mem::take(&mut assigned.moves).then(Moves::count(&**store, &old.generator).await?);
            assigned.floor =
                assigned.floor.max(issued_below(&**store, &old.generator).await?.saturating_sub(1));
            assigned.moved_from = Some(old.generator.clone());
            to.raise(assigned.floor).await?;
        }
        match write(&**store, &key, expected, old, generator, assigned.floor).await {
            Ok(true) => return to.settled(assigned).await,
            Ok(false) => {}
            Err(error @ StoreError::UnknownOutcome { .. }) => last_error = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last_error.unwrap_or_else(|| too_often(&key)))
}

/// A table to be assigned, as [`assign`] takes it.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub table: &'a str,
    pub generator: &'a str,
    pub is_sequence: bool,
    pub floor_of_table: u64,
}

/// The bindings that stand, read at one moment. They stay true while this process runs, but for what it changes itself:
/// a table moves only while no other proxy lives.
#[derive(Debug, Default)]
pub struct Standing(HashMap<Key, BindingRecord>);

impl Standing {
    pub async fn read(store: &dyn Store) -> Result<Standing, StoreError> {
        let found = store.list(Key::BINDINGS).await?;
        let read = |(key, found): (Key, Versioned<Json>)| Ok((key.clone(), decode(&key, &found.value)?));
        Ok(Standing(found.into_iter().map(read).collect::<Result<_, StoreError>>()?))
    }
}

/// [`assign`] of many tables, for those where nothing is to be settled: assigned to this generator already, or to none. `None`
/// for the others, and where the store did not say what it wrote: these are assigned alone.
pub async fn assign_plain(
    store: &dyn Store,
    wanted: &[Wanted<'_>],
    standing: &Standing,
) -> Result<Vec<Option<Assigned>>, StoreError> {
    let plain = |floor: u64| Some(Assigned { floor, moved_from: None, moves: Moves::default() });
    let mut assigned = vec![None; wanted.len()];
    let mut new = Vec::new();
    for (nth, (one, assigned)) in wanted.iter().zip(&mut assigned).enumerate() {
        match standing.0.get(&Key::binding(one.table)) {
            Some(old) if old.generator == one.generator => {
                let floor = if one.is_sequence { 0 } else { old.floor };
                *assigned = plain(one.floor_of_table.max(floor));
            }
            Some(_) => {}
            None => new.push((nth, one)),
        }
    }
    for new in new.chunks(CREATED_AT_ONCE_MAX) {
        let records: Vec<(Key, Json)> = new.iter().map(|(_, one)| record_of(one)).collect();
        let written = match store.create_all(&records).await {
            Ok(written) => written,
            Err(StoreError::UnknownOutcome { .. }) => vec![false; records.len()],
            Err(error) => return Err(error),
        };
        for ((nth, one), _) in new.iter().zip(written).filter(|(_, written)| *written) {
            if let Some(assigned) = assigned.get_mut(*nth) {
                *assigned = plain(one.floor_of_table);
            }
        }
    }
    Ok(assigned)
}

fn record_of(one: &Wanted<'_>) -> (Key, Json) {
    let (generator, floor) = (one.generator.to_owned(), one.floor_of_table);
    let record = BindingRecord { v: FORMAT, generator, floor, unknown: Map::new() };
    (Key::binding(one.table), encode(&record))
}

fn too_often(key: &Key) -> StoreError {
    StoreError::Contended { record: key.to_string(), attempts: ATTEMPTS_MAX }
}

async fn alone(store: &dyn Store, table: &str, generator: &str, owner: &str) -> Result<(), StoreError> {
    let others: Vec<_> = living(store).await?.into_iter().filter(|name| name != owner).collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(StoreError::Shared {
        table: table.to_owned(),
        generator: generator.to_owned(),
        others: others.join(", "),
    })
}

/// The generator that a table is assigned to.
#[derive(Clone, Copy)]
struct To<'a> {
    store: &'a Arc<dyn Store>,
    generator: &'a str,
    is_sequence: bool,
    owner: &'a str,
    key: &'a Key,
}

impl To<'_> {
    async fn raise(self, floor: u64) -> Result<(), StoreError> {
        if self.is_sequence {
            raise_bound(Arc::clone(self.store), self.generator, self.owner, floor.min(ID_MAX) + 1).await?;
        }
        Ok(())
    }

    /// Until the binding changed, other proxies could still open the old generator: its bound counts once more.
    async fn settled(self, mut assigned: Assigned) -> Result<Assigned, StoreError> {
        let Some(old) = &assigned.moved_from else { return Ok(assigned) };
        assigned.moves = std::mem::take(&mut assigned.moves).then(Moves::count(&**self.store, old).await?);
        let issued_below = issued_below(&**self.store, old).await?;
        if issued_below > assigned.floor.saturating_add(1) {
            assigned.floor = issued_below - 1;
            self.raise(assigned.floor).await?;
            self.note_floor(assigned.floor).await?;
        }
        Ok(assigned)
    }

    async fn note_floor(self, floor: u64) -> Result<(), StoreError> {
        let noted = change(&**self.store, self.key, |record: Option<BindingRecord>| match record {
            // The process that assigns the table to another generator asks for the bounds itself.
            Some(record) if record.floor >= floor || record.generator != self.generator => None,
            // A record that somebody has removed is made again: the floor is known here alone.
            record => Some(assigned_to(record, self.generator, floor)),
        });
        noted.await.map(drop)
    }
}

fn assigned_to(old: Option<BindingRecord>, generator: &str, floor: u64) -> BindingRecord {
    let unknown = old.map_or_else(Map::new, |old| old.unknown);
    BindingRecord { v: FORMAT, generator: generator.to_owned(), floor, unknown }
}

async fn write(
    store: &dyn Store,
    key: &Key,
    expected: Option<Revision>,
    old: Option<BindingRecord>,
    generator: &str,
    floor: u64,
) -> Result<bool, StoreError> {
    let record = assigned_to(old, generator, floor);
    Ok(matches!(store.compare_and_set(key, expected, &encode(&record)).await?, Outcome::Written(_)))
}

#[cfg(test)]
mod tests {
    use super::{Assigned, Standing, Wanted, assign, assign_plain};
    use crate::ids::fence::{bound_of, raise_bound};
    use crate::ids::layout::presets::Preset;
    use crate::ids::nodes::Node;
    use crate::ids::timestamp::clock::SystemClock;
    use crate::ids::timestamp::{Timestamp, TimestampSpec};
    use crate::store::memory::{Faults, MemoryStore, Moment};
    use crate::store::{BindingRecord, GeneratorRecord, Key, Store, StoreError, record};
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    async fn stands(store: &Arc<dyn Store>, table: &str) -> BindingRecord {
        let key = Key::binding(table);
        record::decode(&key, &store.load(&key).await.unwrap().unwrap().value).unwrap()
    }

    /// The floor, and the generator that issued for the table before.
    fn told(assigned: &Assigned) -> (u64, Option<&str>) {
        (assigned.floor, assigned.moved_from.as_deref())
    }

    #[tokio::test]
    async fn a_new_generator_starts_above_all_that_the_old_one_may_have_issued() {
        let memory = Arc::new(MemoryStore::new());
        let store: Arc<dyn Store> = memory.clone();
        let assigned = assign(&store, "shop.orders", "shop.a", true, "p1", 70).await.unwrap();
        assert_eq!(told(&assigned), (70, None));
        raise_bound(store.clone(), "shop.a", "p1", 5_000).await.unwrap();
        let writes = memory.writes();
        let assigned = assign(&store, "shop.orders", "shop.a", true, "p2", 90).await.unwrap();
        assert_eq!(told(&assigned), (90, None));
        assert_eq!(memory.writes(), writes, "assigned already");

        let assigned = assign(&store, "shop.orders", "shop.b", true, "p1", 90).await.unwrap();
        assert_eq!(told(&assigned), (4_999, Some("shop.a")));
        assert_eq!(bound_of(&*store, "shop.b").await.unwrap(), 5_000);
        assert_eq!(stands(&store, "shop.orders").await.generator, "shop.b");

        // Back again: the first generator must not repeat what the second issued.
        raise_bound(store.clone(), "shop.b", "p1", 8_000).await.unwrap();
        let assigned = assign(&store, "shop.orders", "shop.a", true, "p1", 90).await.unwrap();
        assert_eq!(assigned.floor, 7_999);
        assert_eq!(bound_of(&*store, "shop.a").await.unwrap(), 8_000);
    }

    #[tokio::test]
    async fn many_are_bound_at_once_and_what_is_not_plain_alone() {
        let memory = Arc::new(MemoryStore::new());
        let store: Arc<dyn Store> = memory.clone();
        for (table, generator, is_sequence) in
            [("s.here", "s.a", true), ("s.else", "s.b", true), ("s.time", "s.t", false)]
        {
            let _ = assign(&store, table, generator, is_sequence, "p1", 40).await.unwrap();
        }
        let standing = Standing::read(&*store).await.unwrap();
        let _ = assign(&store, "s.late", "s.b", true, "p2", 5).await.unwrap();
        let wanted = [
            ("s.here", "s.a", true),
            ("s.else", "s.a", true),
            ("s.new", "s.a", true),
            ("s.late", "s.a", true),
            ("s.time", "s.t", false),
        ];
        let wanted = wanted.map(|(table, generator, is_sequence)| Wanted {
            table,
            generator,
            is_sequence,
            floor_of_table: 9,
        });
        let floors = async |memory: &MemoryStore| {
            let assigned = assign_plain(memory, &wanted, &standing).await.unwrap();
            assigned
                .iter()
                .map(|assigned| assigned.as_ref().map(|assigned| assigned.floor))
                .collect::<Vec<_>>()
        };
        // A timestamp generator's floor stands in the binding alone.
        assert_eq!(floors(&memory).await, [Some(9), None, Some(9), None, Some(40)]);
        let of = async |table| stands(&store, table).await.generator;
        assert_eq!(
            (of("s.new").await, of("s.else").await, of("s.late").await),
            ("s.a".into(), "s.b".into(), "s.b".into())
        );
        // If the store does not say what it wrote, each table is assigned alone.
        let silent = MemoryStore::with_faults(1, Faults { lost_reply: 1000, ..Faults::default() });
        assert_eq!(floors(&silent).await, [Some(9), None, None, None, Some(40)]);
    }

    #[tokio::test]
    async fn between_a_sequence_and_timestamps() {
        let memory = Arc::new(MemoryStore::new());
        let store: Arc<dyn Store> = memory.clone();
        let _ = assign(&store, "shop.orders", "shop.a", true, "p1", 70).await.unwrap();
        raise_bound(store.clone(), "shop.a", "p1", 5_000).await.unwrap();
        let assigned = assign(&store, "shop.orders", "shop.times", false, "p1", 90).await.unwrap();
        assert_eq!(told(&assigned), (4_999, Some("shop.a")));
        assert!(memory.peek(&Key::generator("shop.times")).is_none(), "an id is no tick");
        // A proxy that assigns the table later must stay above the floor too.
        let again = assign(&store, "shop.orders", "shop.times", false, "p2", 90).await.unwrap();
        assert_eq!(told(&again), (4_999, None));

        let layout = Preset::find("snowflake").unwrap().layout();
        let clock = Arc::new(SystemClock::new());
        for node in [2, 3] {
            let spec = TimestampSpec {
                layout: layout.clone(),
                node: Node::Fixed(node),
                advance: Duration::from_mins(1),
                max_ahead: None,
                max_forward: Duration::from_hours(1),
            };
            let opened =
                Timestamp::open(store.clone(), "shop.times", "p1", spec, 0, clock.clone()).await.unwrap();
            let _ = opened.take(NonZeroU64::MIN, Duration::from_secs(1)).await.unwrap();
        }
        let key = Key::slot("shop.times", 3);
        let slot: GeneratorRecord = record::decode(&key, &memory.peek(&key).unwrap()).unwrap();
        let last = layout.compose(slot.bound - 1, 3, 4095).unwrap();
        let assigned = assign(&store, "shop.orders", "shop.b", true, "p1", 90).await.unwrap();
        assert!(assigned.floor >= last && assigned.floor - last < 100 << 22, "{assigned:?} {last}");
        assert_eq!(bound_of(&*store, "shop.b").await.unwrap(), assigned.floor + 1);
    }

    #[tokio::test]
    async fn a_table_does_not_move_while_another_proxy_lives() {
        let memory = Arc::new(MemoryStore::new());
        let store: Arc<dyn Store> = memory.clone();
        let _ = assign(&store, "shop.orders", "shop.a", true, "p1", 70).await.unwrap();
        for name in ["p1", "p2"] {
            memory.poke(&Key::proxy(name), b"{}");
        }
        let _ = assign(&store, "shop.orders", "shop.a", true, "p2", 70).await.unwrap();
        let refused = assign(&store, "shop.orders", "shop.b", true, "p1", 70).await.unwrap_err();
        assert!(matches!(&refused, StoreError::Shared { others, .. } if others == "p2"), "{refused}");
        assert_eq!(stands(&store, "shop.orders").await.generator, "shop.a");
    }

    /// `old_is_raised_to`: before the write of a binding; `is_last`: after it nobody answers any more.
    async fn meddled(old_is_raised_to: Option<u64>, is_last: bool) -> (Arc<MemoryStore>, Arc<dyn Store>) {
        let store = Arc::new(MemoryStore::with_hook(move |store, moment, key| {
            let is_binding = key.as_str().starts_with(Key::BINDINGS);
            let old = Key::generator("shop.a");
            match moment {
                Moment::BeforeWrite if is_binding => {
                    if let (Some(bound), Some(found)) = (old_is_raised_to, store.peek(&old)) {
                        let found: GeneratorRecord = record::decode(&old, &found).unwrap();
                        store.poke(&old, &record::encode(&GeneratorRecord { bound, ..found }));
                    }
                }
                Moment::AfterWrite if is_binding && is_last => store.set_away(true),
                _ => {}
            }
        }));
        let shared: Arc<dyn Store> = store.clone();
        store.poke(&Key::binding("shop.orders"), br#"{"v":1,"generator":"shop.a","floor":0}"#);
        raise_bound(shared.clone(), "shop.a", "p1", 300).await.unwrap();
        (store, shared)
    }

    #[tokio::test]
    async fn a_crash_right_behind_the_change_leaves_the_new_generator_above_the_old() {
        let (store, shared) = meddled(None, true).await;
        assign(&shared, "shop.orders", "shop.b", true, "p1", 10).await.unwrap_err();
        store.set_away(false);
        assert_eq!(stands(&shared, "shop.orders").await.generator, "shop.b");
        assert_eq!(bound_of(&*shared, "shop.b").await.unwrap(), 300);

        let (store, shared) = meddled(None, true).await;
        assign(&shared, "shop.orders", "shop.times", false, "p1", 10).await.unwrap_err();
        store.set_away(false);
        assert_eq!(stands(&shared, "shop.orders").await.floor, 299);
    }

    #[tokio::test]
    async fn what_the_old_generator_reserved_meanwhile_counts() {
        let (_, store) = meddled(Some(700), false).await;
        let assigned = assign(&store, "shop.orders", "shop.b", true, "p1", 10).await.unwrap();
        assert_eq!((assigned.floor, bound_of(&*store, "shop.b").await.unwrap()), (699, 700));

        let (_, store) = meddled(Some(700), false).await;
        let assigned = assign(&store, "shop.orders", "shop.times", false, "p1", 10).await.unwrap();
        assert_eq!((assigned.floor, stands(&store, "shop.orders").await.floor), (699, 699));
    }

    #[tokio::test]
    async fn lost_answers_end_in_the_same_binding() {
        for seed in 0..50 {
            let memory = Arc::new(MemoryStore::new());
            let store: Arc<dyn Store> = memory.clone();
            let _ = assign(&store, "shop.orders", "shop.a", true, "p1", 10).await.unwrap();
            raise_bound(store.clone(), "shop.a", "p1", 300).await.unwrap();
            let faults =
                Faults { lost_reply: 200, lost_request: 200, false_conflict: 200, ..Faults::default() };
            let broken = MemoryStore::with_faults(seed, faults);
            for key in [Key::generator("shop.a"), Key::binding("shop.orders")] {
                broken.poke(&key, &memory.peek(&key).unwrap());
            }
            let store: Arc<dyn Store> = Arc::new(broken);
            let assigned = assign(&store, "shop.orders", "shop.b", true, "p1", 10).await.unwrap();
            assert_eq!(assigned.floor, 299, "seed {seed}");
            assert_eq!(bound_of(&*store, "shop.b").await.unwrap(), 300, "seed {seed}");
            assert_eq!(stands(&store, "shop.orders").await.generator, "shop.b");
        }
    }
}
