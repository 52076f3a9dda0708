//! A table that moves from one generator to another takes the old one from all who have it open: a proxy that was away when the
//! table moved, and for which its lease did not wait, would else go on reserving ids for a table that is no longer its.
//!
//! Records of generators count how often that happened. A proxy with an open generator compares (`fence`): its ids lie
//! below the bound that the new generator begins above, and it reserves no more before it has read the bindings again.
//! Leaf's table has no room for the count; there a table moves while all other proxies are stopped, as docs/store-commands.md says.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::fence::{KIND_TIMESTAMP, Subject, is_of_leaf, read, write_all};
use crate::ids::layout::Layout;
use crate::store::record::{change, decode, encode, fresh_token};
use crate::store::{GeneratorRecord, Json, Key, Store, StoreError, Versioned, Write};

/// More generators are read by lists of all.
const READ_ALONE_MAX: usize = 10;

/// Generators with their nodes, as they stand in the store.
pub(in crate::ids) struct Issuers(BTreeMap<Key, Versioned<Json>>);

impl Issuers {
    pub(in crate::ids) async fn read(store: &dyn Store, names: &BTreeSet<&str>) -> Result<Self, StoreError> {
        let mut found = BTreeMap::new();
        if names.len() > READ_ALONE_MAX {
            let of_generator = |key: &Key| key.as_str().strip_prefix(Key::GENERATORS).map(str::to_owned);
            let of_node = |key: &Key| {
                let (name, _) = key.as_str().strip_prefix(Key::SLOTS)?.rsplit_once('/')?;
                Some(name.to_owned())
            };
            for (key, record) in store.list(Key::GENERATORS).await? {
                if of_generator(&key).is_some_and(|name| names.contains(&*name)) {
                    found.insert(key, record);
                }
            }
            for (key, record) in store.list(Key::SLOTS).await? {
                if of_node(&key).is_some_and(|name| names.contains(&*name)) {
                    found.insert(key, record);
                }
            }
        }
        for name in names {
            let key = Key::generator(name);
            if found.get(&key).is_some_and(|found| !is_of_leaf(found)) {
                continue;
            }
            found.remove(&key);
            found.extend(store.load(&key).await?.map(|record| (key, record)));
            found.extend(store.list(&Key::slots(name)).await?);
        }
        Ok(Issuers(found))
    }

    /// All ids of the generator, of whichever kind, are below it; 0 if there is none.
    pub(in crate::ids) fn issued_below(&self, name: &str) -> Result<u64, StoreError> {
        let key = Key::generator(name);
        let Some(found) = self.0.get(&key) else { return Ok(0) };
        let record: GeneratorRecord = decode(&key, &found.value)?;
        if record.kind != KIND_TIMESTAMP {
            return Ok(read(&Subject::sequence(name), found)?.record.bound);
        }
        let damaged =
            || StoreError::Corrupt { place: key.to_string(), reason: "its layout cannot be read".to_owned() };
        let layout: Layout = record.layout.as_deref().unwrap_or_default().parse().map_err(|_| damaged())?;
        let prefix = Key::slots(name);
        let mut below = 0;
        for (key, slot) in
            self.0.range(Key::of(&prefix)..).take_while(|(key, _)| key.as_str().starts_with(&prefix))
        {
            let node = key.as_str().strip_prefix(&prefix).and_then(|node| node.parse().ok());
            let Some(node) = node else { continue };
            let slot: GeneratorRecord = decode(key, &slot.value)?;
            let numbering = layout.numbering(node).map_err(|_| damaged())?;
            if let Some(last) = slot.bound.checked_sub(1) {
                below = below.max(numbering.last_id_of(last) + 1);
            }
        }
        Ok(below)
    }
}

/// The counts that one proxy's moves of tables have changed, by record. Its own generators go on from one to the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves(BTreeMap<Key, Move>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    from: u64,
    to: u64,
}

impl Move {
    fn to(record: &GeneratorRecord) -> Move {
        Move { from: record.moves - 1, to: record.moves }
    }
}

impl Moves {
    /// Counts up in the records of the generators and of their nodes: from here on nobody reserves who had them open before.
    pub(in crate::ids) async fn count(
        store: &dyn Store,
        names: &BTreeSet<&str>,
    ) -> Result<Moves, StoreError> {
        let mut counted = Vec::new();
        for (key, found) in Issuers::read(store, names).await?.0 {
            let record: GeneratorRecord = decode(&key, &found.value)?;
            // Another record has no room for a count.
            if !record.token.is_empty() {
                let record = GeneratorRecord { moves: record.moves + 1, token: fresh_token(), ..record };
                counted.push((Write { key, expected: Some(found.revision), value: encode(&record) }, record));
            }
        }
        let (writes, records): (Vec<Write>, Vec<GeneratorRecord>) = counted.into_iter().unzip();
        let written = write_all(store, &writes).await?;
        let mut moves = Moves::default();
        for ((write, record), written) in writes.into_iter().zip(records).zip(written) {
            let counted =
                if written { Some(Move::to(&record)) } else { count_one(store, &write.key, &record).await? };
            moves.0.extend(counted.map(|one| (write.key, one)));
        }
        Ok(moves)
    }

    /// True if the generator's count is among them.
    pub fn has(&self, generator: &str) -> bool {
        self.0.contains_key(&Key::generator(generator))
    }

    /// Both, where nobody else counted in between.
    pub(in crate::ids) fn then(mut self, later: Moves) -> Moves {
        for (key, later) in later.0 {
            match self.0.remove(&key) {
                Some(first) if first.to == later.from => {
                    self.0.insert(key, Move { from: first.from, ..later });
                }
                Some(_) => {}
                None => {
                    self.0.insert(key, later);
                }
            }
        }
        self
    }

    /// The count from which a process may continue that knows the count `from` of a record.
    pub(in crate::ids) fn after(&self, key: &Key, from: u64) -> Option<u64> {
        self.0.get(key).filter(|one| one.from == from).map(|one| one.to)
    }
}

/// Counts up in a record that may have been written as `wanted`, or not: its token tells. `None`: there is no such record any more, or
/// somebody else has written it since.
async fn count_one(
    store: &dyn Store,
    key: &Key,
    wanted: &GeneratorRecord,
) -> Result<Option<Move>, StoreError> {
    let is_ours = |record: &GeneratorRecord| record.token == wanted.token;
    let next = |record: Option<GeneratorRecord>| {
        let record = record.filter(|record| !is_ours(record))?;
        Some(GeneratorRecord { moves: record.moves + 1, token: wanted.token.clone(), ..record })
    };
    if let Some(counted) = change(store, key, next).await? {
        return Ok(Some(Move::to(&counted)));
    }
    let Some(found) = store.load(key).await? else { return Ok(None) };
    let record: GeneratorRecord = decode(key, &found.value)?;
    Ok(is_ours(&record).then(|| Move::to(&record)))
}

#[cfg(test)]
mod tests {
    use super::Moves;
    use crate::ids::generator::Sequence;
    use crate::ids::sequence::{Batch, SequenceSpec};
    use crate::store::memory::MemoryStore;
    use crate::store::{Json, Key, Outcome, Revision, Store, StoreError, Versioned};
    use std::collections::BTreeSet;
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;

    const NAME: &str = "shop.a";

    /// A store as Leaf's table is one: lists have a generator by its tag, and no token; some tag looks like another generator.
    struct LeafLike(MemoryStore);

    #[async_trait]
    impl Store for LeafLike {
        async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>, StoreError> {
            self.0.load(key).await
        }

        async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>, StoreError> {
            let by_tag = |(key, found): (Key, Versioned<Json>)| {
                let tag = key.as_str().strip_prefix(Key::GENERATORS).and_then(|name| name.split_once('.'));
                (tag.map_or(key.clone(), |(_, tag)| Key::generator(tag)), found)
            };
            Ok(self.0.list(prefix).await?.into_iter().map(by_tag).collect())
        }

        async fn compare_and_set(
            &self,
            key: &Key,
            expected: Option<Revision>,
            value: &[u8],
        ) -> Result<Outcome, StoreError> {
            self.0.compare_and_set(key, expected, value).await
        }
    }

    #[tokio::test]
    async fn generators_of_leaf_are_found_among_many() {
        let store = LeafLike(MemoryStore::new());
        let record =
            |bound: u64| format!(r#"{{"v":1,"kind":"sequence","bound":{bound},"owner":"","token":""}}"#);
        let names: Vec<String> = (0..12).map(|nth| format!("shop.g{nth}")).collect();
        for (name, bound) in names.iter().zip(100..) {
            store.0.poke(&Key::generator(name), record(bound).as_bytes());
        }
        // A tag that is the name of the first generator, schema included.
        store.0.poke(&Key::generator("shop.shop.g0"), record(7).as_bytes());
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let issuers = super::Issuers::read(&store, &wanted).await.unwrap();
        for (name, bound) in names.iter().zip(100..) {
            assert_eq!(issuers.issued_below(name).unwrap(), bound, "{name}");
        }
        let raised: Vec<(String, u64)> = names.iter().map(|name| (name.clone(), 50)).collect();
        let store: Arc<dyn Store> = Arc::new(store);
        crate::ids::fence::raise_bounds(&store, "p1", &raised).await.unwrap();
        for (name, bound) in names.iter().zip(100..) {
            assert_eq!(crate::ids::bound_of(&*store, name).await.unwrap(), bound, "{name}");
        }
    }

    async fn open(store: &Arc<dyn Store>, owner: &str) -> Arc<Sequence> {
        let batch = Batch::Fixed(NonZeroU64::new(10).unwrap());
        let spec = SequenceSpec { batch, ..SequenceSpec::default() };
        Sequence::open(store.clone(), NAME, owner, spec, 0, u64::MAX).await.unwrap()
    }

    /// Ids up to where there are no more, 1,000 at most.
    async fn drained(sequence: &Sequence) -> Vec<u64> {
        let mut ids = Vec::new();
        while let Ok(block) = sequence.take(NonZeroU64::MIN, Duration::from_millis(200)).await {
            ids.push(block.first());
            if ids.len() == 1_000 {
                break;
            }
        }
        ids
    }

    #[tokio::test]
    async fn who_was_away_reserves_no_more_and_who_moved_it_goes_on() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let (ours, theirs) = (open(&store, "p1").await, open(&store, "p2").await);
        for sequence in [&ours, &theirs] {
            let _ = sequence.take(NonZeroU64::MIN, Duration::from_secs(1)).await.unwrap();
        }
        let moves = Moves::count(&*store, &BTreeSet::from([NAME])).await.unwrap();
        let moves = moves.then(Moves::count(&*store, &BTreeSet::from([NAME])).await.unwrap());
        let bound = crate::ids::bound_of(&*store, NAME).await.unwrap();
        ours.follow(&moves).await;
        assert_eq!(drained(&ours).await.len(), 1_000);
        assert!(!ours.is_lost());
        let of_theirs = drained(&theirs).await;
        assert!(of_theirs.iter().all(|id| *id < bound), "{of_theirs:?} {bound}");
        assert!(theirs.is_lost());
        assert_eq!(drained(&*open(&store, "p2").await).await.len(), 1_000);
    }

    #[tokio::test]
    async fn a_move_of_somebody_else_in_between_is_not_followed() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let ours = open(&store, "p1").await;
        let first = Moves::count(&*store, &BTreeSet::from([NAME])).await.unwrap();
        Moves::count(&*store, &BTreeSet::from([NAME])).await.unwrap();
        let moves = first.then(Moves::count(&*store, &BTreeSet::from([NAME])).await.unwrap());
        assert_eq!(moves, Moves::default());
        ours.follow(&moves).await;
        assert!(drained(&ours).await.is_empty());
        assert_eq!(moves.after(&Key::generator(NAME), 0), None);
    }
}
