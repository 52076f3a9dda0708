//! `rowstamp store raise --settle` while clients write: it holds the first time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fleet::{client, member};
use crate::operator::store;
use crate::rig::{INSERT, make, rows, server};
use crate::support::etcd::Version;
use crate::support::told;
use crate::support::wait::NEVER;
use crate::support::{Etcd, Kind, Proxy};

const DB: &str = "settled_under_load";
const WRITERS: usize = 4;
/// Twice the time in which each proxy looks at the store by itself.
const WATCHED: Duration = Duration::from_secs(4);

/// How many rounds: each takes a quarter of a minute. `ROWSTAMP_SETTLES=50` is the campaign.
fn rounds() -> u32 {
    told::number("ROWSTAMP_SETTLES").unwrap_or(2)
}

/// Statements stored and refused, by writer.
struct Load {
    stop: AtomicBool,
    stored: [AtomicU64; WRITERS],
    refused: [AtomicU64; WRITERS],
}

impl Load {
    fn write(&self, nth: usize, proxy: &Proxy) {
        let mut conn = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(to) = &mut conn else {
                conn = client(proxy.port, DB).ok();
                continue;
            };
            let Ok(outcomes) = to.query(INSERT) else {
                conn = None;
                continue;
            };
            match outcomes[0].err() {
                None => self.stored[nth].fetch_add(1, Ordering::Relaxed),
                // An id that was issued between the copy and the first notice comes twice.
                Some(error) if error.code == 1062 => continue,
                Some(_) => self.refused[nth].fetch_add(1, Ordering::Relaxed),
            };
        }
    }

    /// Until each writer has met `count` more.
    fn wait_for(of: &[AtomicU64; WRITERS], count: u64) -> bool {
        let goals: Vec<_> = of.iter().map(|n| n.load(Ordering::Relaxed) + count).collect();
        let end = Instant::now() + NEVER;
        while of.iter().zip(&goals).any(|(n, goal)| n.load(Ordering::Relaxed) < *goal) {
            if Instant::now() > end {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

#[test]
fn a_store_that_is_settled_under_load_is_settled_the_first_time() {
    let Some(server) = server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    make(server, DB, "");
    let proxies = [member(server, &etcd, "p1", DB, 10), member(server, &etcd, "p2", DB, 10)];
    let load = Load { stop: AtomicBool::new(false), stored: Default::default(), refused: Default::default() };
    let (mut held, mut failures) = (0, Vec::new());
    std::thread::scope(|scope| {
        for nth in 0..WRITERS {
            let (load, proxy) = (&load, &proxies[nth % proxies.len()]);
            scope.spawn(move || load.write(nth, proxy));
        }
        for round in 0..rounds() {
            let outcome = one_round(&load, &mut etcd, &proxies[0]);
            held += u32::from(outcome.is_ok());
            if let Err(why) = outcome {
                failures.push(format!("round {round}: {why}"));
                // Settles what still stands, for the next round.
                if !store(&proxies[0], "raise --settle").1.contains("settled") {
                    break;
                }
            }
        }
        load.stop.store(true, Ordering::Relaxed);
    });
    println!("settled at the first try: {held} of {}", rounds());
    assert!(
        failures.is_empty(),
        "{held} of {} held:\n{}\n{}",
        rounds(),
        failures.join("\n"),
        proxies[0].log()
    );
    let mut direct = server.client();
    let twice = rows(&mut direct, &format!("SELECT COUNT(*) - COUNT(DISTINCT id) FROM {DB}.t"));
    assert_eq!(twice, "0");
}

fn one_round(load: &Load, etcd: &mut Etcd, proxy: &Proxy) -> Result<(), String> {
    if !Load::wait_for(&load.stored, 30) {
        return Err("nothing is stored".to_owned());
    }
    let copy = etcd.snapshot();
    Load::wait_for(&load.stored, 200);
    etcd.restore(&copy);
    let end = Instant::now() + NEVER;
    while !etcd.ctl(0, &["get", "/rowstamp/suspect"]).contains("reason") {
        if Instant::now() > end {
            return Err("nobody noticed".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (code, said) = store(proxy, "raise --settle");
    if code != Some(0) {
        return Err(said);
    }
    let settled = Instant::now();
    while settled.elapsed() < WATCHED {
        let suspect = etcd.ctl(0, &["get", "/rowstamp/suspect"]);
        if !suspect.is_empty() {
            return Err(format!("suspected again after {:?}: {suspect}", settled.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    if Load::wait_for(&load.stored, 30) { Ok(()) } else { Err("writers do not go on".to_owned()) }
}
