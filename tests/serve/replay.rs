//! A log in statement format, as the servers' own programs print it, sent through the proxy: ids as in the log.

use std::path::Path;
use std::process::Command;

use crate::imports::{load, program};
use crate::rig::{code, make, rows};
use crate::support::raw::Client;
use crate::support::servers::ServerOptions;
use crate::support::wait::wait_until;
use crate::support::{Kind, Proxy, Server, proxy};

const TABLES: &str = "CREATE TABLE parents (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE, v INT);
    CREATE TABLE children (id BIGINT AUTO_INCREMENT PRIMARY KEY, pid BIGINT, n INT);
    CREATE TABLE free (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT);";

const DUPLICATE: &str = "INSERT INTO parents (k) VALUES (1)";

/// Statements that may be replayed into tables that have no AUTO_INCREMENT by then.
const PLAIN: [&str; 14] = [
    "INSERT INTO parents (id, k) VALUES (700, 1)",
    "INSERT INTO parents (k) VALUES (2)",
    "INSERT INTO children (pid) VALUES (LAST_INSERT_ID()), (LAST_INSERT_ID())",
    "INSERT INTO free (k) VALUES (1)",
    DUPLICATE,
    "INSERT INTO parents (k) VALUES (3), (4), (5)",
    "INSERT INTO children (pid) SELECT id FROM parents ORDER BY id",
    "UPDATE parents SET v = k * 2",
    "REPLACE INTO parents (k) VALUES (3)",
    "INSERT INTO children (pid, n) VALUES (LAST_INSERT_ID(), LAST_INSERT_ID())",
    "INSERT IGNORE INTO parents (k) VALUES (3)",
    "INSERT INTO parents (k, v) VALUES (4, 0) ON DUPLICATE KEY UPDATE v = v + 1",
    "INSERT INTO free (k) VALUES (2), (3)",
    "INSERT INTO parents SET k = 9",
];

const NEED_AUTO_INCREMENT: [&str; 3] = [
    "INSERT IGNORE INTO parents (k) VALUES (9), (10), (2), (11)",
    "INSERT INTO parents (k, v) VALUES (10, 1), (12, 1), (13, 1) ON DUPLICATE KEY UPDATE v = v + 1",
    "INSERT IGNORE INTO parents (k) SELECT n FROM (SELECT 13 AS n UNION SELECT 14 UNION SELECT 15) AS d ORDER BY n",
];

fn printed(kind: Kind, log: &Path) -> Vec<u8> {
    let program = program(kind, "mariadb-binlog", "mysqlbinlog");
    let done = Command::new(&program[0]).args(&program[1..]).arg(log).output().expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stdout.windows(14).any(|text| text == b"SET INSERT_ID="), "the log is in statement format");
    done.stdout
}

/// A log and what its statements have stored.
struct Logged {
    log: String,
    rows: Vec<String>,
}

fn logged(source: &Server, db: &str, keeps_counters: bool) -> Logged {
    let mut direct = source.client();
    direct.run(format!("DROP DATABASE IF EXISTS {db}"));
    make(source, db, TABLES);
    direct.run(format!("USE {db}"));
    direct.run("FLUSH BINARY LOGS");
    for statement in PLAIN.iter().chain(NEED_AUTO_INCREMENT.iter().filter(|_| keeps_counters)) {
        let expect = if *statement == DUPLICATE { 1062 } else { 0 };
        assert_eq!(code(&mut direct, statement), expect, "{statement}");
    }
    let rows = stored(&mut direct);
    let status = if source.kind == Kind::MariaDb { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
    let log = crate::rig::rows(&mut direct, status).split(',').next().unwrap().to_owned();
    direct.run("FLUSH BINARY LOGS");
    Logged { log, rows }
}

fn stored(client: &mut Client) -> Vec<String> {
    ["parents", "children", "free"]
        .map(|table| rows(client, &format!("SELECT * FROM {table} ORDER BY id")))
        .to_vec()
}

#[test]
fn parents_and_children_are_as_in_the_log() {
    let db = "replay";
    for kind in Kind::ALL {
        let arguments = vec!["--binlog-format=STATEMENT".to_owned()];
        let options = ServerOptions { binlog: true, arguments, ..Default::default() };
        let Some(source) = Server::start_with(kind, options) else { continue };
        for keeps_counters in [true, false] {
            let from = logged(&source, db, keeps_counters);
            let text = printed(kind, &source.dir().join("data").join(&from.log));
            let options = ServerOptions {
                binlog: true,
                arguments: vec!["--binlog-format=ROW".to_owned()],
                ..Default::default()
            };
            let Some(target) = Server::start_with(kind, options) else { continue };
            make(&target, db, TABLES);
            let mut direct = target.client();
            direct.run(format!("USE {db}"));
            if !keeps_counters {
                direct.run("ALTER TABLE parents MODIFY id BIGINT NOT NULL");
                direct.run("ALTER TABLE children MODIFY id BIGINT NOT NULL");
            }
            let of = |table| {
                format!(
                    "[generators.{table}]\nkind = \"sequence\"\n[tables.{table}]\ncolumn = \"id\"\ngenerator = \"{table}\"\n"
                )
            };
            let rules = format!("schema = \"{db}\"\n{}{}", of("parents"), of("children"));
            let proxy = Proxy::start(&proxy::config(&target.address()), &[("rules", &rules)]);
            let place = target.dir().join("printed.sql");
            std::fs::write(&place, text).unwrap();
            load(kind, &proxy.address(), db, &place);
            let name = kind.name();
            assert_eq!(stored(&mut direct), from.rows, "{name} {keeps_counters}: {}", proxy.log());
            assert!(!proxy.log().contains("could not be dropped"), "{}", proxy.log());
            // The generators go on above.
            let mut client = proxy.client();
            client.run(format!("USE {db}"));
            wait_until(
                || format!("{name}: no id is free: {}", proxy.log()),
                || client.query("INSERT INTO parents (v) VALUES (1)").unwrap()[0].ok().is_some(),
            );
            assert_eq!(rows(&mut client, "SELECT v FROM parents ORDER BY id DESC LIMIT 1"), "1");
        }
    }
}
