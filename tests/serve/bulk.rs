//! MariaDB's bulk executions: what they leave, in ruled tables with and without AUTO_INCREMENT, is what a native one leaves.

use crate::rig::{Rig, code_of, each, each_with, rows};
use crate::support::Kind;
use crate::support::raw::Param::{Default, Ignore, Int, Null, Uint};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, Client, MARIADB_STMT_BULK, Options, Outcome, Param};

const COLUMNS: &str = "a INT UNIQUE, b INT DEFAULT 9";

/// `n` is the native table, `t` and `s` are ruled, `s` with AUTO_INCREMENT.
fn each_mariadb(db: &str, run: impl Fn(&mut Rig)) {
    let sql = format!(
        "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, {COLUMNS}); \
         CREATE TABLE n (id BIGINT AUTO_INCREMENT PRIMARY KEY, {COLUMNS}); CREATE TABLE s LIKE n;"
    );
    let rules = format!(
        "{}[generators.h]\nkind = \"sequence\"\n[tables.s]\ncolumn = \"id\"\ngenerator = \"h\"\n",
        crate::rig::rules(db)
    );
    each_with(db, &sql, "", &rules, |rig| {
        if rig.kind == Kind::MariaDb {
            run(rig);
        }
    });
}

/// Returns all that a client sees. Ids are shown by the `a` of their rows.
fn facts(client: &mut Client, table: &str, outcomes: &[Outcome]) -> String {
    let mut row_of = |id: String| rows(client, &format!("SELECT a FROM {table} WHERE id={id}"));
    let seen = match &outcomes[0] {
        Outcome::Ok(ok) => {
            let id = row_of(ok.insert_id.to_string());
            format!("{} affected, id of {id}, {}, {} warnings", ok.affected_rows, ok.info, ok.warnings)
        }
        Outcome::Err(error) => format!("{} {}", error.code, error.sqlstate),
        Outcome::Rows(set) => {
            let ids: Vec<_> = set.rows.iter().map(|row| row_of(row[0].text().unwrap())).collect();
            format!("rows of {}", ids.join(","))
        }
    };
    // LAST_INSERT_ID() is undefined after an error.
    let last = if code_of(outcomes) == 0 { row_of("LAST_INSERT_ID()".into()) } else { String::new() };
    let all = rows(client, &format!("SELECT a,b FROM {table} ORDER BY a"));
    format!("{seen}; last {last}; {all}")
}

/// Each bulk execution in turn; `{t}` in the text is the table. As natively, but that the table without AUTO_INCREMENT shows
/// the second of `except` for the first.
#[track_caller]
fn check(rig: &Rig, sql: &str, executions: &[&[&[Param]]], except: Option<(&str, &str)>) {
    let (mut native, mut proxied) = (rig.bulk_client(false), rig.bulk_client(true));
    assert_eq!(proxied.extended, MARIADB_STMT_BULK);
    let prepare = |client: &mut Client, table: &str| {
        client.run(format!("DELETE FROM {table}"));
        client.run(format!("INSERT INTO {table}(a) VALUES(1000)"));
        client.prepare(sql.replace("{t}", table)).unwrap().unwrap()
    };
    let of_native = prepare(&mut native, "n");
    let mut expected = Vec::new();
    for sets in executions {
        let outcomes = native.bulk(of_native.id, sets).unwrap();
        expected.push(facts(&mut native, "n", &outcomes));
    }
    for table in ["t", "s"] {
        let statement = prepare(&mut proxied, table);
        for (sets, expect) in executions.iter().zip(&expected) {
            let outcomes = proxied.bulk(statement.id, sets).unwrap();
            let expect = match except.filter(|_| table == "t") {
                Some((from, to)) => expect.replace(from, to),
                None => expect.clone(),
            };
            assert_eq!(facts(&mut proxied, table, &outcomes), expect, "{table}: {sql}");
        }
    }
}

#[test]
fn rows_of_values() {
    each_mariadb("bulk_values", |rig| {
        let three: &[&[Param]] = &[&[Int(1), Int(10)], &[Int(2), Null], &[Int(3), Default]];
        let more: &[&[Param]] = &[&[Int(4), Ignore], &[Null, Int(5)]];
        let one: &[&[Param]] = &[&[Int(6), Int(6)]];
        check(rig, "INSERT INTO {t}(a,b) VALUES(?,?)", &[three, more, one, one], None);
        check(rig, "INSERT INTO {t} SET a=?,b=?", &[three, more, one], None);
        check(rig, "REPLACE INTO {t}(a,b) VALUES(?,?)", &[three, more, one, three], None);
        check(rig, "INSERT INTO {t}(a,b) VALUES(?,?) RETURNING id", &[three, more, one], None);
        // Two rows a set.
        check(
            rig,
            "INSERT INTO {t}(a) VALUES(?),(?+100)",
            &[&[&[Int(1), Int(1)], &[Int(2), Int(2)]], one],
            None,
        );
        let errors: &[&[Param]] = &[&[Int(7), Int(1)], &[Int(1000), Int(1)], &[Int(8), Int(1)]];
        let (mut native, mut proxied) = (rig.bulk_client(false), rig.bulk_client(true));
        let of = |client: &mut Client, table: &str| {
            let insert = client.prepare(format!("INSERT INTO {table}(a,b) VALUES(?,?)")).unwrap().unwrap();
            client.bulk(insert.id, errors).unwrap()
        };
        assert_eq!(of(&mut native, "n"), of(&mut proxied, "t"), "the error too is the server's");
    });
}

#[test]
fn rows_that_are_left_out_or_updated() {
    each_mariadb("bulk_skip", |rig| {
        let some: &[&[Param]] = &[&[Int(1000)], &[Int(1)], &[Int(2)]];
        let none: &[&[Param]] = &[&[Int(1000)], &[Int(1)]];
        let one: &[&[Param]] = &[&[Int(5)]];
        check(rig, "INSERT IGNORE INTO {t}(a) VALUES(?)", &[some, none, one, one], None);
        let odku = "INSERT INTO {t}(a) VALUES(?) ON DUPLICATE KEY UPDATE b=b+1";
        check(rig, odku, &[some], None);
        check(rig, odku, &[one], None);
        let twice: &[&[Param]] = &[&[Int(1), Int(1)], &[Int(2), Int(2)]];
        check(rig, "INSERT INTO {t}(a) VALUES(?),(?+1) ON DUPLICATE KEY UPDATE b=b+1", &[twice], None);
        // Declared: of several rows that insert none, 0 without AUTO_INCREMENT; the function shows the updated row.
        let mut client = rig.bulk_client(true);
        client.run("DELETE FROM t");
        client.run("INSERT INTO t(a) VALUES(1000),(1)");
        let upsert = client.prepare(odku.replace("{t}", "t")).unwrap().unwrap();
        let outcomes = client.bulk(upsert.id, none).unwrap();
        let ok = outcomes[0].ok().unwrap();
        assert_eq!(
            (ok.affected_rows, ok.insert_id, &*ok.info),
            (4, 0, "Records: 2  Duplicates: 2  Warnings: 0")
        );
        // With one set the insert id is the updated row's, like in a single execution.
        let outcomes = client.bulk(upsert.id, &[&[Int(1)]]).unwrap();
        let id = outcomes[0].ok().unwrap().insert_id;
        assert_eq!(rows(&mut client, &format!("SELECT a FROM t WHERE id={id}")), "1");
    });
}

#[test]
fn ids_that_are_bound() {
    each_mariadb("bulk_ids", |rig| {
        let sql = "INSERT INTO {t}(id,a) VALUES(?,?)";
        let nulls: &[&[Param]] = &[&[Null, Int(1)], &[Null, Int(2)]];
        let zeros: &[&[Param]] = &[&[Int(0), Int(3)], &[Default, Int(4)], &[Ignore, Int(5)], &[Null, Int(6)]];
        check(rig, sql, &[nulls, zeros], None);
        let mixed: &[&[Param]] = &[&[Null, Int(1)], &[Int(700_000), Int(2)], &[Int(0), Int(3)]];
        check(rig, sql, &[mixed], None);
        let negative: &[&[Param]] = &[&[Int(-5), Int(1)], &[Null, Int(2)], &[Int(-4), Int(3)]];
        check(rig, sql, &[negative], None);
        let tiny: &[&[Param]] = &[&[Param::Tiny(0), Int(1)], &[Param::Tiny(0), Int(2)]];
        check(rig, sql, &[tiny], None);
        // Rows of ours beside the client's, two a set.
        let pairs: &[&[Param]] = &[&[Null, Int(1), Int(1)], &[Int(0), Int(2), Int(2)]];
        check(rig, "INSERT INTO {t}(id,a) VALUES(?,?),(NULL,?+100)", &[pairs], None);
        let text: &[&[Param]] = &[
            &[Param::String(b"0".to_vec()), Int(1)],
            &[Null, Int(2)],
            &[Param::String(b"900000".to_vec()), Int(3)],
        ];
        check(rig, sql, &[text], None);
        let all: &[&[Param]] = &[&[Int(800_001), Int(1)], &[Int(800_002), Int(2)]];
        check(rig, sql, &[all], None);
        let some: &[&[Param]] = &[&[Int(810_001), Int(11)], &[Int(810_002), Int(11)]];
        check(rig, "INSERT IGNORE INTO {t}(id,a) VALUES(?,?)", &[some], None);
        let upsert = "INSERT INTO {t}(id,a) VALUES(?,?) ON DUPLICATE KEY UPDATE b=b+1";
        let new: &[&[Param]] = &[&[Int(820_001), Int(21)], &[Int(820_002), Int(22)]];
        check(rig, upsert, &[new], None);
        let old: &[&[Param]] = &[&[Int(820_003), Int(23)], &[Int(820_001), Int(24)]];
        let of = |(mut client, table): (Client, &str)| {
            let upsert = client.prepare(upsert.replace("{t}", table)).unwrap().unwrap();
            let outcomes = client.bulk(upsert.id, old).unwrap();
            let ok = outcomes[0].ok().unwrap();
            (ok.affected_rows, ok.insert_id)
        };
        assert_eq!(of((rig.bulk_client(false), "n")), (3, 820_001));
        for table in ["t", "s"] {
            assert_eq!(of((rig.bulk_client(true), table)), (3, 820_001), "{table}");
        }
        let mut client = rig.bulk_client(true);
        let insert = client.prepare("INSERT INTO t(id,a) VALUES(?,?)").unwrap().unwrap();
        let wide: &[&[Param]] = &[&[Uint(u64::MAX), Int(50)], &[Int(-1), Int(51)], &[Null, Int(52)]];
        // The sets have one type, so the server reads all of them as unsigned.
        assert_ne!(code_of(&client.bulk(insert.id, wide).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE a>=50 AND a<60"), "0");
        client.run("SET sql_mode='NO_AUTO_VALUE_ON_ZERO'");
        client.run("DELETE FROM t");
        let zero: &[&[Param]] = &[&[Default, Int(1)], &[Null, Int(2)]];
        assert_eq!(code_of(&client.bulk(insert.id, zero).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT id=0,a FROM t ORDER BY a"), "1,1 0,2");
    });
}

#[test]
fn what_the_server_refuses_too() {
    each_mariadb("bulk_refused", |rig| {
        let (mut native, mut proxied) = (rig.bulk_client(false), rig.bulk_client(true));
        let prepare = |client: &mut Client, sql: &str| client.prepare(sql).unwrap().unwrap().id;
        let cases: [(&str, &[u8]); 7] = [
            ("INSERT INTO {t}(a) VALUES(1)", &[0x80, 0]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0x80, 0, 3, 0]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0xC0, 0, 3, 0, 0, 1, 0, 0, 0]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0x81, 0, 3, 0, 0, 1, 0, 0, 0]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0x80, 0, 3, 0, 7]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0x80, 0, 6, 0, 0, 0]),
            ("INSERT INTO {t}(a) VALUES(?)", &[0x80, 0, 3]),
        ];
        for (sql, rest) in cases {
            let answer = |client: &mut Client, table: &str| {
                let id = prepare(client, &sql.replace("{t}", table));
                client.send_command(0xFA, &[&id.to_le_bytes()[..], rest].concat()).unwrap();
                code_of(&client.read_outcomes(true).unwrap())
            };
            let (expect, seen) = (answer(&mut native, "n"), answer(&mut proxied, "t"));
            // If the types are cut off, it is 1835 natively.
            let fits = expect != 0 && [expect, 1210, 1235].contains(&seen);
            assert!(fits, "{sql} {rest:?}: {seen}, natively {expect}");
        }
        assert_eq!(rows(&mut proxied, "SELECT COUNT(*) FROM t"), "0");
        // Who did not ask for it.
        let mut plain = rig.client();
        let id = prepare(&mut plain, "INSERT INTO t(a) VALUES(?)");
        assert_eq!(code_of(&plain.bulk(id, &[&[Int(1)]]).unwrap()), 1295);
    });
}

#[test]
fn where_a_wrapper_in_each_set_would_show() {
    each_mariadb("bulk_loud", |rig| {
        let mut client = rig.bulk_client(true);
        for sql in [
            "INSERT INTO t(a) VALUES(?+(SELECT COUNT(*) FROM u))",
            "INSERT INTO t(a) VALUES(?) ON DUPLICATE KEY UPDATE id=id+1000",
        ] {
            let insert = client.prepare(sql).unwrap().unwrap();
            assert_eq!(code_of(&client.bulk(insert.id, &[&[Int(1)], &[Int(2)]]).unwrap()), 1235, "{sql}");
            assert_eq!(code_of(&client.bulk(insert.id, &[&[Int(1)]]).unwrap()), 0, "{sql}");
            client.run("DELETE FROM t");
        }
        let read: &[&[Param]] = &[&[Int(1)], &[Int(2)]];
        check(rig, "INSERT INTO {t}(a,b) VALUES(?,LAST_INSERT_ID()-LAST_INSERT_ID())", &[read], None);
        check(rig, "INSERT INTO {t}(a) VALUES(?) ON DUPLICATE KEY UPDATE id=id", &[read], None);
        let idiom = "INSERT INTO {t}(a) VALUES(?) ON DUPLICATE KEY UPDATE b=b+1,id=LAST_INSERT_ID(id)";
        check(rig, idiom, &[read, &[&[Int(2)], &[Int(3)], &[Int(4)]]], None);
    });
}

#[test]
fn expressions_as_ids() {
    each_mariadb("bulk_stage", |rig| {
        let three: &[&[Param]] = &[&[Int(0), Int(1)], &[Null, Int(2)], &[Int(0), Int(3)]];
        let some: &[&[Param]] = &[&[Int(0), Int(11)], &[Int(700_100), Int(12)], &[Null, Int(13)]];
        let last: &[&[Param]] = &[&[Int(0), Int(21)], &[Int(700_200), Int(22)]];
        let one: &[&[Param]] = &[&[Int(0), Int(31)]];
        let own: &[&[Param]] = &[&[Int(700_300), Int(41)], &[Int(700_301), Int(42)]];
        check(rig, "INSERT INTO {t}(id,a) VALUES(NULLIF(?,0),?)", &[three, some, last, one, own], None);
        check(
            rig,
            "INSERT INTO {t} SET id=NULLIF(?,0), a=?, b=LAST_INSERT_ID()-LAST_INSERT_ID()",
            &[three, one],
            None,
        );
        check(rig, "REPLACE INTO {t}(id,a) VALUES(?+0,?)", &[three, some, three], None);
        check(rig, "INSERT INTO {t}(id,a) VALUES(?+0,?),(NULL,1+1)", &[&[&[Int(0), Int(1)]]], None);
        let errors: &[&[Param]] = &[&[Int(0), Int(7)], &[Int(0), Int(1000)], &[Int(0), Int(8)]];
        check(rig, "INSERT INTO {t}(id,a) VALUES(?+0,?)", &[errors, one], None);
        let mut client = rig.bulk_client(true);
        let left_out: &[&[Param]] = &[&[Int(0), Default]];
        for (sql, sets) in [
            ("INSERT INTO t(id,a) VALUES(?+0,?)", left_out),
            ("INSERT IGNORE INTO t(id,a) VALUES(?+0,?)", three),
            ("INSERT INTO t(id,a) VALUES(?+0,?) ON DUPLICATE KEY UPDATE b=1", three),
            ("INSERT INTO t(id,a) VALUES(?+0,?) RETURNING id", three),
        ] {
            let insert = client.prepare(sql).unwrap().unwrap();
            let before = rows(&mut client, "SELECT COUNT(*) FROM t");
            assert_eq!(code_of(&client.bulk(insert.id, sets).unwrap()), 1235, "{sql}");
            assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), before, "{sql}");
        }
        client.run("DELETE FROM t");
        let insert = client.prepare("INSERT INTO t(id,a) VALUES(?+0,?)").unwrap().unwrap();
        assert_eq!(code_of(&client.execute(&insert, &[Int(0), Int(5)]).unwrap()), 0);
        assert_eq!(code_of(&client.bulk(insert.id, one).unwrap()), 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(*),SUM(a) FROM t"), "2,36");
    });
}

#[test]
fn pipelined_behind_its_prepare() {
    each_mariadb("bulk_last", |rig| {
        let mut client = rig.bulk_client(true);
        let bulk = [&[0xFF; 4][..], &[0x80, 0, 3, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0]].concat();
        let insert = b"INSERT INTO t(a) VALUES(?)";
        client
            .pipeline(&[(0x16, insert), (0xFA, &bulk), (3, b"SELECT LAST_INSERT_ID()=MIN(id) FROM t")])
            .unwrap();
        client.next_response();
        for _ in 0..2 {
            client.read_packet().unwrap();
        }
        client.next_response();
        assert_eq!(client.read_outcomes(true).unwrap()[0].ok().unwrap().affected_rows, 3);
        client.next_response();
        assert_eq!(client.read_outcomes(false).unwrap()[0].cell(0, 0).unwrap(), "1");
        client.pipeline(&[(0x16, b"INSERT INTO t(a) VALUES(?"), (0xFA, &bulk)]).unwrap();
        for expect in [1064, 1243] {
            client.next_response();
            assert_eq!(code_of(&client.read_outcomes(true).unwrap()), expect);
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "3");
    });
}

#[test]
fn other_statements_and_other_tables() {
    each_mariadb("bulk_other", |rig| {
        let mut client = rig.bulk_client(true);
        let insert = client.prepare("INSERT INTO u(id,a) VALUES(?,?)").unwrap().unwrap();
        let sets: &[&[Param]] = &[&[Null, Int(1)], &[Int(2), Int(2)]];
        assert_eq!(code_of(&client.bulk(insert.id, sets).unwrap()), 0);
        client.run("INSERT INTO t(id,a) VALUES(1,1),(2,2),(3,3)");
        let update = client.prepare("UPDATE t SET b=? WHERE a=?").unwrap().unwrap();
        let outcomes = client.bulk(update.id, &[&[Int(5), Int(1)], &[Int(6), Int(2)]]).unwrap();
        assert_eq!(outcomes[0].ok().unwrap().affected_rows, 2);
        let delete = client.prepare("DELETE FROM t WHERE a=?").unwrap().unwrap();
        assert_eq!(
            client.bulk(delete.id, &[&[Int(2)], &[Int(3)]]).unwrap()[0].ok().unwrap().affected_rows,
            2
        );
        assert_eq!(rows(&mut client, "SELECT id,a,b FROM t"), "1,1,5");
        assert_eq!(rows(&mut client, "SELECT id,a FROM u ORDER BY a"), "NULL,1 2,2");
    });
    // MySQL has no such command, and no such bit.
    each("bulk_mysql", "", |rig| {
        if rig.kind == Kind::MySql9 {
            let options =
                Options { extended: 0xFFFF_FFFF, capabilities: CLIENT_DEPRECATE_EOF, ..Options::default() };
            assert_eq!(
                Client::connect(&rig.proxy.address(), &options).unwrap().extended & MARIADB_STMT_BULK,
                0
            );
        }
    });
}

#[test]
fn many_rows_and_many_bytes() {
    each_mariadb("bulk_many", |rig| {
        let mut client = rig.bulk_client(true);
        client.run("SET unique_checks=0");
        let insert = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let cells: Vec<[Param; 1]> = (0..65_535).map(|a| [Int(a)]).collect();
        let sets: Vec<&[Param]> = cells.iter().map(<[Param; 1]>::as_slice).collect();
        let first = client.bulk(insert.id, &sets).unwrap()[0].ok().unwrap().insert_id;
        let seen = rows(
            &mut client,
            "SELECT COUNT(*), MIN(id), MAX(id-CAST(a AS SIGNED)), MIN(id-CAST(a AS SIGNED)) FROM t",
        );
        assert_eq!(seen, format!("65535,{first},{first},{first}"));
        assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), first.to_string());
        // Over 16 MiB: before the ids come in, and only with them.
        client.run("CREATE TABLE n2 (id BIGINT PRIMARY KEY, x LONGTEXT)");
        client.run("DROP TABLE t");
        client.run("RENAME TABLE n2 TO t");
        let insert = client.prepare("INSERT INTO t(x) VALUES(?)").unwrap().unwrap();
        for bytes in [20_000_000, 0xFF_FFFF - 40, 0xFF_FFFF - 20] {
            client.run("DELETE FROM t");
            let cells = [[Param::String(vec![b'x'; 10])], [Param::String(vec![b'y'; bytes - 10])]];
            let outcomes = client.bulk(insert.id, &[&cells[0], &cells[1]]).unwrap();
            let id = outcomes[0].ok().unwrap().insert_id;
            let seen = rows(&mut client, "SELECT id,LENGTH(x),LEFT(x,1) FROM t ORDER BY id");
            assert_eq!(seen, format!("{id},10,x {},{},y", id + 1, bytes - 10));
        }
    });
}
