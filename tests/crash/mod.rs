//! Promise 1 under kill -9: no id is issued twice, and what was acknowledged is there, by the id that was told.
//!
//! Writers insert rows through the proxy, each row with a token that only it has, into a table whose id has no unique key: an id
//! issued twice shows as two rows instead of an error. The proxy is killed at random times and restarted on its store.
//! `ROWSTAMP_CRASHES` says how often (tests/crash.sh: 300), `ROWSTAMP_SEED` repeats the times of an earlier run.

mod stage;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::raw::{Client, Options, Outcome};
use crate::support::servers::announce;
use crate::support::told::{Batch, Inserts, Row, StopOnDrop, judge, number, seed};
use crate::support::{Kind, Proxy, Server, proxy, told};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WRITERS: u64 = 8;
/// Longer than any restart; a proxy that serves nobody for so long is broken.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(20);
/// One kill in so many follows the start at once, when bounds are raised and nobody is connected.
const KILLS_AT_START: u32 = 8;

// Small batches: the store is written often, and a kill meets a reservation under way.
const RULES: &str = r#"
schema = "crash"

[generators.t]
kind = "sequence"
batch = 200

[tables.t]
column = "id"
generator = "t"
"#;

#[test]
fn no_id_twice_and_no_acknowledged_row_lost_on_mariadb() {
    crash(Kind::MariaDb);
}

#[test]
fn no_id_twice_and_no_acknowledged_row_lost_on_mysql9() {
    crash(Kind::MySql9);
}

fn crash(kind: Kind) {
    let Some(server) = Server::start(kind) else { return };
    let crashes: u32 = number("ROWSTAMP_CRASHES").unwrap_or(10);
    let seed = seed();
    announce(&format!("crash: {} seed {seed} (ROWSTAMP_SEED repeats it)", kind.name()));
    server.client().run("CREATE DATABASE crash");
    server.client().run("CREATE TABLE crash.t (token BIGINT NOT NULL, id BIGINT NOT NULL, KEY (id))");

    let mut proxy = Proxy::start(&proxy::config(&server.address()), &[("crash", RULES)]);
    let load = Load::new(&proxy);
    let started = Instant::now();
    let slowest_restart = thread::scope(|scope| {
        // Dropped before the scope waits for the writers, also by a panic.
        let _stop = StopOnDrop(&load.stop);
        for writer in 0..WRITERS {
            let load = &load;
            scope.spawn(move || load.write(writer, &mut StdRng::seed_from_u64(seed ^ (writer + 1))));
        }
        kill_and_restart(&mut proxy, &load, crashes, &mut StdRng::seed_from_u64(seed))
    });

    let acknowledged = load.acknowledged.into_inner().expect("no writer panicked");
    let stored = stored(&server);
    if let Err(findings) = judge(&acknowledged, &stored) {
        panic!("{} seed {seed}: {findings}\nthe proxy's last log:\n{}", kind.name(), proxy.log());
    }
    let highest = stored.iter().map(|row| row.id).max().unwrap_or(0);
    announce(&format!(
        "crash: {}: {crashes} kills in {:.1} s, {} rows acknowledged, {} in the table, ids to {highest} ({} skipped a kill), \
         slowest restart {} ms, {} statements cut off",
        kind.name(),
        started.elapsed().as_secs_f64(),
        acknowledged.len(),
        stored.len(),
        (highest - stored.len() as u64) / u64::from(crashes.max(1)),
        slowest_restart.as_millis(),
        load.cut_off.into_inner(),
    ));
}

/// Kills the proxy under load, `crashes` times; the slowest restart.
fn kill_and_restart(proxy: &mut Proxy, load: &Load, crashes: u32, random: &mut StdRng) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..crashes {
        if !random.gen_ratio(1, KILLS_AT_START) {
            load.wait_for_progress(proxy);
            thread::sleep(Duration::from_millis(random.gen_range(0..200)));
        }
        proxy.kill();
        let killed = Instant::now();
        proxy.restart();
        slowest = slowest.max(killed.elapsed());
        load.port.store(proxy.port, Ordering::SeqCst);
    }
    load.wait_for_progress(proxy);
    slowest
}

/// The state that the writers and the killer share.
struct Load {
    port: AtomicU16,
    stop: AtomicBool,
    acknowledged: Mutex<Vec<Row>>,
    cut_off: AtomicU64,
}

impl Load {
    fn new(proxy: &Proxy) -> Load {
        Load {
            port: AtomicU16::new(proxy.port),
            stop: AtomicBool::new(false),
            acknowledged: Mutex::new(Vec::new()),
            cut_off: AtomicU64::new(0),
        }
    }

    fn acknowledged_rows(&self) -> usize {
        self.acknowledged.lock().expect("no writer panicked").len()
    }

    /// Until more rows are acknowledged than now.
    fn wait_for_progress(&self, proxy: &Proxy) {
        let (before, end) = (self.acknowledged_rows(), Instant::now() + PROGRESS_DEADLINE);
        while self.acknowledged_rows() == before {
            assert!(
                Instant::now() < end,
                "nothing is acknowledged any more; the proxy's log:\n{}",
                proxy.log()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Inserts until told to stop, with a new connection whenever the proxy has gone. An error of the server fails the test.
    fn write(&self, writer: u64, random: &mut StdRng) {
        let mut tokens = (writer << 40) + 1..;
        while !self.stop.load(Ordering::SeqCst) {
            let address = format!("127.0.0.1:{}", self.port.load(Ordering::SeqCst));
            let options = Options { database: Some("crash".to_owned()), ..Options::default() };
            let Ok(client) = Client::connect(&address, &options) else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            if self.write_on(client, &mut tokens, random).is_err() {
                self.cut_off.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn write_on(
        &self,
        mut client: Client,
        tokens: &mut impl Iterator<Item = u64>,
        random: &mut StdRng,
    ) -> io::Result<()> {
        let inserts = Inserts::prepare(&mut client, "t")?.unwrap_or_else(|error| panic!("{error:?}"));
        while !self.stop.load(Ordering::SeqCst) {
            let batch = Batch::draw(tokens, random);
            let ok = match inserts.send(&mut client, &batch)? {
                Outcome::Ok(ok) => ok,
                other => panic!("an INSERT was answered by {other:?}"),
            };
            self.acknowledged.lock().expect("no writer panicked").extend(batch.rows(&ok));
        }
        Ok(())
    }
}

/// The table straight from the server, once no statement runs there any more.
fn stored(server: &Server) -> Vec<Row> {
    let mut client = server.client();
    told::wait_until_quiet(&mut client, "crash");
    told::read(&mut client, "crash.t")
}
