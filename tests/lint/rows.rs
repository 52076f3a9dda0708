//! A row for each code that a schema shows by itself; all of them are checked in one run on each server.

use crate::lint::rig::{Folder, Found, ROOT, RULES, TABLE, client, server};
use crate::support::Kind;
use crate::support::raw::Client;

#[derive(Clone, Copy)]
struct Row {
    code: &'static str,
    /// The tables of the database that shows it; empty: there is no such database.
    shows: &'static str,
    /// The tables of the database that does not show it.
    not: &'static str,
    /// Rules of the first, and of the second.
    rules: (&'static str, &'static str),
    /// The fields of `g`'s record in the store in both, besides the usual ones; empty: no record.
    stored: &'static str,
}

const fn row(code: &'static str, shows: &'static str, not: &'static str) -> Row {
    Row { code, shows, not, rules: (RULES, RULES), stored: "" }
}

const fn ruled(row: Row, shows: &'static str, not: &'static str) -> Row {
    Row { rules: (shows, not), ..row }
}

const fn stored(row: Row, stored: &'static str) -> Row {
    Row { stored, ..row }
}

const AUTO: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT, a INT);";
const INT: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY);";
const UINT: &str = "CREATE TABLE t (id INT UNSIGNED NOT NULL PRIMARY KEY);";
const TWO: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TABLE u (id BIGINT NOT NULL PRIMARY KEY, a INT);";
const HIGH: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); INSERT INTO t VALUES (200, 1)";
const LOW: &str = "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); INSERT INTO t VALUES (50, 1)";

const NATIVE: &str =
    "[generators.g]\nkind = 'sequence'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\nunavailable = 'native'\n";
const SNOWFLAKE: &str =
    "[generators.g]\nkind = 'timestamp'\nlayout = 'snowflake'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n";
const JS_SAFE: &str =
    "[generators.g]\nkind = 'timestamp'\nlayout = 'js-safe'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n";
const STEP: &str =
    "[generators.g]\nkind = 'sequence'\nstep = 2\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n";
const KEEP: &str =
    "[generators.g]\nkind = 'sequence'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\nexplicit = 'keep'\n";
const UNSEEDED: &str = "[generators.g]\nkind = 'sequence'\nseed = 'none'\nstart = 100\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n";
const BOTH: &str = "[generators.g]\nkind = 'sequence'\n[tables.t]\ncolumn = 'id'\ngenerator = 'g'\n\
                    [tables.u]\ncolumn = 'id'\ngenerator = 'g'\n";
const PATTERNS: &str = "[generators.g]\nkind = 'sequence'\n[tables.'t*']\ncolumn = 'id'\ngenerator = 'g'\n\
                        [tables.'*x']\ncolumn = 'id'\ngenerator = 'g'\n";
const PATTERN: &str = "[generators.g]\nkind = 'sequence'\n[tables.'t_*']\ncolumn = 'id'\ngenerator = 'g'\n";

/// Both servers have all of it.
const ROWS: &[Row] = &[
    row("schema-missing", "", TABLE),
    row("table-missing", "CREATE TABLE u (id BIGINT NOT NULL PRIMARY KEY)", TABLE),
    row("name-case", "CREATE TABLE T (id BIGINT NOT NULL PRIMARY KEY)", TABLE),
    row(
        "not-a-table",
        "CREATE TABLE b (id BIGINT NOT NULL PRIMARY KEY); CREATE VIEW t AS SELECT * FROM b",
        TABLE,
    ),
    ruled(
        row(
            "table-ambiguous",
            "CREATE TABLE tx (id BIGINT NOT NULL PRIMARY KEY)",
            "CREATE TABLE t1 (id BIGINT NOT NULL PRIMARY KEY); CREATE TABLE ax (id BIGINT NOT NULL PRIMARY KEY)",
        ),
        PATTERNS,
        PATTERNS,
    ),
    ruled(
        row("pattern-unmatched", TABLE, "CREATE TABLE t_1 (id BIGINT NOT NULL PRIMARY KEY)"),
        PATTERN,
        PATTERN,
    ),
    ruled(
        row(
            "pattern-passes",
            "CREATE TABLE t_1 (id BIGINT NOT NULL PRIMARY KEY); CREATE TABLE t_2 (a INT); CREATE TABLE t_3 (a INT)",
            "CREATE TABLE t_1 (id BIGINT NOT NULL PRIMARY KEY); CREATE TABLE u (a INT)",
        ),
        PATTERN,
        PATTERN,
    ),
    row(
        "column-missing",
        "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY)",
        "CREATE TABLE t (ID BIGINT NOT NULL PRIMARY KEY)",
    ),
    row(
        "column-generated",
        "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, id BIGINT GENERATED ALWAYS AS (k + 1) STORED UNIQUE)",
        TABLE,
    ),
    row("column-type", "CREATE TABLE t (id FLOAT NOT NULL PRIMARY KEY)", TABLE),
    row(
        "column-type",
        "CREATE TABLE t (id DATETIME NOT NULL PRIMARY KEY)",
        "CREATE TABLE t (id VARCHAR(20) NOT NULL PRIMARY KEY)",
    ),
    row("column-not-integer", "CREATE TABLE t (id DECIMAL(20) NOT NULL PRIMARY KEY)", TABLE),
    row("column-not-integer", "CREATE TABLE t (id VARCHAR(20) NOT NULL PRIMARY KEY)", TABLE),
    ruled(row("column-too-narrow", UINT, TABLE), SNOWFLAKE, SNOWFLAKE),
    ruled(
        row(
            "column-too-narrow",
            "CREATE TABLE t (id VARCHAR(18) NOT NULL PRIMARY KEY)",
            "CREATE TABLE t (id DECIMAL(19) NOT NULL PRIMARY KEY)",
        ),
        SNOWFLAKE,
        SNOWFLAKE,
    ),
    row(
        "column-nearly-full",
        "CREATE TABLE t (id TINYINT NOT NULL PRIMARY KEY); INSERT INTO t VALUES (120)",
        "CREATE TABLE t (id TINYINT NOT NULL PRIMARY KEY); INSERT INTO t VALUES (20)",
    ),
    ruled(row("js-unsafe", TABLE, TABLE), SNOWFLAKE, JS_SAFE),
    row("column-signed", INT, UINT),
    ruled(
        row(
            "columns-differ",
            "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); CREATE TABLE u (id INT NOT NULL PRIMARY KEY)",
            TWO,
        ),
        BOTH,
        BOTH,
    ),
    row(
        "column-not-unique",
        "CREATE TABLE t (id BIGINT NOT NULL, KEY (id))",
        "CREATE TABLE t (id BIGINT NOT NULL, UNIQUE KEY (id))",
    ),
    row("column-not-unique", "CREATE TABLE t (id BIGINT NOT NULL, a INT, PRIMARY KEY (id, a))", TABLE),
    row(
        "column-not-indexed",
        "CREATE TABLE t (id BIGINT NOT NULL, a INT, PRIMARY KEY (a, id))",
        "CREATE TABLE t (id BIGINT NOT NULL, a INT, PRIMARY KEY (id, a))",
    ),
    row("column-default", "CREATE TABLE t (id BIGINT NULL UNIQUE)", TABLE),
    row("column-default", "CREATE TABLE t (id BIGINT NOT NULL DEFAULT 0 PRIMARY KEY)", AUTO),
    row(
        "foreign-key-type",
        "CREATE TABLE t (id VARCHAR(20) NOT NULL PRIMARY KEY); \
         CREATE TABLE u (t_id VARCHAR(10), FOREIGN KEY k (t_id) REFERENCES t (id))",
        "CREATE TABLE t (id VARCHAR(20) NOT NULL PRIMARY KEY); \
         CREATE TABLE u (t_id VARCHAR(20), FOREIGN KEY k (t_id) REFERENCES t (id))",
    ),
    ruled(row("start-below-table", HIGH, LOW), UNSEEDED, UNSEEDED),
    stored(row("rows-above-bound", HIGH, LOW), r#""kind":"sequence","bound":100"#),
    stored(ruled(row("keep-above-bound", HIGH, LOW), KEEP, KEEP), r#""kind":"sequence","bound":100"#),
    ruled(
        row(
            "ids-ahead",
            "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); INSERT INTO t VALUES (8000000000000000000)",
            LOW,
        ),
        SNOWFLAKE,
        SNOWFLAKE,
    ),
    row("auto-increment-kept", AUTO, TABLE),
    ruled(row("native-without-counter", TABLE, AUTO), NATIVE, NATIVE),
    ruled(row("step-differs", AUTO, TABLE), STEP, STEP),
    ruled(row("driver-step", TABLE, TABLE), STEP, RULES),
    row(
        "body-inserts",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() INSERT INTO t (a) VALUES (1)",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TABLE u (a INT); CREATE PROCEDURE p() INSERT INTO u (a) VALUES (1)",
    ),
    row(
        "body-inserts",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TABLE u (a INT); \
         CREATE TRIGGER b AFTER INSERT ON u FOR EACH ROW REPLACE t SET a = NEW.a",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TABLE u (a INT); \
         CREATE TRIGGER b AFTER INSERT ON t FOR EACH ROW REPLACE u SET a = NEW.a",
    ),
    row(
        "body-inserts",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); \
         CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO INSERT INTO `t` VALUES (1, 2)",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DO DELETE FROM `t`",
    ),
    row(
        "trigger-sets-id",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.id = 5",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW SET NEW.a = NEW.id",
    ),
    row(
        "reads-last-insert-id",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() SELECT LAST_INSERT_ID()",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() SELECT LAST_INSERT_ID(5)",
    ),
    row(
        "dynamic-sql",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() BEGIN PREPARE s FROM 'SELECT 1'; EXECUTE s; END",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() SELECT 'PREPARE s'",
    ),
    row(
        "body-unreadable",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() SET @\u{e4} = 1",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE PROCEDURE p() SET @`\u{e4}` = '\u{e4}'",
    ),
    row(
        "view-refused",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE VIEW v AS SELECT a FROM t",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE VIEW v AS SELECT a, id AS k FROM t; \
         CREATE VIEW w (x, y) AS SELECT k, a FROM v",
    ),
    row(
        "view-refused",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE TABLE u (k INT PRIMARY KEY, b INT); \
         CREATE VIEW v AS SELECT t.id, u.b FROM t JOIN u ON u.k = t.a",
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); CREATE VIEW v AS SELECT COUNT(*) AS n FROM t",
    ),
    stored(ruled(row("generator-differs", TABLE, TABLE), JS_SAFE, RULES), r#""kind":"sequence","bound":1"#),
];

/// The databases of a row: the one that shows it, and the one that does not.
fn names(nth: usize, row: &Row) -> [String; 2] {
    let code = row.code.replace('-', "_");
    [format!("{code}_{nth}"), format!("not_{code}_{nth}")]
}

fn make(client: &mut Client, schema: &str, sql: &str) {
    if !sql.is_empty() {
        client.run(format!("CREATE DATABASE {schema}; USE {schema}; SET foreign_key_checks = 1; {sql}"));
    }
}

#[test]
fn each_code_on_schemas_that_show_it_and_on_schemas_that_do_not() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let (mut client, folder) = (client(server), Folder::new(server, ROOT));
        let mut records = String::new();
        for (nth, row) in ROWS.iter().enumerate() {
            let [shows, not] = names(nth, row);
            let pairs = [(shows, row.shows, row.rules.0), (not, row.not, row.rules.1)];
            for (schema, sql, rules) in pairs {
                make(&mut client, &schema, sql);
                folder.rules(&schema, rules);
                if !row.stored.is_empty() {
                    let value = format!(r#"{{"v":1,{},"owner":"o","token":"t"}}"#, row.stored);
                    let key = format!("generators/{schema}.g");
                    records.extend([r#"{"key":""#, &key, r#"","value":"#, &value, "}\n"]);
                }
            }
        }
        std::fs::write(folder.path().join("records"), records).unwrap();
        let imported = folder.run(&["store", "import", "records"]);
        assert!(imported.status.success(), "{imported:?}");
        let found = folder.check();
        for (nth, row) in ROWS.iter().enumerate() {
            check(kind, nth, row, &found);
        }
        // Nothing of it is left for what the other tests look at.
        for (nth, row) in ROWS.iter().enumerate() {
            for schema in names(nth, row) {
                client.run(format!("DROP DATABASE IF EXISTS {schema}"));
            }
        }
    }
}

#[track_caller]
fn check(kind: Kind, nth: usize, row: &Row, found: &Found) {
    let [shows, not] = names(nth, row);
    let (of_shows, of_not) = (found.of(&shows), found.of(&not));
    assert!(of_shows.contains(&row.code), "{} {shows}: {of_shows:?}\n{:#}", kind.name(), found.0);
    assert!(!of_not.contains(&row.code), "{} {not}: {of_not:?}\n{:#}", kind.name(), found.0);
}

/// The codes are those that docs/check.md lists, which tests/docs compares with the code.
#[test]
fn every_code_is_shown_by_a_real_server() {
    let page = include_str!("../../docs/check.md");
    let (_, rest) = page.split_once("<!-- codes: begin -->\n").unwrap();
    let (list, _) = rest.split_once("<!-- codes: end -->\n").unwrap();
    let codes: Vec<_> = list.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(!codes.is_empty());
    let others = [include_str!("servers.rs"), include_str!("accounts.rs"), include_str!("text.rs")];
    for code in codes {
        let is_named = others.iter().any(|text| text.contains(&format!("\"{code}\"")));
        assert!(is_named || ROWS.iter().any(|row| row.code == code), "{code}");
    }
}
