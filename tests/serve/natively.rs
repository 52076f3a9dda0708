//! Statements that go to the server as they came, which numbers their rows: `unavailable = "native"` and
//! `rewrite.on_doubt = "forward"`.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::fleet::hasty;
use crate::rig::{Rig, code, code_of, each_with, make, prepare, rows, server};
use crate::support::etcd::{Etcd, Version};
use crate::support::raw::{Client, Param};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy};

const KEPT: &str = "ALTER TABLE t MODIFY id BIGINT AUTO_INCREMENT;";
const UNSUPPORTED: u16 = 1235;
const NO_ID: u16 = 1467;

/// `t` keeps its AUTO_INCREMENT, `n` has none.
fn rules(db: &str) -> String {
    let table =
        |name| format!("[tables.{name}]\ncolumn = \"id\"\ngenerator = \"g\"\nunavailable = \"native\"\n");
    format!(
        "schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\nbatch = 20\n{}{}",
        table("t"),
        table("n")
    )
}

/// The ids of the rows that a statement stored, by the insert id that its OK packet told.
fn told(client: &mut Client, sql: &str, count: u64) -> Vec<u64> {
    let outcomes = client.query(sql).unwrap();
    let ok = outcomes.last().unwrap().ok().unwrap_or_else(|| panic!("{sql}: {outcomes:?}"));
    assert_eq!(ok.affected_rows, count, "{sql}");
    (ok.insert_id..ok.insert_id + count).collect()
}

#[test]
fn inserts_go_on_while_the_store_is_away() {
    for kind in Kind::ALL {
        let db = "natively_away";
        let Some(server) = server(kind) else { continue };
        let Some(etcd) = Etcd::start(Version::Debian, 1) else { continue };
        make(server, db, &format!("{KEPT}CREATE TABLE n (id BIGINT PRIMARY KEY, a INT);"));
        let proxy = Proxy::start(&hasty(server, &etcd, "p1"), &[("rules", &rules(db))]);
        let rig = Rig { kind, server, proxy, db: db.to_owned() };
        let name = rig.name();
        let (mut client, mut bulk) = (rig.client(), rig.bulk_client(true));
        let insert = prepare(&mut client, "INSERT INTO t(a) VALUES(?)");
        let of_bulk = prepare(&mut bulk, "INSERT INTO t(a) VALUES(?)");
        let mut ids = BTreeSet::new();
        let mut all = 0;
        let mut note = |more: Vec<u64>| {
            all += more.len();
            ids.extend(more);
            assert_eq!(ids.len(), all, "{name}: an id twice");
        };
        note(told(&mut client, "INSERT INTO t(a) VALUES(1)", 1));
        note(told(&mut client, "INSERT INTO n(a) VALUES(1)", 1));
        client.run("PREPARE s FROM 'INSERT INTO t(a) VALUES(?)'");
        client.run("SET @a=77");
        etcd.signal(0, "STOP");
        // More than any reserve; only the first that finds none waits for them: each for a second would be 200.
        let begun = Instant::now();
        for n in 0..200 {
            note(told(&mut client, &format!("INSERT INTO t(a) VALUES({n}+2)"), 1));
        }
        assert!(begun.elapsed() < NEVER, "{name}: {:?}", begun.elapsed());
        for n in 0..3 {
            let outcomes = client.execute(&insert, &[Param::Int(1_000 + n)]).unwrap();
            let ok = outcomes.last().unwrap().ok();
            note(vec![ok.unwrap_or_else(|| panic!("{name}: {outcomes:?}")).insert_id]);
        }
        note(told(&mut client, "INSERT INTO t(a) SELECT 2000 UNION SELECT 2001", 2));
        note(told(&mut client, "INSERT INTO t(id,a) SELECT NULL,2002 UNION SELECT 0,2003", 2));
        assert_eq!(code(&mut client, "EXECUTE s USING @a"), NO_ID, "{name}: its text has a place for an id");
        // Each statement of a packet, and an id of the client's.
        assert_eq!(code(&mut client, "INSERT INTO t(id,a) VALUES(5000000,3000)"), 0, "{name}");
        note(told(&mut client, "INSERT INTO t(a) VALUES(3001),(3002)", 2));
        if kind == Kind::MariaDb {
            let sets = [&[Param::Int(4_000)][..], &[Param::Int(4_001)]];
            assert_eq!(code_of(&bulk.bulk(of_bulk.id, &sets).unwrap()), 0);
        }
        assert_eq!(
            code(&mut client, "INSERT INTO n(a) VALUES(2)"),
            NO_ID,
            "{name}: it has no AUTO_INCREMENT"
        );
        let stored = rows(&mut client, "SELECT COUNT(*), COUNT(DISTINCT id), SUM(id=0) FROM t");
        etcd.signal(0, "CONT");
        // Then it goes on above them.
        rig.wait_until("the generator goes on", || {
            rig.proxy.log().contains("continues above the table's ids")
        });
        let highest: u64 = rows(&mut client, "SELECT MAX(id) FROM t").parse().unwrap();
        for n in 0..50 {
            let id = told(&mut client, &format!("INSERT INTO t(a) VALUES({n}+9000)"), 1);
            assert!(id[0] > highest, "{name}: {id:?} after {highest}; {stored}");
        }
        assert_eq!(code(&mut client, "INSERT INTO n(a) VALUES(2)"), 0, "{name}");
        let said = rows(&mut client, "SELECT COUNT(*)=COUNT(DISTINCT id) FROM t");
        assert_eq!(said, "1", "{name}: {stored}");
    }
}

/// Statements that docs/refused.md lists.
const DOUBTED: [&str; 4] = [
    "INSERT INTO t(a) VALUES(1),(2) ON DUPLICATE KEY UPDATE id=id+100000",
    "INSERT INTO t(a) SELECT ROW_COUNT()+10",
    "INSERT INTO natively_doubt.t(a) SELECT 20 FROM t AS x LIMIT 1 ON DUPLICATE KEY UPDATE id=t.id+1000",
    "INSERT INTO t(a,id) VALUES(a+30,NULL),(31,t.a)",
];

#[test]
fn what_cannot_be_rewritten_goes_on_as_it_came() {
    let db = "natively_doubt";
    let made = format!(
        "{KEPT}CREATE TABLE n (id BIGINT PRIMARY KEY, a INT UNIQUE); CREATE TABLE r (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT); \
         CREATE TABLE s (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT); CREATE TABLE k LIKE s;"
    );
    let rules = rules(db).replace("\"native\"", "\"refuse\"")
        + "[tables.r]\ncolumn = \"id\"\ngenerator = \"g\"\nexplicit = \"reject\"\n\
           [tables.s]\ncolumn = \"id\"\ngenerator = \"g\"\nmode = \"shadow\"\n\
           [generators.of_k]\nkind = \"sequence\"\n\
           [tables.k]\ncolumn = \"id\"\ngenerator = \"of_k\"\nexplicit = \"keep\"\ncollide = \"report\"\n";
    each_with(db, &made, "on_doubt = \"forward\"\n", &rules, |rig| {
        let name = rig.name();
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(7)"), 0);
        for sql in DOUBTED {
            assert_eq!(
                code(&mut client, sql),
                code(&mut rig.direct(), format!("EXPLAIN {sql}")),
                "{name}: {sql}"
            );
            let of_other =
                sql.replace("natively_doubt.t", "n").replace("INTO t(", "INTO n(").replace("t.", "n.");
            let refused = code(&mut client, of_other.replace("FROM t", "FROM n"));
            assert_eq!(refused, UNSUPPORTED, "{name}: {of_other}");
        }
        // Neither ids that clients write nor collisions raise this table's generator: each id that would collide is error 1062.
        for n in 0..3 {
            told(&mut client, &format!("INSERT INTO k(a) VALUES({n})"), 1);
            assert_eq!(code(&mut client, "INSERT INTO k(a) SELECT ROW_COUNT()+10"), 0, "{name}");
        }
        // Both tables: one of them has no AUTO_INCREMENT.
        let both = "INSERT INTO t(a) SELECT ROW_COUNT() FROM n";
        assert_eq!(code(&mut client, both), UNSUPPORTED, "{name}");
        // The statement that it runs cannot be seen.
        let hidden = "EXECUTE IMMEDIATE 'INSERT INTO t(a) VALUES(40),(41) ON DUPLICATE KEY UPDATE id=id+1'";
        if rig.kind == Kind::MariaDb {
            assert_eq!(code(&mut client, hidden), UNSUPPORTED, "{name}");
        }
        let sql = "INSERT INTO t(a) VALUES(?),(?) ON DUPLICATE KEY UPDATE id=id+?";
        let insert = prepare(&mut client, sql);
        let values = [Param::Int(50), Param::Int(51), Param::Int(9)];
        assert_eq!(code_of(&client.execute(&insert, &values).unwrap()), 0, "{name}");
        let log = rig.proxy.log();
        assert!(log.contains("went to the server as it came"), "{name}: {log}");
        rig.wait_until("the generator goes on", || {
            rig.proxy.log().contains("continues above the table's ids")
        });
        let highest: u64 = rows(&mut client, "SELECT MAX(id) FROM t").parse().unwrap();
        for n in 0..50 {
            let id = told(&mut client, &format!("INSERT INTO t(a) VALUES({n}+900)"), 1);
            assert!(id[0] > highest, "{name}: {id:?} after {highest}");
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE id=0"), "0", "{name}");
        assert_eq!(code(&mut client, "INSERT INTO s(a) VALUES(1)"), 0, "{name}");
        // A table whose clients write no ids gets no statement that was not checked.
        for sql in ["INSERT INTO r(id,a) VALUES(5,1)", "INSERT INTO r(a) SELECT ROW_COUNT()+10"] {
            assert_eq!(code(&mut client, sql), UNSUPPORTED, "{name}: {sql}");
        }
        // The table loses its AUTO_INCREMENT: what was prepared would store none.
        client.run("ALTER TABLE t MODIFY id BIGINT");
        assert_eq!(code_of(&client.execute(&insert, &values).unwrap()), UNSUPPORTED, "{name}");
        drop(client);
        rig.proxy.stop();
        // Shadow mode counts the one statement into its own table.
        let log = rig.proxy.last_log();
        let counted: Vec<&str> = log.lines().filter(|line| line.contains("rewritten=")).collect();
        assert!(
            counted.len() == 1 && counted[0].contains("rewritten=1 passed=0 refused=0"),
            "{name}: {counted:?}"
        );
    });
}
