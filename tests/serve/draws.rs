//! Calls in SQL that draw ids: as a real SEQUENCE on MariaDB has them, and what is the server's own or refused.

use crate::rig::{code, each_with, make, message, rows};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options, Outcome};
use crate::support::{Kind, Proxy, proxy};

/// `t` is not ruled here.
pub(crate) fn drawn(db: &str) -> String {
    format!("schema = \"{db}\"\n[generators.g]\nkind = \"sequence\"\nsql = true\n")
}

/// `ruled` is.
pub(crate) fn with_table(db: &str) -> String {
    format!("{}[tables.ruled]\ncolumn = \"id\"\ngenerator = \"g\"\n", drawn(db))
}

pub(crate) const RULED: &str = "CREATE TABLE ruled (id BIGINT NOT NULL PRIMARY KEY, a BIGINT);";

/// `@` is each of them, in turn.
const CALLS: [&str; 7] = [
    "NEXTVAL(g)",
    "LASTVAL(g)",
    "NEXT VALUE FOR g",
    "nextval(`g`)",
    "PREVIOUS VALUE FOR g",
    "next  value /* c */ for g",
    "NEXTVAL ( g )",
];

pub(crate) const STATEMENTS: [&str; 31] = [
    "SELECT @",
    "SELECT @, @",
    "SELECT LASTVAL(g), @, LASTVAL(g), @",
    "SELECT 1, @ AS x, @ y, @ 'z'",
    "SELECT  @+1 , -@, @ * 2",
    "SELECT @/2, @ % 10, @ DIV 3",
    "SELECT CONCAT('a', @), HEX(@)",
    "SELECT COALESCE(@, 1), IFNULL(@, 2)",
    "SELECT @ IS NULL, @ > 1, @ BETWEEN 1 AND 5",
    "SELECT (SELECT @), @",
    "SELECT @ UNION ALL SELECT @",
    "(SELECT @) UNION ALL (SELECT @)",
    "SELECT @ FROM dual",
    "SELECT CASE WHEN 1 THEN @ END, CASE @ WHEN 1 THEN 2 ELSE 3 END",
    "SELECT /* a comment */ @ /* another */ + 1",
    "SELECT @ INTO @v",
    "SELECT @v, @v := @",
    "SET @v = @, @w := @ + 1",
    "SELECT @v, @w",
    "DO @, @",
    "INSERT INTO u VALUES (@, 1), (2, @)",
    "INSERT INTO u (a, id) VALUES (@ + 1, @)",
    "INSERT u SET id = @, a = @",
    "REPLACE u VALUES (@, 7)",
    "INSERT INTO u SELECT @, @",
    "INSERT INTO u VALUES ((SELECT @), 3)",
    "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE a = @",
    "UPDATE u SET a = @ LIMIT 1",
    "UPDATE u SET id = @, a = @ WHERE a = 7 LIMIT 1",
    "CALL p(@, @)",
    "EXPLAIN SELECT @",
];

/// Statements that draw in vain: the server does not come to evaluate the calls.
const FAILURES: [&str; 4] =
    ["INSERT INTO u VALUES (@)", "SELECT @ +", "INSERT INTO nowhere VALUES (@)", "SELECT @, nowhere"];

/// A statement with this call.
pub(crate) fn with(statement: &str, call: &str) -> String {
    let sql = statement.replace("@v", "\u{1}").replace("@w", "\u{2}").replace('@', call);
    sql.replace('\u{1}', "@v").replace('\u{2}', "@w")
}

/// Returns all that a client sees of a text, without status bits and the database's name.
fn seen(client: &mut Client, db: &str, sql: &str) -> String {
    plain(client.query(sql).unwrap(), db)
}

pub(crate) fn plain(mut outcomes: Vec<Outcome>, db: &str) -> String {
    for outcome in &mut outcomes {
        match outcome {
            Outcome::Ok(ok) => {
                ok.status = 0;
                ok.session_state.clear();
            }
            Outcome::Rows(set) => set.status = 0,
            Outcome::Err(_) => {}
        }
    }
    format!("{outcomes:#?}").replace(db, "DB")
}

/// The rows and procedures of our database, and of the one that has a real SEQUENCE.
pub(crate) const MORE: &str =
    "INSERT INTO t VALUES (1, 1); CREATE PROCEDURE p(a BIGINT, b BIGINT) SELECT a, b;";

#[test]
fn as_a_real_sequence() {
    each_with("draws_ours", MORE, "", &drawn("draws_ours"), |rig| {
        if rig.kind != Kind::MariaDb {
            return;
        }
        let native = "draws_native";
        make(rig.server, native, &format!("CREATE SEQUENCE g NOCACHE;{MORE}"));
        let options = Options { database: Some(native.to_owned()), ..Options::default() };
        let (mut ours, mut theirs) =
            (rig.client(), Client::connect(&rig.server.address(), &options).unwrap());
        let mut compared = 0;
        for statement in STATEMENTS {
            for call in CALLS {
                let sql = with(statement, call);
                for sql in [sql.as_str(), "SELECT LASTVAL(g)", "SELECT * FROM u", "SELECT * FROM t"] {
                    let (ours, theirs) = (seen(&mut ours, &rig.db, sql), seen(&mut theirs, native, sql));
                    assert_eq!(ours, theirs, "{sql}");
                }
                compared += 1;
            }
        }
        for sql in FAILURES.map(|statement| statement.replace('@', "NEXTVAL(g)")) {
            let code = |outcomes: Vec<Outcome>| outcomes[0].err().map(|error| error.code);
            assert_eq!(code(ours.query(&sql).unwrap()), code(theirs.query(&sql).unwrap()), "{sql}");
        }
        assert!(compared >= 200, "{compared}");
    });
}

#[test]
fn on_both_servers() {
    let db = "draws_both";
    each_with(db, RULED, "", &with_table(db), |rig| {
        let mut client = rig.client();
        assert_eq!(rows(&mut client, "SELECT LASTVAL(g)"), "NULL", "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT NEXTVAL(g), LASTVAL(g)"), "1,1", "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT ROWSTAMP_TAKE(g, 10)"), "2", "{}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT NEXT VALUE FOR g, ROWSTAMP_TAKE(g, 3), NEXTVAL(draws_both.g)"),
            "12,13,16"
        );
        assert_eq!(rows(&mut client, "SELECT PREVIOUS VALUE FOR g"), "16");
        // The table's own ids are the same generator's.
        client.run("INSERT INTO ruled (a) VALUES (NEXTVAL(g)), (5)");
        assert_eq!(rows(&mut client, "SELECT * FROM ruled"), "18,17 19,5", "{}", rig.name());
        client.run("SET @id = NEXTVAL(g)");
        client.run("INSERT INTO ruled VALUES (@id, 6)");
        client.run("INSERT INTO ruled VALUES (NEXTVAL(g), 7)");
        assert_eq!(rows(&mut client, "SELECT * FROM ruled WHERE id > 19"), "20,6 21,7", "{}", rig.name());
        let ok = client.run("INSERT INTO ruled VALUES (NEXTVAL(g), 8)");
        assert_eq!(ok[0].ok().unwrap().insert_id, 22, "{}: as of an id that the client wrote", rig.name());
        client.run("UPDATE ruled SET a = NEXTVAL(g) WHERE id = 22 LIMIT 1");
        assert_eq!(rows(&mut client, "SELECT a FROM ruled WHERE id = 22"), "23", "{}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT LAST_INSERT_ID()"),
            "18",
            "{}: calls leave it alone",
            rig.name()
        );
        // Another session has drawn none, and one that begins again neither.
        assert_eq!(rows(&mut rig.client(), "SELECT LASTVAL(g)"), "NULL");
        client.reset().unwrap();
        assert_eq!(rows(&mut client, "SELECT LASTVAL(g), NEXTVAL(g)"), "NULL,24", "{}", rig.name());
    });
}

#[test]
fn what_is_refused_says_what_to_write() {
    let db = "draws_refused";
    each_with(db, RULED, "", &with_table(db), |rig| {
        let mut client = rig.client();
        for sql in [
            "SELECT NEXTVAL(g) FROM u",
            "UPDATE u SET a = NEXTVAL(g)",
            "DELETE FROM u WHERE a = NEXTVAL(g) LIMIT 1",
            "CREATE VIEW v AS SELECT NEXTVAL(g)",
            "CREATE PROCEDURE q() DO NEXTVAL(g)",
            "INSERT INTO u SELECT 1, NEXTVAL(g) FROM t",
            "WITH x AS (SELECT NEXTVAL(g)) SELECT * FROM x",
        ] {
            let message = message(&mut client, sql);
            assert!(
                message.starts_with("1235 ") && message.contains("SET @id = NEXTVAL(g)"),
                "{sql}: {message}"
            );
        }
        let message = message(&mut client, "SELECT ROWSTAMP_TAKE(g, 1 + 1)");
        assert!(message.contains("write the number"), "{message}");
        assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "1", "{}: nothing was drawn", rig.name());
        assert_eq!(
            code(&mut client, "SELECT NEXTVAL('g')"),
            if rig.kind == Kind::MariaDb { 1064 } else { 1305 }
        );
        assert_ne!(code(&mut client, "SELECT NEXTVAL(unknown)"), 0);
    });
}

#[test]
fn what_is_the_servers_own_stays_its_own() {
    let db = "draws_own";
    each_with(db, "", "", &drawn(db), |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        match rig.kind {
            Kind::MariaDb => {
                assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "1");
                client.run("CREATE SEQUENCE g START 500");
                assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "500", "seen as DDL");
                client.run("INSERT INTO u SELECT NEXTVAL(g), a FROM u");
                client.run("DROP SEQUENCE g");
                assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "2");
                client.run("CREATE TEMPORARY SEQUENCE g START 700");
                assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "700");
                assert_eq!(rows(&mut rig.client(), "SELECT NEXTVAL(g)"), "3", "it is the session's");
                direct.run("CREATE SEQUENCE g START 900");
                rig.wait_until("a SEQUENCE that was made past the proxy", || {
                    rows(&mut rig.client(), "SELECT NEXTVAL(g)").starts_with('9')
                });
            }
            Kind::MySql9 => {
                direct.run("SET GLOBAL log_bin_trust_function_creators = 1");
                direct.run("CREATE FUNCTION nextval(a BIGINT) RETURNS BIGINT NO SQL RETURN a * 10");
                direct.run("CREATE TABLE w (g INT, h INT)");
                client.run("INSERT INTO w (g, h) VALUES (4, NEXTVAL(g))");
                assert_eq!(rows(&mut client, "SELECT h, NEXTVAL(g) FROM w"), "40,40");
                assert_eq!(rows(&mut client, "SELECT NEXTVAL(g)"), "1", "no column can be meant");
                client.run("DROP FUNCTION nextval");
                assert_eq!(code(&mut client, "SELECT NEXTVAL(g) FROM w"), 1235);
                client.run("INSERT INTO w (h) VALUES (NEXTVAL(g))");
                assert_eq!(rows(&mut client, "SELECT h FROM w WHERE g IS NULL"), "2");
            }
        }
    });
}

#[test]
fn several_statements_in_a_packet() {
    let db = "draws_several";
    each_with(db, "CREATE DATABASE draws_several_2;", "", &drawn(db), |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS | Options::default().capabilities);
        let cells = |outcomes: &[Outcome]| {
            let cell = |outcome: &Outcome| outcome.cell(0, 0).unwrap_or("-".to_owned());
            outcomes.iter().map(cell).collect::<Vec<_>>().join(",")
        };
        let outcomes = client
            .query("SELECT NEXTVAL(g); SELECT 'a'; DO 1; SELECT NEXTVAL(g), 2; SELECT LASTVAL(g)")
            .unwrap();
        assert_eq!(cells(&outcomes), "1,a,-,2,2", "{}", rig.name());
        let outcomes = client
            .query(
                "USE draws_several_2; SELECT NEXTVAL(draws_several.g); USE draws_several; SELECT NEXTVAL(g);",
            )
            .unwrap();
        assert_eq!(cells(&outcomes), "-,3,-,4", "{}", rig.name());
        let outcomes = client.query("SELECT NEXTVAL(g); SELECT NEXTVAL(g) FROM u; SELECT 1").unwrap();
        assert_eq!(outcomes.len(), 2, "{}: {outcomes:?}", rig.name());
        assert_eq!(outcomes[1].err().unwrap().code, 1235);
    });
}

#[test]
fn a_long_text_and_one_in_the_middle_of_a_pipeline() {
    let db = "draws_long";
    each_with(db, "CREATE TABLE b (a LONGTEXT, id BIGINT);", "", &drawn(db), |rig| {
        let mut client = rig.client();
        let long = "x".repeat(1 << 20);
        client.run("INSERT INTO b VALUES ('', 0)");
        client.run(format!("UPDATE b SET a = '{long}', id = NEXTVAL(g) LIMIT 1"));
        assert_eq!(
            rows(&mut client, "SELECT LENGTH(a), id FROM b"),
            format!("{},1", 1 << 20),
            "{}",
            rig.name()
        );
        let select = format!("SELECT LENGTH('{long}'), NEXTVAL(g)");
        assert_eq!(rows(&mut client, &select), format!("{},2", 1 << 20), "{}", rig.name());
        let commands: [(u8, &[u8]); 4] =
            [(3, b"SELECT 'a'"), (3, b"SELECT NEXTVAL(g)"), (3, b"SELECT 'b'"), (3, b"SELECT NEXTVAL(g)")];
        assert_eq!(crate::rig::pipelined(&mut client, &commands), "a,3,b,4", "{}", rig.name());
    });
}

#[test]
fn two_stores_do_not_draw_from_one_name() {
    let db = "draws_stores";
    each_with(db, "", "", &drawn(db), |rig| {
        assert_eq!(rows(&mut rig.client(), "SELECT NEXTVAL(g)"), "1", "{}", rig.name());
        let config = proxy::config(&rig.server.address());
        let mut other = Proxy::written(&config, &[("rules", &drawn(db))]);
        let error = other.try_start().unwrap_err();
        let said = format!("table {db}.(generator g) is held by another Rowstamp");
        assert!(error.contains(&said), "{}: {error}", rig.name());
    });
}

#[test]
fn tables_in_shadow_mode_and_timestamps() {
    let db = "draws_shadow";
    let shadow = format!("{}mode = \"shadow\"\n", with_table(db));
    let rules =
        format!("{shadow}[generators.snow]\nkind = \"timestamp\"\nlayout = \"snowflake\"\nsql = true\n");
    each_with(db, RULED, "", &rules, |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO ruled VALUES (NEXTVAL(g), 1)");
        assert_eq!(rows(&mut client, "SELECT * FROM ruled"), "1,1", "{}", rig.name());
        let first: u64 = rows(&mut client, "SELECT NEXTVAL(snow)").parse().unwrap();
        let run: u64 = rows(&mut client, "SELECT ROWSTAMP_TAKE(snow, 4096)").parse().unwrap();
        assert!(first > 1 << 40 && run > first, "{}: {first} {run}", rig.name());
        assert_eq!(rows(&mut client, "SELECT LASTVAL(snow)"), (run + 4095).to_string(), "{}", rig.name());
        assert_eq!(code(&mut client, "SELECT ROWSTAMP_TAKE(snow, 4097)"), 1235, "{}", rig.name());
    });
}

#[test]
fn what_is_drawn_is_noted_in_the_audit_file_by_the_clients_own_text() {
    let db = "draws_audit";
    let config = "[log]\naudit = \"audit.log\"\n";
    each_with(db, RULED, config, &with_table(db), |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO ruled (a) VALUES (NEXTVAL(g)), (5)");
        assert_eq!(rows(&mut client, "SELECT ROWSTAMP_TAKE(g, 10) a"), "4", "{}", rig.name());
        let prepared = client.prepare("SELECT NEXTVAL(g) a").unwrap().unwrap();
        client.execute(&prepared, &[]).unwrap();
        let path = rig.proxy.dir().join("audit.log");
        let mut found = Vec::new();
        rig.wait_until("the lines", || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            found = lines
                .map(|line| match line["statement"].as_str() {
                    Some(text) => text.to_owned(),
                    None => format!("{} {}-{}", line["table"].as_str().unwrap(), line["first"], line["last"]),
                })
                .collect();
            found.len() == 7
        });
        let expect = [
            "INSERT INTO ruled(a) VALUES (NEXTVAL(g)), (...)",
            "draws_audit.ruled 2-3",
            " 1-1",
            "SELECT ROWSTAMP_TAKE(g, ?) a",
            " 4-13",
            "SELECT NEXTVAL(g) a",
            " 14-14",
        ];
        assert_eq!(found, expect, "{}", rig.name());
    });
}
