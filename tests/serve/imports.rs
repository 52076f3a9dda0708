//! Dumps that are loaded through the proxy, into databases without tables. Each statement is the client's own or the dump program's,
//! and a table is locked by the session that fills it.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::rig::{Rig, code, each_with, insert_id, prepare, rows, server};
use crate::support::machine::{find_program, sid_command};
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options, Param, Value};
use crate::support::{Kind, Proxy, Server, proxy};

/// Each table has a generator of its own.
fn rules(db: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.\"{{table}}\"]\nkind = \"sequence\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{{table}}\"\n"
    )
}

fn log_is_quiet(rig: &Rig) {
    let log = rig.proxy.log();
    let is_told = |line: &str| {
        (line.contains("WARN") || line.contains("ERROR")) && !line.contains("others than the owner")
    };
    assert!(!log.lines().any(is_told), "{}: {log}", rig.name());
}

#[test]
fn a_table_is_made_locked_and_filled_by_one_session() {
    let db = "imports_one";
    for keeps in ["", " AUTO_INCREMENT"] {
        let db = if keeps.is_empty() { db.to_owned() } else { format!("{db}_auto") };
        each_with(&db, "", "", &rules(&db), |rig| {
            let mut client = rig.client();
            for table in ["a", "b"] {
                client.run(format!("CREATE TABLE {table} (id BIGINT{keeps} PRIMARY KEY, k INT UNIQUE)"));
                client.run(format!("LOCK TABLES {table} WRITE"));
                client.run(format!("INSERT INTO {table} VALUES (1,1),(52,2)"));
                // Before UNLOCK TABLES too.
                assert_eq!(
                    insert_id(&mut client, &format!("INSERT INTO {table}(k) VALUES (3)")),
                    53,
                    "{}",
                    rig.name()
                );
                client.run("UNLOCK TABLES");
                assert_eq!(
                    insert_id(&mut client, &format!("INSERT INTO {table}(k) VALUES (4)")),
                    54,
                    "{}",
                    rig.name()
                );
            }
            log_is_quiet(rig);
        });
    }
}

/// The session that has locked the table reads its ids before the proxy's first INSERT into it.
#[test]
fn the_session_reads_the_ids_of_a_table_that_it_has_locked() {
    let db = "imports_read";
    let texts = "CREATE TABLE texts (id VARCHAR(20) PRIMARY KEY, k INT)";
    each_with(db, "", "", &rules(db).replace("\"auto\"", "\"id\""), |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        let check = |client: &mut Client, lock: &str, table: &str, expect: u64| {
            client.run(format!("LOCK TABLES {lock}"));
            let id = insert_id(client, &format!("INSERT INTO {table}(k) VALUES (1)"));
            assert_eq!(id, expect, "{}: {lock}", rig.name());
            client.run("UNLOCK TABLES");
        };
        for (nth, highest) in [(1, 700), (2, 9_000_000)] {
            // Past the proxy.
            direct.run(format!("CREATE TABLE a{nth} (id BIGINT PRIMARY KEY, k INT)"));
            direct.run(format!("INSERT INTO a{nth} VALUES ({highest}, 0), (3, 0)"));
            check(&mut client, &format!("u READ, a{nth} WRITE, t WRITE"), &format!("a{nth}"), highest + 1);
        }
        // The counter is above all that is in the table.
        direct.run("CREATE TABLE c (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT) AUTO_INCREMENT=500");
        check(&mut client, "c WRITE", "c", 500);
        direct.run("CREATE TABLE negative (id BIGINT PRIMARY KEY, k INT)");
        direct.run("INSERT INTO negative VALUES (-7, 0)");
        check(&mut client, "negative WRITE", "negative", 1);
        direct.run(texts);
        direct.run("INSERT INTO texts VALUES ('41', 0), ('9x', 0)");
        check(&mut client, "texts WRITE", "texts", 42);
        // A table that has its generator already, after DDL that brings other ids.
        client.run("CREATE TABLE swapped (id BIGINT PRIMARY KEY, k INT)");
        client.run("INSERT INTO swapped VALUES (80000, 0)");
        client.run("RENAME TABLE a1 TO old, swapped TO a1");
        check(&mut client, "a1 WRITE", "a1", 80_001);
        // Under settings that change how an answer comes back.
        direct.run("CREATE TABLE odd (id BIGINT PRIMARY KEY, k INT)");
        direct.run("INSERT INTO odd VALUES (300, 0)");
        client
            .run("SET sql_select_limit=0, character_set_results=utf16, sql_mode='ANSI_QUOTES', autocommit=0");
        check(&mut client, "odd WRITE", "odd", 301);
        log_is_quiet(rig);
    });
}

/// The session has locked other tables, or this one only to read. The client gets the server's own error.
#[test]
fn a_session_that_has_locked_other_tables_or_this_one_to_read() {
    let db = "imports_others";
    each_with(db, "", "", &rules(db), |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        direct.run("CREATE TABLE n (id BIGINT PRIMARY KEY, k INT)");
        client.run("LOCK TABLES u WRITE");
        assert_eq!(code(&mut client, "INSERT INTO n(k) VALUES (1)"), 1100, "{}", rig.name());
        client.run("LOCK TABLES n READ");
        assert_eq!(code(&mut client, "INSERT INTO n(k) VALUES (1)"), 1099, "{}", rig.name());
        client.run("UNLOCK TABLES");
        assert_eq!(code(&mut client, "INSERT INTO n(k) VALUES (1)"), 0, "{}", rig.name());
    });
}

/// By the driver's prepared statements and by way of a stage.
#[test]
fn each_way_of_inserting_into_a_table_that_the_session_has_locked() {
    let db = "imports_ways";
    each_with(db, "", "", &rules(db), |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        let table = "(id BIGINT PRIMARY KEY, k INT UNIQUE)";
        let begin = |client: &mut Client, name: &str| {
            client.run("UNLOCK TABLES");
            client.run(format!("CREATE TABLE {name} {table}"));
            client.run(format!("LOCK TABLES {name} WRITE"));
        };
        let highest = |client: &mut Client, name: &str| rows(client, &format!("SELECT MAX(id) FROM {name}"));
        begin(&mut client, "prepared");
        let insert = prepare(&mut client, "INSERT INTO prepared(k) VALUES (?)");
        for k in 1..=3 {
            client.execute(&insert, &[Param::Int(k)]).unwrap();
        }
        assert_eq!(highest(&mut client, "prepared"), "3", "{}", rig.name());
        begin(&mut client, "staged");
        assert_eq!(code(&mut client, "INSERT INTO staged(k) SELECT 1 UNION SELECT 2"), 0, "{}", rig.name());
        assert_eq!(highest(&mut client, "staged"), "2", "{}", rig.name());
        client.run("UNLOCK TABLES");
        let packet = format!(
            "CREATE TABLE packed {table}; LOCK TABLES packed WRITE; INSERT INTO packed VALUES (7, 7); INSERT INTO packed(k) VALUES (8); \
             UNLOCK TABLES; INSERT INTO packed(k) VALUES (9)"
        );
        let outcomes = client.query(packet).unwrap();
        let error = outcomes.last().unwrap().err();
        assert!(error.is_none(), "{}: {error:?}", rig.name());
        assert_eq!(highest(&mut client, "packed"), "9", "{}", rig.name());
        // A row that is in the way.
        begin(&mut client, "ignored");
        client.run("INSERT INTO ignored(k) VALUES (1)");
        assert_eq!(
            insert_id(&mut client, "INSERT IGNORE INTO ignored(k) VALUES (1),(2),(3)"),
            3,
            "{}",
            rig.name()
        );
        client.run("UNLOCK TABLES");
        log_is_quiet(rig);
    });
}

/// A program of the server's own.
pub(crate) fn program(kind: Kind, mariadb: &str, mysql: &str) -> Vec<String> {
    match kind {
        Kind::MariaDb => {
            vec![find_program(mariadb).expect("MariaDB's programs are here").display().to_string()]
        }
        Kind::MySql9 => sid_command(&format!("usr/bin/{mysql}")),
    }
}

fn at(address: &str) -> Vec<String> {
    let (host, port) = address.rsplit_once(':').expect("an address with a port");
    let arguments = ["--no-defaults", "--user=root", "--host", host, "--port", port];
    arguments.map(str::to_owned).to_vec()
}

fn dumped(server: &Server, options: &[&str], db: &str, to: &Path) {
    let line = program(server.kind, "mariadb-dump", "mysqldump");
    let done = Command::new(&line[0])
        .args(&line[1..])
        .args(at(&server.address()))
        .args(options)
        .arg(db)
        .stdout(Stdio::from(std::fs::File::create(to).unwrap()))
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[track_caller]
pub(crate) fn load(kind: Kind, address: &str, db: &str, from: &Path) {
    let line = program(kind, "mariadb", "mysql");
    let done = Command::new(&line[0])
        .args(&line[1..])
        .args(at(address))
        .arg(db)
        .stdin(Stdio::from(std::fs::File::open(from).unwrap()))
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Keys that refer to each other, triggers, routines, an event, views of views, odd names and values, a table without rows.
const SOURCE: &str = r"
    CREATE TABLE customers (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40), photo BLOB, born DATE) AUTO_INCREMENT=1000;
    CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, customer BIGINT UNSIGNED, total DECIMAL(12,2), twice DECIMAL(13,2) AS (total * 2),
        note TEXT, FOREIGN KEY (customer) REFERENCES customers (id));
    CREATE TABLE `odd ``name` (`the id` INT AUTO_INCREMENT PRIMARY KEY, `select` TEXT);
    CREATE TABLE vacant (id INT AUTO_INCREMENT PRIMARY KEY, a INT) AUTO_INCREMENT=77;
    CREATE TABLE logged (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40));
    CREATE TABLE myisam (id BIGINT AUTO_INCREMENT PRIMARY KEY, a INT, KEY (a)) ENGINE=MyISAM;
    CREATE TABLE without (a INT, b INT);
    CREATE VIEW recent AS SELECT id, customer, total FROM orders;
    CREATE VIEW larger AS SELECT id, total FROM recent WHERE total > 10;
    CREATE TRIGGER after_orders AFTER INSERT ON orders FOR EACH ROW INSERT INTO logged (what) VALUES (CONCAT('order ', NEW.id));
    CREATE PROCEDURE place (IN c BIGINT) INSERT INTO orders (customer, total) VALUES (c, 1);
    CREATE EVENT ev ON SCHEDULE AT '2037-01-01 00:00:00' DO DELETE FROM logged;
    INSERT INTO customers (id, name, photo, born) VALUES (1, 'it''s; -- \\ ''', 0x00010A0D1A2722FF, '1970-01-01'), (7, 'üñ €', NULL, NULL);
    INSERT INTO customers (name) VALUES ('by the counter');
    INSERT INTO orders (customer, total, note) VALUES (1, 1.5, NULL), (7, 20, 'a\nb\tc'), (1, 30, '');
    INSERT INTO orders (customer, total) SELECT 7, a.id * b.id FROM orders AS a, orders AS b, orders AS c;
    INSERT INTO `odd ``name` (`select`) VALUES ('INSERT INTO orders VALUES (NULL)'), ('/*!40000 x */');
    INSERT INTO myisam (a) VALUES (3), (2), (1);
    INSERT INTO without VALUES (1, 2);
";

const TABLES: [&str; 7] = ["customers", "orders", "`odd ``name`", "vacant", "logged", "myisam", "without"];

/// All rows of a table as they are stored, byte for byte.
fn stored(client: &mut Client, db: &str, table: &str) -> String {
    let text = |value: &Value| match value {
        Value::Bytes(bytes) => format!("'{}'", bytes.escape_ascii()),
        other => format!("{other:?}"),
    };
    let rows = client.run(format!("SELECT * FROM {db}.{table} ORDER BY 1, 2"));
    let rows = rows[0].rows().iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(","));
    rows.collect::<Vec<_>>().join("\n")
}

/// Dump programs' own options: by default tables are locked, and rows come many in a statement.
const OPTIONS: [&[&str]; 4] = [
    &["--routines", "--triggers", "--events"],
    &["--single-transaction", "--complete-insert", "--skip-extended-insert"],
    &["--skip-opt", "--create-options", "--replace", "--skip-triggers"],
    &["--no-autocommit", "--insert-ignore", "--hex-blob", "--skip-add-locks", "--skip-set-charset"],
];

#[test]
fn what_the_dump_programs_write_is_stored_as_natively() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let options = Options { capabilities: CLIENT_MULTI_STATEMENTS, ..Options::default() };
        let mut direct = Client::connect(&server.address(), &options).unwrap();
        direct.run("CREATE DATABASE imports_from CHARACTER SET utf8mb4; USE imports_from");
        for statement in SOURCE.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
            direct.run(statement.trim_end_matches(';'));
        }
        let config = proxy::config(&server.address());
        // The dumps create the tables, and no rule names one of them.
        let proxy = Proxy::start(&config, &[("rules", &rules("imports_to_*"))]);
        let place = tempfile::tempdir().unwrap();
        let dump = place.path().join("dump.sql");
        for (nth, options) in OPTIONS.into_iter().enumerate() {
            let context = || format!("{}: {options:?}: {}", kind.name(), proxy.log());
            let (to, natively) = (format!("imports_to_{nth}"), format!("imports_native_{nth}"));
            direct.run(format!("CREATE DATABASE {to}; CREATE DATABASE {natively}"));
            dumped(server, options, "imports_from", &dump);
            load(kind, &server.address(), &natively, &dump);
            load(kind, &proxy.address(), &to, &dump);
            for table in TABLES {
                let [proxied, natively] = [&to, &natively].map(|db| stored(&mut direct, db, table));
                assert!(proxied == natively, "{}: {table}:\n{proxied}\nnatively:\n{natively}", context());
            }
            // The next ids are those that the server would give.
            let mut client = proxy.client();
            client.run(format!("USE {to}"));
            direct.run(format!("USE {natively}"));
            for (table, column) in
                [("customers", "name"), ("vacant", "a"), ("myisam", "a"), ("logged", "what")]
            {
                let insert = format!("INSERT INTO {table}({column}) VALUES (5)");
                let natively = insert_id(&mut direct, &insert);
                assert_eq!(insert_id(&mut client, &insert), natively, "{} {table}", context());
            }
        }
    }
}
