use proptest::prelude::*;

use super::{CUT, TEXT_BYTES_MAX, UNREADABLE, digest};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};

const MARIADB: Dialect = Dialect::MARIADB;
const MYSQL: Dialect = Dialect::MYSQL;
const ANSI: Dialect = Dialect { sql_mode: SqlMode::ANSI_QUOTES, ..MARIADB };

fn text(statement: &str, dialect: &Dialect) -> String {
    let digest = digest(statement.as_bytes(), dialect);
    if digest.is_unreadable() {
        assert_eq!(digest.text, "");
        return UNREADABLE.to_owned();
    }
    assert_eq!(digest.hash.len(), 16, "{statement}");
    digest.text
}

fn check(statement: &str, expected: &str) {
    for dialect in [MARIADB, MYSQL] {
        assert_eq!(text(statement, &dialect), expected, "{statement}");
    }
}

#[test]
fn values_go_and_names_stay() {
    check("insert into t(a,b) values (1,'x')", "INSERT INTO t(a, b) VALUES (...)");
    check("INSERT  INTO\n`t` SET a=-1, b = + 2.5e3", "INSERT INTO `t` SET a = ?, b = ?");
    check("REPLACE shop.Orders VALUE (NULL)", "REPLACE shop.Orders VALUE(...)");
    check("insert t values(), ()", "INSERT t VALUES ()");
    check(
        "select a-1, - 1, -(2), a - -3, b->'$.x', b->>'$.y'",
        "SELECT a - ?, ?, -(?), a - ?, b -> ?, b ->> ?",
    );
    check(
        "select * from t where a<=>NULL or b is not null and c>=0x1F",
        "SELECT * FROM t WHERE a <=> ? OR b IS NOT NULL AND c >= ?",
    );
    check(
        "select count(*), t.select, f(1), f(1,2) from t limit 5, 6",
        "SELECT count(*), t.select, f(?), f(...) FROM t LIMIT ?, ?",
    );
    check(
        "select _utf8mb4'a' 'b', date '2026-01-01', n'x', b'01', @v:=7, @@sql_mode",
        "SELECT _utf8mb4 ?, date ?, ?, ?, @v := ?, @@sql_mode",
    );
    check("create user 'u'@'h' identified by 'secret'", "CREATE user ? @? identified BY ?");
    check("prepare s from 'insert into t values (1)'", "PREPARE s FROM ?");
    check("start transaction", "START TRANSACTION");
    check(
        "create table t (a int not null default 3, b varchar(10) null)",
        "CREATE TABLE t(a INT NOT NULL DEFAULT ?, b VARCHAR (?) NULL)",
    );
    check("", "");
    check("/* nothing */ ;", "");
}

#[test]
fn lists_and_rows_become_one() {
    check("select 1 where a in (1)", "SELECT ? WHERE a IN (...)");
    check("select 1 where a in (1,2,?)", "SELECT ? WHERE a IN (...)");
    check("select 1 where (a,b) in ((1,2),(3,4))", "SELECT ? WHERE (a, b) IN ((...))");
    check("insert t values (1),(2),(3)", "INSERT t VALUES (...)");
    check(
        "insert t values (default,now(),1),(default, NOW(),2)",
        "INSERT t VALUES (DEFAULT, now(), ?), (DEFAULT, NOW(), ?)",
    );
    check(
        "insert t values (default,now(),1),(default,now(),2),(3,now(),4)",
        "INSERT t VALUES (DEFAULT, now(), ?), (?, now(), ?)",
    );
    check("values row(1,2), row(3,4)", "VALUES ROW(...)".replace("ROW", "row").as_str());
    check(
        "insert t(a) values (1),(2) on duplicate key update a=values(a)+1",
        "INSERT t(a) VALUES (...) ON DUPLICATE KEY UPDATE a = VALUES (a) + ?",
    );
    check("select (a), (a), (1), (1)", "SELECT (a), (a), (?), (?)");
    check("select f(1), f(2)", "SELECT f(?), f(?)");
}

#[test]
fn what_is_no_statement_of_one_text() {
    check("select 1; insert into t values (2);", "SELECT ?; INSERT INTO t VALUES (...)");
    check("select 1 -- secret\n# secret\n/* secret */ , 2 /*+ secret */", "SELECT ?, ?");
    check("insert into t values ('open", UNREADABLE);
    check("select \u{1}", UNREADABLE);
    check("select `a\u{1b}[2J`, `\u{e9}`", "SELECT `a\u{fffd}[2J`, `\u{e9}`");
    check(") ( + ;", ") (+");
    assert_eq!(text("select /*M! 1, */ a", &MARIADB), "SELECT ?, a");
    assert_eq!(text("select /*M! 1, */ a", &MYSQL), "SELECT a");
    assert_eq!(text("select \"a\", 'b'", &ANSI), "SELECT \"a\", ?");
    assert_eq!(text("select \"a\", 'b'", &MARIADB), "SELECT ?, ?");
}

#[test]
fn what_changes_the_reading_is_followed_or_nothing_is_said() {
    let in_ansi = |statement| text(statement, &ANSI);
    assert_eq!(in_ansi("set sql_mode=''; select \"secret\""), "SET sql_mode = ?; SELECT ?");
    assert_eq!(in_ansi("set @a=1, sql_mode=@b; select \"secret\""), UNREADABLE);
    assert_eq!(in_ansi("set @a=1, sql_mode=@b;"), "SET @a = ?, sql_mode = @b");
    assert_eq!(in_ansi("call p(); select \"secret\""), UNREADABLE);
    assert_eq!(in_ansi("execute s; select \"secret\""), UNREADABLE);
    assert_eq!(in_ansi("create procedure p() begin set sql_mode=''; select \"secret\"; end"), UNREADABLE);
    assert_eq!(in_ansi("begin not atomic set names latin1; end; select \"secret\""), UNREADABLE);
    assert_eq!(
        in_ansi("create procedure p() begin call q(); select \"name\"; end"),
        "CREATE PROCEDURE p() begin CALL q(); SELECT \"name\"; END"
    );
}

#[test]
fn a_long_text_is_cut_and_its_hash_is_not() {
    let columns = |last: &str| format!("select {}, `{last}`", vec!["`caf\u{e9}`"; 300].join(", "));
    let (one, other) = (columns("x"), columns("y"));
    let (one, other) = (digest(one.as_bytes(), &MYSQL), digest(other.as_bytes(), &MYSQL));
    assert!(one.text.ends_with(CUT) && one.text.len() <= TEXT_BYTES_MAX + CUT.len());
    assert_eq!(one.text, other.text);
    assert_ne!(one.hash, other.hash);
    // Computed by sha256sum.
    assert_eq!(digest(b"select 1", &MYSQL).hash, "66cbb3a40d4bbd15");
}

/// Ways to write a value that holds the mark; none of the words around it is a part of the mark.
const LITERALS: &[&str] = &[
    "'canary'",
    "\"canary\"",
    "N'canary'",
    "'it''s canary'",
    "'a\\'canary'",
    "_utf8mb4'canary'",
    "'x' 'canary'",
    "60221",
    "-60221",
    "+ 60221.60221",
    "60221e5",
    "x'0ca0a70a'",
    "0x60221",
    "b'0110'",
    "NULL",
    "TRUE",
    "/* canary */ 60221",
    "-- canary\n 'canary'",
    "# canary\n 60221",
    "?",
    "( 60221 )",
    "('canary')",
];
const STATEMENTS: &[&str] = &[
    "INSERT INTO t (a, b) VALUES (L, L), (L, L)",
    "INSERT INTO t VALUES (now(), L), (f(L, L), L) ON DUPLICATE KEY UPDATE a = L, b = VALUES(b) + L",
    "REPLACE INTO t SET a = L, b = concat(L, c, L)",
    "SELECT L, a - L FROM t WHERE a = L AND b IN (L, L) AND (a, b) IN ((L, L), (L, L)) OR c BETWEEN L AND L",
    "SET @v := L, @@session.x = L; SELECT L",
    "/*!50000 UPDATE */ t SET a = CASE WHEN b = L THEN L ELSE L END LIMIT 60221",
    "WITH c AS (SELECT L) INSERT INTO t SELECT * FROM c WHERE c.a LIKE L",
    "PREPARE s FROM 'insert into t values (\\'canary\\', 60221)'",
];

fn filled(statement: &str, literals: &[&str]) -> String {
    let mut literals = literals.iter().cycle();
    let mut out = String::new();
    for (nth, part) in statement.split('L').enumerate() {
        // Words that hold the letter are put together again.
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if nth > 0 {
            let inside = is_word(out.chars().last()) || is_word(part.chars().next());
            out.push_str(if inside { "L" } else { literals.next().unwrap() });
        }
        out.push_str(part);
    }
    out
}

proptest! {
    #[test]
    fn no_literal_survives(
        statement in prop::sample::select(STATEMENTS),
        literals in prop::collection::vec(prop::sample::select(LITERALS), 1..8),
        mariadb in any::<bool>(),
    ) {
        let dialect = if mariadb { MARIADB } else { MYSQL };
        let statement = filled(statement, &literals);
        let digest = digest(statement.as_bytes(), &dialect);
        prop_assert!(!digest.is_unreadable(), "{statement}");
        for mark in ["canary", "60221", "0ca0", "0110", "'", "\"", "--", "/*", "#"] {
            prop_assert!(!digest.text.contains(mark), "{mark} of {statement} is in {}", digest.text);
        }
    }

    #[test]
    fn the_same_with_other_values_has_the_same_digest(
        statement in prop::sample::select(STATEMENTS),
        one in prop::sample::select(&LITERALS[..5]),
        other in prop::sample::select(&LITERALS[..5]),
    ) {
        let of = |literal| digest(filled(statement, &[literal]).as_bytes(), &MYSQL);
        prop_assert_eq!(of(one), of(other));
    }

    /// So digests of ours may be looked up by their texts.
    #[test]
    fn a_digests_text_is_its_own_digest(
        statement in prop::sample::select(STATEMENTS),
        literals in prop::collection::vec(prop::sample::select(LITERALS), 1..8),
        mariadb in any::<bool>(),
    ) {
        let dialect = if mariadb { MARIADB } else { MYSQL };
        let first = digest(filled(statement, &literals).as_bytes(), &dialect);
        // The value of a `?` in SET is not known, so nothing is said of a statement after it.
        if !first.text.contains(';') {
            prop_assert_eq!(digest(first.text.as_bytes(), &dialect), first);
        }
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), gbk in any::<bool>(), mariadb in any::<bool>()) {
        let charset = if gbk { ClientCharset::Gbk } else { ClientCharset::Latin1 };
        let dialect = Dialect { charset, ..if mariadb { MARIADB } else { MYSQL } };
        let digest = digest(&bytes, &dialect);
        prop_assert!(digest.text.len() <= TEXT_BYTES_MAX + CUT.len() && !digest.text.chars().any(char::is_control));
    }

    #[test]
    fn any_signs(text in "[-+(),.;@:=?'\"`*/ a1NIVR\\n]{0,60}|(VALUES|IN|ROW|NULL|[-+(),?]|SET| )*") {
        let digest = digest(text.as_bytes(), &MARIADB);
        prop_assert!(digest.text.len() <= TEXT_BYTES_MAX + CUT.len());
    }
}
