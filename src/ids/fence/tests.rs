mod etcd;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Fence, Raise, Records, Subject, raise_bound};
use crate::store::memory::{Faults, MemoryStore, Moment};
use crate::store::{GeneratorRecord, Key, Store, StoreError, record};

const NAME: &str = "shop.orders";
const ALWAYS: u32 = 1000;

async fn fence(store: &Arc<MemoryStore>) -> Fence {
    Fence::open(store.clone(), NAME, "p1", 1).await.unwrap()
}

fn record_of(store: &MemoryStore) -> GeneratorRecord {
    record::decode(&Key::generator(NAME), &store.peek(&Key::generator(NAME)).unwrap()).unwrap()
}

async fn ten(fence: &mut Fence) -> Result<Raise, StoreError> {
    fence.raise(|bound| Some(bound + 10)).await
}

#[tokio::test(start_paused = true)]
async fn raises_of_two_owners_never_overlap() {
    let store = Arc::new(MemoryStore::new());
    let (mut a, mut b) = (fence(&store).await, fence(&store).await);
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    assert_eq!(ten(&mut b).await, Ok(Raise::Raised { from: 11, to: 21 }));
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 21, to: 31 }));
    assert_eq!(a.raise(|bound| (bound > 31).then_some(99)).await, Ok(Raise::Declined { bound: 31 }));
    assert_eq!(b.hand_back(15, 21).await, Ok(false), "a reserved behind it");
    assert_eq!(a.hand_back(25, 31).await, Ok(true));
    assert_eq!(record_of(&store).bound, 25);
    assert_eq!(ten(&mut b).await, Ok(Raise::Raised { from: 25, to: 35 }));
}

/// A hand-back among many others: nobody said whether it was done.
#[tokio::test(start_paused = true)]
async fn what_was_handed_back_once_is_another_s() {
    for (is_done, is_reserved, expect) in
        [(true, true, 11), (true, false, 5), (false, true, 21), (false, false, 5)]
    {
        let store = Arc::new(MemoryStore::new());
        let (mut a, mut b) = (fence(&store).await, fence(&store).await);
        assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
        let write = a.handing_back(5, 11).unwrap();
        if is_done {
            store.compare_and_set(&write.key, write.expected, &write.value).await.unwrap();
        }
        if is_reserved {
            // To where the end stood before.
            b.raise(|bound| Some(if bound == 5 { 11 } else { bound + 10 })).await.unwrap();
        }
        let _ = a.hand_back(5, 11).await;
        assert_eq!(record_of(&store).bound, expect, "done {is_done}, reserved {is_reserved}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raise_whose_answer_was_lost_is_ours_if_our_token_stands_there() {
    let store = Arc::new(MemoryStore::new());
    let mut fence = fence(&store).await;
    store.set_faults(Faults { lost_reply: ALWAYS, ..Faults::default() });
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 1, to: 11 }));
    assert_eq!(record_of(&store).bound, 11);
}

#[tokio::test(start_paused = true)]
async fn a_raise_that_another_overtook_is_burnt() {
    let store = Arc::new(MemoryStore::new());
    let mut fence = fence(&store).await;
    let delay_max = std::time::Duration::from_millis(20);
    store.set_faults(Faults { lost_reply: ALWAYS, delay: ALWAYS, delay_max, ..Faults::default() });
    // Cut off after it was sent: whether it was done is not known here.
    let mut cut = Box::pin(ten(&mut fence));
    for _ in 0..40 {
        let _ = tokio::time::timeout(std::time::Duration::from_millis(1), &mut cut).await;
        if record_of(&store).bound == 11 {
            break;
        }
    }
    drop(cut);
    assert_eq!(record_of(&store).bound, 11);
    store.set_faults(Faults::default());
    raise_bound(store.clone(), NAME, "p2", 15).await.unwrap();
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 15, to: 25 }), "not 1 to 11");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_late_is_nobodys() {
    let store = Arc::new(MemoryStore::new());
    let mut fence = fence(&store).await;
    let delay_max = std::time::Duration::from_millis(20);
    store.set_faults(Faults { late_request: ALWAYS, delay_max, ..Faults::default() });
    let mut raise = Box::pin(ten(&mut fence));
    assert!(tokio::time::timeout(std::time::Duration::from_millis(5), &mut raise).await.is_ok());
    drop(raise);
    store.set_faults(Faults::default());
    tokio::time::sleep(delay_max * 2).await;
    let bound = record_of(&store).bound;
    assert_eq!(bound, 11, "one of the late writes was done");
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 11, to: 21 }), "1 to 11 was given up before");
}

#[tokio::test(start_paused = true)]
async fn the_bound_of_an_earlier_term_is_never_lowered() {
    let store = Arc::new(MemoryStore::new());
    raise_bound(store.clone(), NAME, "p1", 500).await.unwrap();
    assert_eq!(raise_bound(store.clone(), NAME, "p2", 100).await, Ok(500));
    assert_eq!(record_of(&store).bound, 500);
}

#[tokio::test(start_paused = true)]
async fn what_other_versions_wrote_is_kept() {
    let store = Arc::new(MemoryStore::new());
    let json = br#"{"v":1,"kind":"sequence","bound":7,"owner":"a","token":"t","later":{"x":1}}"#;
    store.poke(&Key::generator(NAME), json);
    let mut fence = fence(&store).await;
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 7, to: 17 }));
    assert_eq!(record_of(&store).unknown["later"]["x"], 1);
    assert_eq!(record_of(&store).owner, "p1");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_went_back_or_away_stops_all() {
    let store = Arc::new(MemoryStore::new());
    let mut a = fence(&store).await;
    let old = store.peek(&Key::generator(NAME)).unwrap();
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    store.poke(&Key::generator(NAME), &old);
    for _ in 0..3 {
        assert!(matches!(ten(&mut a).await, Err(StoreError::SteppedBack { .. })));
    }
    assert_eq!(record_of(&store).bound, 1, "nothing was written over it");
}

/// A copy was put back, and an operator has raised the floors: what stands counts, and nothing of what was known.
#[tokio::test(start_paused = true)]
async fn a_new_era_begins_with_what_stands() {
    let store = Arc::new(MemoryStore::new());
    let (mut a, mut b) = (fence(&store).await, fence(&store).await);
    let copy = store.peek(&Key::generator(NAME)).unwrap();
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    assert_eq!(ten(&mut b).await, Ok(Raise::Raised { from: 11, to: 21 }));
    store.poke(&Key::generator(NAME), &copy);
    store.set_era(1);
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 11, to: 21 }));
    assert_eq!(b.hand_back(15, 21).await, Ok(false), "these are another's by now");
    assert_eq!(record_of(&store).bound, 21);
}

/// A write is done and not answered; the load that is to settle it is answered by a store that was put back and raised.
#[tokio::test(start_paused = true)]
async fn a_doubt_ends_with_its_era() {
    let key = Key::generator(NAME);
    let mut first = GeneratorRecord { bound: 5, ..sample() };
    let stands = record::encode(&first);
    first.token = "raised by an operator".to_owned();
    let copy = record::encode(&first);
    let turns = Arc::new(AtomicBool::new(false));
    let turning = turns.clone();
    let store = Arc::new(MemoryStore::with_hook(move |store, moment, key| {
        if moment == Moment::BeforeLoad && turning.swap(false, Ordering::Relaxed) {
            store.poke(key, &copy);
            store.set_era(1);
            store.set_faults(Faults::default());
        }
    }));
    store.poke(&key, &stands);
    let mut a = Fence::open(store.clone(), NAME, "p1", 1).await.unwrap();
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 5, to: 15 }));
    store.set_faults(Faults { lost_reply: ALWAYS, ..Faults::default() });
    turns.store(true, Ordering::Relaxed);
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 5, to: 15 }), "of the new era");
    assert_eq!(record_of(&store).bound, 15);
}

fn sample() -> GeneratorRecord {
    let json = br#"{"v":1,"kind":"sequence","bound":1,"owner":"p1","token":"t"}"#;
    record::decode(&Key::generator(NAME), json).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_another_took_is_not_raised() {
    let store = Arc::new(MemoryStore::new());
    let key = Key::slot(NAME, 3);
    let subject = || Subject::node(NAME, 3, "l".to_owned());
    let mut a = Fence::open_for(store.clone(), subject(), "p1", 1).await.unwrap();
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    let found: GeneratorRecord = record::decode(&key, &store.peek(&key).unwrap()).unwrap();
    store.poke(&key, &record::encode(&GeneratorRecord { owner: "p2".to_owned(), ..found }));
    let lost = StoreError::NodeLost { generator: NAME.to_owned(), node: 3, to: "p2".to_owned() };
    assert_eq!(ten(&mut a).await, Err(lost));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_put_back_is_noticed_by_its_record() {
    let store = Arc::new(MemoryStore::new());
    let empty = store.copy();
    let mut a = fence(&store).await;
    let first = store.copy();
    for _ in 0..5 {
        store.poke(&Key::generator("shop.other"), b"{}");
    }
    assert_eq!(ten(&mut a).await, Ok(Raise::Raised { from: 1, to: 11 }));
    // The store has gone on since, and its bound is above what `a` knows.
    store.put_back(&first);
    let mut b = fence(&store).await;
    assert_eq!(ten(&mut b).await, Ok(Raise::Raised { from: 1, to: 11 }));
    assert_eq!(ten(&mut b).await, Ok(Raise::Raised { from: 11, to: 21 }));
    assert!(matches!(ten(&mut a).await, Err(StoreError::SteppedBack { .. })));
    store.put_back(&empty);
    assert!(matches!(ten(&mut b).await, Err(StoreError::SteppedBack { .. })));
}

/// The store answers: it is other proxies that are in the way.
#[tokio::test(start_paused = true)]
async fn a_record_that_others_write_each_time_is_no_store_that_is_away() {
    let others = Arc::new(AtomicBool::new(false));
    let write = Arc::clone(&others);
    let store = Arc::new(MemoryStore::with_hook(move |store, moment, key| {
        if moment == Moment::BeforeWrite && write.load(Ordering::Relaxed) {
            let record = record_of(store);
            store.poke(key, &record::encode(&GeneratorRecord { bound: record.bound + 1, ..record }));
        }
    }));
    let mut fence = fence(&store).await;
    others.store(true, Ordering::Relaxed);
    let error = ten(&mut fence).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Contended { record, .. } if record == "generators/shop.orders"),
        "{error}"
    );
    assert!(error.passes());
}

#[tokio::test]
async fn many_are_read_together_and_opened_without_a_question() {
    let memory = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = memory.clone();
    raise_bound(store.clone(), "s.g3", "p2", 500).await.unwrap();
    let wanted: Vec<(String, u64)> = (0..20).map(|nth| (format!("s.g{nth}"), 100 + nth)).collect();
    let calls = memory.calls();
    let read = Records::of_sequences(&*store, "p1", &wanted).await.unwrap();
    // Read, made, and read again.
    assert_eq!(memory.calls() - calls, 3);
    let mut fences = Vec::new();
    for (name, bound) in &wanted {
        let fence = Fence::open_by(&read, store.clone(), name, "p1", *bound).await.unwrap();
        assert_eq!(fence.bound(), if name == "s.g3" { 500 } else { *bound });
        fences.push(fence);
    }
    assert_eq!(memory.calls() - calls, 3);
    // Another proxy raises a bound that was read: no range overlaps.
    raise_bound(store.clone(), "s.g5", "p2", 1_000).await.unwrap();
    for fence in &mut fences {
        let from = match fence.subject.key.as_str() {
            "generators/s.g5" => 1_000,
            "generators/s.g3" => 500,
            key => 100 + key.strip_prefix("generators/s.g").unwrap().parse::<u64>().unwrap(),
        };
        assert_eq!(ten(fence).await, Ok(Raise::Raised { from, to: from + 10 }));
    }
    // Records that were read in another era count for nothing.
    memory.set_era(1);
    let calls = memory.calls();
    let fence = Fence::open_by(&read, store.clone(), "s.g0", "p1", 1).await.unwrap();
    assert_eq!((fence.bound(), memory.calls() - calls), (110, 1));
}

#[tokio::test]
async fn many_are_raised_together() {
    let memory = Arc::new(MemoryStore::new());
    let store: Arc<dyn Store> = memory.clone();
    let wanted: Vec<(String, u64)> = (0..20).map(|nth| (format!("s.g{nth}"), 100)).collect();
    Records::of_sequences(&*store, "p1", &wanted).await.unwrap();
    raise_bound(store.clone(), "s.g3", "p2", 500).await.unwrap();
    let mut fence = Fence::open(store.clone(), "s.g4", "p1", 1).await.unwrap();
    let wanted: Vec<(String, u64)> = wanted.into_iter().map(|(name, _)| (name, 300)).collect();
    let calls = memory.calls();
    let read = Records::of_raised(&*store, "p1", &wanted).await.unwrap();
    assert_eq!(memory.calls() - calls, 3);
    // A fence that was open takes the record that was read.
    fence.notice(&read).unwrap();
    assert_eq!((fence.bound(), memory.calls() - calls), (300, 3));
    assert_eq!(ten(&mut fence).await, Ok(Raise::Raised { from: 300, to: 310 }));
    for (name, _) in &wanted {
        let expect = match name.as_str() {
            "s.g3" => 500,
            "s.g4" => 310,
            _ => 300,
        };
        assert_eq!(super::bound_of(&*store, name).await.unwrap(), expect, "{name}");
    }
    // An older record than the fence has seen is left alone.
    fence.notice(&read).unwrap();
    assert_eq!(fence.bound(), 310);
}
