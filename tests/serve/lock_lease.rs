//! The lease of the tables' locks, moment by moment. `tests/guards` runs it by chance.

use std::time::{Duration, Instant};

use crate::rig::{code, code_of, make, message, rows, rules, server};
use crate::support::raw::{Client, Options};
use crate::support::wait::{NEVER, wait_until};
use crate::support::{Gate, Kind, Proxy, proxy};

/// Longer than who takes a lock waits before it issues ids.
const ANOTHERS_TURN: Duration = Duration::from_millis(800);

/// The lock's connection ends, and the next one takes its time. Meanwhile another store's proxy has the lock, issues ids and goes.
#[test]
fn a_look_that_takes_long_enough_for_anothers_ids() {
    const DB: &str = "lock_lease";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, DB, "");
        let gate = Gate::start(&server.address());
        let proxy = Proxy::start(&proxy::config(&gate.address()), &[("rules", &rules(DB))]);
        let mut direct = server.client();
        let options = Options { database: Some(DB.to_owned()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        client.run("INSERT INTO t(a) VALUES(1)");
        let lock = rows(&mut direct, &format!("SELECT CONCAT('rowstamp.',LEFT(SHA2('{DB}.t',256),32))"));
        let holder = rows(&mut direct, &format!("SELECT IS_USED_LOCK('{lock}')"));
        {
            let _waiting = gate.hold();
            direct.run(format!("KILL {holder}"));
            assert_eq!(rows(&mut direct, &format!("SELECT GET_LOCK('{lock}',5)")), "1", "{}", kind.name());
            std::thread::sleep(ANOTHERS_TURN);
            direct.run(format!("INSERT INTO {DB}.t(id,a) VALUES(2,2),(3,3)"));
            direct.run(format!("DO RELEASE_LOCK('{lock}')"));
        }
        let end = Instant::now() + NEVER;
        let outcomes = loop {
            let outcomes = client.query("INSERT INTO t(a) VALUES(4)").unwrap();
            if code_of(&outcomes) != 1467 {
                break outcomes;
            }
            assert!(Instant::now() < end, "{}: {}", kind.name(), proxy.log());
        };
        assert_eq!(outcomes[0].ok().map(|ok| ok.insert_id), Some(4), "{}: {outcomes:?}", kind.name());
        assert!(
            proxy.log().contains("did not see its locks on the tables for a while"),
            "{}: {}",
            kind.name(),
            proxy.log()
        );
    }
}

/// Another store's proxy takes the lock while the connection that held it is gone, and keeps it: its ids may be any from then on.
#[test]
fn a_lock_that_another_keeps_stops_the_tables_ids() {
    const DB: &str = "lock_kept";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        make(server, DB, "");
        let gate = Gate::start(&server.address());
        let proxy = Proxy::start(&proxy::config(&gate.address()), &[("rules", &rules(DB))]);
        let mut direct = server.client();
        let options = Options { database: Some(DB.to_owned()), ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        let insert = "INSERT INTO t() VALUES()";
        client.run(insert);
        let lock = rows(&mut direct, &format!("SELECT CONCAT('rowstamp.',LEFT(SHA2('{DB}.t',256),32))"));
        let holder = rows(&mut direct, &format!("SELECT IS_USED_LOCK('{lock}')"));
        {
            let _waiting = gate.hold();
            direct.run(format!("KILL {holder}"));
            assert_eq!(rows(&mut direct, &format!("SELECT GET_LOCK('{lock}',5)")), "1", "{}", kind.name());
        }
        let why = format!("table {DB}.t is held by another Rowstamp, which has another store");
        let said = || format!("{}: {}", kind.name(), proxy.log());
        wait_until(said, || code(&mut client, insert) == 1467 && message(&mut client, insert).contains(&why));
        direct.run(format!("DO RELEASE_LOCK('{lock}')"));
        wait_until(said, || code(&mut client, insert) == 0);
    }
}
