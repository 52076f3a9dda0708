//! A table that moves from one generator to another takes the old one from all who have it open: a proxy that was away when the
//! table moved, and for which its lease did not wait, would else go on reserving ids for a table that is no longer its.
//!
//! Records of generators count how often that happened. A proxy with an open generator compares (`fence`): its ids lie
//! below the bound that the new generator begins above, and it reserves no more before it has read the bindings again.
//! Leaf's table has no room for the count; there a table moves while all other proxies are stopped, as docs/store-commands.md says.

use crate::ids::fence::slots;
use crate::store::record::{change, fresh_token};
use crate::store::{GeneratorRecord, Key, Store, StoreError};

/// The counts that one proxy's move of a table has changed. Its own generators go on from one to the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves(Vec<Move>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Move {
    key: Key,
    from: u64,
    to: u64,
}

impl Moves {
    /// Counts up in the records of the generator and of its nodes: from here on nobody reserves who had them open before.
    pub(in crate::ids) async fn count(store: &dyn Store, generator: &str) -> Result<Moves, StoreError> {
        let mut keys = vec![Key::generator(generator)];
        keys.extend(slots(store, generator).await?.keys().map(|node| Key::slot(generator, *node)));
        let mut moves = Moves::default();
        for key in keys {
            moves.0.extend(count_one(store, key).await?);
        }
        Ok(moves)
    }

    /// Both, where nobody else counted in between.
    pub(in crate::ids) fn then(self, later: Moves) -> Moves {
        let joined = |later: Move| match self.0.iter().find(|first| first.key == later.key) {
            Some(first) if first.to == later.from => Some(Move { from: first.from, ..later }),
            Some(_) => None,
            None => Some(later),
        };
        Moves(later.0.into_iter().filter_map(joined).collect())
    }

    /// The count from which a process may continue that knows the count `from` of a record.
    pub(in crate::ids) fn after(&self, key: &Key, from: u64) -> Option<u64> {
        self.0.iter().find(|one| one.key == *key && one.from == from).map(|one| one.to)
    }
}

/// `None`: there is no such record, or it has no room for a count.
async fn count_one(store: &dyn Store, key: Key) -> Result<Option<Move>, StoreError> {
    let counted = |record: Option<GeneratorRecord>| {
        let record = record.filter(|record| !record.token.is_empty())?;
        Some(GeneratorRecord { moves: record.moves + 1, token: fresh_token(), ..record })
    };
    let counted = change(store, &key, counted).await?;
    Ok(counted.map(|record| Move { key, from: record.moves - 1, to: record.moves }))
}

#[cfg(test)]
mod tests {
    use super::Moves;
    use crate::ids::generator::Sequence;
    use crate::ids::sequence::{Batch, SequenceSpec};
    use crate::store::memory::MemoryStore;
    use crate::store::{Key, Store};
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    const NAME: &str = "shop.a";

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
        let moves = Moves::count(&*store, NAME).await.unwrap();
        let moves = moves.then(Moves::count(&*store, NAME).await.unwrap());
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
        let first = Moves::count(&*store, NAME).await.unwrap();
        Moves::count(&*store, NAME).await.unwrap();
        let moves = first.then(Moves::count(&*store, NAME).await.unwrap());
        assert_eq!(moves, Moves::default());
        ours.follow(&moves).await;
        assert!(drained(&ours).await.is_empty());
        assert_eq!(moves.after(&Key::generator(NAME), 0), None);
    }
}
