mod identity;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Timestamp;
use super::clock::{Clock, Reading};
use crate::ids::block::{IdBlock, n};
use crate::ids::errors::{OpenError, TakeError};
use crate::ids::layout::presets::Preset;
use crate::ids::layout::{Field, Layout, Moment, Part};
use crate::ids::nodes::Node;
use crate::ids::timestamp::TimestampSpec;
use crate::store::memory::{self, Faults, MemoryStore};
use crate::store::{GeneratorRecord, Key, StoreError, record};

mod simulation;
mod threads;

const NAME: &str = "shop.events";
const SECOND: Duration = Duration::from_secs(1);
/// 2026-01-01T00:00:00Z
const START_MICROS: u64 = 1_767_225_600_000_000;

/// A clock that follows the runtime's paused time, `off_micros` away from it.
struct SimClock {
    start: Instant,
    off_micros: AtomicI64,
    reads: AtomicU64,
}

impl SimClock {
    fn new() -> Arc<Self> {
        Arc::new(SimClock { start: Instant::now(), off_micros: AtomicI64::new(0), reads: AtomicU64::new(0) })
    }

    fn jump(&self, seconds: i64) {
        self.off_micros.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let monotonic = self.start.elapsed();
        let micros = START_MICROS + u64::try_from(monotonic.as_micros()).unwrap();
        let wall = micros.saturating_add_signed(self.off_micros.load(Ordering::Relaxed));
        Reading { wall: Moment::from_micros(wall), monotonic }
    }
}

fn by(preset: &str) -> TimestampSpec {
    of_layout(Preset::find(preset).unwrap().layout())
}

fn of_layout(layout: Layout) -> TimestampSpec {
    TimestampSpec {
        layout,
        node: Node::Auto,
        advance: Duration::from_mins(1),
        max_ahead: None,
        max_forward: Duration::from_hours(1),
    }
}

async fn try_open(
    store: &Arc<MemoryStore>,
    spec: TimestampSpec,
    node: u64,
    floor: u64,
    clock: &Arc<SimClock>,
) -> Result<Arc<Timestamp>, OpenError> {
    let spec = TimestampSpec { node: Node::Fixed(node), ..spec };
    Timestamp::open(store.clone(), NAME, "p1", spec, floor, clock.clone()).await
}

/// A generator of node 3 with its store and clock.
async fn rig(spec: TimestampSpec) -> (Arc<Timestamp>, Arc<MemoryStore>, Arc<SimClock>) {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    (try_open(&store, spec, 3, 0, &clock).await.unwrap(), store, clock)
}

async fn take(generator: &Timestamp, count: u64) -> IdBlock {
    generator.take(n(count), SECOND).await.unwrap()
}

fn all_of(block: IdBlock) -> impl Iterator<Item = u64> {
    block.runs().flat_map(|run| (0..run.count()).map(move |k| run.nth(k).unwrap()))
}

/// The first id of so many, its milliseconds since [`START_MICROS`] and its sequence.
async fn first(generator: &Timestamp, count: u64) -> (u64, i64, u64) {
    let id = take(generator, count).await.first();
    let parts = generator.spec().layout.decode(id).unwrap();
    assert_eq!(parts.node.unwrap_or(3), 3);
    let micros = i64::try_from(parts.time.micros()).unwrap() - i64::try_from(START_MICROS).unwrap();
    (id, micros.div_euclid(1000), parts.sequence.unwrap_or(0))
}

fn bound(store: &MemoryStore, node: u64) -> u64 {
    let key = Key::slot(NAME, node);
    record::decode::<GeneratorRecord>(&key, &store.peek(&key).unwrap()).unwrap().bound
}

async fn after(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn ids_are_of_their_time_and_below_the_bound() {
    let (generator, store, _clock) = rig(by("snowflake")).await;
    let mut above = 0;
    for step in 0..200_u64 {
        let (id, millis, _) = first(&generator, 1).await;
        let now = i64::try_from(step * 7).unwrap();
        assert!((now - 2..=now).contains(&millis), "{millis} at {now}");
        assert!(id > above);
        above = id;
        assert!(generator.spec().layout.decode(id).unwrap().ticks < bound(&store, 3));
        after(7).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_tick_does_not_hold_is_of_the_next_and_nobody_waits() {
    let (generator, ..) = rig(by("snowflake")).await;
    let begin = Instant::now();
    let (_, start, _) = first(&generator, 1).await;
    for k in 1..10_000_u64 {
        let (_, millis, sequence) = first(&generator, 1).await;
        let place = (start + i64::try_from(k / 4096).unwrap(), k % 4096);
        assert_eq!((millis, sequence), place);
    }
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!(generator.stats().ahead, Duration::from_millis(2));
    after(100).await;
    let (_, millis, sequence) = first(&generator, 1).await;
    assert!(millis >= 98 && sequence == 0, "the clock overtook them: {millis} {sequence}");
}

#[tokio::test(start_paused = true)]
async fn a_request_is_one_run_where_it_can_be() {
    let shape = |block: IdBlock| block.runs().map(|run| (run.count(), run.step())).collect::<Vec<_>>();
    let (generator, ..) = rig(by("snowflake")).await;
    assert_eq!(shape(take(&generator, 4000).await), [(4000, 1)]);
    let (_, millis, sequence) = first(&generator, 97).await;
    assert_eq!((millis, sequence), (1, 0), "does not fit the rest of the tick");
    assert_eq!(shape(take(&generator, 10_000).await), [(4096, 1), (4096, 1), (1808, 1)]);
    // Timestamp and sequence adjoin: any number is one run.
    for (preset, step) in [("pd-tso", 1), ("sonyflake", 1 << 16), ("cockroach", 1 << 15)] {
        let spec = by(preset);
        let node = spec.layout.check_node(3).map_or(0, |()| 3);
        let generator =
            try_open(&Arc::new(MemoryStore::new()), spec, node, 0, &SimClock::new()).await.unwrap();
        for count in [1, 200, 300_000, 7] {
            assert_eq!(shape(take(&generator, count).await), [(count, step)], "{preset}");
        }
    }
    assert_eq!(generator.try_take(n(u64::MAX)), None);
    let error = generator.take(n(u64::MAX), SECOND).await;
    assert!(matches!(error, Err(TakeError::TooMany { .. })), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_ascend_and_hold_all_ids() {
    let (generator, ..) = rig(by("snowflake")).await;
    let mut above = 0;
    for count in [1, 4095, 2, 4097, 9000, 1] {
        let runs = take(&generator, count).await;
        let mut ids = 0;
        for run in runs.runs() {
            assert!(run.first() > above);
            above = run.last();
            ids += run.count();
        }
        assert_eq!(ids, count);
    }
}

#[tokio::test(start_paused = true)]
async fn max_ahead_bounds_what_is_borrowed() {
    let spec = TimestampSpec { max_ahead: Some(Duration::from_millis(10)), ..by("snowflake") };
    let (generator, ..) = rig(spec).await;
    let (_, start, _) = first(&generator, 4096).await;
    for _ in 0..10 {
        let _ = take(&generator, 4096).await;
    }
    assert_eq!(generator.try_take(n(1)), None);
    let error = generator.take(n(4096 * 100), Duration::from_millis(50)).await;
    assert!(matches!(error, Err(TakeError::Ahead { .. })), "{error:?}");
    // The generator waits for the clock, no longer than it must.
    let begin = Instant::now();
    let (generator, ..) =
        rig(TimestampSpec { max_ahead: Some(Duration::from_millis(10)), ..by("snowflake") }).await;
    let _ = take(&generator, 4096 * 11).await;
    let (_, millis, _) = first(&generator, 1).await;
    assert_eq!(millis - start, 11 + i64::try_from(begin.elapsed().as_millis()).unwrap() - 1);
    assert!(begin.elapsed() <= Duration::from_millis(4), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_changes_nothing() {
    let (generator, store, clock) = rig(by("snowflake")).await;
    let (mut above, ..) = first(&generator, 1).await;
    for seconds in [-1, -3600, -86_400 * 365 * 3] {
        clock.jump(seconds);
        after(5).await;
        let begin = Instant::now();
        for _ in 0..20 {
            let (id, ..) = first(&generator, 3000).await;
            assert!(id > above);
            above = id;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }
    // So does a restart, whatever the clock says: the sequence does not begin again in a tick that was used.
    drop(generator);
    let reserved = bound(&store, 3);
    let generator = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    let (id, ..) = first(&generator, 1).await;
    assert!(id > above && generator.spec().layout.decode(id).unwrap().ticks == reserved);
}

#[tokio::test(start_paused = true)]
async fn a_leap_of_the_clock_is_not_followed() {
    let (generator, store, clock) = rig(by("snowflake")).await;
    first(&generator, 1).await;
    let before = bound(&store, 3);
    clock.jump(3_700);
    after(20).await;
    let (_, millis, _) = first(&generator, 1).await;
    assert!((18..=22).contains(&millis), "{millis}");
    assert!(generator.stats().leap.unwrap() > Duration::from_secs(3_699));
    assert!(bound(&store, 3) - before < 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_later_term_starts_behind_all_that_was_reserved_or_with_the_clock() {
    let (crashed, store, clock) = rig(by("snowflake")).await;
    first(&crashed, 1).await;
    drop(crashed);
    let reserved = bound(&store, 3);
    let stopped = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    let (_, millis, _) = first(&stopped, 1).await;
    assert_eq!(millis, 75_000, "a minute that was reserved, and a quarter");
    stopped.close().await;
    assert_eq!(bound(&store, 3), reserved + 1, "a clean stop gives the rest back");
    assert!(matches!(stopped.take(n(1), SECOND).await, Err(TakeError::Closed { .. })));
    assert_eq!(stopped.try_take(n(1)), None);
    stopped.close().await;
    after(200_000).await;
    let last = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    let (_, millis, _) = first(&last, 1).await;
    assert!((199_999..=200_001).contains(&millis), "{millis}");
}

/// A fleet that restarts over and over must not run ahead by the whole reserve each time.
#[tokio::test(start_paused = true)]
async fn restarts_within_the_reserve_do_not_add_up() {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    let mut above = 0;
    for _ in 0..20 {
        let generator = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
        let (id, ..) = first(&generator, 1).await;
        assert!(id > above);
        above = id;
    }
    let generator = try_open(&store, by("snowflake"), 3, 0, &clock).await.unwrap();
    first(&generator, 1).await;
    let ahead = generator.stats().ahead;
    assert!(ahead < Duration::from_secs(75 + 22), "{ahead:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_the_reserve_lasts_then_1467_then_it_recovers_by_itself() {
    let (generator, store, _clock) = rig(by("snowflake")).await;
    for _ in 0..100 {
        first(&generator, 1).await;
        after(1000).await;
    }
    store.set_away(true);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(59) {
        first(&generator, 1).await;
        after(100).await;
    }
    after(20_000).await;
    let wait = Instant::now();
    let error = generator.take(n(1), SECOND).await.unwrap_err();
    assert!(wait.elapsed() <= SECOND + Duration::from_millis(2));
    assert!(matches!(&error, TakeError::StoreAway { reason, .. } if reason.contains("away")), "{error}");
    assert_eq!(generator.try_take(n(1)), None);
    store.set_away(false);
    let (_, millis, _) = first(&generator, 1).await;
    let now = i64::try_from((begin.elapsed() + Duration::from_secs(100)).as_millis()).unwrap();
    assert!((now - 2_000..=now).contains(&millis), "{millis} at {now}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_no_reason_to_wait_longer() {
    let (generator, store, _clock) = rig(by("snowflake")).await;
    first(&generator, 1).await;
    let hangs = Faults { delay: 1000, delay_max: Duration::from_hours(100), ..Faults::default() };
    store.set_faults(hangs);
    after(100_000).await;
    for _ in 0..3 {
        let wait = Instant::now();
        assert!(matches!(generator.take(n(1), SECOND).await, Err(TakeError::StoreAway { .. })));
        assert!(wait.elapsed() <= SECOND + Duration::from_millis(2));
    }
    store.set_faults(Faults::default());
    after(4_000).await;
    first(&generator, 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_generator_writes_nothing_and_reads_no_clock_and_a_busy_one_seldom() {
    let (generator, store, clock) = rig(by("snowflake")).await;
    after(60_000).await;
    assert_eq!(store.writes(), 2, "its creation, and its node's");
    let writes = store.writes();
    for _ in 0..60_000 {
        first(&generator, 10).await;
        after(1).await;
    }
    let busy = store.writes() - writes;
    assert!(busy <= 60 / 5, "{busy} in a minute");
    after(2_000).await;
    let (writes, reads) = (store.writes(), clock.reads.load(Ordering::Relaxed));
    assert!(reads < 70_000, "{reads}: once a tick, not once an id");
    after(3_600_000).await;
    assert_eq!((store.writes(), clock.reads.load(Ordering::Relaxed)), (writes, reads));
    let (_, millis, _) = first(&generator, 1).await;
    assert!(millis > 3_700_000, "whoever comes first looks at the clock: {millis}");
}

/// Nothing is reserved by what a wrong clock says either.
#[tokio::test(start_paused = true)]
async fn a_start_waits_for_a_clock_that_is_right() {
    let (generator, store, clock) = rig(by("snowflake")).await;
    let writes = store.writes();
    let right = |clock: &SimClock| {
        let off = clock.off_micros.load(Ordering::Relaxed);
        Moment::from_micros(clock.read().wall.micros().saturating_add_signed(-off))
    };
    generator.hold();
    for (seconds, said) in [(86_400 * 3650, "ahead of"), (-7_200, "behind")] {
        clock.jump(seconds);
        assert!(generator.compare_clock(right(&clock), Duration::ZERO).is_some());
        let error = generator.take(n(1), SECOND).await.unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(generator.try_take(n(1)), None);
        // The task that reserves looks at the clock itself after each wake-up.
        generator.renewer.notify_one();
        after(3_000).await;
        clock.jump(-seconds);
    }
    assert_eq!(store.writes(), writes, "nothing is reserved");
    clock.jump(6);
    assert!(generator.compare_clock(right(&clock), SECOND).is_none(), "told a second ago");
    assert!(!generator.is_held());
    let (_, millis, _) = first(&generator, 1).await;
    assert!((12_000..13_000).contains(&millis), "{millis}");
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_not_read_for_each_id() {
    let (generator, _store, clock) = rig(by("snowflake")).await;
    first(&generator, 1).await;
    let reads = clock.reads.load(Ordering::Relaxed);
    for _ in 0..100_000 {
        let _ = generator.try_take(n(1)).unwrap();
    }
    assert_eq!(clock.reads.load(Ordering::Relaxed), reads);
}

#[tokio::test(start_paused = true)]
async fn a_burst_that_outruns_the_reserve_waits_for_the_save() {
    let spec = TimestampSpec { advance: SECOND, ..by("js-safe") };
    let (generator, store, _clock) = rig(spec).await;
    let delays = Faults { delay: 1000, delay_max: Duration::from_millis(100), ..Faults::default() };
    store.set_faults(delays);
    let mut above = 0;
    for _ in 0..50 {
        // Twice what the reserve holds.
        let runs = generator.take(n(1_000_000), Duration::from_secs(5)).await.unwrap();
        assert!(runs.first() > above);
        above = runs.last();
        assert!(generator.spec().layout.decode(above).unwrap().ticks < bound(&store, 3));
    }
}

fn short(tick_bits: u32) -> Layout {
    let fields = [Field::new(Part::Timestamp, tick_bits), Field::new(Part::Sequence, 4)];
    Layout::new(&fields, Moment::from_micros(START_MICROS), n(1_000), 0).unwrap()
}

#[tokio::test(start_paused = true)]
async fn at_its_end_a_layout_has_no_ids_and_none_is_negative() {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    let generator = try_open(&store, of_layout(short(10)), 0, 0, &clock).await.unwrap();
    let mut ids = Vec::new();
    let error = loop {
        match generator.take(n(5), SECOND).await {
            Ok(runs) => ids.extend(all_of(runs)),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TakeError::EndOfLife { wanted: 5, .. }), "{error}");
    assert!(ids.is_sorted() && *ids.last().unwrap() < 1 << 14 && ids[0] >= 16, "{:?}", ids.first());
    assert!(take(&generator, 3).await.first() > ids[ids.len() - 1]);
    // Past the end by the clock.
    after(2_000).await;
    let generator = try_open(&store, of_layout(short(10)), 0, 0, &clock).await.unwrap();
    assert!(matches!(generator.take(n(1), SECOND).await, Err(TakeError::EndOfLife { .. })));
    assert_eq!(generator.try_take(n(1)), None);
}

/// A table that is bound later holds an id of the future: ids go on above it, and so ahead of the clock.
#[tokio::test(start_paused = true)]
async fn a_floor_that_is_raised_holds_for_what_is_reserved_already() {
    let (generator, ..) = rig(by("snowflake")).await;
    let layout = generator.spec().layout.clone();
    let (id, ..) = first(&generator, 1).await;
    let tick = layout.decode(id).unwrap().ticks;
    for (ahead_millis, node) in [(5_000, 900), (1_000, 0), (600_000, 3)] {
        let floor = layout.compose(tick + ahead_millis, node, 17).unwrap();
        generator.raise_floor(floor).unwrap();
        let (id, ..) = first(&generator, 3).await;
        assert!(id > floor, "{id} {floor}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_before_the_epoch_begins_with_the_first_tick() {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    clock.jump(-86_400);
    let generator = try_open(&store, of_layout(short(40)), 0, 0, &clock).await.unwrap();
    assert_eq!(take(&generator, 1).await.first(), 16, "never 0, which asks the server for an id");
}

#[tokio::test(start_paused = true)]
async fn ids_are_above_those_that_the_tables_hold() {
    let (store, clock) = (Arc::new(MemoryStore::new()), SimClock::new());
    let floor = by("snowflake").layout.compose(1_000_000_000_000, 1023, 4095).unwrap();
    let generator = try_open(&store, by("snowflake"), 3, floor, &clock).await.unwrap();
    let (id, ..) = first(&generator, 1).await;
    assert!(id > floor && id < floor + (2 << 22), "{id} above {floor}");
    let refused = try_open(&store, by("snowflake"), 4, i64::MAX.unsigned_abs(), &clock).await.err().unwrap();
    assert!(refused.to_string().contains("no id above 9223372036854775807"), "{refused}");
}
