//! Promise 13: a restart drains. A transaction that has begun and ends before the deadline is not broken, whatever the moment.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::rig::{make, rows, rules, server};
use crate::support::machine::announce;
use crate::support::raw::{Client, Options, Outcome};
use crate::support::told;
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, proxy};

const WRITERS: u64 = 6;
/// SIGTERMs in a run of all tests.
const DRAINS: u64 = 6;

#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    committed: AtomicU64,
    /// Connections that ended between transactions.
    ended: AtomicU64,
    broken: Mutex<Vec<String>>,
}

#[test]
fn transactions_outlive_a_sigterm() {
    let drains = told::number("ROWSTAMP_DRAINS").unwrap_or(DRAINS);
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let db = "drains";
        make(server, db, "CREATE TABLE sums (writer INT PRIMARY KEY, n BIGINT NOT NULL);");
        let config = format!("{}[limits]\ndrain_timeout = \"20s\"\n", proxy::config(&server.address()));
        let mut proxy = Proxy::start(&config, &[("rules", &rules(db))]);
        let mut direct = server.client();
        for writer in 0..WRITERS {
            direct.run(format!("INSERT INTO {db}.sums VALUES ({writer}, 0)"));
        }
        let address = Mutex::new(proxy.address());
        let tally = Tally::default();
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (tally, address) = (&tally, &address);
                scope.spawn(move || write(writer, db, address, tally));
            }
            let mut random = StdRng::seed_from_u64(13);
            for _ in 0..drains {
                thread::sleep(Duration::from_millis(random.gen_range(20..300)));
                proxy.stop();
                proxy.restart();
                proxy.address().clone_into(&mut address.lock().unwrap());
            }
            let committed = || tally.committed.load(Ordering::SeqCst);
            wait_until(|| "nothing is written".to_owned(), || committed() > drains);
            tally.stop.store(true, Ordering::SeqCst);
        });
        let broken = tally.broken.lock().unwrap();
        assert!(broken.is_empty(), "{}: {broken:?}", kind.name());
        // A transaction is there whole: three rows, and three in the sum.
        let sums = rows(&mut direct, &format!("SELECT SUM(n), (SELECT COUNT(*) FROM {db}.t) FROM {db}.sums"));
        let committed = tally.committed.load(Ordering::SeqCst);
        assert_eq!(sums, format!("{},{}", committed * 3, committed * 3), "{}", kind.name());
        let ended = tally.ended.load(Ordering::SeqCst);
        announce(&format!(
            "drains: {}: {drains} SIGTERMs, {committed} transactions, {ended} connections ended between them",
            kind.name()
        ));
        assert!(ended > 0, "no connection ended between transactions");
        direct.run(format!("DROP DATABASE {db}"));
    }
}

/// One connection after the other, one transaction after the other.
fn write(writer: u64, db: &str, address: &Mutex<String>, tally: &Tally) {
    let options = Options { database: Some(db.to_owned()), ..Options::default() };
    let mut random = StdRng::seed_from_u64(writer);
    while !tally.stop.load(Ordering::SeqCst) {
        let at = address.lock().unwrap().clone();
        let Ok(mut client) = Client::connect(&at, &options) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        while !tally.stop.load(Ordering::SeqCst) {
            // Who was told of the end before its transaction began has lost nothing.
            if !is_done(&mut client, "BEGIN").unwrap_or(false) {
                tally.ended.fetch_add(1, Ordering::SeqCst);
                break;
            }
            let mut statements = vec!["INSERT INTO t(a) VALUES (NULL)".to_owned(); 3];
            statements.push(format!("UPDATE sums SET n = n + 3 WHERE writer = {writer}"));
            statements.push("COMMIT".to_owned());
            for sql in statements {
                thread::sleep(Duration::from_millis(random.gen_range(0..15)));
                match is_done(&mut client, &sql) {
                    Ok(true) => {}
                    said => tally.broken.lock().unwrap().push(format!("writer {writer}: {sql}: {said:?}")),
                }
            }
            tally.committed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn is_done(client: &mut Client, sql: &str) -> std::io::Result<bool> {
    Ok(matches!(client.query(sql)?.last(), Some(Outcome::Ok(_))))
}
