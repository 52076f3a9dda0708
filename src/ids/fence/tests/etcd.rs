//! Members of a real cluster that die and hang while bounds are raised.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Fence, NAME, Raise, ten};
use crate::store::etcd::tests::{Etcd, Version, open};
use crate::store::{Store, StoreError};

/// A result that has not come within this time never comes. tests/chaos measures how soon it comes.
const NEVER: Duration = Duration::from_mins(1);

/// Ranges, and the longest time from one to the next.
async fn raise_until(
    store: Arc<dyn Store>,
    owner: &str,
    stop: Arc<AtomicBool>,
) -> (Vec<(u64, u64)>, Duration) {
    let mut fence = Fence::open(store, NAME, owner, 1).await.unwrap();
    let (mut ranges, mut longest, mut last) = (Vec::new(), Duration::ZERO, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        // Generators do the same: a call that takes longer is dropped, wherever it stands.
        match tokio::time::timeout(Duration::from_secs(3), ten(&mut fence)).await {
            Ok(Ok(Raise::Raised { from, to })) => {
                ranges.push((from, to));
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            Ok(Ok(declined)) => panic!("{declined:?}"),
            Ok(Err(_)) | Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (ranges, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_die_and_hang_while_bounds_are_raised() {
    for version in Version::ALL {
        let Some(mut etcd) = Etcd::start(version, 3) else { continue };
        let stop = Arc::new(AtomicBool::new(false));
        let mut owners = Vec::new();
        for owner in ["p1", "p2", "p3"] {
            let (store, stop) = (Arc::new(open(&etcd, owner).await), stop.clone());
            owners.push(tokio::spawn(async move { raise_until(store, owner, stop).await }));
        }
        for member in 0..3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            etcd.signal(member, "STOP");
            tokio::time::sleep(Duration::from_secs(3)).await;
            etcd.signal(member, "CONT");
            tokio::time::sleep(Duration::from_millis(500)).await;
            etcd.kill(member);
            tokio::time::sleep(Duration::from_secs(2)).await;
            etcd.restart(member);
            assert!(etcd.wait_until_healthy(), "{}", etcd.log());
        }
        stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for owner in owners {
            let (ranges, longest) = owner.await.unwrap();
            assert!(ranges.len() > 10, "{} ranges", ranges.len());
            println!("{version:?}: {} ranges, at most {longest:?} from one to the next", ranges.len());
            all.extend(ranges);
        }
        all.sort_unstable();
        assert!(all.is_sorted_by(|(_, end), (from, _)| end <= from), "ranges overlap: {all:?}");
    }
}

#[tokio::test]
async fn behind_a_copy_that_was_put_back_bounds_go_on_where_the_operator_says() {
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let mut fence = Fence::open(Arc::new(open(&etcd, "p1").await), NAME, "p1", 1).await.unwrap();
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 1, to: 11 }));
    let copy = etcd.snapshot();
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 11, to: 21 }));
    etcd.restore(&copy);
    let end = Instant::now() + NEVER;
    loop {
        match ten(&mut fence).await {
            Err(StoreError::Suspect { .. }) => break,
            Ok(raised) => panic!("{raised:?} from a store that went back"),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
    etcd.raise(&[(NAME, 100)]);
    loop {
        match ten(&mut fence).await {
            Ok(raised) => break assert_eq!(raised, Raise::Raised { from: 100, to: 110 }),
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
