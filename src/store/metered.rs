//! A store whose calls are timed and whose failures are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Json, Key, Outcome, Result, Revision, Store, StoreError, Versioned, Write};
use crate::meter::Timing;

#[derive(Debug, Default)]
pub struct StoreMeter {
    pub read: Operation,
    pub list: Operation,
    pub write: Operation,
    /// The last call failed since the store was not there.
    is_away: AtomicBool,
}

#[derive(Debug, Default)]
pub struct Operation {
    /// Failures included.
    pub took: Timing,
    failures: [AtomicU64; FAILURES.len()],
}

/// Why calls fail, in a word for each. "unavailable": also where a call was given up.
const FAILURES: [&str; 5] = ["unavailable", "unknown", "refused", "suspect", "other"];

impl StoreMeter {
    pub fn operations(&self) -> [(&'static str, &Operation); 3] {
        [("read", &self.read), ("list", &self.list), ("write", &self.write)]
    }

    pub fn is_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }
}

impl Operation {
    /// Calls that failed, by why.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FAILURES.into_iter().zip(&self.failures).map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }

    fn fail(&self, why: usize) {
        if let Some(count) = self.failures.get(why) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A call that is dropped sooner says nothing of the store: the caller has gone, as a client of the console may.
const GIVEN_UP_AFTER: Duration = Duration::from_millis(100);

/// One call. Dropped before its end, it was given up.
struct Call<'a> {
    meter: &'a StoreMeter,
    operation: &'a Operation,
    begun: Instant,
    has_ended: bool,
}

impl<'a> Call<'a> {
    fn new(meter: &'a StoreMeter, operation: &'a Operation) -> Self {
        Call { meter, operation, begun: Instant::now(), has_ended: false }
    }

    fn ended<T>(mut self, answer: Result<T>) -> Result<T> {
        self.has_ended = true;
        if let Err(error) = &answer {
            self.operation.fail(match error {
                StoreError::Unavailable { .. } => 0,
                StoreError::UnknownOutcome { .. } => 1,
                StoreError::Refused { .. } => 2,
                StoreError::Suspect { .. } | StoreError::SteppedBack { .. } => 3,
                _ => 4,
            });
        }
        self.meter.is_away.store(answer.as_ref().is_err_and(StoreError::passes), Ordering::Relaxed);
        answer
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        self.operation.took.note(took);
        if !self.has_ended && took >= GIVEN_UP_AFTER {
            self.operation.fail(0);
            self.meter.is_away.store(true, Ordering::Relaxed);
        }
    }
}

pub struct MeteredStore {
    inner: Arc<dyn Store>,
    meter: Arc<StoreMeter>,
}

impl MeteredStore {
    pub fn new(inner: Arc<dyn Store>, meter: Arc<StoreMeter>) -> Self {
        MeteredStore { inner, meter }
    }
}

#[async_trait]
impl Store for MeteredStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        let calling = Call::new(&self.meter, &self.meter.read);
        calling.ended(self.inner.load(key).await)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let calling = Call::new(&self.meter, &self.meter.list);
        calling.ended(self.inner.list(prefix).await)
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        let calling = Call::new(&self.meter, &self.meter.write);
        calling.ended(self.inner.compare_and_set(key, expected, value).await)
    }

    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let calling = Call::new(&self.meter, &self.meter.write);
        calling.ended(self.inner.write_all(writes).await)
    }

    fn era(&self) -> u64 {
        self.inner.era()
    }

    fn recalls(&self) -> Option<watch::Receiver<u64>> {
        self.inner.recalls()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{MeteredStore, StoreMeter};
    use crate::store::memory::MemoryStore;
    use crate::store::{Key, Outcome, Store, conformance};

    #[tokio::test]
    async fn it_is_the_store_behind_it() {
        conformance::all(&MeteredStore::new(Arc::new(MemoryStore::new()), Arc::default())).await;
    }

    #[tokio::test]
    async fn calls_are_timed() {
        let meter = Arc::new(StoreMeter::default());
        let store = MeteredStore::new(Arc::new(MemoryStore::new()), meter.clone());
        let written = store.compare_and_set(&Key::of("k"), None, b"{}").await.unwrap();
        assert!(matches!(written, Outcome::Written(_)));
        store.load(&Key::of("k")).await.unwrap();
        store.load(&Key::of("l")).await.unwrap();
        let counts = meter.operations().map(|(_, operation)| operation.took.read().count());
        assert_eq!((counts, meter.is_away()), ([2, 0, 1], false));
        assert_eq!(failed(&meter), []);
    }

    /// Operation, why and how often.
    fn failed(meter: &StoreMeter) -> Vec<(&'static str, &'static str, u64)> {
        let of = |(name, operation): (&'static str, &super::Operation)| {
            operation.failures().map(|(why, count)| (name, why, count)).collect::<Vec<_>>()
        };
        meter.operations().into_iter().flat_map(of).filter(|(_, _, count)| *count > 0).collect()
    }

    #[tokio::test]
    async fn failures_are_counted_by_what_they_are() {
        let meter = Arc::new(StoreMeter::default());
        let memory = Arc::new(MemoryStore::new());
        let store = MeteredStore::new(memory.clone(), meter.clone());
        memory.set_away(true);
        assert!(store.load(&Key::of("k")).await.is_err());
        assert!(meter.is_away());
        memory.set_away(false);
        assert!(store.load(&Key::of("k")).await.is_ok());
        assert!(!meter.is_away());
        // A caller that gives up at once says nothing about the store.
        drop(super::Call::new(&meter, &meter.list));
        assert!(!meter.is_away());
        // A call that is given up before it was answered.
        let begun = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        drop(super::Call { begun, ..super::Call::new(&meter, &meter.list) });
        assert!(meter.is_away());
        assert_eq!(failed(&meter), [("read", "unavailable", 1), ("list", "unavailable", 1)]);
    }
}
