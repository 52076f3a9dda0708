//! The nodes as which proxies make ids, and a store that went back.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_could_repeat_ids_is_refused() {
    let (generator, store, clock) = rig(by("snowflake")).await;
    first(&generator, 1).await;
    let open = async |spec: TimestampSpec, node: u64| try_open(&store, spec, node, 0, &clock).await.err();
    // Another epoch, other fields; also on a node that has issued nothing, since its ids could be another's.
    for (preset, node) in [("polardbx", 3), ("js-safe", 3), ("sonyflake", 4)] {
        let refused = open(by(preset), node).await.unwrap();
        assert!(
            matches!(&refused, OpenError::Store { error: StoreError::OtherLayout { .. }, .. }),
            "{preset}: {refused}"
        );
    }
    // The start of the sequence does not change what ids mean.
    assert_eq!(open(by("leaf"), 5).await.map(|error| error.to_string()), None);
    let refused = open(by("snowflake"), 1024).await.unwrap().to_string();
    assert!(refused.contains("node 1024 does not fit into the layout's node with bits = 10"), "{refused}");
    let other = crate::ids::Sequence::open(
        store.clone(),
        NAME,
        "p1",
        crate::ids::sequence::SequenceSpec::default(),
        0,
        u64::MAX,
    );
    let refused = other.await.err().unwrap();
    assert!(matches!(&refused, OpenError::Store { error: StoreError::WrongKind { .. }, .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn nodes_differ_from_the_first_id_on() {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    let (mut nodes, mut found) = (Vec::new(), Vec::new());
    for node in 0..8 {
        nodes.push(try_open(&store, by("js-safe"), node, 0, &clock).await.unwrap());
    }
    for nth in 0..800 {
        found.push(take(&nodes[nth % 8], 1).await.first());
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 800);
}

/// A mistake of the operator's; the bound sorts it out.
#[tokio::test(start_paused = true)]
async fn two_generators_with_one_identity_share_nothing() {
    let (a, store, clock) = rig(by("snowflake")).await;
    let b = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    let mut ids = Vec::new();
    for k in 0..400_u64 {
        let which = if k % 3 == 0 { &a } else { &b };
        ids.extend(all_of(take(which, 1 + k % 50).await));
        after(1_000).await;
    }
    a.close().await;
    ids.extend(all_of(take(&b, 5000).await));
    b.close().await;
    let c = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    ids.push(take(&c, 1).await.first());
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_may_start_at_random_in_each_tick() {
    let (generator, ..) = rig(by("leaf")).await;
    let mut starts = Vec::new();
    let mut above = 0;
    for _ in 0..200 {
        let (id, _, sequence) = first(&generator, 1).await;
        assert!(id > above && sequence < 100);
        above = id;
        starts.push(sequence);
        after(3).await;
    }
    let residues =
        |modulo: u64| starts.iter().map(|start| start % modulo).collect::<std::collections::HashSet<_>>();
    assert_eq!(residues(8).len(), 8, "all shards get some");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_went_back_in_time_gives_no_more_time() {
    let (generator, store, _clock) = rig(by("snowflake")).await;
    first(&generator, 1).await;
    let old = store.peek(&Key::slot(NAME, 3)).unwrap();
    after(30_000).await;
    first(&generator, 1).await;
    after(1_000).await;
    store.poke(&Key::slot(NAME, 3), &old);
    let mut seconds = 0;
    let error = loop {
        after(1_000).await;
        seconds += 1;
        if let Err(error) = generator.take(n(1), SECOND).await {
            break error;
        }
    };
    assert!(
        matches!(&error, TakeError::StoreAway { reason, .. } if reason.contains("has older data than before")),
        "{error}"
    );
    assert!(seconds < 20, "noticed with the next renewal, and what was reserved is given up: {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_panics_is_not_the_last() {
    let is_due = Arc::new(AtomicBool::new(false));
    let due = is_due.clone();
    // Once, in the middle of a raise.
    let store = Arc::new(MemoryStore::with_hook(move |_, moment, _| {
        assert!(moment != memory::Moment::AfterWrite || !due.swap(false, Ordering::Relaxed), "on purpose");
    }));
    let clock = SimClock::new();
    let spec = TimestampSpec { node: Node::Fixed(3), ..by("snowflake") };
    let generator = Timestamp::open(store.clone(), NAME, "p1", spec, 0, clock.clone()).await.unwrap();
    is_due.store(true, Ordering::Relaxed);
    let runs = generator.take(n(1), 3 * SECOND).await.unwrap();
    // The raise that panicked was done: its token stands there, so its time is ours after all.
    let id = runs.first();
    assert!(generator.spec().layout.decode(id).unwrap().ticks < bound(&store, 3));
}
