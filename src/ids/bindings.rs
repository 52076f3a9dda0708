//! Tables assigned to generators in the store: while rules change from one generator to another, two must not issue for
//! one table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Map;

use super::fence::{raise_bounds, write_all};
use super::nodes::living;
use super::slots::ID_MAX;
use crate::ids::fence::moves::{Issuers, Moves};
use crate::store::record::{decode, encode};
use crate::store::{BindingRecord, FORMAT, Key, Store, StoreError, Versioned, Write};

/// Each attempt lost a race, or its answer.
const ATTEMPTS_MAX: u32 = 16;

/// More bindings are read by one list.
const READ_ALONE_MAX: usize = 10;

/// A table to be assigned to a generator.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// `schema.table`
    pub table: &'a str,
    /// `schema.name`
    pub generator: &'a str,
    /// False: a timestamp generator, whose bound is no id. What it must stay above stands in the binding alone.
    pub is_sequence: bool,
    /// max(MAX(id), AUTO_INCREMENT counter) of the table.
    pub floor_of_table: u64,
}

/// The result of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the generator's ids must be above the floor before it issues for the table"]
pub struct Assigned {
    /// Ids must be above it: give it to [`super::Sequence::open`], or to `raise_floor` if the generator is open.
    pub floor: u64,
    /// The generator that issued for the table before, if it was another.
    pub moved_from: Option<String>,
}

/// A table on its way to its generator.
struct Table<'a> {
    wanted: &'a Wanted<'a>,
    key: Key,
    assigned: Assigned,
    /// Generators that issued for the table before, and may have issued above its floor.
    left: BTreeSet<String>,
}

/// Assigns tables to generators, all together; the results are in their order. Where a table was assigned to another generator,
/// the new one's bound is first raised to the other's. `progress` hears how many tables more are assigned.
///
/// A proxy that has the old rules goes on issuing from the old generator, and raises its bound past that: so a table moves
/// only while no other proxy lives.
///
/// Also returns the changes that this made in the old generators' records. A process that has such a generator open continues by
/// them.
pub async fn assign(
    store: &Arc<dyn Store>,
    wanted: &[Wanted<'_>],
    owner: &str,
    progress: impl Fn(usize),
) -> Result<(Vec<Assigned>, Moves), StoreError> {
    let mut all: Vec<Table<'_>> = wanted.iter().map(Table::new).collect();
    let mut moves = Moves::default();
    let mut open: Vec<&mut Table<'_>> = all.iter_mut().collect();
    for _ in 0..ATTEMPTS_MAX {
        let count = open.len();
        let standing = standing(&**store, &open).await?;
        let (mut moving, mut new) = (Vec::new(), Vec::new());
        for (table, stands) in open.into_iter().zip(standing) {
            match stands {
                Some(old) if old.value.generator == table.wanted.generator => table.keeps(&old.value),
                Some(old) => {
                    table.leaves(&old.value);
                    moving.push((table, old));
                }
                None => new.push(table),
            }
        }
        if let Some((table, old)) = moving.first() {
            alone(&**store, table.wanted.table, &old.value.generator, owner).await?;
            let mut tables: Vec<&mut Table<'_>> = moving.iter_mut().map(|(table, _)| &mut **table).collect();
            // Proxies that were away reserve there no more. The old one may have issued all below its bound.
            moves = moves.then(left(&**store, &mut tables).await?.0);
            raise(store, owner, &tables).await?;
        }
        let replaced = moving.iter().map(|(table, old)| table.write(Some(old)));
        let writes: Vec<Write> = replaced.chain(new.iter().map(|table| table.write(None))).collect();
        let written = write_all(&**store, &writes).await?;
        let tables = moving.into_iter().map(|(table, _)| table).chain(new);
        open = tables.zip(written).filter(|(_, written)| !written).map(|(table, _)| table).collect();
        progress(count - open.len());
        if open.is_empty() {
            break;
        }
    }
    if !open.is_empty() {
        return Err(contended(&open));
    }
    moves = settle(store, owner, &mut all, moves).await?;
    Ok((all.into_iter().map(|table| table.assigned).collect(), moves))
}

impl<'a> Table<'a> {
    fn new(wanted: &'a Wanted<'a>) -> Self {
        let assigned = Assigned { floor: wanted.floor_of_table, moved_from: None };
        Table { wanted, key: Key::binding(wanted.table), assigned, left: BTreeSet::new() }
    }

    /// The table is assigned to its generator already, perhaps by somebody who did not come to the end of it.
    fn keeps(&mut self, stands: &BindingRecord) {
        if !self.wanted.is_sequence {
            self.assigned.floor = self.assigned.floor.max(stands.floor);
        }
        self.left.extend(stands.left.clone());
    }

    /// The table is assigned to another generator.
    fn leaves(&mut self, stands: &BindingRecord) {
        self.assigned.floor = self.assigned.floor.max(stands.floor);
        self.assigned.moved_from = Some(stands.generator.clone());
        // Ids that others reserved of its own generator meanwhile are no other generator's.
        let before = stands.left.clone().filter(|left| left != self.wanted.generator);
        self.left.extend(before.into_iter().chain([stands.generator.clone()]));
    }

    fn write(&self, old: Option<&Versioned<BindingRecord>>) -> Write {
        self.write_over(old, self.assigned.floor, self.assigned.moved_from.clone())
    }

    /// The write of the floor, after which nothing is to be looked at again. `None`: it stands so, or the table has another generator: the proxy
    /// that assigned it there asks for the bounds.
    fn settled(&self, stands: Option<&Versioned<BindingRecord>>) -> Option<Write> {
        let floor = self.assigned.floor;
        match stands {
            Some(stands) if stands.value.generator != self.wanted.generator => None,
            Some(stands) if stands.value.left.is_none() && stands.value.floor >= floor => None,
            // A record that somebody has removed is made again: the floor is known here alone.
            stands => Some(self.write_over(stands, floor.max(stands.map_or(0, |one| one.value.floor)), None)),
        }
    }

    fn write_over(&self, old: Option<&Versioned<BindingRecord>>, floor: u64, left: Option<String>) -> Write {
        let unknown = old.map_or_else(Map::new, |old| old.value.unknown.clone());
        let record =
            BindingRecord { v: FORMAT, generator: self.wanted.generator.to_owned(), floor, left, unknown };
        Write { key: self.key.clone(), expected: old.map(|old| old.revision), value: encode(&record) }
    }
}

/// The bindings that stand, in the order of the tables.
async fn standing(
    store: &dyn Store,
    tables: &[&mut Table<'_>],
) -> Result<Vec<Option<Versioned<BindingRecord>>>, StoreError> {
    let mut found = BTreeMap::new();
    if tables.len() > READ_ALONE_MAX {
        found.extend(store.list(Key::BINDINGS).await?);
    } else {
        for table in tables {
            found.extend(store.load(&table.key).await?.map(|stands| (table.key.clone(), stands)));
        }
    }
    let of = |table: &&mut Table<'_>| {
        let stands = found.get(&table.key).map(|found| {
            let value = decode(&table.key, &found.value)?;
            Ok(Versioned { revision: found.revision, value })
        });
        stands.transpose()
    };
    tables.iter().map(of).collect()
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

/// The generators that the tables leave are counted up; the tables' floors are then above all that these have issued. Also says of
/// each table whether its floor has changed.
async fn left(store: &dyn Store, tables: &mut [&mut Table<'_>]) -> Result<(Moves, Vec<bool>), StoreError> {
    let names: BTreeSet<String> = tables.iter().flat_map(|table| table.left.clone()).collect();
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let moves = Moves::count(store, &names).await?;
    let issuers = Issuers::read(store, &names).await?;
    let mut below = BTreeMap::new();
    for name in names {
        below.insert(name, issuers.issued_below(name)?);
    }
    let mut changed = Vec::with_capacity(tables.len());
    for table in tables {
        let below = table.left.iter().filter_map(|left| below.get(&**left)).max();
        let floor = below.map_or(0, |below| below.saturating_sub(1));
        changed.push(floor > table.assigned.floor);
        table.assigned.floor = table.assigned.floor.max(floor);
    }
    Ok((moves, changed))
}

/// Raises the tables' generators above their floors. That of a timestamp generator stands in the binding alone.
async fn raise(store: &Arc<dyn Store>, owner: &str, tables: &[&mut Table<'_>]) -> Result<(), StoreError> {
    let mut bounds: BTreeMap<&str, u64> = BTreeMap::new();
    for table in tables.iter().filter(|table| table.wanted.is_sequence) {
        let bound = bounds.entry(table.wanted.generator).or_default();
        *bound = (table.assigned.floor.min(ID_MAX) + 1).max(*bound);
    }
    let bounds: Vec<(String, u64)> =
        bounds.into_iter().map(|(name, bound)| (name.to_owned(), bound)).collect();
    raise_bounds(store, owner, &bounds).await
}

/// Until the bindings changed, other proxies could still open the old generators: their bounds count once more.
async fn settle(
    store: &Arc<dyn Store>,
    owner: &str,
    all: &mut [Table<'_>],
    moves: Moves,
) -> Result<Moves, StoreError> {
    let mut tables: Vec<&mut Table<'_>> = all.iter_mut().filter(|table| !table.left.is_empty()).collect();
    if tables.is_empty() {
        return Ok(moves);
    }
    let (later, changed) = left(&**store, &mut tables).await?;
    let changed = tables.iter_mut().zip(changed).filter(|(_, is_changed)| *is_changed);
    let changed: Vec<&mut Table<'_>> = changed.map(|(table, _)| &mut **table).collect();
    raise(store, owner, &changed).await?;
    note_settled(&**store, tables).await?;
    Ok(moves.then(later))
}

/// Writes the tables' floors into their bindings, and that nothing is to be looked at again.
async fn note_settled(store: &dyn Store, mut open: Vec<&mut Table<'_>>) -> Result<(), StoreError> {
    for _ in 0..ATTEMPTS_MAX {
        let standing = standing(store, &open).await?;
        let noted = open.into_iter().zip(standing);
        let noted = noted.filter_map(|(table, stands)| Some((table.settled(stands.as_ref())?, table)));
        let (writes, tables): (Vec<Write>, Vec<&mut Table<'_>>) = noted.unzip();
        let written = write_all(store, &writes).await?;
        open =
            tables.into_iter().zip(written).filter(|(_, written)| !written).map(|(table, _)| table).collect();
        if open.is_empty() {
            return Ok(());
        }
    }
    Err(contended(&open))
}

fn contended(open: &[&mut Table<'_>]) -> StoreError {
    let record = open.first().map_or_else(String::new, |table| table.key.to_string());
    StoreError::Contended { record, attempts: ATTEMPTS_MAX }
}

#[cfg(test)]
mod tests {
    use super::{Assigned, Wanted};
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

    async fn assign(
        store: &Arc<dyn Store>,
        table: &str,
        generator: &str,
        is_sequence: bool,
        owner: &str,
        floor_of_table: u64,
    ) -> Result<Assigned, StoreError> {
        let wanted = Wanted { table, generator, is_sequence, floor_of_table };
        let (mut assigned, _) = super::assign(store, &[wanted], owner, |_| {}).await?;
        Ok(assigned.remove(0))
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

    /// 60 tables, 20 of them new, of 30 generators, and what becomes of them with faults of the store.
    #[tokio::test]
    async fn many_move_together_each_above_what_its_generator_has_issued() {
        let names: Vec<(String, String, String)> = (0..60)
            .map(|nth| (format!("s.t{nth}"), format!("s.old{}", nth % 15), format!("s.new{}", nth % 15)))
            .collect();
        for seed in 0..20 {
            let memory = Arc::new(MemoryStore::with_faults(seed, Faults::default()));
            let store: Arc<dyn Store> = memory.clone();
            for (nth, (table, old, _)) in names.iter().enumerate().skip(20) {
                let _ = assign(&store, table, old, true, "p1", 40).await.unwrap();
                raise_bound(store.clone(), old, "p1", 1_000 * (nth as u64 + 1)).await.unwrap();
            }
            if seed > 0 {
                memory.set_faults(Faults {
                    lost_reply: 100,
                    lost_request: 100,
                    false_conflict: 100,
                    ..Faults::default()
                });
            }
            let wanted = names.iter().map(|(table, _, new)| Wanted {
                table,
                generator: new,
                is_sequence: true,
                floor_of_table: 9,
            });
            let wanted: Vec<Wanted<'_>> = wanted.collect();
            let calls = memory.calls();
            let (assigned, moves) = super::assign(&store, &wanted, "p1", |_| {}).await.unwrap();
            if seed == 0 {
                // The bindings and who lives are read. The old generators and their nodes are read, counted and read, twice; the new
                // ones are read, made and read. The bindings are written; in the end they are read and written again.
                assert_eq!(memory.calls() - calls, 2 + 2 * (2 + 1 + 2) + 3 + 1 + 2);
            }
            memory.set_faults(Faults::default());
            for (nth, ((table, old, new), assigned)) in names.iter().zip(&assigned).enumerate() {
                assert_eq!(stands(&store, table).await.generator, *new, "{seed}");
                let bound = bound_of(&*store, new).await.unwrap();
                assert!(assigned.floor < bound || nth < 20, "{seed}: {assigned:?} {bound}");
                if nth < 20 {
                    assert_eq!(told(assigned), (9, None), "{seed}");
                } else {
                    assert_eq!(assigned.moved_from.as_deref(), Some(&**old), "{seed}");
                    assert_eq!(assigned.floor, bound_of(&*store, old).await.unwrap() - 1, "{seed}");
                    let key = Key::generator(old);
                    let record: GeneratorRecord = record::decode(&key, &memory.peek(&key).unwrap()).unwrap();
                    assert_eq!(moves.after(&key, 0), Some(record.moves), "{seed}");
                }
            }
        }
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

    /// A proxy that binds the table again after the crash, to the same generator, comes to the end of the change.
    #[tokio::test]
    async fn what_the_old_generator_reserved_before_a_crash_counts() {
        for is_sequence in [true, false] {
            let (store, shared) = meddled(Some(700), true).await;
            let generator = if is_sequence { "shop.b" } else { "shop.times" };
            assign(&shared, "shop.orders", generator, is_sequence, "p1", 10).await.unwrap_err();
            store.set_away(false);
            assert_eq!(stands(&shared, "shop.orders").await.left.as_deref(), Some("shop.a"));
            let assigned = assign(&shared, "shop.orders", generator, is_sequence, "p1", 10).await.unwrap();
            assert_eq!(told(&assigned), (699, None));
            store.set_away(false);
            let binding = stands(&shared, "shop.orders").await;
            assert_eq!((binding.floor, binding.left), (699, None));
            assert!(!is_sequence || bound_of(&*shared, generator).await.unwrap() == 700);
            let writes = store.writes();
            let _ = assign(&shared, "shop.orders", generator, is_sequence, "p1", 10).await.unwrap();
            assert_eq!(store.writes(), writes, "it is at its end");
        }
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
