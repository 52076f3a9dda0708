//! What an id costs, in one run: `Sequence::try_take` against a bare `AtomicU64::fetch_add`, `Timestamp::try_take` against a
//! bare loop of compare-and-swap, and the tail of `Sequence::take` while its reserve is refilled against one that lasts.
//!
//! A ratio of two medians of interleaved rounds, since absolute times on a shared machine say little: a harness that
//! measures one after the other sees the neighbours' load, not ours. `cargo bench --bench ids --features test-util`; the
//! last line is for scripts.

use std::fmt::Write;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rowstamp::ids::Sequence;
use rowstamp::ids::layout::presets::Preset;
use rowstamp::ids::nodes::Node;
use rowstamp::ids::sequence::{Batch, SequenceSpec};
use rowstamp::ids::timestamp::Timestamp;
use rowstamp::ids::timestamp::TimestampSpec;
use rowstamp::ids::timestamp::clock::SystemClock;
use rowstamp::store::memory::MemoryStore;
use tokio::runtime::Runtime;

const ROUNDS: usize = 61;
const TAKES: u32 = 500_000;

#[repr(align(128))]
struct Bare(AtomicU64);

/// Nanoseconds a call, of `threads` threads that call it [`TAKES`] times each.
fn round(threads: usize, call: &(impl Fn() + Sync)) -> f64 {
    let start = Barrier::new(threads);
    let slowest = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let begin = Instant::now();
                    for _ in 0..TAKES {
                        call();
                    }
                    begin.elapsed()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).max()
    });
    slowest.unwrap_or(Duration::ZERO).as_secs_f64() * 1e9 / f64::from(TAKES)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Medians of each, and of their ratio round by round: first / second is the second's share of the first's speed.
fn compare(threads: usize, first: impl Fn() + Sync, second: impl Fn() + Sync) -> (f64, f64, f64) {
    let (mut firsts, mut seconds, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..ROUNDS {
        let (a, b);
        if turn % 2 == 0 {
            a = round(threads, &first);
            b = round(threads, &second);
        } else {
            b = round(threads, &second);
            a = round(threads, &first);
        }
        firsts.push(a);
        seconds.push(b);
        ratios.push(a / b);
    }
    (median(firsts), median(seconds), median(ratios))
}

/// So many takes, each measured, for the tail of their times.
const TIMED: usize = 1_000_000;
/// Taken in some milliseconds: the refiller raises the bound all the time.
const SMALL_BATCH: u64 = 1 << 16;
const TAIL_ROUNDS: usize = 15;

fn main() {
    // cargo test runs benches too, and wants them to be quick.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    let mut line = String::from("ratios");
    sequences(&runtime, &mut line);
    refills(&runtime, &mut line);
    timestamps(&runtime, &mut line);
    println!("{line}");
}

fn sequence(runtime: &Runtime, batch: u64) -> Arc<Sequence> {
    let batch = NonZeroU64::new(batch).expect("not zero");
    let spec = SequenceSpec { batch: Batch::Fixed(batch), ..SequenceSpec::default() };
    runtime.block_on(async {
        let sequence = Sequence::open(Arc::new(MemoryStore::new()), "bench.ids", "bench", spec, 0, u64::MAX)
            .await
            .expect("an empty store opens");
        let _ = sequence.take(NonZeroU64::MIN, Duration::from_secs(1)).await.expect("the first id");
        sequence
    })
}

fn sequences(runtime: &Runtime, line: &mut String) {
    // All hold a plain reference to what they measure: neither pays for one more on its way there.
    let (bare, sequence) = (&Bare(AtomicU64::new(0)), &*sequence(runtime, 1 << 40));
    let add = move || {
        black_box(bare.0.fetch_add(1, Ordering::Relaxed));
    };
    let thousand = NonZeroU64::new(1000).expect("not zero");
    // Of both the id itself is what is kept.
    let take_one = move || {
        black_box(sequence.try_take(black_box(NonZeroU64::MIN)).expect("reserved").first());
    };
    let take_many = move || {
        black_box(sequence.try_take(black_box(thousand)).expect("reserved").first());
    };
    for threads in [1, 2] {
        let (bare_ns, take_ns, ratio) = compare(threads, add, take_one);
        println!(
            "{threads} thread(s): fetch_add {bare_ns:.2} ns, try_take(1) {take_ns:.2} ns, ratio {ratio:.3}"
        );
        let _ = write!(line, " take1_threads{threads}={ratio:.3}");
    }
    let (one_ns, many_ns, ratio) = compare(1, take_one, take_many);
    println!(
        "1 thread: try_take(1) {one_ns:.2} ns, try_take(1000) {many_ns:.2} ns, {:.3} of it",
        1.0 / ratio
    );
    let _ = write!(line, " take1000_over_take1={:.3}", 1.0 / ratio);
}

/// The 99.99th percentile of `take`, in nanoseconds with the clock's own.
fn tail(runtime: &Runtime, sequence: &Sequence) -> f64 {
    let mut times = Vec::with_capacity(TIMED);
    runtime.block_on(async {
        for _ in 0..TIMED {
            let begin = Instant::now();
            black_box(sequence.take(NonZeroU64::MIN, Duration::from_secs(1)).await.expect("an id").first());
            times.push(begin.elapsed());
        }
    });
    let (_, slow, _) = times.select_nth_unstable(TIMED - TIMED / 10_000);
    slow.as_secs_f64() * 1e9
}

/// While the bound is raised and the reserve made longer all the time, against a reserve that lasts.
fn refills(runtime: &Runtime, line: &mut String) {
    let (still, refilled) = (sequence(runtime, 1 << 40), sequence(runtime, SMALL_BATCH));
    let rounds = (0..TAIL_ROUNDS).map(|_| (tail(runtime, &still), tail(runtime, &refilled)));
    let (stills, refills): (Vec<_>, Vec<_>) = rounds.unzip();
    let ratio = median(stills.iter().zip(&refills).map(|(still, refilled)| refilled / still).collect());
    println!(
        "take(1), 99.99th percentile: {:.0} ns, {:.0} ns while the reserve is refilled, {ratio:.3} of it",
        median(stills),
        median(refills)
    );
    let _ = write!(line, " p9999_during_refills={ratio:.3}");
}

/// Snowflake's layout, whose runs end with their ticks.
fn timestamps(runtime: &Runtime, line: &mut String) {
    let spec = TimestampSpec {
        layout: Preset::find("snowflake").expect("a preset").layout(),
        node: Node::Fixed(1),
        // More than all that is taken here borrows from.
        advance: Duration::from_hours(24),
        max_ahead: None,
        max_forward: Duration::from_hours(1),
    };
    let generator: Arc<Timestamp> = runtime.block_on(async {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(SystemClock::new()));
        let generator = Timestamp::open(store, "bench.times", "bench", spec, 0, clock).await;
        let generator = generator.expect("an empty store opens");
        let _ = generator.take(NonZeroU64::MIN, Duration::from_secs(1)).await.expect("the first id");
        generator
    });
    let (bare, generator) = (&Bare(AtomicU64::new(0)), &*generator);
    let swap = move || {
        let mut now = bare.0.load(Ordering::Relaxed);
        while let Err(other) =
            bare.0.compare_exchange_weak(now, black_box(now + 1), Ordering::Relaxed, Ordering::Relaxed)
        {
            now = other;
        }
        black_box(now);
    };
    let thousand = NonZeroU64::new(1000).expect("not zero");
    let take_one = move || {
        black_box(generator.try_take(black_box(NonZeroU64::MIN)).expect("reserved").first());
    };
    let take_many = move || {
        black_box(generator.try_take(black_box(thousand)).expect("reserved").first());
    };
    for threads in [1, 2] {
        let (bare_ns, take_ns, ratio) = compare(threads, swap, take_one);
        println!(
            "{threads} thread(s): compare-and-swap {bare_ns:.2} ns, timestamp try_take(1) {take_ns:.2} ns, ratio {ratio:.3}"
        );
        let _ = write!(line, " timestamp1_threads{threads}={ratio:.3}");
    }
    let (one_ns, many_ns, ratio) = compare(1, take_one, take_many);
    println!(
        "1 thread: timestamp try_take(1) {one_ns:.2} ns, try_take(1000) {many_ns:.2} ns, {:.3} of it",
        1.0 / ratio
    );
    let _ = write!(line, " timestamp1000_over_1={:.3}", 1.0 / ratio);
}
