//! Several proxies on one store that loses, delays and repeats, each crashing and starting again. A failure names its
//! seed.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::n;
use crate::ids::generator::Sequence;
use crate::ids::sequence::{Batch, SequenceSpec};
use crate::ids::simulated::{Log, each_seed};
use crate::ids::{Generator, close_all};
use crate::store::memory::{Faults, MemoryStore};
use crate::store::{GeneratorRecord, Key, record};

const NAME: &str = "shop.orders";
const OWNERS: u32 = 3;
const STEPS: u32 = 60;
const DEADLINE: Duration = Duration::from_millis(50);

struct World {
    seed: u64,
    store: Arc<MemoryStore>,
    log: parking_lot::Mutex<Log>,
}

impl World {
    fn bound(&self) -> u64 {
        let key = Key::generator(NAME);
        self.store.peek(&key).map_or(0, |json| record::decode::<GeneratorRecord>(&key, &json).unwrap().bound)
    }

    fn issued(&self, ids: &crate::ids::block::IdBlock, who: &str) {
        assert!(
            ids.last() < self.bound(),
            "seed {}: {who} issued {} at a bound of {}",
            self.seed,
            ids.last(),
            self.bound()
        );
        let mut log = self.log.lock();
        for k in 0..ids.count() {
            let id = ids.nth(k).unwrap();
            if let Some(other) = log.insert(id, who.to_owned()) {
                panic!("seed {}: {id} issued to {other} and to {who}", self.seed);
            }
        }
    }
}

async fn owner(world: Arc<World>, number: u32) {
    let mut random = StdRng::seed_from_u64(world.seed * 31 + u64::from(number));
    // Batches of one length end where others ended before.
    let batch = if world.seed.is_multiple_of(2) { 10 } else { random.gen_range(1..30) };
    let spec = SequenceSpec {
        batch: Batch::Fixed(n(batch)),
        low_water: random.gen_range(0.01..=1.0),
        ..SequenceSpec::default()
    };
    let mut term = 0;
    let mut sequence: Option<Arc<Sequence>> = None;
    for _ in 0..STEPS {
        let Some(open) = &sequence else {
            let who = format!("p{number}");
            sequence = Sequence::open(world.store.clone(), NAME, &who, spec.clone(), 0, u64::MAX).await.ok();
            term += 1;
            continue;
        };
        let who = format!("p{number} in term {term}");
        let count = n(if random.gen_bool(0.1) { random.gen_range(1..100) } else { random.gen_range(1..5) });
        match random.gen_range(0..100) {
            0..2 => {
                // A crash: whatever is under way continues without it.
                sequence = None;
            }
            2..4 => {
                if random.gen_bool(0.5) {
                    open.close().await;
                } else {
                    close_all(&*world.store, vec![Generator::Sequence(open.clone())]).await;
                }
                assert_eq!(open.try_take(n(1)), None);
                sequence = None;
            }
            4..8 => {
                let id = world.bound().saturating_sub(10) + random.gen_range(0..40);
                // Half of them are cut off in the middle.
                let deadline = if random.gen_bool(0.5) { DEADLINE / 10 } else { DEADLINE * 20 };
                if let Ok(advanced) = open.advance_past(id, deadline).await
                    && advanced == super::Advanced::Past
                    && let Ok(ids) = open.take(count, DEADLINE).await
                {
                    world.issued(&ids, &who);
                    assert!(ids.first() > id, "seed {}: {} after the explicit {id}", world.seed, ids.first());
                }
            }
            8..10 => {
                let floor = world.bound() + random.gen_range(0..20);
                let _ = open.raise_floor(floor, DEADLINE).await;
                if let Ok(ids) = open.take(count, DEADLINE).await {
                    world.issued(&ids, &who);
                    assert!(
                        ids.first() > floor,
                        "seed {}: {} at a floor of {floor}",
                        world.seed,
                        ids.first()
                    );
                }
            }
            10..12 => {
                let highest = world.bound().saturating_sub(10) + random.gen_range(0..40);
                if open.rise_above(highest, DEADLINE).await.is_ok()
                    && let Ok(ids) = open.take(count, DEADLINE).await
                {
                    world.issued(&ids, &who);
                    assert!(ids.first() > highest, "seed {}: {} after {highest}", world.seed, ids.first());
                }
            }
            12..50 => {
                if let Some(ids) = open.try_take(count) {
                    world.issued(&ids, &who);
                }
            }
            50..60 => tokio::time::sleep(Duration::from_millis(random.gen_range(0..100))).await,
            _ => {
                if let Ok(ids) = open.take(count, DEADLINE).await {
                    world.issued(&ids, &who);
                }
            }
        }
    }
}

async fn run(seed: u64) -> Log {
    let mut random = StdRng::seed_from_u64(seed);
    let store = Arc::new(MemoryStore::with_faults(seed, Faults::at_random(&mut random)));
    let world = Arc::new(World { seed, store, log: parking_lot::Mutex::default() });
    let owners: JoinSet<()> = (0..OWNERS).map(|number| owner(world.clone(), number)).collect();
    owners.join_all().await;
    std::mem::take(&mut *world.log.lock())
}

#[test]
fn no_id_twice_and_none_above_a_committed_bound() {
    each_seed(100, run);
}
