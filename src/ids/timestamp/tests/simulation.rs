//! Several proxies on one store that loses, delays and repeats, with clocks that jump, each crashing and starting again. A
//! failure names its seed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::{NAME, SimClock, bound, n, of_layout};
use crate::ids::block::IdBlock;
use crate::ids::layout::{Field, Layout, Moment, Part};
use crate::ids::nodes::Node;
use crate::ids::simulated::{Log, each_seed};
use crate::ids::timestamp::{Timestamp, TimestampSpec};
use crate::store::memory::{Faults, MemoryStore};

/// The first two are one node by mistake.
const NODES: [u64; 4] = [1, 1, 2, 3];
const STEPS: u32 = 60;
const DEADLINE: Duration = Duration::from_millis(50);

struct World {
    seed: u64,
    store: Arc<MemoryStore>,
    layout: Layout,
    log: Mutex<Log>,
}

impl World {
    /// Checks and notes them; returns the last.
    fn issued(&self, block: IdBlock, node: u64, above: u64, who: &str) -> u64 {
        let seed = self.seed;
        let bound = bound(&self.store, node);
        let mut log = self.log.lock();
        let mut above = above;
        for run in block.runs() {
            for id in (0..run.count()).map(|k| run.nth(k).unwrap()) {
                let parts = self.layout.decode(id).unwrap();
                assert_eq!(parts.node, Some(node), "seed {seed}: {who}");
                assert!(parts.ticks < bound, "seed {seed}: {who} issued {parts:?} at a bound of {bound}");
                assert!(id > above, "seed {seed}: {who} issued {id} after {above}");
                above = id;
                if let Some(other) = log.insert(id, who.to_owned()) {
                    panic!("seed {seed}: {id} issued to {other} and to {who}");
                }
            }
        }
        above
    }
}

/// 16 ids in a millisecond, so that they overflow; the node below, between or above the others.
fn layout(random: &mut StdRng) -> Layout {
    let mut fields =
        vec![Field::new(Part::Timestamp, 45), Field::new(Part::Sequence, 4), Field::new(Part::Padding, 1)];
    fields.insert(random.gen_range(0..3), Field::new(Part::Node, 2));
    let start = if random.gen_bool(0.5) { 10 } else { 0 };
    Layout::new(&fields, Moment::from_micros(super::START_MICROS - 1_000_000_000), n(1_000), start).unwrap()
}

async fn owner(world: Arc<World>, number: usize) {
    let mut random = StdRng::seed_from_u64(world.seed * 31 + number as u64);
    let node = NODES[number];
    let is_alone = NODES.iter().filter(|other| **other == node).count() == 1;
    let spec = TimestampSpec {
        node: Node::Fixed(node),
        advance: Duration::from_millis(random.gen_range(20..3_000)),
        max_ahead: random.gen_bool(0.3).then(|| Duration::from_millis(random.gen_range(1..500))),
        max_forward: Duration::from_secs(random.gen_range(1..3_600)),
        ..of_layout(world.layout.clone())
    };
    let clock = SimClock::new();
    let (mut term, mut above) = (0, 0);
    let mut generator: Option<Arc<Timestamp>> = None;
    for _ in 0..STEPS {
        let Some(open) = &generator else {
            // Two processes of one name, that share a node: only the bound keeps them apart.
            let name = if is_alone { format!("p{number}") } else { "twins".to_owned() };
            let store = world.store.clone();
            generator = Timestamp::open(store, NAME, &name, spec.clone(), 0, clock.clone()).await.ok();
            term += 1;
            if !is_alone {
                above = 0;
            }
            continue;
        };
        let who = format!("p{number} in term {term}");
        let count = n(if random.gen_bool(0.1) { random.gen_range(1..200) } else { random.gen_range(1..5) });
        match random.gen_range(0..100) {
            0..2 => {
                // A crash: whatever is under way continues without it.
                generator = None;
            }
            2..4 => {
                open.close().await;
                assert_eq!(open.try_take(n(1)), None);
                generator = None;
            }
            4..10 => clock.jump(random.gen_range(-7_200..7_200)),
            10..12 => {
                // A pause in which others go on.
                tokio::time::sleep(Duration::from_millis(random.gen_range(0..5_000))).await;
            }
            12..55 => {
                if let Some(runs) = open.try_take(count) {
                    above = world.issued(runs, node, above, &who);
                }
            }
            55..65 => tokio::time::sleep(Duration::from_millis(random.gen_range(0..100))).await,
            _ => {
                if let Ok(runs) = open.take(count, DEADLINE).await {
                    above = world.issued(runs, node, above, &who);
                }
            }
        }
    }
}

async fn run(seed: u64) -> Log {
    let mut random = StdRng::seed_from_u64(seed);
    let store = Arc::new(MemoryStore::with_faults(seed, Faults::at_random(&mut random)));
    let layout = layout(&mut random);
    let world = Arc::new(World { seed, store, layout, log: Mutex::default() });
    let owners: JoinSet<()> = (0..NODES.len()).map(|number| owner(world.clone(), number)).collect();
    owners.join_all().await;
    std::mem::take(&mut *world.log.lock())
}

#[test]
fn no_id_twice_none_above_a_committed_bound_and_ascending_on_each_node() {
    each_seed(200, run);
}
