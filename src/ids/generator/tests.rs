use crate::ids::ID_MAX;
use crate::ids::block::n;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::errors::TakeError;
use crate::ids::generator::{Advanced, Sequence};
use crate::ids::sequence::{Batch, SequenceSpec};
use crate::store::memory::{Faults, MemoryStore};
use crate::store::{GeneratorRecord, Key, StoreError, record};

mod above;
mod simulation;
mod threads;

const SECOND: Duration = Duration::from_secs(1);

fn by(batch: u64) -> SequenceSpec {
    SequenceSpec { batch: Batch::Fixed(n(batch)), ..SequenceSpec::default() }
}

async fn open(store: &Arc<MemoryStore>, spec: SequenceSpec, floor: u64, max: u64) -> Arc<Sequence> {
    Sequence::open(store.clone(), "shop.orders", "p1", spec, floor, max).await.unwrap()
}

async fn first(sequence: &Sequence, count: u64) -> u64 {
    sequence.take(n(count), SECOND).await.unwrap().first()
}

/// The sequence has issued 1. Another one has reserved from 12 on.
async fn beside_another() -> (Arc<MemoryStore>, Arc<Sequence>) {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (open(&store, by(10), 0, u64::MAX).await, open(&store, by(1_000), 0, u64::MAX).await);
    assert_eq!((first(&a, 1).await, first(&b, 1).await), (1, 12));
    settle().await;
    (store, a)
}

fn stored(store: &MemoryStore) -> GeneratorRecord {
    let key = Key::generator("shop.orders");
    record::decode(&key, &store.peek(&key).unwrap()).unwrap()
}

/// Lets the refiller finish its work.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn ids_follow_each_other_and_lie_below_the_bound() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(10), 0, u64::MAX).await;
    for id in 1..=100 {
        assert_eq!(first(&sequence, 1).await, id, "no gap where nobody else is");
        assert!(stored(&store).bound > id);
    }
    assert_eq!(first(&sequence, 1_000).await, 101, "a run of 100 batches, without a gap");
    assert_eq!(first(&sequence, 1).await, 1_101);
    assert_eq!(sequence.stats().issued, 1_101);
}

#[tokio::test(start_paused = true)]
async fn where_the_first_id_is() {
    async fn check(start: u64, step: u64, offset: u64, floor: u64, expect: &[u64]) {
        let spec = SequenceSpec { start, step: n(step), offset, ..by(2) };
        let sequence = open(&Arc::new(MemoryStore::new()), spec, floor, u64::MAX).await;
        for id in expect {
            assert_eq!(first(&sequence, 1).await, *id);
        }
    }
    check(1, 1, 0, 0, &[1, 2, 3]).await;
    check(0, 1, 0, 0, &[1, 2, 3]).await;
    check(100, 1, 0, 7, &[100, 101]).await;
    check(1, 1, 0, 700, &[701, 702]).await;
    check(1, 2, 1, 0, &[1, 3, 5, 7, 9]).await;
    check(1, 2, 0, 11, &[12, 14]).await;
    check(4, 10, 23, 0, &[13, 23, 33]).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_is_one_run_and_bigger_than_batches_if_need_be() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, SequenceSpec { step: n(5), ..by(7) }, 0, u64::MAX).await;
    let mut above = 0;
    for count in [3, 3, 3, 8, 1, 100, 2, 7, 7, 1] {
        let block = sequence.take(n(count), SECOND).await.unwrap();
        assert!(block.first() > above && block.count() == count && block.first() % 5 == 0);
        assert_eq!(block.last(), block.first() + 5 * (count - 1));
        above = block.last();
        assert!(above < stored(&store).bound);
    }
    let error = sequence.take(n(u64::MAX), SECOND).await;
    assert!(matches!(error, Err(TakeError::TooMany { .. })), "{error:?}");
    assert_eq!(sequence.try_take(n(u64::MAX)), None);
}

#[tokio::test(start_paused = true)]
async fn a_later_term_starts_above_all_earlier_ones() {
    let store = Arc::new(MemoryStore::new());
    let crashed = open(&store, by(10), 0, u64::MAX).await;
    assert_eq!(first(&crashed, 1).await, 1);
    drop(crashed);
    let bound = stored(&store).bound;
    assert!(bound <= 21, "a crash loses at most two ranges");
    let stopped = open(&store, by(10), 0, u64::MAX).await;
    assert_eq!(first(&stopped, 3).await, bound);
    stopped.close().await;
    assert_eq!(stored(&store).bound, bound + 3, "a clean stop loses none");
    assert!(matches!(stopped.take(n(1), SECOND).await, Err(TakeError::Closed { .. })));
    assert_eq!(stopped.try_take(n(1)), None);
    stopped.close().await;
    let last = open(&store, by(10), 0, u64::MAX).await;
    assert_eq!(first(&last, 1).await, bound + 3);
}

#[tokio::test(start_paused = true)]
async fn the_tail_is_handed_back_only_if_nobody_reserved_behind_it() {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (open(&store, by(10), 0, u64::MAX).await, open(&store, by(10), 0, u64::MAX).await);
    let mut ids = vec![first(&a, 1).await, first(&b, 1).await];
    let bound = stored(&store).bound;
    a.close().await;
    assert_eq!(stored(&store).bound, bound, "b holds ids behind a's");
    ids.extend([first(&b, 1).await, first(&b, 1).await]);
    b.close().await;
    assert_eq!(stored(&store).bound, ids[3] + 1);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_the_reserve_lasts_then_1467_then_it_recovers_by_itself() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(100), 0, u64::MAX).await;
    assert_eq!(first(&sequence, 1).await, 1);
    settle().await;
    store.set_away(true);
    let reserved = sequence.stats().reserved;
    assert!(reserved >= 50);
    for id in 2..2 + reserved {
        assert_eq!(sequence.try_take(n(1)).unwrap().first(), id);
    }
    let start = tokio::time::Instant::now();
    let error = sequence.take(n(1), SECOND).await.unwrap_err();
    assert!(start.elapsed() <= SECOND + Duration::from_millis(2));
    assert!(matches!(&error, TakeError::StoreAway { reason, .. } if reason.contains("away")), "{error}");
    for _ in 0..1_000 {
        assert!(sequence.try_take(n(1_000_000)).is_none());
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    store.set_away(false);
    assert_eq!(first(&sequence, 1).await, 2 + reserved, "requests that failed burn no ids");
}

#[tokio::test(start_paused = true)]
async fn an_idle_generator_writes_nothing_and_a_busy_one_seldom() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, SequenceSpec::default(), 0, u64::MAX).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(store.writes(), 1, "its creation");
    for _ in 0..60_000 {
        first(&sequence, 10).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let writes = store.writes();
    assert!(writes <= 10, "{writes} while demand became known");
    for _ in 0..600_000 {
        first(&sequence, 10).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(store.writes() - writes <= 4, "{} in 10 minutes", store.writes() - writes);
    let reserve = sequence.stats().reserved;
    assert!(reserve >= 3_000_000, "{reserve}: half of ten minutes of 10,000 a second");
    let writes = store.writes();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(store.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn one_write_serves_all_who_wait() {
    let store = Arc::new(MemoryStore::with_faults(
        1,
        Faults { delay: 1000, delay_max: Duration::from_millis(100), ..Faults::default() },
    ));
    let sequence = open(&store, by(10), 0, u64::MAX).await;
    let writes = store.writes();
    let takers: Vec<_> = (0..200)
        .map(|_| {
            let sequence = sequence.clone();
            tokio::spawn(async move { first(&sequence, 5).await })
        })
        .collect();
    let mut ids = Vec::new();
    for taker in takers {
        ids.push(taker.await.unwrap());
    }
    assert_eq!(ids, (0..200).map(|k| 1 + 5 * k).collect::<Vec<_>>(), "in the order in which they came");
    assert!(store.writes() - writes <= 3);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_ends_at_its_max_and_never_wraps() {
    async fn check(spec: SequenceSpec, floor: u64, column_max: u64, last: u64) {
        let sequence = open(&Arc::new(MemoryStore::new()), spec, floor, column_max).await;
        let mut ids = Vec::new();
        let error = loop {
            match sequence.take(n(1), SECOND).await {
                Ok(block) => ids.push(block.first()),
                Err(error) => break error,
            }
        };
        assert_eq!(ids.last(), Some(&last));
        assert!(ids.is_sorted());
        assert!(matches!(error, TakeError::Exhausted { wanted: 1, .. }), "{error}");
        assert!(matches!(sequence.take(n(9), SECOND).await, Err(TakeError::Exhausted { .. })));
        assert_eq!(sequence.try_take(n(1)), None);
    }
    check(by(10), 0, 127, 127).await;
    check(SequenceSpec::default(), 0, 127, 127).await;
    check(SequenceSpec { step: n(10), offset: 3, ..by(4) }, 0, 127, 123).await;
    check(SequenceSpec { max: Some(100), ..by(7) }, 50, 127, 100).await;
    check(by(100), ID_MAX - 50, u64::MAX, ID_MAX).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_below_the_max_leaves_the_rest_for_others() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(10), 0, 127).await;
    assert_eq!(first(&sequence, 100).await, 1);
    for count in [28, 100, 1 << 32] {
        let error = sequence.take(n(count), SECOND).await;
        assert!(matches!(error, Err(TakeError::Exhausted { max: 127, .. })), "{error:?}");
    }
    assert_eq!(first(&sequence, 27).await, 101);
    assert!(sequence.take(n(1), SECOND).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_sequence_takes_what_another_proxy_hands_back() {
    let store = Arc::new(MemoryStore::new());
    let (a, b) = (open(&store, by(10), 0, 20).await, open(&store, by(20), 0, 20).await);
    assert_eq!(first(&b, 1).await, 1);
    assert!(a.take(n(1), SECOND).await.is_err());
    b.close().await;
    assert!(a.take(n(1), SECOND).await.is_err(), "looked just now");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(first(&a, 1).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_leaves_no_id_is_refused() {
    let store: Arc<MemoryStore> = Arc::new(MemoryStore::new());
    let check = async |spec: SequenceSpec, max: u64, expect: &str| {
        let error = Sequence::open(store.clone(), "shop.orders", "p1", spec, 0, max).await.err().unwrap();
        assert!(error.to_string().contains(expect), "{error}");
    };
    check(SequenceSpec { start: 128, ..by(1) }, 127, "no id from start = 128").await;
    check(SequenceSpec { step: n(1_000), offset: 500, ..by(1) }, 127, "up to max = 127").await;
    for low_water in [0.0, -1.0, 1.1, f64::NAN] {
        check(SequenceSpec { low_water, ..by(1) }, 127, "low_water is ").await;
    }
}

#[tokio::test(start_paused = true)]
async fn ids_go_on_above_an_explicit_one() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(100), 0, u64::MAX).await;
    let check = async |id: u64, expect: Advanced, writes: u64, next: u64| {
        let before = store.writes();
        assert_eq!(sequence.advance_past(id, SECOND).await, Ok(expect), "{id}");
        assert_eq!(store.writes() - before, writes, "writes for {id}");
        assert!(expect == Advanced::TooFar || stored(&store).bound > id);
        assert_eq!(first(&sequence, 1).await, next);
        settle().await;
    };
    check(1, Advanced::Past, 1, 2).await;
    check(1, Advanced::Past, 0, 3).await;
    check(50, Advanced::Past, 0, 51).await;
    check(40, Advanced::Past, 0, 52).await;
    check(100_000, Advanced::Past, 1, 100_001).await;
    check(100_002, Advanced::Past, 0, 100_003).await;
    let far = stored(&store).bound + super::REACH_MAX;
    check(far + 1, Advanced::TooFar, 0, 100_004).await;
    check(u64::MAX, Advanced::TooFar, 0, 100_005).await;
    check(ID_MAX, Advanced::TooFar, 0, 100_006).await;
    check(far, Advanced::Past, 1, far + 1).await;
    assert_eq!(sequence.stats().explicit_too_far, 3);
}

#[tokio::test(start_paused = true)]
async fn ids_whose_statement_is_under_way_are_not_issued() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(100), 0, u64::MAX).await;
    assert_eq!(first(&sequence, 1).await, 1);
    settle().await;
    let (writes, bound) = (store.writes(), stored(&store).bound);
    let reserved: Arc<[u64]> = [50, 20].into();
    sequence.expect(&reserved);
    assert_eq!(first(&sequence, 1).await, 51);
    // The ids of two statements, in ranges that are reserved while the statements are under way.
    let ahead: [Arc<[u64]>; 2] = [[bound + 7, 3].into(), [u64::MAX, bound + 250].into()];
    for ids in &ahead {
        sequence.expect(ids);
    }
    assert_eq!((store.writes(), stored(&store).bound), (writes, bound));
    let mut issued = Vec::new();
    while issued.last().is_none_or(|&id| id < bound + 400) {
        issued.push(first(&sequence, 1).await);
        settle().await;
    }
    assert!(
        issued.contains(&(bound - 1)) && issued.contains(&(bound + 8)),
        "no more than needed is left out"
    );
    assert!(issued.iter().all(|&id| id != bound + 7 && id != bound + 250), "{issued:?}");
    // Not stored after all: nothing is left out for it any more.
    let next = issued.last().unwrap() + 1;
    let denied: Arc<[u64]> = [stored(&store).bound + 3].into();
    sequence.expect(&denied);
    sequence.unexpect(&denied);
    for id in next..=denied[0] {
        assert_eq!(first(&sequence, 1).await, id);
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_explicit_id_in_anothers_range_changes_nothing() {
    let (store, a) = beside_another().await;
    let bound = stored(&store).bound;
    assert_eq!(a.advance_past(500, SECOND).await, Ok(Advanced::Elsewhere));
    assert_eq!((first(&a, 1).await, stored(&store).bound), (2, bound));
    assert_eq!(a.stats().explicit_elsewhere, 1);
    // All of a's first range is used or skipped; the next lies after b's.
    assert_eq!(a.advance_past(11, SECOND).await, Ok(Advanced::Past));
    assert!(first(&a, 1).await >= bound);
}

#[tokio::test(start_paused = true)]
async fn an_explicit_id_at_the_end_exhausts_the_sequence() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(10), 0, 32_767).await;
    assert_eq!(first(&sequence, 1).await, 1);
    assert_eq!(sequence.advance_past(32_767, SECOND).await, Ok(Advanced::Past));
    let error = sequence.take(n(1), SECOND).await;
    assert!(matches!(error, Err(TakeError::Exhausted { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_counted_in_ids() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, SequenceSpec { step: n(10), offset: 3, ..by(4) }, 0, 127).await;
    // 3, 13, 23 and so on up to 123.
    for taken in 0..13 {
        let stats = sequence.stats();
        assert_eq!((stats.issued, stats.reserved + stats.headroom), (taken, 13 - taken));
        first(&sequence, 1).await;
        settle().await;
    }
    assert_eq!(sequence.stats().headroom, 0);
}

#[tokio::test(start_paused = true)]
async fn a_raise_tells_the_bound_before_whoever_has_moved_it() {
    let store = Arc::new(MemoryStore::new());
    let (here, there) = (open(&store, by(10), 0, u64::MAX).await, open(&store, by(10), 0, u64::MAX).await);
    assert_eq!(first(&here, 1).await, 1);
    let elsewhere = first(&there, 1).await;
    settle().await;
    let bound = stored(&store).bound;
    assert!(here.stats().bound < bound && elsewhere < bound, "it has not seen that yet");
    assert_eq!(here.raise_floor_from(5_000, SECOND).await, Ok(bound));
    assert!(first(&here, 1).await > 5_000);
    let bound = stored(&store).bound;
    assert_eq!(here.raise_floor_from(20, SECOND).await, Ok(bound), "it stands above");
}

#[tokio::test(start_paused = true)]
async fn a_raised_floor_holds_for_what_is_reserved_already() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(100), 0, u64::MAX).await;
    assert_eq!(first(&sequence, 1).await, 1);
    let check = async |floor: u64, next: u64| {
        sequence.raise_floor(floor, SECOND).await.unwrap();
        assert!(stored(&store).bound > floor);
        assert_eq!(first(&sequence, 1).await, next);
    };
    check(10, 11).await;
    check(5, 12).await;
    check(1_000_000_000_000, 1_000_000_000_001).await;
    settle().await;
    assert!(sequence.stats().reserved <= 200, "a leap is no demand");
    store.set_away(true);
    assert!(sequence.raise_floor(2_000_000_000_000, SECOND).await.is_err());
    assert!(
        sequence.take(n(1), SECOND).await.is_err(),
        "the floor holds although the store does not know it"
    );
    store.set_away(false);
    assert!(first(&sequence, 1).await > 2_000_000_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_in_time_gives_no_ids() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(10), 0, u64::MAX).await;
    let old = store.peek(&Key::generator("shop.orders")).unwrap();
    assert_eq!(first(&sequence, 20).await, 1);
    settle().await;
    store.poke(&Key::generator("shop.orders"), &old);
    let mut last = 0;
    let error = loop {
        match sequence.take(n(1), SECOND).await {
            Ok(block) => last = block.first(),
            Err(error) => break error,
        }
    };
    assert!(last < 60);
    assert!(
        matches!(&error, TakeError::StoreAway { reason, .. } if reason.contains("has older data than before")),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_record_of_another_kind_is_refused() {
    let store = Arc::new(MemoryStore::new());
    let json = br#"{"v":1,"kind":"timestamp","bound":7,"owner":"a","token":"t"}"#;
    store.poke(&Key::generator("shop.orders"), json);
    let refused = Sequence::open(store.clone(), "shop.orders", "p1", by(1), 0, 9).await.err().unwrap();
    assert!(
        matches!(&refused, super::OpenError::Store { error: StoreError::WrongKind { .. }, .. }),
        "{refused}"
    );
}

/// The refiller notices by itself, before anybody reports a recall.
#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_in_time_gives_no_more_ids() {
    let store = Arc::new(MemoryStore::new());
    let sequence = open(&store, by(10), 0, u64::MAX).await;
    let copy = store.copy();
    assert_eq!(first(&sequence, 1).await, 1);
    settle().await;
    let bound = stored(&store).bound;
    store.put_back(&copy);
    let mut last = 1;
    let error = loop {
        match sequence.take(n(1), SECOND).await {
            Ok(block) => last = block.first(),
            Err(error) => break error,
        }
        settle().await;
    };
    assert!(last > 1, "nobody had looked");
    assert!(last < bound - 1, "given up with the rest of the reserve: {last} of {bound}");
    assert!(
        matches!(&error, TakeError::StoreAway { reason, .. } if reason.contains("has older data than before")),
        "{error}"
    );
}
