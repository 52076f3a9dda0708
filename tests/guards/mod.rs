//! Proxies of all kinds of store on one table, of which one store's only may issue ids at a time.
//!
//! Each proxy is started, fails where another store has the table, writes, is frozen, stopped or killed, and starts again, while
//! somebody kills the connections that hold the table's lock. No id may come twice; the table has no unique key that would hide
//! that. `tests/guards.sh` runs it for long.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::etcd::Version;
use crate::support::machine::announce;
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options};
use crate::support::{Etcd, Kind, Proxy, Server, proxy, told};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

const DB: &str = "guards";

/// Steps in a run of all tests.
const STEPS: u64 = 40;

/// The counts of the steps' results.
#[derive(Default)]
struct Tally {
    steps: AtomicU64,
    started: AtomicU64,
    /// Another store had the table.
    kept_off: AtomicU64,
    /// The server did not answer a proxy that started.
    unanswered: AtomicU64,
    rows: AtomicU64,
    /// INSERTs that got 1467.
    refused: AtomicU64,
    locks_killed: AtomicU64,
    /// An id has come twice: nobody goes on.
    is_over: AtomicBool,
}

impl Tally {
    fn note(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A machine that does other things too takes more steps until everything has been tried.
    fn is_done(&self) -> bool {
        let told = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let wanted = told::number("ROWSTAMP_GUARDS_STEPS").unwrap_or(STEPS);
        let tried = [&self.started, &self.kept_off, &self.rows, &self.locks_killed];
        self.is_over.load(Ordering::Relaxed)
            || told(&self.steps) >= wanted && tried.into_iter().all(|count| told(count) > 0)
            || told(&self.steps) >= wanted.saturating_mul(20)
    }
}

#[test]
fn no_id_comes_twice_whatever_becomes_of_the_guards() {
    let seed = told::number("ROWSTAMP_GUARDS_SEED").unwrap_or_else(|| rand::thread_rng().r#gen());
    let chosen = std::env::var("ROWSTAMP_GUARDS_SERVER").ok();
    let is_known = |name: &String| Kind::ALL.iter().any(|kind| kind.name() == name);
    assert!(chosen.as_ref().is_none_or(is_known), "ROWSTAMP_GUARDS_SERVER wants mariadb or mysql9");
    for kind in Kind::ALL {
        if chosen.as_ref().is_some_and(|chosen| chosen != kind.name()) {
            continue;
        }
        let Some(server) = Server::start(kind) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
        announce(&format!("guards: {} with seed {seed} (ROWSTAMP_GUARDS_SEED)", kind.name()));
        campaign(&server, &etcd, seed);
    }
}

fn campaign(server: &Server, etcd: &Etcd, seed: u64) {
    let timeout = Duration::from_mins(5);
    let options = Options { capabilities: CLIENT_MULTI_STATEMENTS, timeout, ..Options::default() };
    let mut direct = Client::connect(&server.address(), &options).unwrap();
    direct.run(format!(
        "CREATE DATABASE {DB}; USE {DB}; CREATE TABLE t (id BIGINT NOT NULL, proxy VARCHAR(4), \
         at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6), KEY (id)) ENGINE=InnoDB"
    ));
    let (tally, lane) = (Tally::default(), Mutex::new(()));
    let logs = Logs::default();
    let etcd_store = |prefix: &str| {
        format!("[store]\nkind = \"etcd\"\nendpoints = {}\nprefix = \"{prefix}\"\n", etcd.endpoints_toml())
    };
    let in_table = format!("[store]\nkind = \"mysql\"\ntable = \"{DB}.bounds\"\n");
    let stores = [
        String::new(),
        String::new(),
        etcd_store("/a/"),
        etcd_store("/a/"),
        etcd_store("/b/"),
        in_table.clone(),
        in_table,
    ];
    thread::scope(|scope| {
        for (nth, store) in stores.iter().enumerate() {
            let (tally, lane, logs) = (&tally, &lane, &logs);
            let mut random = StdRng::seed_from_u64(seed.wrapping_add(nth as u64));
            scope.spawn(move || {
                let name = format!("p{nth}");
                let config =
                    format!("{}{store}\n[proxy]\nname = \"{name}\"\n", proxy::config(&server.address()));
                let rules = format!(
                    "schema = \"{DB}\"\n[generators.g]\nkind = \"sequence\"\nbatch = 1000\n[tables.t]\ncolumn = \"id\"\n\
                     generator = \"g\"\n"
                );
                let mut proxy = Proxy::written(&config, &[("rules", &rules)]);
                logs.watch(&proxy);
                while !tally.is_done() {
                    life(&mut proxy, &name, &mut random, tally, lane);
                    logs.keep(&proxy);
                }
            });
        }
        let _over = told::StopOnDrop(&tally.is_over);
        let mut random = StdRng::seed_from_u64(seed.wrapping_sub(1));
        while !tally.is_done() {
            thread::sleep(Duration::from_millis(random.gen_range(20..800)));
            kill_a_lock(&mut direct, &tally);
            assert_unique(&mut direct, &Rows::Recent, &logs);
        }
    });
    assert_unique(&mut direct, &Rows::All, &logs);
    let told = |count: &AtomicU64| count.load(Ordering::Relaxed);
    announce(&format!(
        "guards: {} steps, {} starts, {} kept off, {} not answered, {} rows, {} INSERTs refused, {} locks killed: no id twice",
        told(&tally.steps),
        told(&tally.started),
        told(&tally.kept_off),
        told(&tally.unanswered),
        told(&tally.rows),
        told(&tally.refused),
        told(&tally.locks_killed)
    ));
    assert!(told(&tally.started) > 0 && told(&tally.kept_off) > 0, "nothing was tried");
    assert!(told(&tally.rows) > 0 && told(&tally.locks_killed) > 0, "nothing was written or killed");
}

/// A proxy starts, writes for a while, and ends in one way or another.
fn life(proxy: &mut Proxy, name: &str, random: &mut StdRng, tally: &Tally, lane: &Mutex<()>) {
    Tally::note(&tally.steps);
    match proxy.try_start() {
        Ok(()) => Tally::note(&tally.started),
        Err(log) => {
            // A machine that does other things too has a server that takes more than a second for its answer.
            if log.contains("no answer within 1s") {
                return Tally::note(&tally.unanswered);
            }
            let is_kept_off =
                log.contains("is held by another Rowstamp") || log.contains("proxy of the name");
            if !is_kept_off {
                tally.is_over.store(true, Ordering::Relaxed);
            }
            assert!(is_kept_off, "it does not start:\n{log}");
            return Tally::note(&tally.kept_off);
        }
    }
    while !tally.is_done() {
        let end = Instant::now() + Duration::from_millis(random.gen_range(0..1500));
        write(proxy, name, end, tally);
        Tally::note(&tally.steps);
        match random.gen_range(0..4) {
            0 => {
                // While it sleeps the others go on, and its lock's connection may be killed.
                let asleep = Duration::from_millis(random.gen_range(0..3000));
                let _alone = lane.lock().unwrap();
                thread::scope(|scope| {
                    scope.spawn(|| write(proxy, name, Instant::now() + asleep, tally));
                    thread::sleep(Duration::from_millis(100));
                    proxy.signal("STOP");
                    thread::sleep(asleep);
                    proxy.signal("CONT");
                });
            }
            1 => return proxy.kill(),
            2 => return proxy.stop(),
            _ => {}
        }
    }
    proxy.stop();
}

/// INSERTs until `end`.
fn write(proxy: &Proxy, name: &str, end: Instant, tally: &Tally) {
    let sql = format!("INSERT INTO t(proxy) VALUES('{name}'),('{name}'),('{name}')");
    let options = Options { database: Some(DB.to_owned()), ..Options::default() };
    let Ok(mut client) = Client::connect(&proxy.address(), &options) else { return };
    while Instant::now() < end {
        let Ok(outcomes) = client.query(&sql) else { return };
        let Some(error) = outcomes.last().and_then(|outcome| outcome.err()) else {
            tally.rows.fetch_add(3, Ordering::Relaxed);
            continue;
        };
        assert_eq!(error.code, 1467, "{}", error.message);
        Tally::note(&tally.refused);
        thread::sleep(Duration::from_millis(20));
    }
}

/// The connection that holds the table's lock ends, as by a restart of the server or a network that breaks.
fn kill_a_lock(direct: &mut Client, tally: &Tally) {
    let digest = Sha256::digest(format!("{DB}.t"));
    let name = u128::from_be_bytes(digest[..16].try_into().unwrap());
    let holder = direct.run(format!("SELECT IS_USED_LOCK('rowstamp.{name:032x}')"));
    let Some(holder) = holder[0].cell(0, 0).filter(|cell| cell.parse::<u64>().is_ok()) else { return };
    let killed = direct.query(format!("KILL {holder}")).unwrap();
    if killed[0].err().is_none() {
        Tally::note(&tally.locks_killed);
    }
}

/// The logs of each proxy's processes, one after the other, for the case that an id comes twice.
#[derive(Default)]
struct Logs {
    /// Each proxy's folder, and what its processes said that have ended.
    of_proxies: Mutex<Vec<(PathBuf, String)>>,
}

impl Logs {
    /// Bytes of each that are shown.
    const SHOWN_MAX: usize = 6000;

    fn watch(&self, proxy: &Proxy) {
        self.of_proxies.lock().unwrap().push((proxy.dir().to_owned(), String::new()));
    }

    /// The proxy's process has ended: the next one begins a new log.
    fn keep(&self, proxy: &Proxy) {
        let mut all = self.of_proxies.lock().unwrap();
        let (_, kept) = all.iter_mut().find(|(dir, _)| dir == proxy.dir()).unwrap();
        kept.push_str(&proxy.last_log());
        *kept = last_of(kept).to_owned();
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        for (dir, kept) in &*self.of_proxies.lock().unwrap() {
            let config = fs::read_to_string(dir.join("rowstamp.toml")).unwrap_or_default();
            let name = config.lines().last().unwrap_or_default();
            let now = fs::read_to_string(dir.join("log")).unwrap_or_default();
            let all = format!("{kept}{now}");
            // Writing to a String cannot fail.
            let _ = write!(shown, "\n== {name}\n{}", last_of(&all));
        }
        shown
    }
}

fn last_of(text: &str) -> &str {
    let from = text.len().saturating_sub(Logs::SHOWN_MAX);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[from..]
}

/// Ids so far below the highest are looked at while the campaign runs: a look at millions of rows would take all of the machine.
const RECENT_IDS: u64 = 200_000;

/// The rows that [`assert_unique`] looks at.
enum Rows {
    Recent,
    All,
}

fn assert_unique(direct: &mut Client, rows: &Rows, logs: &Logs) {
    let which = match rows {
        Rows::Recent => format!("WHERE id > (SELECT MAX(id) FROM {DB}.t) - {RECENT_IDS}"),
        Rows::All => String::new(),
    };
    // By the index alone, and then what is found.
    let twice = direct.run(format!(
        "SELECT id, GROUP_CONCAT(proxy, ' ', at) FROM {DB}.t JOIN \
         (SELECT id FROM {DB}.t {which} GROUP BY id HAVING COUNT(*) > 1 LIMIT 5) twice USING (id) GROUP BY id"
    ));
    let shown: Vec<_> =
        (0..twice[0].rows().len()).map(|row| (twice[0].cell(row, 0), twice[0].cell(row, 1))).collect();
    assert!(shown.is_empty(), "ids that were issued twice: {shown:?}{}", logs.shown());
}
