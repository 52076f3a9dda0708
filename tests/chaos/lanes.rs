//! Faults as they happen: a lane for each proxy, one for the leader of etcd; a lane goes on when INSERTs work again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::chaos::bounds::Bounds;
use crate::chaos::findings::Findings;
use crate::chaos::fleet::{Fleet, Member};
use crate::chaos::ledger::Ledger;
use crate::chaos::network;
use crate::chaos::plan::{Fault, Kind, Lane, LeaderKill, Plan};
use crate::chaos::recovery::{Recoveries, Serves};
use crate::support::told::StopOnDrop;

/// INSERTs work again at every proxy so soon after a fault ended.
const RECOVERY_MAX: Duration = Duration::from_secs(5);
/// One that does not serve for so long is broken for good.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(2);

/// The state that all threads share.
pub(crate) struct Campaign<'a> {
    pub(crate) fleet: &'a Fleet,
    plan: &'a Plan,
    pub(crate) ledger: Ledger,
    pub(crate) findings: Findings,
    pub(crate) recoveries: Recoveries,
    pub(crate) bounds: Bounds,
    started: Instant,
    done: AtomicU32,
    stop: AtomicBool,
}

pub(crate) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    campaign: &'scope Campaign<'scope>,
) -> Vec<ScopedJoinHandle<'scope, ()>> {
    let plan = campaign.plan;
    let mut lanes = vec![scope.spawn(|| campaign.run(&plan.leader, |kill| campaign.kill_leader(kill)))];
    for (member, lane) in campaign.fleet.members.iter().zip(&plan.proxies) {
        let nth = lanes.len() - 1;
        lanes.push(scope.spawn(move || campaign.run(lane, |fault| campaign.disturb(nth, member, fault))));
    }
    lanes
}

impl<'a> Campaign<'a> {
    pub(crate) fn new(fleet: &'a Fleet, plan: &'a Plan) -> Self {
        Campaign {
            fleet,
            plan,
            ledger: Ledger::default(),
            findings: Findings::announced(),
            recoveries: Recoveries::default(),
            bounds: Bounds::new(fleet),
            started: Instant::now(),
            done: AtomicU32::new(0),
            stop: AtomicBool::new(false),
        }
    }

    pub(crate) fn stop_on_drop(&self) -> StopOnDrop<'_> {
        StopOnDrop(&self.stop)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Writers are as fast as the plan's ids want, not faster: more ids would be had by fewer faults each.
    pub(crate) fn wait_for_pace(&self) {
        while self.ledger.rows() > self.plan.ids_due(self.started.elapsed()) && !self.is_stopped() {
            thread::sleep(POLL);
        }
    }

    /// The number of faults that are done, and of all.
    pub(crate) fn faults_done(&self) -> (u32, u32) {
        (self.done.load(Ordering::SeqCst), self.plan.faults())
    }

    pub(crate) fn count(&self, kind: Kind) -> u32 {
        self.plan.count(kind)
    }

    /// True if there are as many as the plan has, and half of them came after half of the faults.
    pub(crate) fn has_ids_enough(&self) -> bool {
        let (before, after) = self.ledger.halves();
        self.ledger.rows() >= self.plan.ids && after >= before
    }

    /// One fault after the other, each followed by a look at the bounds.
    fn run<T>(&self, lane: &Lane<T>, make: impl Fn(&T)) {
        // Also where this lane panics: the others would wait for ids that do not come.
        let stop = StopOnDrop(&self.stop);
        for (nth, (pause, fault)) in lane.iter().enumerate() {
            thread::sleep(*pause);
            self.wait_for_share(nth, lane.len());
            if self.is_stopped() {
                return;
            }
            make(fault);
            self.bounds.check(&self.findings);
            let done = self.done.fetch_add(1, Ordering::SeqCst) + 1;
            if done >= self.plan.faults().div_ceil(2) {
                self.ledger.note_half();
            }
        }
        std::mem::forget(stop);
    }

    /// Faults are spread over the ids, and each lane's over the others'.
    fn wait_for_share(&self, nth: usize, of: usize) {
        let share = |all: u64| all * nth as u64 / of as u64;
        let is_due = || {
            let (done, faults) = self.faults_done();
            // A little early: the other lanes wait for this one too.
            u64::from(done) + u64::from(faults) / 10 + 4 >= share(faults.into())
                && self.ledger.rows() >= share(self.plan.ids)
        };
        while !is_due() && !self.is_stopped() {
            thread::sleep(POLL);
        }
    }

    fn disturb(&self, nth: usize, member: &Member, fault: &Fault) {
        member.calm.fault_begins();
        let (kind, end) = match fault {
            Fault::Kill { away } => {
                member.kill();
                thread::sleep(*away);
                let end = Instant::now();
                member.start();
                (Kind::Kill, end)
            }
            Fault::Freeze { lasts } => {
                member.signal("STOP");
                thread::sleep(*lasts);
                member.signal("CONT");
                (Kind::Freeze, Instant::now())
            }
            Fault::ClockJump { by_seconds, lasts, killed } => {
                member.clock.set(*by_seconds);
                thread::sleep(*lasts);
                if *killed {
                    member.kill();
                    member.start();
                }
                member.clock.set(0);
                (Kind::ClockJump, Instant::now())
            }
            Fault::Partition { members, loses, lasts } => {
                network::cut(nth, members, *loses);
                thread::sleep(*lasts);
                network::heal(nth, members, *loses);
                (Kind::Partition, Instant::now())
            }
        };
        member.calm.fault_ended(end);
        self.wait_until_all_serve(kind, end, Some(member));
    }

    /// The fault is over with the kill: two members are left. The third comes back before this returns.
    fn kill_leader(&self, kill: &LeaderKill) {
        let leader = self.wait_for("etcd has a leader", || self.fleet.etcd().leader());
        for member in &self.fleet.members {
            member.calm.fault_begins();
        }
        self.fleet.etcd().kill(leader);
        let end = Instant::now();
        for member in &self.fleet.members {
            member.calm.fault_ended(end);
        }
        self.wait_until_all_serve(Kind::LeaderKill, end, None);
        thread::sleep(kill.away.saturating_sub(end.elapsed()));
        self.fleet.etcd().restart(leader);
        self.wait_for("etcd's member is back", || self.fleet.etcd().is_healthy(leader).then_some(()));
    }

    fn wait_for<T>(&self, what: &str, ask: impl Fn() -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(Instant::now() < end && !self.is_stopped(), "{what}: not in time");
            thread::sleep(POLL * 10);
        }
    }

    /// Notes how long the slowest proxy took. One that another lane disturbs by now is left to that lane, but for `own`, which
    /// only a kill of the leader can disturb: that is over in a moment.
    fn wait_until_all_serve(&self, kind: Kind, end: Instant, own: Option<&Member>) {
        let mut slowest = None;
        for member in &self.fleet.members {
            let is_own = own.is_some_and(|own| std::ptr::eq(own, member));
            slowest = slowest.max(self.wait_until_serves(member, end, is_own));
        }
        let Some(slowest) = slowest else { return };
        self.recoveries.note(kind, slowest);
        if slowest > RECOVERY_MAX {
            self.findings.note("INSERTs did not work again within 5 s", || {
                format!("{slowest:?} behind a {}\n{}", kind.name(), self.fleet.last_words())
            });
        }
    }

    fn wait_until_serves(&self, member: &Member, end: Instant, is_own: bool) -> Option<Duration> {
        while !self.is_stopped() {
            match member.calm.serves_since(end) {
                Serves::Again(took) => return Some(took),
                Serves::Disturbed if !is_own => return None,
                Serves::Disturbed | Serves::NotYet => {
                    assert!(end.elapsed() < PATIENCE, "{} serves no more", member.name);
                    thread::sleep(POLL);
                }
            }
        }
        None
    }
}
