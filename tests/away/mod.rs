//! etcd stopped under load: ruled INSERTs go on for the reserve as if nothing were missing, then they get error 1467 within
//! `store.deadline`; all else goes on; and service returns soon after etcd does.
//!
//! Writers insert at a fixed pace through the proxy, others run statements that no rule concerns. By turns etcd runs, is frozen
//! (SIGSTOP), runs, is dead (SIGKILL); what a statement took is counted for the window that it fell in. At the end etcd stays away until the
//! reserve is used up, once each way.
//!
//! `ROWSTAMP_AWAY_ROUNDS` says how many turns (tests/away.sh: 12); it also makes the times count, which a short run on a busy machine
//! does not. ROWSTAMP_AWAY_SECONDS is the length of the run that counts etcd's writes at `batch = "auto"`.
//!
//! * [`load`]: the writers and what they measured.

mod load;

use std::thread;
use std::time::{Duration, Instant};

use crate::support::etcd::Version;
use crate::support::servers::announce;
use crate::support::told::{self, StopOnDrop};
use crate::support::{Etcd, Kind, Proxy, Server, proxy};
use load::{Kind as Work, Load};

/// The time after etcd's return until the reserve is full again and the machine is calm.
const SETTLE: Duration = Duration::from_millis(1_500);
/// A refusal may come so much later than `store.deadline` (1 s).
const LATE: Duration = Duration::from_millis(200);
const SERVICE_DEADLINE: Duration = Duration::from_secs(2);
/// The 99.9th percentile without etcd, by that with etcd. Each is the median of the windows' percentiles,
/// since other work of a machine comes in bursts.
const RATIO_MAX: f64 = 1.2;

/// How much is measured.
struct Size {
    rounds: u32,
    window: Duration,
    /// Half of it lasts longer than a window, by [`load::PACE`].
    batch: u32,
    /// True if the times must be as good as they should.
    counts: bool,
}

impl Size {
    fn asked() -> Size {
        match told::number("ROWSTAMP_AWAY_ROUNDS") {
            Some(rounds) => Size { rounds, window: Duration::from_secs(4), batch: 40_000, counts: true },
            None => Size { rounds: 1, window: Duration::from_secs(1), batch: 6_000, counts: false },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Frozen,
    Dead,
}

impl How {
    const BOTH: [How; 2] = [How::Frozen, How::Dead];

    fn leave(self, etcd: &mut Etcd) {
        match self {
            How::Frozen => etcd.signal(0, "STOP"),
            How::Dead => etcd.kill(0),
        }
    }

    /// The moment from which etcd answers again.
    fn come_back(self, etcd: &mut Etcd) -> Instant {
        match self {
            How::Frozen => etcd.signal(0, "CONT"),
            How::Dead => {
                etcd.restart(0);
                assert!(etcd.wait_until_healthy());
            }
        }
        Instant::now()
    }
}

/// Each with a generator of its own.
const TABLES: [&str; 2] = ["t0", "t1"];

/// The state of etcd, and of the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// Ids come from the reserve.
    Away(How),
    /// There are none any more.
    UsedUp,
}

struct Window {
    state: State,
    from: Instant,
    until: Instant,
}

fn window(state: State, length: Duration) -> Window {
    let from = Instant::now();
    thread::sleep(length);
    Window { state, from, until: Instant::now() }
}

/// How the reserve ended, one way.
struct End {
    how: How,
    reserve_lasted: Duration,
    refused_after: Duration,
    served_after: Duration,
}

fn rules(batch: &str, generators: usize) -> String {
    let one = |nth| {
        format!(
            "[generators.g{nth}]\nkind = \"sequence\"\nbatch = {batch}\n[tables.t{nth}]\ncolumn = \"id\"\ngenerator = \"g{nth}\"\n"
        )
    };
    (0..generators).map(one).fold("schema = \"away\"\n".to_owned(), |all, one| all + &one)
}

/// A proxy as it is run, without a second opinion on each rewrite.
fn start(server: &Server, etcd: &Etcd, rules: &str) -> Proxy {
    let mut client = server.client();
    client.run("CREATE DATABASE away");
    for table in TABLES {
        client.run(format!("CREATE TABLE away.{table} (id BIGINT NOT NULL PRIMARY KEY, a BIGINT NOT NULL)"));
    }
    client.run("CREATE TABLE away.free (id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT, a BIGINT NOT NULL)");
    let config = proxy::config(&server.address()).replace("verify = \"always\"", "verify = \"off\"");
    let store =
        format!("[store]\nkind = \"etcd\"\nendpoints = {}\ndeadline = \"1s\"\n", etcd.endpoints_toml());
    Proxy::start(&(config + &store), &[("away", rules)])
}

#[test]
fn ruled_inserts_go_on_while_etcd_is_away() {
    let size = Size::asked();
    let Some(server) = Server::start(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    let proxy = start(&server, &etcd, &rules(&size.batch.to_string(), 1));
    let load = Load::new(proxy.port);
    let (windows, ends) = thread::scope(|scope| {
        let _stop = StopOnDrop(&load.stop);
        load.start(scope, &TABLES[..1]);
        thread::sleep(SETTLE);
        let mut windows = Vec::new();
        for _ in 0..size.rounds {
            for how in How::BOTH {
                windows.push(window(State::Runs, size.window));
                how.leave(&mut etcd);
                windows.push(window(State::Away(how), size.window));
                how.come_back(&mut etcd);
                thread::sleep(SETTLE);
            }
        }
        let ends = How::BOTH.map(|how| {
            let (end, window) = use_up(how, &mut etcd, &load, size.window);
            windows.push(window);
            end
        });
        (windows, ends)
    });
    let spread = |work, state: fn(State) -> bool| {
        let inside = |at: Instant, took: Duration| {
            windows.iter().any(|w| state(w.state) && w.from <= at && at + took <= w.until)
        };
        load.spread(work, inside)
    };
    let lines = [
        ("ruled, etcd runs", spread(Work::Ruled, |state| state == State::Runs)),
        ("ruled, etcd frozen", spread(Work::Ruled, |state| state == State::Away(How::Frozen))),
        ("ruled, etcd dead", spread(Work::Ruled, |state| state == State::Away(How::Dead))),
        ("other, etcd runs", spread(Work::Other, |state| state == State::Runs)),
        ("other, etcd away", spread(Work::Other, |state| matches!(state, State::Away(_)))),
        ("other, reserve used up", spread(Work::Other, |state| state == State::UsedUp)),
    ];
    for (what, spread) in lines {
        announce(&format!("away: {what:<24} {spread}"));
    }
    let typical = |state: fn(State) -> bool| {
        let those = windows.iter().filter(|window| state(window.state));
        let inside = |window: &Window, at, took| window.from <= at && at + took <= window.until;
        let mut of_each: Vec<_> =
            those.map(|window| load.spread(Work::Ruled, |at, took| inside(window, at, took)).p999).collect();
        of_each.sort_unstable();
        of_each[of_each.len() / 2]
    };
    let (with, without) = (typical(|s| s == State::Runs), typical(|s| matches!(s, State::Away(_))));
    let ratio = without.as_secs_f64() / with.as_secs_f64();
    announce(&format!(
        "away: ruled, median of the windows' 99.9th percentiles: {with:.1?} with etcd, {without:.1?} without, {ratio:.2} times"
    ));
    for end in &ends {
        announce(&format!(
            "away: {:?}: the reserve lasted {:.1} s, 1467 {:.2} s after the statement, service {:.2} s after etcd's return",
            end.how,
            end.reserve_lasted.as_secs_f64(),
            end.refused_after.as_secs_f64(),
            end.served_after.as_secs_f64()
        ));
    }
    if size.counts {
        assert!(ratio <= RATIO_MAX, "{ratio:.2} is more than {RATIO_MAX}");
        for end in &ends {
            assert!(
                end.refused_after <= Duration::from_secs(1) + LATE,
                "{:?}: {:?}",
                end.how,
                end.refused_after
            );
            assert!(end.served_after <= SERVICE_DEADLINE, "{:?}: {:?}", end.how, end.served_after);
        }
    }
}

/// etcd stays away until ruled INSERTs are refused, and a while longer.
fn use_up(how: How, etcd: &mut Etcd, load: &Load, length: Duration) -> (End, Window) {
    how.leave(etcd);
    let left = Instant::now();
    let refused = load.wait_for(left, |sample| sample.is_refused);
    let window = window(State::UsedUp, length);
    let back = how.come_back(etcd);
    let served = load.wait_for(back, |sample| !sample.is_refused);
    thread::sleep(SETTLE);
    let end = End {
        how,
        reserve_lasted: refused.at - left,
        refused_after: refused.took,
        served_after: served.at + served.took - back,
    };
    (end, window)
}

/// How often a bound is raised at `batch = "auto"`: each raise is a write of etcd.
#[test]
fn a_generator_writes_seldom_and_never_when_idle() {
    let Some(server) = Server::start(Kind::MariaDb) else { return };
    let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
    let asked: Option<u64> = told::number("ROWSTAMP_AWAY_SECONDS");
    let proxy = start(&server, &etcd, &rules("\"auto\"", TABLES.len()));
    let load = Load::new(proxy.port);
    let mut revisions = vec![revision(&etcd)];
    thread::scope(|scope| {
        let _stop = StopOnDrop(&load.stop);
        load.start(scope, &TABLES);
        for _ in 0..asked.unwrap_or(10) / 5 {
            thread::sleep(Duration::from_secs(5));
            revisions.push(revision(&etcd));
        }
    });
    let idle = {
        thread::sleep(SETTLE);
        let from = revision(&etcd);
        thread::sleep(Duration::from_secs(5));
        revision(&etcd) - from
    };
    let writes: Vec<u64> = revisions.windows(2).map(|pair| pair[1] - pair[0]).collect();
    announce(&format!(
        "away: batch = \"auto\", {} generators, {} ruled rows: writes of etcd in each 5 s {writes:?}, idle {idle}",
        TABLES.len(),
        load.spread(Work::Ruled, |_, _| true).count,
    ));
    assert_eq!(idle, 0, "an idle generator writes");
    // While the demand is not known yet, batches are small.
    let most = TABLES.len() as u64;
    assert!(asked.is_none() || writes[2..].iter().all(|count| *count <= most), "{writes:?}: at most {most}");
}

fn revision(etcd: &Etcd) -> u64 {
    let status = etcd.ctl(0, &["endpoint", "status", "--write-out=json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("a status");
    status[0]["Status"]["header"]["revision"].as_u64().expect("a revision")
}
