//! The generators that this process has open, each once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::bindings::{Bound, bind};
use super::generator::{OpenError, Sequence, TakeError};
use super::sequence::SequenceSpec;
use crate::store::{Store, StoreError};

pub struct Generators {
    store: Arc<dyn Store>,
    /// This proxy's name, noted in the store's records.
    owner: String,
    open: Mutex<HashMap<String, Arc<Sequence>>>,
}

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum BindError {
    #[error("table {table} cannot be bound to generator {generator}: {error}")]
    Store { table: String, generator: String, error: StoreError },
    #[error("table {table} is bound, but its generator is not above the table's ids yet: {error}")]
    Floor { table: String, error: TakeError },
}

impl Generators {
    pub fn new(store: Arc<dyn Store>, owner: &str) -> Self {
        Generators { store, owner: owner.to_owned(), open: Mutex::new(HashMap::new()) }
    }

    /// The generator `schema.name`, opened if it is not open as described: a sequence whose description changed is
    /// closed first, so that one process never has two of one name.
    pub async fn open(
        &self,
        name: &str,
        spec: SequenceSpec,
        floor: u64,
        max: u64,
        deadline: Duration,
    ) -> Result<Arc<Sequence>, OpenError> {
        let mut open = self.open.lock().await;
        if let Some(sequence) = open.get(name) {
            if *sequence.spec() == spec && sequence.max() == spec.last_id(max) {
                sequence
                    .raise_floor(floor, deadline)
                    .await
                    .map_err(|error| OpenError::Floor { generator: name.to_owned(), error })?;
                return Ok(Arc::clone(sequence));
            }
            sequence.close().await;
            open.remove(name);
        }
        let sequence = Sequence::open(Arc::clone(&self.store), name, &self.owner, spec, floor, max).await?;
        open.insert(name.to_owned(), Arc::clone(&sequence));
        Ok(sequence)
    }

    /// Binds `schema.table` to the generator `schema.name`; if that is open, its ids are above the floor on return.
    pub async fn bind(
        &self,
        table: &str,
        generator: &str,
        floor_of_table: u64,
        deadline: Duration,
    ) -> Result<Bound, BindError> {
        let open = self.open.lock().await;
        let bound =
            bind(&self.store, table, generator, &self.owner, floor_of_table).await.map_err(|error| {
                BindError::Store { table: table.to_owned(), generator: generator.to_owned(), error }
            })?;
        if let Some(sequence) = open.get(generator) {
            sequence
                .raise_floor(bound.floor, deadline)
                .await
                .map_err(|error| BindError::Floor { table: table.to_owned(), error })?;
        }
        Ok(bound)
    }

    pub async fn get(&self, name: &str) -> Option<Arc<Sequence>> {
        self.open.lock().await.get(name).cloned()
    }

    pub async fn all(&self) -> Vec<Arc<Sequence>> {
        self.open.lock().await.values().cloned().collect()
    }

    /// Closes every generator, each handing its unused ids back.
    pub async fn close_all(&self) {
        for (_, sequence) in self.open.lock().await.drain() {
            sequence.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Generators;
    use crate::ids::sequence::SequenceSpec;
    use crate::store::memory::MemoryStore;
    use crate::store::{GeneratorRecord, Key, record};
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_generator_is_open_once_and_a_new_description_goes_on_behind_the_old() {
        let store = Arc::new(MemoryStore::new());
        let all = Generators::new(store.clone(), "p1");
        let one = NonZeroU64::MIN;
        let first = all.open("shop.a", SequenceSpec::default(), 0, u64::MAX, SECOND).await.unwrap();
        assert_eq!(first.take(one, SECOND).await.unwrap().first(), 1);
        let again = all.open("shop.a", SequenceSpec::default(), 50, u64::MAX, SECOND).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(again.take(one, SECOND).await.unwrap().first(), 51);
        let by_ten = SequenceSpec { step: NonZeroU64::new(10).unwrap(), ..SequenceSpec::default() };
        let other = all.open("shop.a", by_ten, 0, u64::MAX, SECOND).await.unwrap();
        assert!(first.take(one, SECOND).await.is_err());
        assert_eq!(other.take(one, SECOND).await.unwrap().first(), 60);
        all.close_all().await;
        assert!(other.try_take(one).is_none());
        let key = Key::generator("shop.a");
        let record: GeneratorRecord = record::decode(&key, &store.peek(&key).unwrap()).unwrap();
        assert_eq!(record.bound, 70, "the unused ids are handed back");
    }

    #[tokio::test]
    async fn binding_raises_an_open_generator_above_the_old_one() {
        let all = Generators::new(Arc::new(MemoryStore::new()), "p1");
        let one = NonZeroU64::MIN;
        let a = all.open("shop.a", SequenceSpec::default(), 0, u64::MAX, SECOND).await.unwrap();
        let b = all.open("shop.b", SequenceSpec::default(), 0, u64::MAX, SECOND).await.unwrap();
        assert_eq!(b.take(one, SECOND).await.unwrap().first(), 1);
        assert_eq!(all.bind("shop.t", "shop.a", 10, SECOND).await.unwrap().floor, 10);
        assert_eq!(a.take(one, SECOND).await.unwrap().first(), 11);
        let bound_a = a.stats().bound;
        let moved = all.bind("shop.t", "shop.b", 11, SECOND).await.unwrap();
        assert_eq!(moved.moved_from.as_deref(), Some("shop.a"));
        assert_eq!(b.take(one, SECOND).await.unwrap().first(), bound_a);
    }
}
