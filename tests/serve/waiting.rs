//! A ruled statement that waits for its ids holds up nothing that was sent before it: answers go on to the client meanwhile.

use std::fmt::Write as _;

use crate::fleet::{config, rules};
use crate::rig::{code_of, make, rows, server};
use crate::support::etcd::Version;
use crate::support::raw::{Client, MARIADB_STMT_BULK, Options};
use crate::support::{Etcd, Kind, Proxy};

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const BULK: u8 = 0xFA;

/// More ids than the proxy has in reserve.
const ROWS: u8 = 50;

fn insert() -> String {
    let values = (1..ROWS).fold("(0)".to_owned(), |mut all, row| {
        write!(all, ",({row})").unwrap();
        all
    });
    format!("INSERT INTO t(a) VALUES {values}")
}

/// Returns the body of an execution without parameters.
fn execution(id: u32) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat()
}

/// One parameter a set, sent as TINYINT.
fn bulk(id: u32) -> Vec<u8> {
    let sets = (0..ROWS).flat_map(|row| [0, row]);
    [&id.to_le_bytes()[..], &[0x80, 0, 1, 0]].concat().into_iter().chain(sets).collect()
}

/// Checks that the command before `waiting` is answered without ids, and `waiting` once there are ids.
fn check(client: &mut Client, etcd: &Etcd, waiting: (u8, &[u8]), how: &str) {
    etcd.signal(0, "STOP");
    client.pipeline(&[(QUERY, b"SELECT SLEEP(0.2)"), waiting]).unwrap();
    client.next_response();
    // Who holds this answer back has it wait for etcd, which waits for this test.
    client.read_outcomes(false).unwrap();
    etcd.signal(0, "CONT");
    client.next_response();
    assert_eq!(code_of(&client.read_outcomes(false).unwrap()), 0, "{how}");
    assert_eq!(rows(client, "SELECT COUNT(*) FROM t"), ROWS.to_string(), "{how}");
    client.run("DELETE FROM t");
}

#[test]
fn what_was_sent_before_a_statement_that_waits_for_ids_is_answered_at_once() {
    for kind in Kind::ALL {
        let db = format!("waiting_{}", kind.name().to_lowercase().replace([' ', '.'], "_"));
        let Some(server) = server(kind) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { return };
        make(server, &db, "CREATE TABLE n (a INT); INSERT INTO n VALUES (1),(2),(3),(4),(5),(6),(7),(8)");
        let proxy = Proxy::start(&config(server, &etcd, "p1"), &[("rules", &rules(&db, 10))]);
        let extended = if kind == Kind::MariaDb { MARIADB_STMT_BULK } else { 0 };
        let options = Options { database: Some(db.clone()), extended, ..Options::default() };
        let mut client = Client::connect(&proxy.address(), &options).unwrap();
        client.run("INSERT INTO t(a) VALUES (1000)");
        client.run("DELETE FROM t");
        let prepared = client.prepare(insert()).unwrap().unwrap();
        let one = client.prepare("INSERT INTO t(a) VALUES (?)").unwrap().unwrap();
        check(&mut client, &etcd, (QUERY, insert().as_bytes()), "text");
        check(&mut client, &etcd, (EXECUTE, &execution(prepared.id)), "prepared");
        if kind == Kind::MariaDb {
            check(&mut client, &etcd, (BULK, &bulk(one.id)), "bulk");
        }
        let select = "INSERT INTO t(a) SELECT x.a*8+y.a FROM n x, n y LIMIT 50";
        check(&mut client, &etcd, (QUERY, select.as_bytes()), "INSERT ... SELECT");
        // A statement that only prepares waits for no id.
        client.pipeline(&[(PREPARE, insert().as_bytes())]).unwrap();
        client.next_response();
        client.read_prepared().unwrap().unwrap();
    }
}
