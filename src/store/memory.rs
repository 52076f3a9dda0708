//! A store in memory that fails on purpose, from a seed: what the generators must survive, and nothing durable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Json, Key, Outcome, Result, Revision, Store, StoreError, Versioned, Write};

/// The number of calls, of a thousand, in which each thing goes wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The write is done, the answer is lost.
    pub lost_reply: u32,
    /// The write is not done, and nobody says so.
    pub lost_request: u32,
    /// Nobody answers now. The write is tried later, and its sender does not learn of that.
    pub late_request: u32,
    /// A conflict is reported although the expected revision stands.
    pub false_conflict: u32,
    /// Several writes at once are done, and none of them is said to be.
    pub unsaid: u32,
    /// The next few calls fail.
    pub away: u32,
    /// The call takes up to `delay_max`, before or after it acts.
    pub delay: u32,
    pub delay_max: Duration,
}

#[cfg(test)]
impl Faults {
    /// Each of them never, or up to once in five calls.
    pub(crate) fn at_random(random: &mut StdRng) -> Self {
        let mut rate = |max: u32| if random.gen_bool(0.5) { random.gen_range(0..max) } else { 0 };
        Faults {
            lost_reply: rate(200),
            lost_request: rate(200),
            late_request: rate(200),
            false_conflict: rate(200),
            unsaid: rate(500),
            away: rate(50),
            delay: rate(500),
            delay_max: Duration::from_millis(40),
        }
    }
}

pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
    hook: Option<Hook>,
}

/// When in a call the test's hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    BeforeLoad,
    BeforeWrite,
    AfterWrite,
}

type Hook = Box<dyn Fn(&MemoryStore, Moment, &Key) + Send + Sync>;

/// See [`MemoryStore::copy`].
pub struct StoreCopy {
    records: BTreeMap<Key, Versioned<Json>>,
    revision: u64,
}

struct Shared {
    records: BTreeMap<Key, Versioned<Json>>,
    revision: u64,
    writes: u64,
    calls: u64,
    faults: Faults,
    random: StdRng,
    /// Stopped by [`MemoryStore::set_away`].
    stopped: bool,
    /// Calls that still fail by [`Faults::away`].
    away_calls: u32,
    era: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    LostReply,
    LostRequest,
    LateRequest,
    FalseConflict,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::with_faults(0, Faults::default())
    }

    pub fn with_faults(seed: u64, faults: Faults) -> Self {
        MemoryStore {
            shared: Arc::new(Mutex::new(Shared {
                records: BTreeMap::new(),
                revision: 0,
                writes: 0,
                calls: 0,
                faults,
                random: StdRng::seed_from_u64(seed),
                stopped: false,
                away_calls: 0,
                era: 0,
            })),
            hook: None,
        }
    }

    /// `hook` is called at each [`Moment`] of each call, and may panic.
    pub fn with_hook(hook: impl Fn(&MemoryStore, Moment, &Key) + Send + Sync + 'static) -> Self {
        MemoryStore { hook: Some(Box::new(hook)), ..Self::new() }
    }

    /// While away, every call fails at once.
    pub fn set_away(&self, away: bool) {
        self.shared.lock().stopped = away;
    }

    /// All that stands, to be put back later.
    pub fn copy(&self) -> StoreCopy {
        let shared = self.shared.lock();
        StoreCopy { records: shared.records.clone(), revision: shared.revision }
    }

    pub fn put_back(&self, copy: &StoreCopy) {
        let mut shared = self.shared.lock();
        shared.records.clone_from(&copy.records);
        shared.revision = copy.revision;
    }

    /// Sets the era, as an operator does who raises all floors.
    pub fn set_era(&self, era: u64) {
        self.shared.lock().era = era;
    }

    pub fn set_faults(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    /// Calls that reached the store, to read and to write.
    pub fn calls(&self) -> u64 {
        self.shared.lock().calls
    }

    /// Records that were written, answered or not.
    pub fn writes(&self) -> u64 {
        self.shared.lock().writes
    }

    /// The value under `key`, by no call of the store.
    pub fn peek(&self, key: &Key) -> Option<Json> {
        self.shared.lock().records.get(key).map(|found| found.value.clone())
    }

    /// Writes by hand, as somebody would who restores an old copy; the revision goes on.
    pub fn poke(&self, key: &Key, value: &[u8]) {
        self.shared.lock().write(key, value);
    }

    fn call_hook(&self, moment: Moment, key: &Key) {
        if let Some(hook) = &self.hook {
            hook(self, moment, key);
        }
    }

    /// Delays before and after a call; an error if the store is away.
    fn admit(&self) -> Result<(Duration, Duration)> {
        let mut shared = self.shared.lock();
        shared.calls += 1;
        let away = shared.faults.away;
        if shared.away_calls > 0 {
            shared.away_calls -= 1;
        } else if shared.happens(away) {
            shared.away_calls = shared.random.gen_range(1..20);
        }
        if shared.stopped || shared.away_calls > 0 {
            return Err(StoreError::Unavailable { store: "memory".to_owned(), reason: "away".to_owned() });
        }
        Ok((shared.delay(), shared.delay()))
    }
}

impl MemoryStore {
    /// Writes them in one call, whose faults are those of all.
    async fn send(&self, writes: Vec<Write>) -> Result<Vec<Outcome>> {
        let keys: Vec<Key> = writes.iter().map(|write| write.key.clone()).collect();
        let Some(first) = keys.first().cloned() else { return Ok(Vec::new()) };
        for key in &keys {
            self.call_hook(Moment::BeforeWrite, key);
        }
        let (before, after) = self.admit()?;
        pause(before).await;
        let unknown = Err(StoreError::UnknownOutcome {
            store: "memory".to_owned(),
            key: first,
            reason: "the connection was cut".to_owned(),
        });
        let (fault, late) = {
            let mut shared = self.shared.lock();
            (shared.fault(), shared.faults.delay_max)
        };
        let answer = match fault {
            Fault::None => Ok(self.shared.lock().write_all(&writes)),
            Fault::LostReply => {
                self.shared.lock().write_all(&writes);
                unknown
            }
            Fault::LostRequest => unknown,
            Fault::LateRequest => {
                let shared = Arc::clone(&self.shared);
                tokio::spawn(async move {
                    pause(late).await;
                    shared.lock().write_all(&writes);
                });
                unknown
            }
            Fault::FalseConflict => {
                let shared = self.shared.lock();
                Ok(keys.iter().map(|key| Outcome::Conflict(shared.records.get(key).cloned())).collect())
            }
        };
        pause(after).await;
        for key in &keys {
            self.call_hook(Moment::AfterWrite, key);
        }
        answer
    }
}

async fn pause(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

impl Shared {
    fn happens(&mut self, of_a_thousand: u32) -> bool {
        of_a_thousand > 0 && self.random.gen_range(0..1000) < of_a_thousand
    }

    fn delay(&mut self) -> Duration {
        let (of_a_thousand, max) = (self.faults.delay, self.faults.delay_max);
        if self.happens(of_a_thousand) {
            max.mul_f64(self.random.gen_range(0.0..1.0))
        } else {
            Duration::ZERO
        }
    }

    fn fault(&mut self) -> Fault {
        let faults = self.faults;
        if self.happens(faults.lost_reply) {
            Fault::LostReply
        } else if self.happens(faults.lost_request) {
            Fault::LostRequest
        } else if self.happens(faults.late_request) {
            Fault::LateRequest
        } else if self.happens(faults.false_conflict) {
            Fault::FalseConflict
        } else {
            Fault::None
        }
    }

    fn write(&mut self, key: &Key, value: &[u8]) -> Revision {
        self.revision += 1;
        self.writes += 1;
        let revision = Revision(self.revision);
        self.records.insert(key.clone(), Versioned { revision, value: value.to_vec() });
        revision
    }

    fn write_all(&mut self, writes: &[Write]) -> Vec<Outcome> {
        let write = |write: &Write| {
            let found = self.records.get(&write.key);
            if found.map(|found| found.revision) == write.expected {
                Outcome::Written(self.write(&write.key, &write.value))
            } else {
                Outcome::Conflict(found.cloned())
            }
        };
        writes.iter().map(write).collect()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn load(&self, key: &Key) -> Result<Option<Versioned<Json>>> {
        self.call_hook(Moment::BeforeLoad, key);
        let (before, after) = self.admit()?;
        pause(before).await;
        let found = self.shared.lock().records.get(key).cloned();
        pause(after).await;
        Ok(found)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(Key, Versioned<Json>)>> {
        let (before, after) = self.admit()?;
        pause(before).await;
        let from = Key(prefix.to_owned());
        let found = self
            .shared
            .lock()
            .records
            .range(from..)
            .take_while(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(key, found)| (key.clone(), found.clone()))
            .collect();
        pause(after).await;
        Ok(found)
    }

    async fn compare_and_set(&self, key: &Key, expected: Option<Revision>, value: &[u8]) -> Result<Outcome> {
        let write = Write { key: key.clone(), expected, value: value.to_vec() };
        let mut outcomes = self.send(vec![write]).await?;
        Ok(outcomes.pop().expect("one outcome for one write"))
    }

    async fn write_all(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let outcomes = self.send(writes.to_vec()).await?;
        let is_unsaid = {
            let mut shared = self.shared.lock();
            let unsaid = shared.faults.unsaid;
            shared.happens(unsaid)
        };
        Ok(outcomes.iter().map(|outcome| !is_unsaid && matches!(outcome, Outcome::Written(_))).collect())
    }

    fn era(&self) -> u64 {
        self.shared.lock().era
    }
}

#[cfg(test)]
mod tests {
    use super::{Faults, MemoryStore};
    use crate::store::{Key, Outcome, Store, StoreError, conformance};

    #[tokio::test]
    async fn it_is_a_store() {
        conformance::all(&MemoryStore::new()).await;
    }

    #[tokio::test]
    async fn each_fault_is_what_it_says() {
        async fn one(faults: Faults) -> (Result<Outcome, StoreError>, bool) {
            let store = MemoryStore::with_faults(1, faults);
            let key = Key::generator("a.b");
            let answer = store.compare_and_set(&key, None, b"x").await;
            tokio::task::yield_now().await;
            (answer, store.peek(&key).is_some())
        }
        let always = 1000;
        assert!(matches!(one(Faults::default()).await, (Ok(Outcome::Written(_)), true)));
        let (answer, done) = one(Faults { lost_reply: always, ..Faults::default() }).await;
        assert!(matches!(answer, Err(StoreError::UnknownOutcome { .. })) && done);
        let (answer, done) = one(Faults { lost_request: always, ..Faults::default() }).await;
        assert!(matches!(answer, Err(StoreError::UnknownOutcome { .. })) && !done);
        let (answer, done) = one(Faults { late_request: always, ..Faults::default() }).await;
        assert!(matches!(answer, Err(StoreError::UnknownOutcome { .. })) && done);
        let (answer, done) = one(Faults { false_conflict: always, ..Faults::default() }).await;
        assert!(matches!(answer, Ok(Outcome::Conflict(None))) && !done);
        let (answer, done) = one(Faults { away: always, ..Faults::default() }).await;
        assert!(matches!(answer, Err(StoreError::Unavailable { .. })) && !done);
    }
}
