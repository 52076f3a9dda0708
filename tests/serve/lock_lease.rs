//! The lease of the tables' locks, moment by moment. `tests/guards` runs it by chance.

use std::time::{Duration, Instant};

use crate::rig::{code, code_of, make, message, rows, rules, server};
use crate::support::raw::{Client, Options};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Gate, Kind, Proxy, proxy};

/// Longer than who takes a lock waits before it issues ids.
const ANOTHERS_TURN: Duration = Duration::from_millis(800);

/// A ruled table `t`, and a connection that can take its lock from the proxy.
struct Locked {
    gate: Gate,
    proxy: Proxy,
    client: Client,
    direct: Client,
    lock: String,
}

impl Locked {
    /// With one row.
    fn new(kind: Kind, db: &str) -> Option<Locked> {
        let server = server(kind)?;
        make(server, db, "");
        let gate = Gate::start(&server.address());
        let proxy = Proxy::start(&proxy::config(&gate.address()), &[("rules", &rules(db))]);
        let options = Options { database: Some(db.to_owned()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        client.run("INSERT INTO t() VALUES()");
        let mut direct = server.client();
        let lock = rows(&mut direct, &format!("SELECT CONCAT('rowstamp.',LEFT(SHA2('{db}.t',256),32))"));
        Some(Locked { gate, proxy, client, direct, lock })
    }

    /// The proxy's connection with the lock ends, and the next one waits until `meanwhile` has returned.
    fn take(&mut self, meanwhile: impl FnOnce(&mut Client, &str)) {
        let _waiting = self.gate.hold();
        let holder = rows(&mut self.direct, &format!("SELECT IS_USED_LOCK('{}')", self.lock));
        self.direct.run(format!("KILL {holder}"));
        assert_eq!(rows(&mut self.direct, &format!("SELECT GET_LOCK('{}',5)", self.lock)), "1");
        meanwhile(&mut self.direct, &self.lock);
    }
}

/// The lock's connection ends, and the next one takes its time. Meanwhile another store's proxy has the lock, issues ids and goes.
#[test]
fn a_look_that_takes_long_enough_for_anothers_ids() {
    const DB: &str = "lock_lease";
    for kind in Kind::ALL {
        let Some(mut table) = Locked::new(kind, DB) else { continue };
        table.take(|direct, lock| {
            std::thread::sleep(ANOTHERS_TURN);
            direct.run(format!("INSERT INTO {DB}.t(id,a) VALUES(2,2),(3,3)"));
            direct.run(format!("DO RELEASE_LOCK('{lock}')"));
        });
        let Locked { proxy, client, .. } = &mut table;
        let end = Instant::now() + NEVER;
        let outcomes = loop {
            let outcomes = client.query("INSERT INTO t(a) VALUES(4)").unwrap();
            if code_of(&outcomes) != 1467 {
                break outcomes;
            }
            assert!(Instant::now() < end, "{}: {}", kind.name(), proxy.log());
        };
        assert_eq!(outcomes[0].ok().map(|ok| ok.insert_id), Some(4), "{}: {outcomes:?}", kind.name());
        let log = proxy.log();
        assert!(log.contains("did not see its locks on the tables for a while"), "{}: {log}", kind.name());
    }
}

/// Another store's proxy takes the lock while the connection that held it is gone, and keeps it: its ids may be any from then on.
#[test]
fn a_lock_that_another_keeps_stops_the_tables_ids() {
    const DB: &str = "lock_kept";
    for kind in Kind::ALL {
        let Some(mut table) = Locked::new(kind, DB) else { continue };
        table.take(|_, _| ());
        let Locked { proxy, client, direct, lock, .. } = &mut table;
        let insert = "INSERT INTO t() VALUES()";
        let why = format!("table {DB}.t is held by another Rowstamp, which has another store");
        let said = || format!("{}: {}", kind.name(), proxy.log());
        wait_until(said, || code(client, insert) == 1467 && message(client, insert).contains(&why));
        direct.run(format!("DO RELEASE_LOCK('{lock}')"));
        wait_until(said, || code(client, insert) == 0);
    }
}
