//! Prepared statements: long data, types left out, cursors, statements that outlive their table.

use crate::rig::{code, code_of, each, rows};
use crate::support::Kind;
use crate::support::raw::{CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, Client, Outcome, Param, Prepared};

const BIGINT: [u8; 2] = [8, 0];
const BLOB: [u8; 2] = [0xFC, 0];

fn send_long_data(client: &mut Client, statement: &Prepared, param: u16, bytes: &[u8]) {
    let body = [&statement.id.to_le_bytes()[..], &param.to_le_bytes(), bytes].concat();
    client.send_command(0x18, &body).unwrap();
}

/// `rest`: null bitmap, flag, types and values.
fn execute(client: &mut Client, statement: &Prepared, flags: u8, rest: &[u8]) -> Vec<Outcome> {
    let body = [&statement.id.to_le_bytes()[..], &[flags, 1, 0, 0, 0], rest].concat();
    client.send_command(0x17, &body).unwrap();
    client.read_outcomes(true).unwrap()
}

#[test]
fn long_data_on_either_side_of_a_hidden_parameter() {
    let sql = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a BLOB, b BLOB);";
    each("prepared_long", sql, |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            client.run("DELETE FROM t");
            // The id is hidden after one parameter and before the other.
            let insert = client.prepare("INSERT INTO t(a,b) VALUES(?,'x'),(?,'y')").unwrap().unwrap();
            assert_eq!(insert.params, 2);
            for param in [1, 0, 1] {
                send_long_data(&mut client, &insert, param, &[b'0' + u8::try_from(param).unwrap()]);
            }
            let types = [&[0, 1][..], &BLOB, &BLOB].concat();
            assert_eq!(code_of(&execute(&mut client, &insert, 0, &types)), 0, "{}", rig.name());
            assert_eq!(rows(&mut client, "SELECT a,b FROM t ORDER BY id"), "0,x 11,y");
            // The long data is used up; types may be left out now.
            client.run("DELETE FROM t");
            assert_eq!(code_of(&execute(&mut client, &insert, 0, &[0b01, 0, 1, b'z'])), 0, "{}", rig.name());
            assert_eq!(rows(&mut client, "SELECT a,b FROM t ORDER BY id"), "NULL,x z,y");
        }
    });
}

#[test]
fn zeros_mean_what_they_meant_or_the_execution_is_refused() {
    each("prepared_zeros", "", |rig| {
        let mut client = rig.client();
        let zero = client.prepare("INSERT INTO t(id,a) VALUES(0,1)").unwrap().unwrap();
        let mixed = client.prepare("INSERT INTO t(id,a) VALUES(?,2),(DEFAULT,3)").unwrap().unwrap();
        let null = client.prepare("INSERT INTO t(id,a) VALUES(NULL,4)").unwrap().unwrap();
        client.run("SET sql_mode='NO_AUTO_VALUE_ON_ZERO'");
        // The server would store 0.
        assert_eq!(code_of(&client.execute(&zero, &[]).unwrap()), 1235, "{}", rig.name());
        assert_eq!(code_of(&client.execute(&mixed, &[Param::Null]).unwrap()), 1235, "{}", rig.name());
        assert_eq!(code_of(&client.execute(&null, &[]).unwrap()), 0, "{}", rig.name());
        client.run("SET sql_mode=''");
        assert_eq!(code_of(&client.execute(&zero, &[]).unwrap()), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a, id > 0 FROM t ORDER BY id"), "4,1 1,1");
    });
}

#[test]
fn long_data_of_a_refused_execution_is_dropped() {
    let sql = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a BLOB);";
    each("prepared_drop", sql, |rig| {
        let mut client = rig.client();
        let insert = client.prepare("INSERT INTO t(a,id) VALUES(?,?)").unwrap().unwrap();
        send_long_data(&mut client, &insert, 0, b"old");
        let date = [&[0, 1][..], &BLOB, &[0x0A, 0, 4, 0xE8, 7, 1, 2]].concat();
        assert_eq!(code_of(&execute(&mut client, &insert, 0, &date)), 1235);
        let null = [&[0b10, 1][..], &BLOB, &BIGINT, &[3, b'n', b'e', b'w']].concat();
        assert_eq!(code_of(&execute(&mut client, &insert, 0, &null)), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a FROM t"), "new");
        // COM_STMT_RESET drops it too.
        send_long_data(&mut client, &insert, 0, b"old");
        client.send_command(0x1A, &insert.id.to_le_bytes()).unwrap();
        client.read_outcomes(false).unwrap();
        assert_eq!(code_of(&execute(&mut client, &insert, 0, &null)), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a FROM t"), "new new");
    });
}

#[test]
fn cursors_are_fetched_from() {
    each("prepared_cursor", "INSERT INTO u VALUES (1,1),(2,2),(3,3);", |rig| {
        for capabilities in [0, CLIENT_DEPRECATE_EOF] {
            let mut client = rig.client_with(capabilities);
            let select = client.prepare("SELECT a FROM u ORDER BY a").unwrap().unwrap();
            // CURSOR_TYPE_READ_ONLY: the answer ends after the columns.
            client.send_command(0x17, &[&select.id.to_le_bytes()[..], &[1, 1, 0, 0, 0]].concat()).unwrap();
            let mut packets = vec![client.read_packet().unwrap(), client.read_packet().unwrap()];
            packets.push(client.read_packet().unwrap());
            assert_eq!(packets[2][0], 0xFE, "{}", rig.name());
            for expect in [2, 1] {
                client.send_command(0x1C, &[&select.id.to_le_bytes()[..], &[2, 0, 0, 0]].concat()).unwrap();
                let mut count = 0;
                while client.read_packet().unwrap()[0] != 0xFE {
                    count += 1;
                }
                assert_eq!(count, expect);
            }
            client.close(&select).unwrap();
            assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(NULL)"), 0);
        }
    });
}

#[test]
fn a_statement_whose_table_was_made_anew() {
    each("prepared_anew", "", |rig| {
        let mut client = rig.client();
        let named = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let by_place = client.prepare("INSERT INTO t VALUES(?,?)").unwrap().unwrap();
        let null_and = |n| [Param::NullInt, Param::Int(n)];
        assert_eq!(code_of(&client.execute(&by_place, &null_and(1)).unwrap()), 0);
        client.run("DROP TABLE t");
        client.run("CREATE TABLE t (a INT, id BIGINT NOT NULL PRIMARY KEY)");
        assert_eq!(code_of(&client.execute(&named, &[Param::Int(2)]).unwrap()), 0, "{}", rig.name());
        // By place, NULL is no longer the id's: it must not become one.
        let outcome = client.execute(&by_place, &null_and(3)).unwrap();
        let rows = rows(&mut client, "SELECT a, id>0 FROM t ORDER BY a");
        assert!(
            rows == "2,1" && code_of(&outcome) > 0 || rows == "NULL,1 2,1",
            "{}: {} {rows}",
            rig.name(),
            code_of(&outcome)
        );
    });
}

#[test]
fn a_temporary_table_by_a_prepared_statement_hides_when_it_is_made() {
    each("prepared_temp", "", |rig| {
        let mut client = rig.client();
        let create = client.prepare("CREATE TEMPORARY TABLE t (a INT)").unwrap().unwrap();
        assert!(crate::rig::insert_id(&mut client, "INSERT INTO t(a) VALUES(1)") > 0, "{}", rig.name());
        assert_eq!(code_of(&client.execute(&create, &[]).unwrap()), 0);
        client.run("INSERT INTO t(a) VALUES(7)");
        assert_eq!(rows(&mut client, "SELECT * FROM t"), "7", "{}", rig.name());
    });
}

/// The server prepares a statement again, silently, for whatever bears its table's name now.
#[test]
fn a_temporary_table_that_comes_or_goes_behind_a_prepared_insert() {
    let sql = "CREATE PROCEDURE hide() CREATE TEMPORARY TABLE t (id BIGINT, a INT); \
               CREATE PROCEDURE unhide() DROP TABLE t;";
    each("prepared_hidden", sql, |rig| {
        let mut client = rig.client();
        let ruled = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        let execute = |client: &mut Client, statement, a| {
            code_of(&client.execute(statement, &[Param::Int(a)]).unwrap())
        };
        assert_eq!(execute(&mut client, &ruled, 1), 0, "{}", rig.name());
        client.run("CALL hide()");
        assert_eq!(execute(&mut client, &ruled, 2), 1235, "{}: a temporary table has no ids", rig.name());
        let hidden = client.prepare("INSERT INTO t(a) VALUES(?)").unwrap().unwrap();
        assert_eq!(execute(&mut client, &hidden, 3), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT id,a FROM t"), "NULL,3", "{}", rig.name());
        client.run("CALL unhide()");
        assert_eq!(execute(&mut client, &hidden, 4), 1235, "{}: it would go without an id", rig.name());
        assert_eq!(execute(&mut client, &ruled, 5), 0, "{}", rig.name());
        client.run("CREATE TEMPORARY TABLE t (id BIGINT, a INT)");
        assert_eq!(execute(&mut client, &hidden, 6), 0, "{}", rig.name());
        client.run("DROP TEMPORARY TABLE t");
        assert_eq!(execute(&mut client, &hidden, 7), 1235, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a FROM t WHERE id>0 ORDER BY id"), "1 5", "{}", rig.name());
    });
}

/// An execution stores the server's values or gets its error, whatever the session has changed since the
/// statement was prepared. Its names and strings mean what they meant then, the parameters what they mean
/// now. The session keeps its settings.
#[test]
fn other_settings_than_it_was_prepared_under() {
    const COLUMNS: &str = "v VARCHAR(9) CHARACTER SET utf8mb4, w VARBINARY(9)) DEFAULT CHARSET utf8mb4";
    const CHARSETS: &[&str] = &[
        "SET NAMES utf8mb4",
        "SET NAMES latin2",
        "SET NAMES gbk",
        "SET NAMES latin1 COLLATE latin1_bin",
        "SET character_set_connection=latin7",
    ];
    const OF_CHARSETS: &[&str] = &[
        "INSERT INTO T(v, w) VALUES (?, ?)",
        "INSERT INTO T(v, w) SELECT ?, ?",
        "INSERT INTO T(v, w) SELECT CONCAT(?, 'd\u{e9}', 'a' = 'A', CHARSET(1)), ?",
        "INSERT INTO T(id, v, w) VALUES (NULLIF(1, 1), CONCAT('d\u{e9}', ?), ?)",
        "INSERT INTO T(id, v, w) SELECT 7, ?, ? ON DUPLICATE KEY UPDATE v = 'd\u{e9}'",
    ];
    const MODES: &[&str] = &[
        "SET sql_mode=''",
        "SET sql_mode='ANSI_QUOTES,STRICT_ALL_TABLES'",
        "SET sql_mode='NO_BACKSLASH_ESCAPES'",
        "SET sql_mode='PIPES_AS_CONCAT,STRICT_TRANS_TABLES'",
        "USE prepared_settings_other",
    ];
    const OF_MODES: &[&str] = &[
        "INSERT INTO HERE.T(v, w) SELECT 'a\\b', ?",
        "INSERT INTO HERE.T(v, w) SELECT 1 || \"x\", ?",
        "INSERT INTO HERE.T(v, w) SELECT RIGHT(DATABASE(), 5), (SELECT x FROM U UNION SELECT ? LIMIT 1)",
    ];
    let tables = format!(
        "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, {COLUMNS}; \
         CREATE TABLE n (id BIGINT AUTO_INCREMENT PRIMARY KEY, {COLUMNS}; \
         CREATE TABLE x (x INT); INSERT INTO x VALUES (1); CREATE DATABASE prepared_settings_other; \
         CREATE TABLE prepared_settings_other.x (x INT); INSERT INTO prepared_settings_other.x VALUES (2);"
    );
    each("prepared_settings", &tables, |rig| {
        let (mut native, mut proxied) = (rig.direct(), rig.client());
        for (settings, forms) in [(CHARSETS, OF_CHARSETS), (MODES, OF_MODES)] {
            for (before, after) in
                settings.iter().flat_map(|before| settings.iter().map(move |after| (before, after)))
            {
                for form in forms {
                    let told = |client: &mut Client, table: &str| {
                        client.run(format!("TRUNCATE {}.{table}", rig.db));
                        client.run(before);
                        let text = form.replace("HERE.T", &format!("{}.{table}", rig.db));
                        let text = text.replace(" T(", &format!(" {table}(")).replace(" U ", " x ");
                        let prepared = client.prepare(&text).unwrap();
                        client.run(after);
                        let of_value = |value: &[u8]| {
                            let params = vec![Param::String(value.to_vec()); text.matches('?').count()];
                            let Ok(prepared) = &prepared else { return Vec::new() };
                            let told = client.execute(prepared, &params).unwrap();
                            let warnings =
                                rows(client, "SHOW WARNINGS").replace(&format!("`{table}`"), "`t`");
                            // MySQL's error 3988 leaves the warnings before it.
                            client.run("DO 0");
                            vec![(code_of(&told), warnings)]
                        };
                        let told = [&b"abc"[..], b"\xE9", b"\xD6\xD0", b"0123456789"].map(of_value);
                        let session =
                            "SELECT DATABASE(),@@sql_mode,@@character_set_client,@@collation_connection";
                        let session = rows(client, session);
                        client.run("SET NAMES utf8mb4, sql_mode=DEFAULT");
                        client.run(format!("USE {}", rig.db));
                        let error = prepared.err().map(|error| error.code);
                        let stored = rows(client, &format!("SELECT HEX(v), HEX(w) FROM {table} ORDER BY id"));
                        (error, told, session, stored)
                    };
                    let natively = told(&mut native, "n");
                    assert_eq!(
                        told(&mut proxied, "t"),
                        natively,
                        "{}: {before}; {form}; {after}",
                        rig.name()
                    );
                }
            }
        }
    });
}

/// The schema's name is written otherwise in either character set; what the server says of a text is kept; a database that is gone
/// ends no session.
#[test]
fn other_settings_leave_nothing_behind() {
    let tables = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a INT); CREATE TABLE w (x INT); CREATE DATABASE prepared_gone;";
    each("prepared_d\u{e9}j\u{e0}", tables, |rig| {
        let mut client = rig.client();
        let values = client.prepare("INSERT INTO t(a) SELECT ?").unwrap().unwrap();
        let column = client.prepare("INSERT INTO t(a) SELECT x FROM w").unwrap().unwrap();
        for charset in ["latin1", "utf8mb4", "latin1"] {
            client.run(format!("SET NAMES {charset}"));
            for _ in 0..2 {
                let code = code_of(&client.execute(&values, &[Param::Int(1)]).unwrap());
                assert_eq!(code, 0, "{} {charset}", rig.name());
                client.run("DO 0");
            }
        }
        rig.direct().run("ALTER TABLE w RENAME COLUMN x TO y");
        assert_eq!(code_of(&client.execute(&column, &[]).unwrap()), 1054, "{}", rig.name());
        assert!(rows(&mut client, "SHOW WARNINGS").starts_with("Error,1054,"), "{}", rig.name());
        client.run("USE prepared_gone");
        assert_eq!(code_of(&client.execute(&values, &[Param::Int(2)]).unwrap()), 0, "{}", rig.name());
        rig.direct().run("DROP DATABASE prepared_gone");
        assert_eq!(code_of(&client.execute(&values, &[Param::Int(3)]).unwrap()), 1235, "{}", rig.name());
        let kept = rows(&mut rig.direct(), "SELECT a FROM t ORDER BY id");
        assert_eq!(kept, "1 1 1 1 1 1 2", "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT 1"), "1", "{}", rig.name());
    });
}

/// By SQL's PREPARE it is refused where a literal would mean something else.
#[test]
fn another_collation_than_it_was_given_a_name_in() {
    let tables = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a INT);";
    each("named_settings", tables, |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        client.run("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci");
        client.run("PREPARE s FROM 'INSERT INTO t(a) SELECT ''a'' = ''A'''");
        for (collation, expect) in [("bin", 1235), ("general_ci", 0), ("bin", 1235), ("general_ci", 0)] {
            client.run(format!("SET collation_connection=utf8mb4_{collation}"));
            assert_eq!(code(&mut client, "EXECUTE s"), expect, "{} {collation}", rig.name());
        }
        client.run("SET NAMES latin1");
        assert_eq!(
            code(&mut client, "SET NAMES utf8mb4 COLLATE utf8mb4_general_ci; EXECUTE s"),
            0,
            "{}",
            rig.name()
        );
        assert_eq!(rows(&mut client, "SELECT a FROM t"), "1 1 1", "{}", rig.name());
    });
}

/// Each type that a client can name, with a value before the id's place. MariaDB takes some values for NULL, and their bytes
/// for the id.
#[test]
fn a_value_of_any_type_leaves_the_id_alone() {
    let sql = "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, a VARBINARY(40));";
    each("prepared_types", sql, |rig| {
        let mut client = rig.client();
        let (mut stored, mut refused) = (0, 0);
        for kind in 0..=255 {
            for text in ["INSERT INTO t(a,id) VALUES(?,NULL)", "INSERT INTO t(a,id) SELECT ?,NULL"] {
                let context = format!("{} {text}, type {kind:#x}", rig.name());
                let insert = client.prepare(text).unwrap().unwrap();
                let value: &[u8] = match kind {
                    0x01 => &[1],
                    0x02 => &[1, 0],
                    0x03 | 0x04 => &[1, 0, 0, 0],
                    0x05 | 0x08 => &[1, 0, 0, 0, 0, 0, 0, 0],
                    // A string of four bytes, or a date.
                    _ => &[4, 0xE8, 7, 1, 2],
                };
                let outcomes = execute(&mut client, &insert, 0, &[&[0, 1, kind, 0], value].concat());
                client.close(&insert).unwrap();
                match &outcomes[..] {
                    [Outcome::Ok(ok)] => {
                        stored += 1;
                        let max = rows(&mut client, "SELECT MAX(id) FROM t");
                        assert_eq!(max, ok.insert_id.to_string(), "{context}");
                        assert!((1..2_000).contains(&ok.insert_id), "{context}: {}", ok.insert_id);
                    }
                    _ => refused += i32::from(code_of(&outcomes) == 1235),
                }
            }
        }
        // DECIMAL, integers, floats, strings.
        assert!(stored >= 2 * 14, "{}: {stored}", rig.name());
        let unread = if rig.kind == Kind::MariaDb { 2 * 4 } else { 0 };
        assert!(refused >= unread, "{}: {refused}", rig.name());
    });
}
