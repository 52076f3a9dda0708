//! The lock-free part under threads, with a second generator of the same identity that takes time away in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{NAME, SECOND, by, n};
use crate::ids::block::IdBlock;
use crate::ids::nodes::Node;
use crate::ids::timestamp::clock::SystemClock;
use crate::ids::timestamp::{Timestamp, TimestampSpec};
use crate::store::memory::MemoryStore;

/// Takes for a second; firsts and counts of runs.
fn storm(preset: &str) -> Vec<(u64, u64)> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let store = Arc::new(MemoryStore::new());
    let spec = TimestampSpec { advance: SECOND, node: Node::Fixed(0), ..by(preset) };
    let open = || {
        let clock = Arc::new(SystemClock::new());
        runtime.block_on(Timestamp::open(store.clone(), NAME, "p1", spec.clone(), 0, clock)).unwrap()
    };
    let (generator, other) = (open(), open());
    let stop = AtomicBool::new(false);
    let mut all = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..3_u64)
            .map(|thread| {
                let (generator, stop, runtime) = (&generator, &stop, &runtime);
                scope.spawn(move || {
                    let (mut mine, mut above, mut turn) = (Vec::new(), 0, thread);
                    while !stop.load(Ordering::Relaxed) && mine.len() < 300_000 {
                        turn += 1;
                        let count = n(if turn % 100 == 0 { 1 + turn % 700 } else { 1 + turn % 3 });
                        let runs = generator
                            .try_take(count)
                            .or_else(|| runtime.block_on(generator.take(count, SECOND)).ok());
                        for run in runs.into_iter().flat_map(IdBlock::runs) {
                            assert!(run.first() > above, "ids of one thread ascend");
                            above = run.last();
                            mine.push((run.first() / run.step(), run.count()));
                        }
                    }
                    mine
                })
            })
            .collect();
        let mut all = Vec::new();
        let end = Instant::now() + Duration::from_secs(1);
        while Instant::now() < end {
            if let Ok(runs) = runtime.block_on(other.take(n(3), SECOND)) {
                all.extend(runs.runs().map(|run| (run.first() / run.step(), run.count())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        for taker in takers {
            all.extend(taker.join().unwrap());
        }
        all
    });
    runtime.block_on(async {
        generator.close().await;
        other.close().await;
    });
    all.sort_unstable();
    all
}

#[test]
fn threads_never_share_an_id() {
    for preset in ["snowflake", "leaf", "pd-tso"] {
        let all = storm(preset);
        assert!(all.len() > 1_000, "{preset}: {} runs", all.len());
        for two in all.windows(2) {
            assert!(two[0].0 + two[0].1 <= two[1].0, "{preset}: {two:?}");
        }
    }
}
