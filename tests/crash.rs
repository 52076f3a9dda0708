//! Promise 1 under kill -9: no id is issued twice, and what was acknowledged is there, by the id that was told.
//!
//! Writers insert rows through the proxy, each row with a token that only it has, into a table whose id has no unique key: an id
//! issued twice shows as two rows instead of an error. The proxy is killed at random times and restarted on its store.
//! `ROWSTAMP_CRASHES` says how often (tests/crash.sh: 300), `ROWSTAMP_SEED` repeats the times of an earlier run.
#![allow(clippy::indexing_slicing, reason = "a panic is how a test fails")]

mod support;

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::raw::{Client, Options, Outcome, Param, Prepared};
use support::servers::announce;
use support::{Kind, Proxy, Server, proxy};

const WRITERS: u64 = 8;
const ROWS_MAX: usize = 20;
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
    let seed: u64 = number("ROWSTAMP_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()))
    });
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

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
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

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    token: u64,
    id: u64,
}

/// What the writers and the killer share.
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
        let one = prepare(&mut client, "INSERT INTO t (token) VALUES (?)")?;
        let three = prepare(&mut client, "INSERT INTO t (token) VALUES (?), (?), (?)")?;
        while !self.stop.load(Ordering::SeqCst) {
            let (sent, outcomes) = match random.gen_range(0..4) {
                0 => insert(&mut client, tokens.take(1).collect()),
                1 => insert(&mut client, tokens.take(random.gen_range(2..=ROWS_MAX)).collect()),
                2 => execute(&mut client, &one, tokens.take(1).collect()),
                _ => execute(&mut client, &three, tokens.take(3).collect()),
            };
            let outcomes = outcomes?;
            let Some(Outcome::Ok(ok)) = outcomes.first() else {
                panic!("an INSERT was answered by {outcomes:?}")
            };
            assert_eq!(ok.affected_rows, sent.len() as u64, "rows inserted");
            // The ids of one statement adjoin: what a driver tells its application of several rows.
            let rows = sent.into_iter().zip(ok.insert_id..).map(|(token, id)| Row { token, id });
            self.acknowledged.lock().expect("no writer panicked").extend(rows);
        }
        Ok(())
    }
}

fn prepare(client: &mut Client, sql: &str) -> io::Result<Prepared> {
    Ok(client.prepare(sql)?.unwrap_or_else(|error| panic!("{sql}: {error:?}")))
}

type Sent = (Vec<u64>, io::Result<Vec<Outcome>>);

fn insert(client: &mut Client, tokens: Vec<u64>) -> Sent {
    let values: Vec<String> = tokens.iter().map(|token| format!("({token})")).collect();
    let outcomes = client.query(format!("INSERT INTO t (token) VALUES {}", values.join(",")));
    (tokens, outcomes)
}

fn execute(client: &mut Client, statement: &Prepared, tokens: Vec<u64>) -> Sent {
    let params: Vec<Param> = tokens.iter().map(|token| Param::Uint(*token)).collect();
    let outcomes = client.execute(statement, &params);
    (tokens, outcomes)
}

/// The table straight from the server, once no statement runs there any more.
fn stored(server: &Server) -> Vec<Row> {
    let mut client = server.client();
    let mine = client.connection_id;
    let others =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'crash' AND id <> {mine}");
    let end = Instant::now() + PROGRESS_DEADLINE;
    while client.run(&others)[0].cell(0, 0).as_deref() != Some("0") {
        assert!(Instant::now() < end, "statements of connections long gone still run");
        thread::sleep(Duration::from_millis(20));
    }
    let outcome = client.run("SELECT token, id FROM crash.t").remove(0);
    let cell = |row: usize, column: usize| {
        outcome.cell(row, column).and_then(|text| text.parse().ok()).expect("an unsigned number")
    };
    (0..outcome.rows().len()).map(|row| Row { token: cell(row, 0), id: cell(row, 1) }).collect()
}

/// Every finding's first example and how many there are of it.
fn judge(acknowledged: &[Row], stored: &[Row]) -> Result<(), String> {
    let mut by_id: HashMap<u64, u64> = HashMap::new();
    let mut by_token: HashMap<u64, u64> = HashMap::new();
    let mut findings: Vec<(&str, String)> = Vec::new();
    for row in stored {
        if row.id == 0 {
            findings.push(("a row without an id", format!("{row:?}")));
        } else if let Some(other) = by_id.insert(row.id, row.token) {
            findings.push(("an id issued twice", format!("{row:?} and the row of token {other}")));
        }
        if by_token.insert(row.token, row.id).is_some() {
            findings.push(("a row stored twice", format!("{row:?}")));
        }
    }
    for row in acknowledged {
        match by_token.get(&row.token) {
            None => findings.push(("an acknowledged row is missing", format!("{row:?}"))),
            Some(id) if *id != row.id => {
                findings.push(("an acknowledged row has another id", format!("{row:?}, stored {id}")));
            }
            Some(_) => {}
        }
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    for (kind, example) in &findings {
        if !text.contains(kind) {
            let count = findings.iter().filter(|(other, _)| other == kind).count();
            let _ = write!(text, "{kind} ({count} times): {example}; ");
        }
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

#[test]
fn the_judge_notices() {
    let check = |acknowledged: &[(u64, u64)], stored: &[(u64, u64)], expect: &str| {
        let rows =
            |pairs: &[(u64, u64)]| pairs.iter().map(|&(token, id)| Row { token, id }).collect::<Vec<_>>();
        let found = judge(&rows(acknowledged), &rows(stored)).err().unwrap_or_default();
        let kinds: Vec<&str> =
            found.split("; ").filter_map(|finding| Some(finding.split_once(" (")?.0)).collect();
        assert_eq!(kinds.join(", "), expect);
    };
    check(&[(1, 10)], &[(1, 10)], "");
    check(&[], &[(1, 10), (2, 11)], "");
    check(&[(1, 10), (2, 11)], &[(1, 10)], "an acknowledged row is missing");
    check(&[(1, 10)], &[(1, 11)], "an acknowledged row has another id");
    check(&[], &[(1, 10), (2, 10)], "an id issued twice");
    check(&[], &[(1, 10), (1, 11)], "a row stored twice");
    check(&[], &[(1, 0), (2, 0)], "a row without an id");
}
