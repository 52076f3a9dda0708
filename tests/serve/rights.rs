//! Statements that the server denies, run by each account. Promise 18: they leave only a gap in the ids, and
//! an account without the right cannot make the gap large.

use std::fmt::Write as _;

use crate::rig::{Rig, code, code_of, each_with, insert_id, rows};
use crate::support::Kind;
use crate::support::machine::announce;
use crate::support::raw::{CLIENT_EXPIRED_PASSWORDS, CLIENT_MULTI_STATEMENTS, Client, Options, Outcome};

const RULES: &str = "schema = \"DB\"\n[generators.g]\nkind = \"sequence\"\n[tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n\
                     [tables.i]\ncolumn = \"id\"\ngenerator = \"i\"\n[generators.i]\nkind = \"sequence\"\n";

/// The largest gap that a denied statement may leave. One that comes after another in its packet takes its
/// few ids before it is denied.
const GAP_MAX: u64 = 16;

/// Accounts by their rights on table `i`: none, too few, by a role that is not active, on another table; by an active
/// role that has too few, with a password that has expired, and as a proxy user of an account that has too few.
const ACCOUNTS: [(&str, &str); 9] = [
    ("none", ""),
    ("reader", "GRANT SELECT, UPDATE, DELETE ON DB.i TO NAME;"),
    ("column", "GRANT INSERT (a), SELECT ON DB.i TO NAME;"),
    ("role", "CREATE ROLE DB_adds; GRANT INSERT ON DB.i TO DB_adds; GRANT DB_adds TO NAME;"),
    ("other", "GRANT ALL ON DB.t TO NAME;"),
    ("view", "CREATE VIEW DB.v AS SELECT * FROM DB.i; GRANT SELECT ON DB.v TO NAME;"),
    (
        "active",
        "CREATE ROLE DB_reads; GRANT SELECT, UPDATE ON DB.i TO DB_reads; GRANT DB_reads TO NAME; \
         SET DEFAULT ROLE DB_reads TO NAME;",
    ),
    ("expired", "GRANT ALL ON DB.* TO NAME; ALTER USER NAME PASSWORD EXPIRE;"),
    (
        PROXY_USER,
        "GRANT ALL ON DB.i TO NAME; CREATE USER DB_base; GRANT SELECT ON DB.i TO DB_base; GRANT PROXY ON DB_base TO NAME;",
    ),
];
const PROXY_USER: &str = "proxy";

/// The statements that make an account a proxy user; `None` where the server has no plugin for it. MySQL maps
/// users itself. MariaDB 10.11 leaves it to plugins, of which its packages have PAM and GSSAPI alone: the one
/// for tests is in `mariadb-test`.
fn as_proxy_user(kind: Kind, direct: &mut Client) -> Option<&'static str> {
    // Root may grant PROXY over a socket. It gets the same right over TCP.
    direct.run(
        "INSERT IGNORE INTO mysql.proxies_priv(Host,User,Proxied_host,Proxied_user,With_grant,Grantor) \
         VALUES('127.0.0.1','root','','',1,'')",
    );
    direct.run("FLUSH PRIVILEGES");
    if kind == Kind::MySql9 {
        return Some(
            "ALTER USER NAME IDENTIFIED WITH sha256_password BY ''; SET GLOBAL check_proxy_users=ON; \
             SET GLOBAL sha256_password_proxy_users=ON;",
        );
    }
    if code(direct, "INSTALL SONAME 'auth_test_plugin'") != 0 {
        announce("rights: no proxy users on mariadb: it has no auth_test_plugin (package mariadb-test)");
        return None;
    }
    Some("ALTER USER NAME IDENTIFIED VIA test_plugin_server USING 'DB_base';")
}

/// Returns statements with ids up to an INT's last, and one with many rows.
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
    Client::connect(address, &options(rig, user)).unwrap()
}

fn options(rig: &Rig, user: &str) -> Options {
    let is_mapped = rig.kind == Kind::MariaDb && user.ends_with(PROXY_USER);
    Options {
        user: user.to_owned(),
        database: (user == "root").then(|| rig.db.clone()),
        capabilities: Options::default().capabilities | CLIENT_MULTI_STATEMENTS | CLIENT_EXPIRED_PASSWORDS,
        // The plugin for tests wants this name for an answer.
        answer: if is_mapped { format!("{}_base\0", rig.db).into_bytes() } else { Vec::new() },
        ..Options::default()
    }
}

/// Puts the schema before each table. A client that has no right to the schema cannot make it its default.
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
            let mut grants = grants.to_owned();
            if name == PROXY_USER {
                let Some(more) = as_proxy_user(rig.kind, &mut direct) else { continue };
                grants.push_str(more);
            }
            make_account(rig, &mut direct, &account, &grants);
            if name == PROXY_USER {
                for address in [rig.server.address(), rig.proxy.address()] {
                    let who = rows(&mut client(rig, &address, &account), "SELECT CURRENT_USER()");
                    assert_eq!(who, format!("{db}_base@%"), "{}: {address}", rig.name());
                }
            }
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
                // An account that lacks only the right to the id gets an error that names the column, as docs/accounts.md says.
                // And a password that has expired is all that is said of any text that may insert.
                let is_as_natively = |said: u16, native: u16| {
                    said == native || name == "column" && said == 1143 || name == "expired" && said == 1820
                };
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

fn make_account(rig: &Rig, direct: &mut Client, account: &str, grants: &str) {
    let mut grants = fitted(grants, &rig.db, account);
    let auth = if rig.kind == Kind::MySql9 { "IDENTIFIED BY ''" } else { "" };
    if rig.kind == Kind::MariaDb {
        grants = grants.replace(
            &format!("SET DEFAULT ROLE {}_reads TO", rig.db),
            &format!("SET DEFAULT ROLE {}_reads FOR", rig.db),
        );
    }
    direct.run(format!("CREATE USER {account} {auth}; {grants} DO 1"));
}

/// Who has rights on single columns is told of each that the id's column lacks, and needs no more than those.
#[test]
fn an_error_of_the_ids_column_names_the_grant() {
    each("rights_columns", |rig| {
        let db = rig.db.clone();
        let mut direct = client(rig, &rig.server.address(), "root");
        let account = format!("{db}_columns");
        make_account(rig, &mut direct, &account, "GRANT INSERT (a), SELECT (a), UPDATE (a) ON DB.i TO NAME;");
        direct.run(format!("CREATE UNIQUE INDEX a ON {db}.i (a)"));
        let mut theirs = client(rig, &rig.proxy.address(), &account);
        let insert = format!("INSERT INTO {db}.i(a) VALUES (1)");
        let update = format!("{insert} ON DUPLICATE KEY UPDATE a=2");
        // MariaDB asks for UPDATE on each column of the INSERT's list.
        let to_update = if rig.kind == Kind::MariaDb { &["UPDATE"][..] } else { &[] };
        for (sql, privileges) in [(&insert, &["INSERT"][..]), (&update, to_update)] {
            let mut granted = Vec::new();
            loop {
                let text = theirs.query(sql).unwrap();
                let prepared = theirs.prepare(sql).unwrap();
                let Some(error) = text[0].err() else {
                    assert!(prepared.is_ok(), "{} {sql}", rig.name());
                    break;
                };
                assert_eq!(error.code, 1143, "{} {sql}: {error:?}", rig.name());
                assert_eq!(prepared.err().map(|error| error.message).as_ref(), Some(&error.message));
                let (_, grant) =
                    error.message.split_once("; Rowstamp fills this column: ").expect("a remedy");
                direct.run(grant.replace("the account", &account));
                granted.push(grant.split(' ').nth(1).unwrap().to_owned());
            }
            assert_eq!(granted, privileges, "{} {sql}", rig.name());
        }
        // The answer still tells a new row's id. It does not tell an updated row's, for want of the right.
        direct.run(format!("DELETE FROM {db}.i"));
        let new = insert_id(&mut theirs, &update);
        let updated = insert_id(&mut theirs, &update);
        let prepared = theirs.prepare(&update).unwrap().unwrap();
        let executed = theirs.execute(&prepared, &[]).unwrap()[0].ok().unwrap().insert_id;
        assert_eq!(updated, 0, "{}", rig.name());
        let stored = rows(&mut direct, &format!("SELECT id FROM {db}.i ORDER BY a DESC"));
        assert_eq!(stored, format!("{new} {executed}"), "{}", rig.name());
    });
}

/// MySQL forgets `insert_id` only when a row has used it, one of a temporary table here. Without that right nothing is stored, the error
/// names the grant, and the session has its `insert_id` still.
#[test]
fn insert_id_without_temporary_tables() {
    each("rights_insert_id", |rig| {
        let db = rig.db.clone();
        let mut direct = client(rig, &rig.server.address(), "root");
        let account = format!("{db}_replay");
        make_account(rig, &mut direct, &account, "GRANT INSERT, SELECT ON DB.* TO NAME;");
        if rig.kind == Kind::MySql9 {
            direct.run(format!("GRANT SESSION_VARIABLES_ADMIN ON *.* TO {account}"));
        }
        let mut theirs = client(rig, &rig.proxy.address(), &account);
        let insert = format!("INSERT INTO {db}.i(a) VALUES (1)");
        theirs.run("SET insert_id=500");
        if rig.kind == Kind::MySql9 {
            let error =
                theirs.query(&insert).unwrap()[0].err().expect("no temporary table can be made").clone();
            let grant = format!("GRANT CREATE TEMPORARY TABLES ON `{db}`.* TO the account");
            assert!(error.code == 1235 && error.message.contains(&grant), "{error:?}");
            assert_eq!(rows(&mut direct, &format!("SELECT COUNT(*) FROM {db}.i")), "0");
            assert_eq!(rows(&mut theirs, "SELECT @@insert_id"), "500");
            direct.run(grant.replace("the account", &account));
            theirs = client(rig, &rig.proxy.address(), &account);
            theirs.run("SET insert_id=500");
        }
        assert_eq!(insert_id(&mut theirs, &insert), 500, "{}", rig.name());
        assert_ne!(insert_id(&mut theirs, &insert), 500, "{}", rig.name());
    });
}

/// Nobody gets in, and nothing is left; once it is unlocked it is as any other account.
#[test]
fn a_locked_account_leaves_nothing() {
    each("rights_locked", |rig| {
        let mut direct = client(rig, &rig.server.address(), "root");
        let mut root = client(rig, &rig.proxy.address(), "root");
        let account = format!("{}_locked", rig.db);
        make_account(
            rig,
            &mut direct,
            &account,
            "GRANT INSERT ON DB.i TO NAME; ALTER USER NAME ACCOUNT LOCK;",
        );
        let last = next_id(&mut root);
        let refused = |address: &str| {
            let error = Client::connect(address, &options(rig, &account)).err().unwrap();
            error.to_string()
        };
        assert_eq!(refused(&rig.proxy.address()), refused(&rig.server.address()), "{}", rig.name());
        assert_eq!(next_id(&mut root), last + 1, "{}", rig.name());
        direct.run(format!("ALTER USER {account} ACCOUNT UNLOCK"));
        let mut theirs = client(rig, &rig.proxy.address(), &account);
        let sql = format!("INSERT INTO {}.i(a) VALUES (1)", rig.db);
        assert_eq!(insert_id(&mut theirs, &sql), last + 2, "{}", rig.name());
        // Locked again: who is in stays in, as the server has it.
        direct.run(format!("ALTER USER {account} ACCOUNT LOCK"));
        assert_eq!(insert_id(&mut theirs, &sql), last + 3, "{}", rig.name());
    });
}

/// The right to insert is the other account's, of which this one is a proxy user.
#[test]
fn a_proxy_user_inserts_by_the_others_right() {
    each("rights_proxy", |rig| {
        let mut direct = client(rig, &rig.server.address(), "root");
        let Some(more) = as_proxy_user(rig.kind, &mut direct) else { return };
        let account = format!("{}_{PROXY_USER}", rig.db);
        let grants = "CREATE USER DB_base; GRANT INSERT ON DB.i TO DB_base; GRANT PROXY ON DB_base TO NAME;";
        make_account(rig, &mut direct, &account, &format!("{grants}{more}"));
        let mut root = client(rig, &rig.proxy.address(), "root");
        let last = next_id(&mut root);
        let mut theirs = client(rig, &rig.proxy.address(), &account);
        let sql = format!("INSERT INTO {}.i(a) VALUES (1)", rig.db);
        assert_eq!(insert_id(&mut theirs, &sql), last + 1, "{}", rig.name());
        theirs.run(format!("INSERT INTO {}.i(id,a) VALUES (1000,1)", rig.db));
        assert_eq!(next_id(&mut root), 1001, "{}: an id of a proxy user's is followed", rig.name());
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
        // An id counts also in a transaction that is rolled back.
        for sql in ["BEGIN", "INSERT INTO i(id,a) VALUES (700000000,1)", "ROLLBACK"] {
            root.run(sql);
        }
        assert_eq!(next_id(&mut root), 700_000_001);
    });
}
