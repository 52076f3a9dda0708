//! What a statement leaves behind that the server denies: accounts by statements. Promise 18: nothing but a gap, and no gap
//! that an account without the right can make large.

use std::fmt::Write as _;

use crate::rig::{Rig, code, code_of, each_with, insert_id};
use crate::support::Kind;
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Options, Outcome};

const RULES: &str = "schema = \"DB\"\n[generators.g]\nkind = \"sequence\"\n[tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n\
                     [tables.i]\ncolumn = \"id\"\ngenerator = \"i\"\n[generators.i]\nkind = \"sequence\"\n";

/// What a statement may leave behind: one that stands behind another in its packet takes its few ids before it is denied.
const GAP_MAX: u64 = 16;

/// Their rights on table `i`, by turns none, too few, of a role that is not active, of another table.
const ACCOUNTS: [(&str, &str); 6] = [
    ("none", ""),
    ("reader", "GRANT SELECT, UPDATE, DELETE ON DB.i TO NAME;"),
    ("column", "GRANT INSERT (a), SELECT ON DB.i TO NAME;"),
    ("role", "CREATE ROLE DB_adds; GRANT INSERT ON DB.i TO DB_adds; GRANT DB_adds TO NAME;"),
    ("other", "GRANT ALL ON DB.t TO NAME;"),
    ("view", "CREATE VIEW DB.v AS SELECT * FROM DB.i; GRANT SELECT ON DB.v TO NAME;"),
];

/// Of ids up to an INT's last, and of many rows.
fn statements(kind: Kind) -> Vec<String> {
    let mut many = "INSERT INTO i(a) VALUES (1)".to_owned();
    for n in 2..=20_000 {
        let _ = write!(many, ",({n})");
    }
    let explicit = "INSERT INTO i(id,a) VALUES (999000000,1)";
    let mut all = vec![
        explicit.to_owned(),
        "INSERT INTO i(id,a) VALUES (1998000000,1)".to_owned(),
        "INSERT INTO i(id,a) VALUES (2147483646,1),(999000000,2),(NULL,3)".to_owned(),
        "REPLACE i SET id=1998000000, a=1".to_owned(),
        "INSERT IGNORE INTO i VALUES (999000000,1)".to_owned(),
        "INSERT INTO i(id,a) VALUES (999000000,1) ON DUPLICATE KEY UPDATE a=2".to_owned(),
        "INSERT INTO i(a) SELECT 1 UNION SELECT 2".to_owned(),
        "INSERT INTO i(id,a) SELECT 999000000,1".to_owned(),
        "INSERT INTO v(id,a) VALUES (999000000,1)".to_owned(),
        "INSERT INTO v(a) VALUES (1)".to_owned(),
        format!("DO 1; {explicit}"),
        format!("PREPARE s FROM '{explicit}'; EXECUTE s"),
        many,
    ];
    if kind == Kind::MariaDb {
        all.push(format!("EXECUTE IMMEDIATE '{explicit}'"));
        all.push("INSERT INTO i(id,a) VALUES (999000000,1) RETURNING id".to_owned());
    }
    all
}

fn fitted(text: &str, db: &str, account: &str) -> String {
    text.replace("DB", db).replace("NAME", account)
}

fn client(rig: &Rig, address: &str, user: &str) -> Client {
    let options = Options {
        user: user.to_owned(),
        database: (user == "root").then(|| rig.db.clone()),
        capabilities: Options::default().capabilities | CLIENT_MULTI_STATEMENTS,
        ..Options::default()
    };
    Client::connect(address, &options).unwrap()
}

/// Of a client that has no right to the schema: it cannot make it its default.
fn qualified(sql: &str, db: &str) -> String {
    [" i(", " i ", " v("]
        .iter()
        .fold(sql.to_owned(), |sql, table| sql.replace(table, &format!(" {db}.{}", table.trim_start())))
}

fn each(db: &str, run: impl Fn(&mut Rig)) {
    let tables = "CREATE TABLE i (id INT NOT NULL PRIMARY KEY, a INT);";
    each_with(db, tables, "", &fitted(RULES, db, ""), run);
}

/// The id that `root` gets next.
fn next_id(root: &mut Client) -> u64 {
    insert_id(root, "INSERT INTO i(a) VALUES (0)")
}

#[test]
fn denied_statements_use_nothing_up() {
    each("rights_denied", |rig| {
        let db = rig.db.clone();
        let mut direct = client(rig, &rig.server.address(), "root");
        let mut root = client(rig, &rig.proxy.address(), "root");
        let mut last = next_id(&mut root);
        for (name, grants) in ACCOUNTS {
            let account = format!("{db}_{name}");
            let auth = if rig.kind == Kind::MySql9 { "IDENTIFIED BY ''" } else { "" };
            direct.run(format!("CREATE USER {account} {auth}; {} DO 1", fitted(grants, &db, &account)));
            for sql in statements(rig.kind) {
                let sql = qualified(&sql, &db);
                let [native, proxied] = [rig.server.address(), rig.proxy.address()].map(|address| {
                    let mut client = client(rig, &address, &account);
                    let text = code(&mut client, &sql);
                    let prepared = match client.prepare(&sql).unwrap() {
                        Ok(prepared) => code_of(&client.execute(&prepared, &[]).unwrap_or_default()),
                        Err(error) => error.code,
                    };
                    (text, prepared)
                });
                let what = format!("{} {name}: {}", rig.name(), sql.chars().take(90).collect::<String>());
                // One who lacks the right to the id alone is told of the column, as README says.
                let is_as_natively =
                    |said: u16, native: u16| said == native || name == "column" && said == 1143;
                assert!(
                    proxied.0 > 0 && is_as_natively(proxied.0, native.0),
                    "{what}: {proxied:?}, natively {native:?}"
                );
                assert!(
                    is_as_natively(proxied.1, native.1) || proxied.1 == 1235,
                    "{what}: {proxied:?}, natively {native:?}"
                );
                let next = next_id(&mut root);
                assert!(next > last && next <= last + GAP_MAX, "{what}: {next} after {last}");
                last = next;
            }
        }
    });
}

/// An account that may insert, where the server says no all the same.
#[test]
fn ids_of_clients_are_followed_once_they_are_stored() {
    each("rights_stored", |rig| {
        let db = rig.db.clone();
        client(rig, &rig.server.address(), "root").run(format!(
            "CREATE TRIGGER {db}.no BEFORE INSERT ON {db}.i FOR EACH ROW BEGIN \
             IF NEW.a = -1 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF; END"
        ));
        let mut root = client(rig, &rig.proxy.address(), "root");
        let mut last = next_id(&mut root);
        let mut denied = |sql: &str, before: &str, after: &str| {
            root.run(before);
            assert!(code(&mut root, sql) > 0, "{}: {sql}", rig.name());
            root.run(after);
            let prepared = root.prepare(sql).unwrap().unwrap();
            root.run(before);
            assert!(code_of(&root.execute(&prepared, &[]).unwrap()) > 0, "{}: {sql}", rig.name());
            root.run(after);
            let next = next_id(&mut root);
            assert!(next > last && next < last + 5, "{}: {sql}: {next} after {last}", rig.name());
            last = next;
        };
        let far = "INSERT INTO i(id,a) VALUES (999000000,1)";
        denied(far, "SET SESSION TRANSACTION READ ONLY", "SET SESSION TRANSACTION READ WRITE");
        denied(far, "LOCK TABLES i READ", "UNLOCK TABLES");
        denied("INSERT INTO i(id,a) VALUES (999000000,-1)", "DO 1", "DO 1");
        denied("INSERT INTO i(id,a) VALUES (999000000,1),(1,1)", "DO 1", "DO 1");
        denied(
            "INSERT INTO i(id,a) VALUES (999000000,'no')",
            "SET sql_mode='STRICT_ALL_TABLES'",
            "SET sql_mode=''",
        );
        // Stored: later ids are above it, also by a prepared statement, in a packet of several, and with rows in the answer.
        let mut follows = |id: u64, sql: &str| {
            let sql = sql.replace('#', &id.to_string());
            assert!(root.query(&sql).unwrap().iter().all(|outcome| outcome.err().is_none()), "{sql}");
            assert_eq!(next_id(&mut root), id + 1, "{}: {sql}", rig.name());
        };
        follows(100_000_000, "INSERT INTO i(id,a) VALUES (#,1)");
        follows(100_000_500, "INSERT INTO i(id,a) VALUES (#,1),(1000,2)");
        follows(200_000_000, "DO 1; REPLACE i SET id=#, a=1; DO 2");
        follows(300_000_000, "INSERT INTO i(id,a) VALUES (#,1) ON DUPLICATE KEY UPDATE a=a+1");
        follows(400_000_000, "PREPARE s FROM 'INSERT INTO i(id,a) VALUES (#,1)'; EXECUTE s");
        if rig.kind == Kind::MariaDb {
            follows(500_000_000, "INSERT INTO i(id,a) VALUES (#,1) RETURNING id");
        }
        let statement = root.prepare("INSERT INTO i(id,a) VALUES (600000000,1)").unwrap().unwrap();
        assert!(matches!(root.execute(&statement, &[]).unwrap()[..], [Outcome::Ok(_)]));
        assert_eq!(next_id(&mut root), 600_000_001);
        // Beside ids of ours in one statement: none of them is that one.
        let rows = "INSERT INTO i(id,a) VALUES (600000002,1),(NULL,2),(NULL,3)";
        assert!(code(&mut root, rows) == 0, "{}", rig.name());
        // Of an open transaction, whatever becomes of it.
        for sql in ["BEGIN", "INSERT INTO i(id,a) VALUES (700000000,1)", "ROLLBACK"] {
            root.run(sql);
        }
        assert_eq!(next_id(&mut root), 700_000_001);
    });
}
