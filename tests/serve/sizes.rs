//! Payloads at and beyond 16 MiB, in both directions, and statements beyond the limit.

use std::iter;

use crate::rig::{code, code_of, each, each_with, insert_id, rows, rules};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS};

const EDGE: usize = 0xFF_FFFF;

fn padded(head: &str, tail: &str, bytes: usize) -> String {
    let room = bytes - head.len() - tail.len();
    iter::once(head).chain(iter::repeat_n("x", room)).chain(iter::once(tail)).collect()
}

#[test]
fn payloads_at_the_edge_pass() {
    each("sizes_pass", "", |rig| {
        let mut client = rig.client_with(CLIENT_DEPRECATE_EOF);
        for bytes in EDGE - 1..=EDGE + 2 {
            // One byte is the command.
            let text = padded("SELECT LENGTH('", "')", bytes - 1);
            assert_eq!(rows(&mut client, &text), (bytes - 18).to_string(), "{}", rig.name());
            // The row: four bytes of length, and the value.
            let outcomes = client.run(format!("SELECT REPEAT('y', {})", bytes - 4));
            assert_eq!(outcomes[0].cell(0, 0).unwrap().len(), bytes - 4, "{}", rig.name());
        }
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0);
    });
}

#[test]
fn an_insert_that_grows_over_the_edge() {
    let sql = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a LONGTEXT);";
    each("sizes_grow", sql, |rig| {
        let mut client = rig.client();
        // The client sends one packet below the edge and two from the edge on. The proxy sends two each time.
        for bytes in [EDGE - 20, EDGE - 1, EDGE, EDGE + 1] {
            let text = padded("INSERT INTO t(a) VALUES('", "')", bytes - 1);
            let id = insert_id(&mut client, &text);
            let length = rows(&mut client, &format!("SELECT LENGTH(a) FROM t WHERE id={id}"));
            assert_eq!(length, (bytes - 28).to_string(), "{}", rig.name());
        }
        // An error of such a one.
        assert_eq!(code(&mut client, padded("INSERT INTO t(b) VALUES('", "')", EDGE - 2)), 1054);
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "4");
    });
}

#[test]
fn beyond_limits_statement_bytes() {
    let config = "[limits]\nstatement_bytes = \"64KiB\"\n";
    let sql =
        "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a LONGTEXT); CREATE TABLE w (a LONGTEXT);";
    each_with("sizes_limit", sql, config, &rules("sizes_limit"), |rig| {
        let mut client = rig.client();
        client.run("BEGIN");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES('first')"), 1);
        for bytes in [70_000, EDGE + 10] {
            assert_eq!(
                code(&mut client, padded("INSERT INTO t(a) VALUES('", "')", bytes)),
                1153,
                "{}",
                rig.name()
            );
            let text = padded("SELECT LENGTH('", "')", bytes);
            assert_eq!(rows(&mut client, &text), (bytes - 17).to_string(), "{}", rig.name());
        }
        // Whatever its values are, no rule concerns this one; only its beginning is read.
        for bytes in [70_000, EDGE + 10] {
            client.run(padded("INSERT INTO w(a) VALUES('", "')", bytes));
            assert_eq!(
                rows(&mut client, "SELECT LENGTH(a) FROM w"),
                (bytes - 27).to_string(),
                "{}",
                rig.name()
            );
            client.run("DELETE FROM w");
            let text = padded("/* sizes_limit.t */ REPLACE sizes_limit . `w` SELECT '", "'", bytes);
            let prepared = client.prepare(text).unwrap().unwrap();
            assert_eq!(code_of(&client.execute(&prepared, &[]).unwrap()), 0, "{}", rig.name());
            client.run("DELETE FROM w");
            let ruled = padded("INSERT INTO sizes_limit.t(a) SELECT '", "'", bytes);
            assert_eq!(client.prepare(ruled).unwrap().unwrap_err().code, 1153);
            assert_eq!(
                code(&mut client, padded("INSERT INTO w", "x SELECT 1", bytes)),
                1153,
                "a name without end"
            );
        }
        // Another INSERT may come after it.
        let mut several = rig.client_with(CLIENT_MULTI_STATEMENTS);
        assert_eq!(code(&mut several, padded("INSERT INTO w(a) VALUES('", "')", 70_000)), 1153);
        // No id was burned, the transaction is open.
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES('second')"), 2);
        client.run("ROLLBACK");
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0");
    });
}

#[test]
fn a_file_behind_an_insert_that_grew_over_the_edge() {
    let sql = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a LONGTEXT); CREATE TABLE f (a INT);";
    each("sizes_grown_file", sql, |rig| {
        let mut client = rig.client_with(CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS);
        // The client's one packet is two of ours; in the second text both are two.
        for bytes in [EDGE - 1, EDGE] {
            client.local_file = b"1\n2\n".to_vec();
            let tail = "'); LOAD DATA LOCAL INFILE 'any' INTO TABLE f; SELECT COUNT(*) FROM f";
            let outcomes = client.run(padded("INSERT INTO t(a) VALUES('", tail, bytes - 1));
            assert!(outcomes[0].ok().unwrap().insert_id > 0, "{}", rig.name());
            assert_eq!(outcomes[1].ok().unwrap().affected_rows, 2, "{}", rig.name());
            client.run("SELECT 1");
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM f"), "4", "{}", rig.name());
    });
}

#[test]
fn files_of_the_client() {
    each("sizes_file", "CREATE TABLE f (a LONGTEXT);", |rig| {
        for bytes in [0, 1, EDGE, 20_000_000] {
            let mut client = rig.client();
            client.run("DELETE FROM f");
            client.local_file = vec![b'x'; bytes];
            client.run("LOAD DATA LOCAL INFILE 'any' INTO TABLE f");
            let length = rows(&mut client, "SELECT COALESCE(SUM(LENGTH(a)),0) FROM f");
            assert_eq!(length, bytes.to_string(), "{}", rig.name());
            assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL)") > 0);
        }
    });
}
