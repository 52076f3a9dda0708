//! Statements are prepared before the rules change and executed after. The proxy prepares them again, and the
//! client's id stays.

use crate::reload::rules;
use crate::rig::{Rig, code_of, each_with, execute, prepare, rows};
use crate::support::Kind;
use crate::support::raw::{Client, Param, Prepared};

/// One INT, the type of which was sent before.
fn without_type(client: &mut Client, statement: &Prepared, value: i32) -> u16 {
    execute(client, statement.id, &[&[0, 0][..], &value.to_le_bytes()].concat())
}

fn with_type(client: &mut Client, statement: &Prepared, value: i32) -> u16 {
    execute(client, statement.id, &[&[0, 1, 3, 0][..], &value.to_le_bytes()].concat())
}

#[test]
fn a_rule_comes_and_goes() {
    const DB: &str = "again_rule";
    let (none, ruled) = (rules(DB, "", &[]), rules(DB, "", &[("w", "id", "h")]));
    let sql = "CREATE TABLE w (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT);";
    each_with(DB, sql, "", &none, |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO w(a) VALUES(?)");
        let other = prepare(&mut client, "INSERT INTO w(a) VALUES(?)");
        assert_eq!(with_type(&mut client, &insert, 1), 0);
        rig.change(&ruled);
        assert_eq!(without_type(&mut client, &insert, 2), 0, "{}", rig.name());
        assert_eq!(without_type(&mut client, &insert, 3), 0, "{}", rig.name());
        rig.change(&none);
        assert_eq!(without_type(&mut client, &insert, 4), 0, "{}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT a, id>1000000000 FROM w WHERE a<4 ORDER BY a"),
            "1,0 2,1 3,1",
            "{}",
            rig.name()
        );
        // The server's own id comes after the highest that there is.
        assert_eq!(rows(&mut client, "SELECT MAX(id)=(SELECT id FROM w WHERE a=4) FROM w"), "1");
        rig.change(&ruled);
        assert_eq!(with_type(&mut client, &other, 5), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT id>1000000000 FROM w WHERE a=5"), "1");
        for statement in [&insert, &other] {
            client.close(statement).unwrap();
            assert_eq!(without_type(&mut client, statement, 6), 1243, "{}: it is closed", rig.name());
        }
    });
}

#[test]
fn the_column_the_step_and_the_generator_change() {
    const DB: &str = "again_column";
    let sql = "CREATE TABLE w (id BIGINT NOT NULL DEFAULT 0, b BIGINT NOT NULL DEFAULT 0, a INT);";
    each_with(DB, sql, "", &rules(DB, "", &[("w", "id", "g")]), |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO w(a) VALUES(?),(NULL),(NULL)");
        let execute = |client: &mut Client, a| code_of(&client.execute(&insert, &[Param::Int(a)]).unwrap());
        assert_eq!(execute(&mut client, 1), 0);
        assert_eq!(rows(&mut client, "SELECT id,b FROM w"), "1,0 2,0 3,0", "{}", rig.name());
        rig.change(&rules(DB, "step = 10\noffset = 3", &[("w", "id", "g")]));
        client.run("DELETE FROM w");
        assert_eq!(execute(&mut client, 2), 0);
        assert_eq!(rows(&mut client, "SELECT id,b FROM w"), "13,0 23,0 33,0", "{}", rig.name());
        rig.change(&rules(DB, "step = 10\noffset = 3", &[("w", "b", "g")]));
        client.run("DELETE FROM w");
        assert_eq!(execute(&mut client, 3), 0);
        assert_eq!(rows(&mut client, "SELECT id,b FROM w"), "0,43 0,53 0,63", "{}", rig.name());
        rig.change(&rules(DB, "step = 10\noffset = 3", &[("w", "b", "h")]));
        client.run("DELETE FROM w");
        assert_eq!(execute(&mut client, 4), 0);
        assert_eq!(rows(&mut client, "SELECT id, b>1000000000 FROM w"), "0,1 0,1 0,1", "{}", rig.name());
        // Columns that change have the server prepare it again by itself, or us.
        let by_place = prepare(&mut client, "INSERT INTO w VALUES(?,NULL,7)");
        client.run("ALTER TABLE w MODIFY b BIGINT NOT NULL DEFAULT 0 FIRST");
        assert_eq!(
            code_of(&client.execute(&by_place, &[Param::NullInt]).unwrap()),
            1048,
            "{}: id",
            rig.name()
        );
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM w WHERE a=7"), "0");
    });
}

#[test]
fn what_was_sent_ahead_of_a_change_is_asked_for_again() {
    const DB: &str = "again_long";
    let sql = "CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, a BLOB, b BLOB);";
    each_with(DB, sql, "", &rules(DB, "", &[]), |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO w(a,b) VALUES(?,'x'),('y',?)");
        let ahead = |client: &mut Client, text: &str| {
            for param in [1u16, 0] {
                let body = [&insert.id.to_le_bytes()[..], &param.to_le_bytes(), text.as_bytes()].concat();
                client.send_command(0x18, &body).unwrap();
            }
        };
        let types = [0, 1, 0xFC, 0, 0xFC, 0];
        ahead(&mut client, "old");
        rig.change(&rules(DB, "", &[("w", "id", "g")]));
        assert_eq!(execute(&mut client, insert.id, &types), 1235, "{}", rig.name());
        ahead(&mut client, "new");
        assert_eq!(execute(&mut client, insert.id, &types), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a,b FROM w ORDER BY id"), "new,x y,new", "{}", rig.name());
        // Without a change in between, the execution goes on.
        client.run("DELETE FROM w");
        ahead(&mut client, "more");
        assert_eq!(execute(&mut client, insert.id, &types), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT a,b FROM w ORDER BY id"), "more,x y,more", "{}", rig.name());
    });
}

#[test]
fn what_cannot_be_prepared_again() {
    const DB: &str = "again_fails";
    let sql = "CREATE TABLE w (id BIGINT NOT NULL PRIMARY KEY, a INT, c INT);";
    each_with(DB, sql, "", &rules(DB, "", &[("w", "id", "g")]), |rig| {
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO w(c,a) VALUES(5,?),(6,7)");
        let long = format!("INSERT INTO w(a) VALUES(?),(8)/*{}*/", "x".repeat(600_000));
        let too_long = prepare(&mut client, &long);
        rig.change(&rules(DB, "step = 2", &[("w", "id", "g")]));
        // The server's error is the answer, and what is owed to the client goes on.
        client.run("ALTER TABLE w DROP COLUMN c");
        assert_eq!(with_type(&mut client, &insert, 1), 1054, "{}", rig.name());
        assert_eq!(with_type(&mut client, &too_long, 1), 1235, "{}", rig.name());
        client.run("ALTER TABLE w ADD COLUMN c INT");
        client.run("CREATE DATABASE again_fails_else");
        client.run("USE again_fails_else");
        assert_eq!(with_type(&mut client, &insert, 1), 1235, "{}: another database", rig.name());
        client.run(format!("USE {DB}"));
        client.run("SET sql_mode=CONCAT(@@sql_mode,',NO_AUTO_VALUE_ON_ZERO')");
        assert_eq!(with_type(&mut client, &insert, 1), 1235, "{}: another sql_mode", rig.name());
        client.run("SET sql_mode=REPLACE(@@sql_mode,'NO_AUTO_VALUE_ON_ZERO','')");
        assert_eq!(with_type(&mut client, &insert, 1), 0, "{}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT MAX(id)-MIN(id), SUM(c), SUM(a) FROM w"),
            "2,11,8",
            "{}",
            rig.name()
        );
    });
}

/// MariaDB alone knows the statement that was prepared last by -1.
#[test]
fn the_last_prepared_is_still_the_clients() {
    const DB: &str = "again_last";
    each_with(DB, "", "", &rules(DB, "", &[("t", "id", "g")]), |rig: &mut Rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let mut client = rig.client();
        let insert = prepare(&mut client, "INSERT INTO t(a) VALUES(?),(NULL)");
        prepare(&mut client, "UPDATE u SET a=a+1");
        client.run("INSERT INTO u VALUES(1,10)");
        rig.change(&rules(DB, "step = 2", &[("t", "id", "g")]));
        assert_eq!(with_type(&mut client, &insert, 1), 0);
        assert_eq!(execute(&mut client, u32::MAX, &[]), 0);
        assert_eq!(rows(&mut client, "SELECT a FROM u"), "11");
        let last = prepare(&mut client, "INSERT INTO t(a) VALUES(?),(NULL)");
        assert_eq!(with_type(&mut client, &Prepared { id: u32::MAX, ..last.clone() }, 2), 0);
        rig.change(&rules(DB, "step = 3", &[("t", "id", "g")]));
        assert_eq!(with_type(&mut client, &Prepared { id: u32::MAX, ..last.clone() }, 3), 0);
        assert_eq!(with_type(&mut client, &last, 4), 0);
        assert_eq!(rows(&mut client, "SELECT COUNT(*), COUNT(DISTINCT id) FROM t"), "8,8");
    });
}

/// MySQL prepares a statement again when a parameter is bound with another type than it expects, and then takes the types of
/// the other parameters from what is bound to them too: other values may be stored.
#[test]
fn the_server_prepares_nothing_again_that_it_would_not_natively() {
    const COLUMNS: [&str; 6] = [
        "BIGINT AUTO_INCREMENT",
        "BIGINT UNSIGNED AUTO_INCREMENT",
        "INT UNSIGNED AUTO_INCREMENT",
        "BIGINT",
        "BIGINT UNSIGNED",
        "SMALLINT UNSIGNED",
    ];
    const DB: &str = "again_types";
    let table = |(n, column): (usize, &&str)| {
        format!(
            "CREATE TABLE r{n} (id {column} PRIMARY KEY, a VARCHAR(9)); CREATE TABLE n{n} (id {column} PRIMARY KEY, a VARCHAR(9));"
        )
    };
    let sql: String = COLUMNS.iter().enumerate().map(table).collect();
    let names: Vec<_> = (0..COLUMNS.len()).map(|n| format!("r{n}")).collect();
    let tables: Vec<_> = names.iter().map(|name| (name.as_str(), "id", "g")).collect();
    each_with(DB, &sql, "", &rules(DB, "", &tables), |rig| {
        // MariaDB reads a parameter by what is bound to it, and counts nothing.
        if rig.kind == Kind::MariaDb {
            return;
        }
        let mut client = rig.client();
        let mut watch = rig.direct();
        let mut count = || rows(&mut watch, "SHOW GLOBAL STATUS LIKE 'Com_stmt_reprepare'");
        for (n, column) in COLUMNS.iter().enumerate() {
            for (insert, id) in [
                ("INTO {} VALUES (NULL,?+1)", None),
                ("INTO {} VALUES (NULL,?+1),(NULL,'x'),(DEFAULT,'y')", None),
                ("INTO {} VALUES (?,?+1)", Some(Param::NullInt)),
                ("INTO {} VALUES (?,?+1),(NULL,'x')", Some(Param::NullInt)),
                ("INTO {} VALUES (?,?+1)", Some(Param::Int(7))),
                ("IGNORE INTO {} VALUES (NULL,?+1),(NULL,'x')", None),
                ("IGNORE INTO {} (a) VALUES (?+1),('x')", None),
                ("INTO {} SET a=?+1", None),
                ("INTO {} VALUES (NULL,?+1) ON DUPLICATE KEY UPDATE a='z'", None),
                ("INTO {} VALUES (NULL,?+1),(NULL,'y') ON DUPLICATE KEY UPDATE a='z'", None),
            ] {
                let mut again = |table: String, id: Option<Param>| {
                    let statement = prepare(&mut client, &format!("INSERT {}", insert.replace("{}", &table)));
                    let before = count();
                    for text in ["1", "2", "3"] {
                        let params: Vec<_> = id.iter().cloned().chain([Param::String(text.into())]).collect();
                        let _ = client.execute(&statement, &params).unwrap();
                    }
                    client.close(&statement).unwrap();
                    let after = count();
                    before != after
                };
                let native = again(format!("n{n}"), id.clone());
                assert_eq!(again(format!("r{n}"), id.clone()), native, "{column} {insert} {id:?}");
            }
        }
    });
}
