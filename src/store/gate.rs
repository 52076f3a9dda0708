//! A store that can be given up while its users go on, and be opened again: what it holds (a file's lock, a proxy's name) passes
//! to the process that takes over.

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::{RwLock, watch};

use super::{Json, Key, Outcome, Revision, Store, StoreError, Versioned};

pub struct GateStore {
    /// `Err`: given up, and why.
    inner: ArcSwap<Result<Arc<dyn Store>, StoreError>>,
    /// Read by each call while it is under way.
    calls: RwLock<()>,
    /// Whoever listens goes on listening when the store is opened again.
    recalls: watch::Sender<u64>,
}

impl GateStore {
    /// Needs a Tokio runtime.
    pub fn new(store: &Arc<dyn Store>) -> Arc<GateStore> {
        let gate = Arc::new(GateStore {
            inner: ArcSwap::from_pointee(Ok(Arc::clone(store))),
            calls: RwLock::default(),
            recalls: watch::Sender::new(0),
        });
        gate.pass_recalls_on(store);
        gate
    }

    /// Waits for the calls that are under way, then closes the store and lets go of it. From here on every call is answered
    /// with `reason`.
    pub async fn shut(&self, reason: StoreError) {
        let _no_call = self.calls.write().await;
        if let Ok(store) = &*self.inner.swap(Arc::new(Err(reason))) {
            store.close().await;
        }
    }

    /// Calls go to `store` from here on.
    pub fn open(self: &Arc<Self>, store: Arc<dyn Store>) {
        self.pass_recalls_on(&store);
        self.inner.store(Arc::new(Ok(store)));
    }

    fn inner(&self) -> Result<Arc<dyn Store>, StoreError> {
        Result::clone(&self.inner.load())
    }

    fn pass_recalls_on(self: &Arc<Self>, store: &Arc<dyn Store>) {
        let Some(mut recalls) = store.recalls() else { return };
        let gate = Arc::downgrade(self);
        tokio::spawn(async move {
            while recalls.changed().await.is_ok() {
                let Some(gate) = gate.upgrade() else { return };
                gate.recalls.send_modify(|count| *count += 1);
            }
        });
    }
}

#[async_trait]
impl Store for GateStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>, StoreError> {
        let _under_way = self.calls.read().await;
        self.inner()?.load(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>, StoreError> {
        let _under_way = self.calls.read().await;
        self.inner()?.list(prefix).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<Revision>,
        value: &[u8],
    ) -> Result<Outcome, StoreError> {
        let _under_way = self.calls.read().await;
        self.inner()?.compare_and_set(key, expected, value).await
    }

    fn era(&self) -> u64 {
        self.inner().map_or(0, |store| store.era())
    }

    fn recalls(&self) -> Option<watch::Receiver<u64>> {
        Some(self.recalls.subscribe())
    }

    async fn close(&self) {
        if let Ok(store) = self.inner() {
            store.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::GateStore;
    use crate::store::memory::MemoryStore;
    use crate::store::{Key, Outcome, Store, StoreError};

    #[tokio::test]
    async fn what_is_given_up_is_let_go_of_and_another_takes_its_place() {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let gate = GateStore::new(&memory);
        let written = gate.compare_and_set(&Key::format(), None, b"{}").await;
        assert!(matches!(written, Ok(Outcome::Written(_))));

        let gone = StoreError::Unavailable { store: "file".to_owned(), reason: "given up".to_owned() };
        gate.shut(gone.clone()).await;
        assert_eq!(Arc::strong_count(&memory), 1, "its lock must be free");
        assert_eq!(gate.load(&Key::format()).await, Err(gone.clone()));
        assert_eq!(gate.list("").await, Err(gone));

        gate.open(Arc::clone(&memory));
        assert!(gate.load(&Key::format()).await.is_ok_and(|found| found.is_some()));
    }
}
