//! The lock-free part under threads that do everything at once: one bit an id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{SECOND, by, n};
use crate::ids::block::{IdBlock, Spacing};
use crate::ids::generator::Sequence;
use crate::store::memory::{Faults, MemoryStore};
use crate::store::{GeneratorRecord, Key, Outcome, Store, record};

/// One bit an id.
struct Issued {
    bits: Vec<AtomicU64>,
    count: AtomicU64,
}

impl Issued {
    fn new(ids: usize) -> Self {
        Issued { bits: (0..ids.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), count: AtomicU64::new(0) }
    }

    fn note(&self, ids: &IdBlock) {
        for k in 0..ids.count() {
            let id = usize::try_from(ids.nth(k).unwrap()).unwrap();
            let old = self.bits[id / 64].fetch_or(1 << (id % 64), Ordering::Relaxed);
            assert_eq!(old & (1 << (id % 64)), 0, "id {id} was issued twice");
        }
        self.count.fetch_add(ids.count(), Ordering::Relaxed);
    }
}

/// A panic must not leave the other threads running for ever.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const IDS: usize = 200_000_000;
/// Stop before ids outgrow the bits.
const IDS_STOP: u64 = 150_000_000;

/// Takes another proxy's ranges out of the same sequence, so that ours do not adjoin.
async fn disturb(store: &MemoryStore, issued: &Issued) {
    let key = Key::generator("shop.orders");
    let found = store.load(&key).await.unwrap().unwrap();
    let old: GeneratorRecord = record::decode(&key, &found.value).unwrap();
    let new = GeneratorRecord { bound: old.bound + 3, token: "other".to_owned(), ..old.clone() };
    // A range of unknown outcome is burnt.
    let outcome = store.compare_and_set(&key, Some(found.revision), &record::encode(&new)).await;
    if matches!(outcome, Ok(Outcome::Written(_))) {
        issued.note(&IdBlock::new(old.bound, Spacing::by(n(1)), n(3)).unwrap());
    }
}

fn storm(batch: u64, faults: Faults, seconds: u64) -> u64 {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let store = Arc::new(MemoryStore::with_faults(7, faults));
    let sequence =
        runtime.block_on(Sequence::open(store.clone(), "shop.orders", "p1", by(batch), 0, u64::MAX)).unwrap();
    let issued = Issued::new(IDS);
    let stop = AtomicBool::new(false);
    let last = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (sequence, issued, stop, last, runtime) = (&sequence, &issued, &stop, &last, &runtime);
            scope.spawn(move || {
                let mut above = 0;
                let mut turn = thread;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let count = n(if turn % 100 == 0 { 1 + turn % 700 } else { 1 + turn % 3 });
                    let ids = match sequence.try_take(count) {
                        Some(ids) => ids,
                        None if turn % 2 == 0 => continue,
                        None => match runtime.block_on(sequence.take(count, SECOND)) {
                            Ok(ids) => ids,
                            Err(_) => continue,
                        },
                    };
                    assert!(ids.first() > above, "ids of one thread ascend");
                    above = ids.last();
                    if above > IDS_STOP {
                        stop.store(true, Ordering::Relaxed);
                    }
                    issued.note(&ids);
                }
                last.lock().push(above);
            });
        }
        let _stop = StopOnDrop(&stop);
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut turn = 0;
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            turn += 1;
            if turn % 3 == 0 {
                runtime.block_on(disturb(&store, &issued));
            }
            let reserved = sequence.stats().reserved;
            let id = sequence.stats().bound.saturating_sub(reserved / 2 + 1);
            let _ = runtime.block_on(sequence.advance_past(id, SECOND));
            if turn % 50 == 0 {
                let _ = runtime.block_on(sequence.advance_past(id + 3 * batch, SECOND));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    runtime.block_on(sequence.close());
    let bound = sequence.stats().bound;
    assert!(last.lock().iter().all(|&id| id < bound), "the bound stays above all that was issued");
    issued.count.load(Ordering::Relaxed)
}

#[test]
fn threads_never_share_an_id() {
    let quiet = Faults::default();
    let noisy = Faults {
        lost_reply: 100,
        lost_request: 100,
        false_conflict: 100,
        delay: 200,
        delay_max: Duration::from_millis(1),
        ..quiet
    };
    for (batch, faults) in [(10, quiet), (1_000, quiet), (1_000, noisy), (100_000, noisy)] {
        let issued = storm(batch, faults, 1);
        assert!(issued > 1_000, "batch {batch}: {issued} ids");
    }
}
