//! Promises 1, 2 and 6 on real parts: three proxies, three members of etcd, one MariaDB, clients that write all the time.
//!
//! Proxies are killed, frozen, cut off from etcd and given wrong clocks, and the leader of etcd is killed, by a schedule that a
//! seed draws. No id may come twice, none may reach a bound that etcd has not committed, no acknowledged row may be missing or have
//! another id, a kill may lose two ranges, and after each fault INSERTs must work at every proxy within 5 s.
//!
//! `tests/chaos.sh` runs it, in a network namespace of its own: partitions are packets that nft drops there.

mod audit;
mod bounds;
mod findings;
mod fleet;
mod history;
mod judge;
mod lanes;
mod ledger;
mod network;
mod plan;
mod recovery;
mod summary;
mod tables;
mod writers;

use std::thread;
use std::time::{Duration, Instant};

use crate::support::machine::announce;
use fleet::Fleet;
use lanes::Campaign;
use plan::Plan;

/// One line of progress in so much time.
const PROGRESS_INTERVAL: Duration = Duration::from_mins(1);
/// Longer than any fault lasts: nothing is written any more.
const STALL_MAX: Duration = Duration::from_mins(1);

#[test]
fn campaign() {
    // Settings come from the script, which makes the namespace.
    let Some(plan) = Plan::from_environment() else { return };
    announce(&format!("chaos: {plan}"));
    let Some(fleet) = Fleet::start() else { return };
    let campaign = Campaign::new(&fleet, &plan);
    let started = Instant::now();
    thread::scope(|scope| {
        // Dropped before the scope waits for the others, also by a panic.
        let _stop = campaign.stop_on_drop();
        writers::start(scope, &campaign, plan.seed);
        let lanes = lanes::start(scope, &campaign);
        follow(&campaign, started, || lanes.iter().all(thread::ScopedJoinHandle::is_finished));
        for lane in lanes {
            lane.join().expect("a lane of faults ends well");
        }
        follow(&campaign, started, || campaign.has_ids_enough());
    });
    let took = started.elapsed();
    fleet.stop();
    let history = history::read(&fleet.console());
    let audit = audit::of(&fleet, &campaign, &history);
    announce(&summary::text(&fleet, &campaign, &history, &audit, took));
    let findings = campaign.findings.text();
    assert!(findings.is_empty(), "{findings}\n{plan}\n{}", fleet.last_words());
}

/// Waits, tells how far it is, and fails where nothing is written any more.
fn follow(campaign: &Campaign, started: Instant, is_done: impl Fn() -> bool) {
    let (mut told, mut progress) = (Instant::now(), (0, Instant::now()));
    while !is_done() {
        assert!(!campaign.is_stopped(), "a writer or a fault failed");
        thread::sleep(Duration::from_millis(20));
        let rows = campaign.ledger.rows();
        if rows != progress.0 {
            progress = (rows, Instant::now());
        }
        assert!(progress.1.elapsed() < STALL_MAX, "nothing is written any more");
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = Instant::now();
            let (done, all) = campaign.faults_done();
            announce(&format!(
                "chaos: {done} of {all} faults, {rows} ids, {} s",
                started.elapsed().as_secs()
            ));
        }
    }
}
