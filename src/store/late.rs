//! A store that did not answer when the proxy started, and is tried until it does: until then nothing can be read or written.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Json, Key, Outcome, Revision, Store, StoreError, Versioned};

const PAUSE: Duration = Duration::from_secs(1);

pub struct LateStore {
    inner: OnceLock<Arc<dyn Store>>,
    /// Of the first attempt.
    reason: StoreError,
    recalls: watch::Sender<u64>,
}

impl LateStore {
    /// `reason`: why it was not opened. `open` is called until it succeeds or the store is dropped.
    pub fn new<F>(reason: StoreError, open: impl Fn() -> F + Send + 'static) -> Arc<LateStore>
    where
        F: Future<Output = Result<Arc<dyn Store>, StoreError>> + Send,
    {
        let late = Arc::new(LateStore { inner: OnceLock::new(), reason, recalls: watch::Sender::new(0) });
        let weak = Arc::downgrade(&late);
        tokio::spawn(async move {
            let mut told = None;
            let store = loop {
                tokio::time::sleep(PAUSE).await;
                if weak.strong_count() == 0 {
                    return;
                }
                match open().await {
                    Ok(store) => break store,
                    Err(error) if error.passes() => {}
                    // It may be put right while the proxy relays.
                    Err(error) => {
                        if told.replace(error.to_string()) != Some(error.to_string()) {
                            tracing::error!(%error, "the store cannot be opened; trying again");
                        }
                    }
                }
            };
            let Some(late) = weak.upgrade() else { return store.close().await };
            let recalls = store.recalls();
            let _ = late.inner.set(store);
            drop(late);
            let Some(mut recalls) = recalls else { return };
            while recalls.changed().await.is_ok() {
                let Some(late) = weak.upgrade() else { return };
                late.recalls.send_modify(|count| *count += 1);
            }
        });
        late
    }

    fn inner(&self) -> Result<&Arc<dyn Store>, StoreError> {
        self.inner.get().ok_or_else(|| self.reason.clone())
    }
}

#[async_trait]
impl Store for LateStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>, StoreError> {
        self.inner()?.load(key).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>, StoreError> {
        self.inner()?.list(prefix).await
    }

    async fn compare_and_set(
        &self,
        key: &Key,
        expected: Option<Revision>,
        value: &[u8],
    ) -> Result<Outcome, StoreError> {
        self.inner()?.compare_and_set(key, expected, value).await
    }

    fn era(&self) -> u64 {
        self.inner.get().map_or(0, |store| store.era())
    }

    fn recalls(&self) -> Option<watch::Receiver<u64>> {
        Some(self.recalls.subscribe())
    }

    async fn close(&self) {
        if let Some(store) = self.inner.get() {
            store.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LateStore;
    use crate::store::memory::MemoryStore;
    use crate::store::{Key, Store, StoreError};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_serves_as_soon_as_it_opens() {
        let away = StoreError::Unavailable { store: "etcd".to_owned(), reason: "refused".to_owned() };
        let (tries, error) = (Arc::new(AtomicU32::new(0)), away.clone());
        let counted = Arc::clone(&tries);
        let late = LateStore::new(away.clone(), move || {
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
