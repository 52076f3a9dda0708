//! Promise 1 where it matters: a primary dies before all of its rows were replicated, the replica takes its place, and the rows
//! that it never had are loaded back from the old primary's disk, by their ids.
//!
//! Writers insert the same rows through the proxy into two tables: `ruled`, whose ids are the proxy's, and `native`, which has
//! AUTO_INCREMENT. Native ids go on from where the replica stood, so the lost rows collide when they come back; a drill
//! without such collisions proves nothing, and fails. Ruled ids must not collide. Every row that was
//! acknowledged, before the failover or after it, must stand there under the id that its client was told.
//!
//! `ROWSTAMP_DRILLS` says how often (tests/failover.sh: 20), by turns with a proxy and its embedded store, and with two proxies and
//! etcd, and every second pair of drills with a primary that hangs instead of one that is killed; `ROWSTAMP_SEED` repeats the times of
//! an earlier run.
//!
//! * [`pair`]: two servers, replication, and what an operator does.
//! * [`load`]: the writers.

mod load;
pub(crate) mod pair;

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::etcd::Version;
use crate::support::servers::announce;
use crate::support::told::{self, StopOnDrop};
use crate::support::{Etcd, Gate, Proxy, proxy};
use load::{Load, Table};
use pair::{Behind, LoadedBack, Pair};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WRITERS: usize = 4;

const RULES: &str = r#"
schema = "drill"

[generators.ruled]
kind = "sequence"
batch = 1000

[tables.ruled]
column = "id"
generator = "ruled"
"#;

/// The results of a drill.
struct Figures {
    acknowledged: usize,
    not_acknowledged: usize,
    /// Ruled statements, while the proxy did not hold its locks.
    refused: u64,
    ruled: LoadedBack,
    native: LoadedBack,
    /// From the kill and from the promotion to the first ruled row, and from the promotion to the first ruled row of the last writer.
    from_kill: Duration,
    first: Duration,
    last: Duration,
    /// From the promotion to the first native row of the last writer: how long it takes without ids.
    last_native: Duration,
}

#[test]
fn rows_of_a_dead_primary_are_loaded_back_without_a_collision() {
    let drills: u32 = told::number("ROWSTAMP_DRILLS").unwrap_or(2);
    let seed = told::seed();
    announce(&format!("failover: seed {seed} (ROWSTAMP_SEED repeats it)"));
    let (mut passed, mut collisions, mut rows, mut slowest) = (0, 0, 0, Duration::ZERO);
    for nth in 0..drills {
        let fleet = if nth % 2 == 0 { Fleet::Embedded } else { Fleet::Etcd };
        let mut random = StdRng::seed_from_u64(seed ^ u64::from(nth));
        let fault = if nth % 4 < 2 { Fault::Killed } else { Fault::Hangs };
        let Some(figures) = drill(fleet, fault, &mut random) else { continue };
        announce(&format!("failover: {}/{drills} {fleet:?}, {fault:?}: {}", nth + 1, figures.text()));
        passed += 1;
        collisions += figures.native.collisions;
        rows += figures.ruled.missing;
        slowest = slowest.max(figures.last);
    }
    announce(&format!(
        "failover: {passed} of {drills} drills passed: {rows} ruled rows loaded back, 0 collisions ({collisions} native), writes \
         went on {:.1} s after the promotion at most",
        slowest.as_secs_f64()
    ));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fleet {
    /// One proxy.
    Embedded,
    /// Two.
    Etcd,
}

/// The way in which the primary fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// kill -9: its connections end.
    Killed,
    /// The primary says nothing any more, and its connections stay: a machine that is cut off.
    Hangs,
}

impl Fault {
    /// How long it takes until somebody notices.
    fn unnoticed_millis(self) -> Range<u64> {
        match self {
            Fault::Killed => 0..3_000,
            // Long enough for control connections to be given up.
            Fault::Hangs => 0..9_000,
        }
    }

    /// How much longer than native writes ruled ones may be away.
    fn service_deadline(self) -> Duration {
        Duration::from_secs(match self {
            Fault::Killed => 1,
            // A query of the control account may just have begun to wait.
            Fault::Hangs => 6,
        })
    }
}

fn proxies(backend: &str, etcd: Option<&Etcd>) -> Vec<Proxy> {
    let config = proxy::config(backend);
    let Some(etcd) = etcd else { return vec![Proxy::start(&config, &[("drill", RULES)])] };
    let member = |name| {
        format!(
            "{config}[store]\nkind = \"etcd\"\nendpoints = {}\n\n[proxy]\nname = \"{name}\"\n",
            etcd.endpoints_toml()
        )
    };
    ["p1", "p2"].iter().map(|name| Proxy::start(&member(name), &[("drill", RULES)])).collect()
}

/// `None` where this machine lacks a server.
fn drill(fleet: Fleet, fault: Fault, random: &mut StdRng) -> Option<Figures> {
    let mut pair = Pair::start()?;
    let etcd = match fleet {
        Fleet::Embedded => None,
        Fleet::Etcd => Some(Etcd::start(Version::Debian, 1)?),
    };
    let gate = Gate::start(&pair.primary.address());
    let proxies = proxies(&gate.address(), etcd.as_ref());
    let load = Load::new(&proxies, WRITERS);
    let Course { killed, promoted, ruled, native } = thread::scope(|scope| {
        let _stop = StopOnDrop(&load.stop);
        for writer in 0..WRITERS {
            let (load, seed) = (&load, random.r#gen());
            scope.spawn(move || load.write(writer, &mut StdRng::seed_from_u64(seed)));
        }
        fail_over(&mut pair, fault, &gate, &load, random)
    });

    let mut client = pair.replica.client();
    told::wait_until_quiet(&mut client, "drill");
    let stored = told::read(&mut client, Table::Ruled.name());
    let acknowledged = load.acknowledged(Table::Ruled);
    if let Err(findings) = told::judge(&acknowledged, &stored) {
        panic!("{fleet:?}, {fault:?}: {findings}\n{}", load.logs());
    }
    assert_eq!(ruled.collisions, 0, "ruled rows collide: {:?}\n{}", ruled.example, load.logs());
    assert!(ruled.missing > 0 && native.collisions > 0, "no row was lost, so nothing is proven");
    let (first, last) = load.first_and_last(Table::Ruled, promoted);
    let last_native = load.first_and_last(Table::Native, promoted).1;
    assert!(
        last < last_native + fault.service_deadline(),
        "{fleet:?}, {fault:?}: ruled rows again after {last:?}, native ones after {last_native:?}\n{}",
        load.logs()
    );
    Some(Figures {
        acknowledged: acknowledged.len(),
        not_acknowledged: stored.len() - acknowledged.len(),
        refused: load.refused.load(Ordering::Relaxed),
        ruled,
        native,
        from_kill: (promoted - killed) + first,
        first,
        last,
        last_native,
    })
}

/// The events under the load, with their times.
struct Course {
    killed: Instant,
    promoted: Instant,
    ruled: LoadedBack,
    native: LoadedBack,
}

fn fail_over(pair: &mut Pair, fault: Fault, gate: &Gate, load: &Load, random: &mut StdRng) -> Course {
    let behind = if random.gen_ratio(1, 2) { Behind::NotReceived } else { Behind::NotApplied };
    let mut pause = |range| thread::sleep(Duration::from_millis(random.gen_range(range)));
    load.wait_until_all_wrote(Instant::now());
    pause(500..1_000);
    pair.fall_behind(behind);
    pause(200..600);
    match fault {
        Fault::Killed => pair.primary.kill(),
        Fault::Hangs => pair.primary.signal("STOP"),
    }
    let killed = Instant::now();
    pause(fault.unnoticed_millis());
    pair.promote();
    let promoted = Instant::now();
    gate.turn(&pair.replica.address());
    load.wait_until_all_wrote(promoted);
    pause(200..600);
    pair.primary.restart();
    let (ruled, native) = (pair.load_back(Table::Ruled), pair.load_back(Table::Native));
    load.wait_until_all_wrote(Instant::now());
    Course { killed, promoted, ruled, native }
}

impl Figures {
    fn text(&self) -> String {
        format!(
            "{} ruled rows acknowledged, {} more stored; not replicated at the kill: {} ruled, {} native; collisions when loaded \
             back: {} ruled, {} native; ruled rows again {:.2} s after the kill, {:.2} s after the promotion, for all writers \
             {:.2} s (native {:.2} s), {} statements refused meanwhile",
            self.acknowledged,
            self.not_acknowledged,
            self.ruled.missing,
            self.native.missing,
            self.ruled.collisions,
            self.native.collisions,
            self.from_kill.as_secs_f64(),
            self.first.as_secs_f64(),
            self.last.as_secs_f64(),
            self.last_native.as_secs_f64(),
            self.refused,
        )
    }
}
