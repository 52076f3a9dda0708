//! The end of the ids, others that may issue them, and ids that clients write themselves.

use std::fs;
use std::time::Duration;

use crate::rig::{code, code_of, each, each_with, insert_id, message, prepare, rows, rules};
use crate::support::keeper::Keeper;
use crate::support::raw::{Client, Options, Param};
use crate::support::servers::{free_port, temporary_folder};
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, proxy};

/// Starts a proxy that must fail, and returns what it says.
fn fails(config: &str, rules: &str) -> String {
    let dir = temporary_folder("refused");
    fs::create_dir(dir.join("rules")).unwrap();
    fs::write(dir.join("rules/r.toml"), rules).unwrap();
    fs::write(dir.join("rowstamp.toml"), config).unwrap();
    let file = dir.join("rowstamp.toml").display().to_string();
    let binary = env!("CARGO_BIN_EXE_rowstamp").to_owned();
    let keeper = Keeper::start(&dir, &[binary, "serve".into(), "--config".into(), file]);
    assert!(keeper.wait(Duration::from_secs(15)), "it runs:\n{}", keeper.log());
    keeper.log()
}

#[test]
fn a_second_proxy_is_refused() {
    each("ids_second", "", |rig| {
        let config = proxy::config(&rig.server.address());
        let said = fails(&config, &rules("ids_second"));
        assert!(said.contains("table ids_second.t is held by another Rowstamp"), "{}: {said}", rig.name());
        let store = rig.proxy.dir().join("rowstamp.redb");
        let said = fails(&format!("{config}[store]\npath = \"{}\"\n", store.display()), &rules("ids_second"));
        assert!(said.contains("rowstamp.redb"), "{}: {said}", rig.name());
        assert!(!said.contains("listening"), "{said}");
        assert!(insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(1)") > 0, "the first goes on");
    });
}

#[test]
fn who_has_lost_its_locks_issues_nothing() {
    each("ids_lost", "", |rig| {
        let mut client = rig.client();
        let prepared = client.prepare("INSERT INTO t(a) VALUES(NULL)").unwrap().unwrap();
        assert_eq!(code_of(&client.execute(&prepared, &[]).unwrap()), 0);
        let config = proxy::config(&rig.server.address());
        let said = fails(&config, &rules("ids_lost"));
        let (_, holder) = said.split_once("(connection ").unwrap();
        // While it sleeps, its lock's connection goes, and another takes the table.
        rig.proxy.signal("STOP");
        rig.direct().run(format!("KILL {}", holder.split(' ').next().unwrap()));
        let second = Proxy::start(&config, &[("rules", &rules("ids_lost"))]);
        rig.proxy.signal("CONT");
        rig.wait_until("it goes on", || code(&mut client, "INSERT INTO t(a) VALUES(NULL)") == 1467);
        assert_eq!(code_of(&client.execute(&prepared, &[]).unwrap()), 1467, "{}: prepared", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO u VALUES(1,1)"), 0);
        drop(second);
        rig.wait_until("it does not come back", || code_of(&client.execute(&prepared, &[]).unwrap()) == 0);
    });
}

#[test]
fn an_exhausted_generator() {
    let rules = rules("ids_max").replace("[tables", "max = 3\n[tables");
    each_with("ids_max", "", "", &rules, |rig| {
        let mut client = rig.client();
        client.run("BEGIN");
        client.run("INSERT INTO t(a) VALUES(1),(2)");
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(3),(4)"), 1467, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(5)"), 0, "{}: one is left", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO t(a) VALUES(6)"), 1467, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO u VALUES(6,6)"), 0);
        client.run("COMMIT");
        assert_eq!(rows(&mut client, "SELECT id,a FROM t ORDER BY id"), "1,1 2,2 3,5");
    });
}

#[test]
fn ids_that_clients_write() {
    let sql = "CREATE TABLE k LIKE t; CREATE TABLE r LIKE t;";
    let rules = format!(
        "{}explicit = \"advance\"\n[tables.k]\ncolumn = \"id\"\ngenerator = \"g\"\nexplicit = \"keep\"\n\
         [tables.r]\ncolumn = \"id\"\ngenerator = \"g\"\nexplicit = \"reject\"\n",
        rules("ids_explicit")
    );
    each_with("ids_explicit", sql, "", &rules, |rig| {
        let mut client = rig.client();
        let high = 10_000_000;
        client.run(format!("INSERT INTO k(id,a) VALUES({high},1)"));
        assert!(insert_id(&mut client, "INSERT INTO k(a) VALUES(2)") < high, "{}: kept", rig.name());
        client.run(format!("INSERT INTO t(id,a) VALUES({high},1)"));
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)") > high, "{}: advanced", rig.name());
        let by_id = client.prepare("INSERT INTO t(id) VALUES(?)").unwrap().unwrap();
        client.execute(&by_id, &[crate::support::raw::Param::Uint(2 * high)]).unwrap();
        assert!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)") > 2 * high, "{}: advanced", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO r(id) VALUES(7)"), 1235, "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO r(id) VALUES(NULL)"), 0, "{}", rig.name());
        let by_id = client.prepare("INSERT INTO r(id) VALUES(?)").unwrap().unwrap();
        let outcomes = client.execute(&by_id, &[crate::support::raw::Param::Uint(8)]).unwrap();
        assert_eq!(code_of(&outcomes), 1235, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM r"), "1");
    });
}

#[test]
fn a_rule_for_a_column_that_is_not_there() {
    let rules = rules("ids_column").replace("column = \"id\"", "column = \"nr\"");
    each_with("ids_column", "", "", &rules, |rig| {
        let mut client = rig.client();
        let said = message(&mut client, "INSERT INTO t(a) VALUES(1)");
        assert!(said.starts_with("1235 rowstamp: table ids_column.t has no column nr (rule at "), "{said}");
        assert!(said.contains("rules.toml:4)"), "{said}");
        // Mended past the proxy: seen within 5 s.
        rig.direct().run("ALTER TABLE t ADD COLUMN nr BIGINT, DROP PRIMARY KEY, MODIFY id BIGINT");
        rig.wait_until("the column is not seen", || code(&mut client, "INSERT INTO t(a) VALUES(1)") == 0);
        assert_eq!(rows(&mut client, "SELECT id,a,nr>0 FROM t"), "NULL,1,1");
    });
}

/// A proxy whose files may not grow: each write beyond fails with EFBIG, for the signal that would end it is ignored.
fn with_full_disk(config: &str, rules: &str, run: impl Fn(Client, &Keeper)) {
    let dir = temporary_folder("full");
    fs::create_dir(dir.join("rules")).unwrap();
    fs::write(dir.join("rules/r.toml"), rules).unwrap();
    let port = free_port();
    let config = config.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    fs::write(dir.join("rowstamp.toml"), config).unwrap();
    let script = "trap '' XFSZ; exec \"$0\" serve --config \"$1\"";
    let file = dir.join("rowstamp.toml").display().to_string();
    let binary = env!("CARGO_BIN_EXE_rowstamp").to_owned();
    let keeper = Keeper::start(&dir, &["sh".into(), "-c".into(), script.into(), binary, file]);
    wait_until(|| keeper.log(), || keeper.log().contains("listening"));
    let client = Client::connect(&format!("127.0.0.1:{port}"), &Options::default()).unwrap();
    run(client, &keeper);
}

#[test]
fn a_store_that_cannot_be_written() {
    for kind in Kind::ALL {
        let Some(server) = crate::rig::server(kind) else { continue };
        crate::rig::make(server, "ids_store", "");
        let rules = rules("ids_store").replace("[tables", "batch = 1000\n[tables");
        with_full_disk(&proxy::config(&server.address()), &rules, |mut client, keeper| {
            client.run("USE ids_store");
            client.run("INSERT INTO t(a) VALUES(NULL)");
            let pid = format!("--pid={}", keeper.pid);
            let limited = std::process::Command::new("prlimit").args([&pid, "--fsize=1:1"]).status();
            assert!(limited.unwrap().success());
            let insert = format!("INSERT INTO t(a) VALUES{}", vec!["(NULL)"; 500].join(","));
            // The reserve first, then nothing.
            let said = (0..30).map(|_| code(&mut client, &insert)).find(|&said| said != 0);
            assert_eq!(said, Some(1467), "{}", kind.name());
            assert_eq!(code(&mut client, &insert), 1467);
            assert_eq!(code(&mut client, "INSERT INTO u VALUES(1,1)"), 0, "other SQL flows");
            assert_eq!(rows(&mut client, "SELECT 1"), "1");
            assert!(keeper.is_running(), "{}", keeper.log());
        });
    }
}

/// By table: its id's type, ids that are there, and the first that is issued.
const TYPES: [(&str, &str, &str, u64); 10] = [
    ("i", "BIGINT", "(-5)", 1),
    ("d", "DECIMAL(12,2)", "(8)", 9),
    ("e", "DECIMAL(12,2)", "(7.5),(8.5)", 10),
    ("f", "DOUBLE", "(8)", 9),
    ("g", "DOUBLE", "(9e15)", 9_000_000_000_000_001),
    ("v", "VARCHAR(30)", "('8'),('7')", 9),
    ("w", "VARCHAR(30)", "('9'),('10')", 11),
    ("x", "CHAR(30) CHARACTER SET ucs2", "('abc'),('12e9'),('10'),('9'),('99999999999999999999999')", 11),
    ("y", "VARBINARY(30)", "('9'),('10'),(X'FF')", 11),
    ("z", "VARCHAR(30)", "('abc')", 1),
];

#[test]
fn above_ids_that_are_no_integers() {
    const DB: &str = "ids_types";
    let mut sql = String::new();
    let mut rules = format!("schema = \"{DB}\"\n");
    for (table, id, there, _) in TYPES {
        let table_sql = format!(
            "CREATE TABLE {table} (id {id} NOT NULL PRIMARY KEY, a INT UNIQUE); INSERT INTO {table}(id) VALUES {there};"
        );
        sql.push_str(&table_sql);
        let rule = format!(
            "[generators.{table}]\nkind = \"sequence\"\n[tables.{table}]\ncolumn = \"id\"\ngenerator = \"{table}\"\n"
        );
        rules.push_str(&rule);
    }
    each_with(DB, &sql, "", &rules, |rig| {
        let mut client = rig.client();
        for (table, id, there, first) in TYPES {
            let what = format!("{} {id} {there}", rig.name());
            assert_eq!(insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(1)")), first, "{what}");
            // The first of these rows is left out, so that the table is asked.
            let ids = insert_id(&mut client, &format!("INSERT IGNORE INTO {table}(a) VALUES(1),(2),(3),(4)"));
            assert_eq!(ids, first + 2, "{what}");
            let seen = rows(&mut client, &format!("SELECT a FROM {table} WHERE id='{ids}'"));
            assert_eq!(seen, "2", "{what}");
        }
    });
}

/// The control account cannot read a table that the session itself has locked.
#[test]
fn under_lock_tables() {
    const DB: &str = "ids_locked";
    let rules = format!("{}[tables.\"l*\"]\ncolumn = \"id\"\ngenerator = \"g\"\n", rules(DB));
    each_with(DB, "", "", &rules, |rig| {
        let mut client = rig.client();
        client.run("LOCK TABLES t WRITE, u READ");
        // All are new, so that nothing is asked.
        let first = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(1),(2),(3)");
        assert!(first > 0, "{}: {first}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT MIN(id)=LAST_INSERT_ID(), COUNT(*) FROM t"),
            "1,3",
            "{}",
            rig.name()
        );
        // A row that was in the way: the session is asked, and its warnings stay.
        let second = insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(3),(4),(5)");
        let warned = rows(&mut client, "SHOW WARNINGS");
        assert!(warned.starts_with("Warning,1062,"), "{}: {warned}", rig.name());
        let stored = rows(&mut client, "SELECT MIN(id), LAST_INSERT_ID() FROM t WHERE a IN (4,5)");
        assert_eq!(stored, format!("{second},{second}"), "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE id>0"), "5", "{}", rig.name());
        client.run("UNLOCK TABLES");
        // One that another session has locked, and that is not bound yet.
        let mut direct = rig.direct();
        direct.run("CREATE TABLE l1 (id BIGINT NOT NULL PRIMARY KEY, a INT)");
        direct.run("LOCK TABLES l1 WRITE");
        let said = message(&mut client, "INSERT INTO l1(a) VALUES(1)");
        assert!(said.contains("UNLOCK TABLES"), "{}: {said}", rig.name());
        direct.run("UNLOCK TABLES");
        rig.wait_until("it stays refused", || code(&mut client, "INSERT INTO l1(a) VALUES(1)") == 0);
        assert_eq!(rows(&mut client, "SELECT id>0 FROM l1"), "1", "{}", rig.name());
    });
}

/// The highest id that a column holds is known when its table is made, not when its rule is read.
#[test]
fn ids_beyond_a_signed_bigint_of_a_table_that_is_made_later() {
    const DB: &str = "ids_later";
    let later = "[generators.later]\nkind = \"sequence\"\n[tables.\"later\"]\ncolumn = \"id\"\ngenerator = \"later\"\n";
    each_with(DB, "", "", &format!("{}{later}", rules(DB)), |rig| {
        let mut client = rig.client();
        client.run("CREATE TABLE later (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, a INT)");
        rig.direct().run("INSERT INTO later VALUES (9223372036854775808, 0)");
        let insert = "INSERT INTO later(a) VALUES(1)";
        assert_eq!(insert_id(&mut client, insert), 9_223_372_036_854_775_809, "{}", rig.name());
        client.run("DROP TABLE later");
        client.run("CREATE TABLE later (id BIGINT NOT NULL PRIMARY KEY, a INT)");
        let said = message(&mut client, insert);
        assert!(said.contains("later.id holds ids up to 9223372036854775807"), "{}: {said}", rig.name());
    });
}

/// 2^63 and on, in each way that an id takes.
#[test]
fn ids_beyond_a_signed_bigint() {
    for kept in ["", "AUTO_INCREMENT"] {
        let db = format!("ids_beyond{}", kept.len());
        let alter = format!(
            "ALTER TABLE t MODIFY id BIGINT UNSIGNED NOT NULL {kept};
             INSERT INTO t VALUES (9223372036854775806, 0);"
        );
        each_with(&db, &alter, "", &rules(&db), |rig| {
            let mut client = rig.client();
            let first = 9_223_372_036_854_775_807;
            assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), first, "{}", rig.name());
            assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2),(3)"), first + 1);
            assert_eq!(rows(&mut client, "SELECT LAST_INSERT_ID()"), (first + 1).to_string());
            assert_eq!(insert_id(&mut client, "INSERT INTO t(a) SELECT 4 UNION SELECT 5"), first + 3);
            assert_eq!(insert_id(&mut client, "INSERT INTO t(id,a) VALUES(@none,6)"), first + 5);
            assert_eq!(insert_id(&mut client, "INSERT IGNORE INTO t(a) VALUES(6),(7)"), first + 7);
            let prepared = prepare(&mut client, "INSERT INTO t(id,a) VALUES(?,?),(?,?)");
            let params = [Param::Null, Param::Int(8), Param::Null, Param::Int(9)];
            assert_eq!(client.execute(&prepared, &params).unwrap()[0].ok().unwrap().insert_id, first + 8);
            assert_eq!(rows(&mut client, "SELECT MAX(id) FROM t"), (first + 9).to_string());
            if rig.kind == Kind::MariaDb {
                assert_eq!(
                    rows(&mut client, "INSERT INTO t(a) VALUES(10) RETURNING id"),
                    (first + 10).to_string()
                );
            }
        });
    }
}
