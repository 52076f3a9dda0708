//! A store that its users keep while it is not there.
//!
//! A store that does not answer when the proxy starts is tried until it does. A store that is given up (a file's lock, a proxy's name)
//! passes to the process that takes over, and may be opened again.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use tokio::sync::{RwLock, watch};

use super::{Json, Key, Outcome, Result, Revision, Store, StoreError, Versioned, Write};
use crate::log_span::{self, within};

/// Between two attempts to open a store that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

pub struct GateStore {
    /// The lines that are logged during a call have it.
    span: Option<(&'static str, String)>,
    /// `Err`: why nothing can be read or written.
    inner: ArcSwap<Result<Arc<dyn Store>>>,
    /// Read by each call while it is under way.
    calls: RwLock<()>,
    /// A receiver stays valid when the store is opened again.
    recalls: watch::Sender<u64>,
}

impl GateStore {
    /// `name`: the store's in the log. Needs a Tokio runtime.
    pub fn new(store: &Arc<dyn Store>, name: String) -> Arc<GateStore> {
        let gate = Self::with(Ok(Arc::clone(store)), Some(name));
        gate.pass_recalls_on(store);
        gate
    }

    /// `reason`: why the store was not opened. `open` is called until it succeeds or the gate is dropped.
    pub fn late<F>(reason: StoreError, open: impl Fn() -> F + Send + 'static) -> Arc<GateStore>
    where
        F: Future<Output = Result<Arc<dyn Store>>> + Send,
    {
        let gate = Self::with(Err(reason), None);
        let weak = Arc::downgrade(&gate);
        log_span::spawn(async move {
            let mut told = None;
            let store = loop {
                tokio::time::sleep(PAUSE).await;
                if weak.strong_count() == 0 {
                    return;
                }
                match open().await {
                    Ok(store) => break store,
                    Err(error) if error.passes() => {}
                    // The fault may be put right while the proxy relays.
                    Err(error) => {
                        if told.replace(error.to_string()) != Some(error.to_string()) {
                            tracing::error!(%error, "the store cannot be opened; trying again");
                        }
                    }
                }
            };
            match weak.upgrade() {
                Some(gate) => gate.open(store),
                None => store.close().await,
            }
        });
        gate
    }

    /// The gate of a store that is not opened at all.
    pub fn absent(reason: StoreError) -> Arc<GateStore> {
        Self::with(Err(reason), None)
    }

    fn with(inner: Result<Arc<dyn Store>>, name: Option<String>) -> Arc<GateStore> {
        let (calls, recalls) = (RwLock::default(), watch::Sender::new(0));
        let span = name.map(|name| ("store", name));
        Arc::new(GateStore { span, inner: ArcSwap::from_pointee(inner), calls, recalls })
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

    fn inner(&self) -> Result<Arc<dyn Store>> {
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
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let _under_way = self.calls.read().await;
        within(self.span.clone(), self.inner()?.load(key)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let _under_way = self.calls.read().await;
        within(self.span.clone(), self.inner()?.list(prefix)).await
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        let _under_way = self.calls.read().await;
        within(self.span.clone(), self.inner()?.compare_and_set(key, expected, value)).await
    }

    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let _under_way = self.calls.read().await;
        within(self.span.clone(), self.inner()?.write_all(writes)).await
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::GateStore;
    use crate::store::memory::MemoryStore;
    use crate::store::{Key, Outcome, Store, StoreError};

    #[tokio::test]
    async fn what_is_given_up_is_let_go_of_and_another_takes_its_place() {
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let gate = GateStore::new(&memory, String::new());
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

    #[tokio::test(start_paused = true)]
    async fn it_serves_as_soon_as_it_opens() {
        let away = StoreError::Unavailable { store: "etcd".to_owned(), reason: "refused".to_owned() };
        let (tries, error) = (Arc::new(AtomicU32::new(0)), away.clone());
        let counted = Arc::clone(&tries);
        let late = GateStore::late(away.clone(), move || {
            let (nth, error) = (counted.fetch_add(1, Ordering::Relaxed), error.clone());
            async move { if nth < 3 { Err(error) } else { Ok(Arc::new(MemoryStore::new()) as Arc<dyn Store>) } }
        });
        assert_eq!(late.load(&Key::format()).await, Err(away.clone()));
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!((late.load(&Key::format()).await, late.era()), (Err(away), 0));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(late.load(&Key::format()).await, Ok(None));
        drop(late);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(tries.load(Ordering::Relaxed), 4);
    }
}
