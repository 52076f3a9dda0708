//! Executions leave this to later ones: types of parameters, ids of statements, and which was prepared last.

use crate::reload::rules;
use crate::rig::{code, each, each_with, execute, prepare, rows};
use crate::support::Kind;
use crate::support::raw::{Client, Param};

const LAST: u32 = u32::MAX;

/// The error of a COM_STMT_PREPARE.
fn prepare_code(client: &mut Client, sql: &str) -> u16 {
    client.prepare(sql).unwrap().map_or_else(|error| error.code, |_| 0)
}

/// Clients send them once, and do not ask whether that execution was refused.
#[test]
fn types_that_a_refused_execution_brought() {
    let sql = "CREATE PROCEDURE hide() CREATE TEMPORARY TABLE t (id BIGINT, a INT); \
               CREATE PROCEDURE unhide() DROP TABLE t;";
    each("remembered_types", sql, |rig| {
        let mut client = rig.client();
        for text in ["INSERT INTO t(a) VALUES(?)", "INSERT INTO t(a) SELECT ?"] {
            client.run("DELETE FROM t");
            let insert = prepare(&mut client, text);
            client.run("CALL hide()");
            assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 5]), 1235, "{}", rig.name());
            client.run("CALL unhide()");
            assert_eq!(execute(&mut client, insert.id, &[0, 0, 6]), 0, "{}: {text}", rig.name());
            assert_eq!(rows(&mut client, "SELECT a FROM t WHERE id>0"), "6", "{}", rig.name());
        }
    });
}

#[test]
fn types_that_came_with_a_failed_preparation() {
    const DB: &str = "remembered_again";
    let sql = "CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, a INT, c INT);";
    each_with(DB, sql, "", &rules(DB, "", &[("w", "id", "g")]), |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO w(c,a) VALUES(5,?),(6,7)");
        rig.change(&rules(DB, "step = 2", &[("w", "id", "g")]));
        client.run("ALTER TABLE w DROP COLUMN c");
        assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 5]), 1054, "{}", rig.name());
        client.run("ALTER TABLE w ADD COLUMN c INT");
        assert_eq!(execute(&mut client, insert.id, &[0, 0, 8]), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a FROM w ORDER BY id"), "8 7", "{}", rig.name());
    });
}

#[test]
fn executions_without_types() {
    each("remembered_none", "", |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO t(id,a) VALUES(?,?),(NULL,?)");
        let types = [8, 0, 3, 0, 1, 0];
        let first = [&[0b001, 1][..], &types, &[1, 0, 0, 0, 2]].concat();
        let id = |n: u8| [n, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(execute(&mut client, insert.id, &first), 0, "{}", rig.name());
        let zero = [&[0, 0][..], &id(0), &[3, 0, 0, 0, 4]].concat();
        assert_eq!(execute(&mut client, insert.id, &zero), 0, "{}", rig.name());
        let explicit = [&[0, 0][..], &id(200), &[5, 0, 0, 0, 6]].concat();
        assert_eq!(execute(&mut client, insert.id, &explicit), 0, "{}", rig.name());
        // The id by another type, a string; the last one is NULL, which is no type of it.
        let string = [&[0b100, 1, 0xFD, 0, 1, 0, 6, 0, 1][..], b"0", &[7]].concat();
        assert_eq!(execute(&mut client, insert.id, &string), 0, "{}", rig.name());
        let again = [&[0b101, 0][..], &[8]].concat();
        assert_eq!(execute(&mut client, insert.id, &again), 0, "{}", rig.name());
        // Sent ahead for the id, it may be anything.
        let ahead = [&insert.id.to_le_bytes()[..], &[0, 0], b"0"].concat();
        client.send_command(0x18, &ahead).unwrap();
        assert_eq!(execute(&mut client, insert.id, &[0b100, 0, 9]), 1235, "{}", rig.name());
        // Sent ahead for another one, beside the id. (MariaDB reads it as the type that was bound before.)
        let insert = prepare(&mut client, "INSERT INTO t(id,a) VALUES(?,?),(NULL,?)");
        let ahead = [&insert.id.to_le_bytes()[..], &[1, 0], b"10"].concat();
        client.send_command(0x18, &ahead).unwrap();
        assert_eq!(execute(&mut client, insert.id, &[0b100, 1, 0xFD, 0, 0xFC, 0, 6, 0, 1, b'0']), 0);
        assert_eq!(
            rows(&mut client, "SELECT a, id=200 FROM t WHERE a IS NOT NULL ORDER BY a"),
            "1,0 2,0 3,0 4,0 5,1 6,0 7,0 8,0 10,0",
            "{}",
            rig.name()
        );
        assert_eq!(rows(&mut client, "SELECT COUNT(*), MIN(id)>0 FROM t"), "12,1", "{}", rig.name());
    });
}

#[test]
fn the_servers_ids_begin_anew_behind_a_reset() {
    each("remembered_reset", "INSERT INTO u VALUES(7,7);", |rig| {
        let mut client = rig.client();
        for round in 0..4 {
            let insert = prepare(&mut client, "INSERT INTO t(a) VALUES(?)");
            let ahead = [&insert.id.to_le_bytes()[..], &[0, 0], b"9"].concat();
            client.send_command(0x18, &ahead).unwrap();
            if round % 2 == 0 {
                client.reset().unwrap();
                client.run(format!("USE {}", rig.db));
            } else {
                client.change_user("root", &rig.db).unwrap();
            }
            assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 5]), 1243, "{}", rig.name());
            // An unruled statement with the id that the first had, and with another number of parameters.
            for _ in 0..3 {
                let update = prepare(&mut client, "UPDATE u SET a=?+?");
                assert_eq!(execute(&mut client, update.id, &[0, 1, 1, 0, 1, 0, 2, 3]), 0, "{}", rig.name());
                assert_eq!(rows(&mut client, "SELECT a FROM u"), "5", "{}", rig.name());
                client.close(&update).unwrap();
            }
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0", "{}", rig.name());
    });
}

/// MariaDB has none then.
#[test]
fn the_last_prepared_behind_one_that_failed() {
    const DB: &str = "remembered_last";
    let sql = "INSERT INTO u VALUES (1,1); CREATE TABLE w (id BIGINT PRIMARY KEY, a INT);";
    each_with(DB, sql, "", &rules(DB, "", &[("t", "id", "g")]), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut step = 1;
        // The PREPARE that fails has no INSERT, an unruled or a ruled one. One of ours may come in between.
        for bad in ["SELECT nothing", "INSERT INTO w(nothing) VALUES(?)", "INSERT INTO t(nothing) VALUES(?)"]
        {
            for is_displaced in [false, true] {
                let mut client = rig.client();
                client.run("DELETE FROM t");
                client.run("UPDATE u SET a=1");
                let insert = prepare(&mut client, "INSERT INTO t(a) VALUES(?),(NULL)");
                assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 1]), 0);
                prepare(&mut client, "UPDATE u SET a=a+1");
                assert_ne!(prepare_code(&mut client, bad), 0, "{bad}");
                if is_displaced {
                    step += 1;
                    rig.change(&rules(DB, &format!("step = {step}"), &[("t", "id", "g")]));
                    assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 2]), 0);
                }
                let before = rows(&mut client, "SELECT COUNT(*) FROM t");
                assert_eq!(execute(&mut client, LAST, &[0, 1, 1, 0, 3]), 1243, "{bad} {is_displaced}");
                assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), before, "{bad} {is_displaced}");
                assert_eq!(rows(&mut client, "SELECT a FROM u"), "1", "{bad} {is_displaced}");
                // The last one of several in one write counts.
                let texts = [bad.as_bytes(), b"UPDATE u SET a=5"];
                client.pipeline(&[(0x16, texts[0]), (0x16, texts[1])]).unwrap();
                client.next_response();
                assert!(client.read_prepared().unwrap().is_err());
                client.next_response();
                client.read_prepared().unwrap().unwrap();
                assert_eq!(execute(&mut client, LAST, &[]), 0, "{bad} {is_displaced}");
                assert_eq!(rows(&mut client, "SELECT a FROM u"), "5", "{bad} {is_displaced}");
            }
        }
    });
}

#[test]
fn as_many_placeholders_as_there_can_be() {
    each("remembered_many", "", |rig| {
        let mut client = rig.client();
        let text =
            |insert: &str, rows: usize| format!("{insert} INTO t(a) VALUES(?){}", ",(?)".repeat(rows - 1));
        for (insert, rows, expect) in [
            ("INSERT", 65_536, 1390),
            ("INSERT", 65_535, 1235),
            ("INSERT IGNORE", 40_000, 1235),
            ("INSERT IGNORE", 32_768, 1235),
        ] {
            assert_eq!(
                prepare_code(&mut client, &text(insert, rows)),
                expect,
                "{}: {insert} {rows}",
                rig.name()
            );
        }
        for (insert, count) in [("INSERT", 65_534), ("INSERT IGNORE", 32_767)] {
            client.run("DELETE FROM t");
            let statement = prepare(&mut client, &text(insert, count));
            assert_eq!(usize::from(statement.params), count);
            let params: Vec<Param> = (1..).take(count).map(Param::Int).collect();
            for _ in 0..2 {
                let outcome = client.execute(&statement, &params).unwrap();
                let ok = outcome[0].ok().unwrap();
                assert_eq!(ok.affected_rows, count as u64, "{}", rig.name());
                let seen = rows(
                    &mut client,
                    "SELECT COUNT(*), MIN(id)=LAST_INSERT_ID(), MAX(id-a)=MIN(id-a) FROM t",
                );
                assert_eq!(seen, format!("{count},1,1"), "{}", rig.name());
                assert_eq!(rows(&mut client, "SELECT MIN(id) FROM t"), ok.insert_id.to_string());
                client.run("DELETE FROM t");
            }
        }
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(1)"), 0);
    });
}

/// One that goes on as it came, since a temporary table hides the ruled one. The proxy prepares another one after it.
#[test]
fn the_last_prepared_for_a_temporary_table() {
    const DB: &str = "remembered_hidden";
    let sql = "CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, a INT);";
    let ruled = [("t", "id", "g"), ("w", "id", "g")];
    each_with(DB, sql, "", &rules(DB, "", &ruled), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO t(a) VALUES(?),(NULL)");
        assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 1]), 0);
        client.run("CREATE TEMPORARY TABLE w (id BIGINT, a INT)");
        prepare(&mut client, "INSERT INTO w VALUES(7,?)");
        rig.change(&rules(DB, "step = 2", &ruled));
        assert_eq!(execute(&mut client, insert.id, &[0, 1, 1, 0, 2]), 0);
        assert_eq!(execute(&mut client, LAST, &[0, 1, 1, 0, 3]), 0);
        assert_eq!(rows(&mut client, "SELECT a FROM t WHERE a>0 ORDER BY id"), "1 2");
        assert_eq!(rows(&mut client, "SELECT id,a FROM w"), "7,3");
    });
}
