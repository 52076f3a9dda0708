//! The proxy between two wires that do harm: bytes that come one by one, late, or never, connections that end at any byte.
//!
//! Each visit logs in, inserts in several forms, and goes. Whatever a wire does to it: no statement runs twice, what was
//! acknowledged is there by the id that was told, what was refused is not, and the proxy gives back all that the visit
//! took. `ROWSTAMP_FAULTS` says how many faults are drawn (tests/faults.sh: 1000), `ROWSTAMP_SEED` repeats them.

mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::raw::{Client, Options, Outcome};
use crate::support::servers::announce;
use crate::support::told::{Batch, Inserts, Row, judge, number, seed};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, Server, proxy, told};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wire::{DIRECTIONS, Direction, Fault, Harm, Wire};

const RULES: &str = "schema = \"faults\"\n[generators.t]\nkind = \"sequence\"\nbatch = 200\n\
    [tables.t]\ncolumn = \"id\"\ngenerator = \"t\"\n";
/// The longest that a session may be silent, for whatever reason, where a wire makes it so.
const LIMITS: &str = "[limits]\nhandshake_timeout = \"1s\"\nidle_timeout = \"2s\"\nwrite_timeout = \"2s\"\n";
/// The longest of the limits, and a machine that does other things too.
const GIVEN_BACK: Duration = NEVER;
/// A client of ours waits no longer for what a wire has swallowed.
const PATIENCE: Duration = Duration::from_secs(3);
/// The bytes of a visit in either direction, more or less.
const SPAN: u64 = 1000;
const VISITORS: u64 = 8;
/// Connections of the control account come and go.
const CONTROL_CONNECTIONS: usize = 8;

/// A proxy with a wire on either side. Each visitor has a way of its own to the proxy.
struct Bench {
    server: Server,
    to_server: Wire,
    proxy: Proxy,
    ledger: Ledger,
}

#[derive(Default)]
struct Ledger {
    acknowledged: Mutex<Vec<Row>>,
    refused: Mutex<BTreeMap<u64, String>>,
}

impl Bench {
    /// Without TLS to the server a visit's bytes are nearly the same each time.
    fn start(kind: Kind, tls: &str, limits: &str) -> Option<Bench> {
        let server = Server::start(kind)?;
        server.client().run("CREATE DATABASE faults");
        server.client().run("CREATE TABLE faults.t (token BIGINT NOT NULL, id BIGINT NOT NULL, KEY (id))");
        let to_server = Wire::start(&server.address());
        let config = proxy::config(&to_server.address());
        let config = config.replace("[backend]\n", &format!("[backend]\ntls.mode = \"{tls}\"\n")) + limits;
        let proxy = Proxy::start(&config, &[("faults", RULES)]);
        Some(Bench { server, to_server, proxy, ledger: Ledger::default() })
    }

    /// Open files of the proxy, two a session.
    fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.proxy.pid)).map_or(0, Iterator::count)
    }

    /// The number of files that the proxy has open when nobody is there.
    fn files_at_rest(&self) -> usize {
        let (mut last, mut since) = (self.files(), Instant::now());
        while since.elapsed() < Duration::from_secs(1) {
            thread::sleep(Duration::from_millis(50));
            let now = self.files();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }

    fn is_given_back(&self, at_rest: usize) {
        let end = Instant::now() + GIVEN_BACK;
        while self.files() > at_rest + CONTROL_CONNECTIONS {
            let (files, log) = (self.files(), self.proxy.log());
            assert!(Instant::now() < end, "{files} files are open, {at_rest} were at rest:\n{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Visits by a way, each with a fault of a wire's; how many of them ended early.
    fn visits(&self, count: u64, (way, wire): (&Wire, &Wire), first_token: u64, seed: u64) -> u64 {
        let mut random = StdRng::seed_from_u64(seed ^ first_token);
        let mut tokens = first_token..;
        let mut one = || {
            wire.plan(draw(&mut random));
            let batches = random.gen_range(1..12);
            visit((&way.address(), PATIENCE), &self.ledger, &mut tokens, batches, &mut random)
        };
        (0..count).map(|_| u64::from(one().is_err())).sum()
    }

    /// Checks that the stored rows are those that were told.
    fn judge(&self) -> usize {
        let mut client = self.server.client();
        told::wait_until_quiet(&mut client, "faults");
        let stored = told::read(&mut client, "faults.t");
        let acknowledged = self.ledger.acknowledged.lock().expect("no visitor panicked");
        judge(&acknowledged, &stored).unwrap_or_else(|findings| panic!("{findings}\n{}", self.proxy.log()));
        let refused = self.ledger.refused.lock().expect("no visitor panicked");
        for row in &stored {
            assert!(
                !refused.contains_key(&row.token),
                "refused and stored: {row:?}, {}",
                refused[&row.token]
            );
        }
        assert!(self.proxy.is_running());
        assert!(!self.proxy.log().contains("panicked"), "{}", self.proxy.log());
        acknowledged.len()
    }
}

/// Logs in by `address` and inserts `batches` of rows; an error of the connection ends it, and so does an answer that does not come
/// in time.
fn visit(
    (address, patience): (&str, Duration),
    ledger: &Ledger,
    tokens: &mut impl Iterator<Item = u64>,
    batches: u32,
    random: &mut StdRng,
) -> io::Result<()> {
    let options = Options { database: Some("faults".to_owned()), timeout: patience, ..Options::default() };
    let mut client = Client::connect(address, &options)?;
    let inserts =
        Inserts::prepare(&mut client, "t")?.map_err(|error| io::Error::other(format!("{error:?}")))?;
    for _ in 0..batches {
        let batch = Batch::draw(tokens, random);
        match inserts.send(&mut client, &batch)? {
            Outcome::Ok(ok) => ledger.acknowledged.lock().expect("no panic").extend(batch.rows(&ok)),
            Outcome::Err(error) => {
                let mut refused = ledger.refused.lock().expect("no panic");
                refused.extend(batch.tokens().iter().map(|token| (*token, format!("{error:?}"))));
            }
            Outcome::Rows(_) => panic!("an INSERT was answered by rows"),
        }
    }
    client.quit()
}

/// A short visit, cut at each byte that it sends and receives, on each side of the proxy.
fn at_every_byte(kind: Kind) {
    // Without limits of our own: a busy machine may take its time for what comes byte by byte, and every cut is noticed by its end.
    let Some(bench) = Bench::start(kind, "disabled", "") else { return };
    let to_proxy = Wire::start(&bench.proxy.address());
    let mut random = StdRng::seed_from_u64(1);
    let mut tokens = 1..;
    let mut one =
        |random: &mut StdRng| visit((&to_proxy.address(), NEVER), &bench.ledger, &mut tokens, 1, random);
    one(&mut random).expect("nothing is wrong with this one");
    let at_rest = bench.files_at_rest();
    let mut cuts = 0;
    for (name, wire) in [("client", &to_proxy), ("server", &bench.to_server)] {
        for direction in DIRECTIONS {
            // All of it byte by byte: nothing is noticed.
            wire.plan(Fault { direction, at: 0, harm: Harm::Bytes });
            one(&mut random)
                .unwrap_or_else(|error| panic!("{name}'s side, {direction:?} byte by byte: {error}"));
            let bytes = wire.passed(direction);
            assert!(bytes > 200, "{name}'s side, {direction:?}: {bytes} bytes are no visit");
            for at in 0..bytes {
                let harm = if at % 2 == 0 { Harm::Reset } else { Harm::Close };
                wire.plan(Fault { direction, at, harm });
                // The visit may have ended before: a random challenge, among others, is one or two bytes more or less.
                let _ = one(&mut random);
                wire.forget();
                cuts += 1;
            }
        }
    }
    bench.is_given_back(at_rest);
    one(&mut random).expect("the proxy serves on");
    let acknowledged = bench.judge();
    announce(&format!("faults: {}: {cuts} cuts, {acknowledged} rows acknowledged", kind.name()));
}

#[test]
fn at_every_byte_on_mariadb() {
    at_every_byte(Kind::MariaDb);
}

#[test]
fn at_every_byte_on_mysql9() {
    at_every_byte(Kind::MySql9);
}

/// The proxy's question before the first statement is never answered, and the client does not wait.
fn gone_while_held(kind: Kind) {
    let Some(bench) = Bench::start(kind, "disabled", LIMITS) else { return };
    let options = Options { database: Some("faults".to_owned()), ..Options::default() };
    let connect = || Client::connect(&bench.proxy.address(), &options).expect("root logs in");
    let insert = b"INSERT INTO t (token) VALUES (1)";
    let login_bytes = || {
        drop(connect());
        bench.to_server.passed(Direction::ToServer)
    };
    // Twice the same: no connection of the control account's.
    let of_login =
        std::iter::repeat_with(|| (login_bytes(), login_bytes())).find(|(a, b)| a == b).expect("endless").0;
    connect().run(insert);
    let at_rest = bench.files_at_rest();
    for _ in 0..CONTROL_CONNECTIONS {
        bench.to_server.plan(Fault { direction: Direction::ToServer, at: of_login, harm: Harm::Blackhole });
        connect().send_query(insert).expect("it is taken");
    }
    bench.is_given_back(at_rest);
}

#[test]
fn gone_while_held_on_mariadb() {
    gone_while_held(Kind::MariaDb);
}

#[test]
fn gone_while_held_on_mysql9() {
    gone_while_held(Kind::MySql9);
}

fn draw(random: &mut StdRng) -> Fault {
    let harm = match random.gen_range(0..10) {
        0..=3 => Harm::Reset,
        4..=6 => Harm::Close,
        7 => Harm::Blackhole,
        8 => Harm::Pause(Duration::from_millis(random.gen_range(1..1500))),
        _ => Harm::Bytes,
    };
    let direction = if random.gen_bool(0.5) { Direction::ToServer } else { Direction::ToClient };
    Fault { direction, at: random.gen_range(0..SPAN), harm }
}

/// Many visitors at once, each of whose visits meets a fault: half of them on the clients' side, and then half on the server's.
fn random_faults(kind: Kind) {
    let Some(bench) = Bench::start(kind, "preferred", LIMITS) else { return };
    let (faults, seed) = (number("ROWSTAMP_FAULTS").unwrap_or(100_u64), seed());
    announce(&format!("faults: {} seed {seed} (ROWSTAMP_SEED repeats it)", kind.name()));
    let begun = Instant::now();
    let mut tokens = 1 << 50..;
    let mut undisturbed = || {
        let mut random = StdRng::seed_from_u64(seed);
        visit((&bench.proxy.address(), NEVER), &bench.ledger, &mut tokens, 3, &mut random)
            .expect("nothing is wrong");
    };
    undisturbed();
    let at_rest = bench.files_at_rest();
    let mut ended = 0;
    for side in ["client", "server"] {
        let ways: Vec<Wire> = (0..VISITORS).map(|_| Wire::start(&bench.proxy.address())).collect();
        ended += thread::scope(|scope| {
            let visit_all = |visitor: u64, way| {
                let wire = if side == "client" { way } else { &bench.to_server };
                let first_token = (u64::from(side == "server") << 48) + (visitor << 40) + 1;
                bench.visits(faults / 2 / VISITORS + 1, (way, wire), first_token, seed)
            };
            let threads: Vec<_> = (0..VISITORS)
                .zip(&ways)
                .map(|(visitor, way)| scope.spawn(move || visit_all(visitor, way)))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a visitor")).sum::<u64>()
        });
        bench.to_server.forget();
        // The wires still hold what fell into a blackhole: the proxy has to give up by itself.
        bench.is_given_back(at_rest);
    }
    bench.to_server.repair();
    undisturbed();
    let acknowledged = bench.judge();
    announce(&format!(
        "faults: {}: {faults} faults in {:.1} s, {ended} visits ended by them, {acknowledged} rows acknowledged, {} refused",
        kind.name(),
        begun.elapsed().as_secs_f64(),
        bench.ledger.refused.lock().expect("no panic").len(),
    ));
    assert!(ended > faults / 3, "{ended} visits of {faults} ended by a fault are few");
}

#[test]
fn random_faults_on_mariadb() {
    random_faults(Kind::MariaDb);
}

#[test]
fn random_faults_on_mysql9() {
    random_faults(Kind::MySql9);
}
