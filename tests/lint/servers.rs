//! Findings about a server's settings, and about the store. Tests that change settings have servers of their
//! own: settings are global.

use std::fs;

use sha2::{Digest, Sha256};

use crate::lint::rig::{Folder, Found, ROOT, RULES, TABLE, client, server};
use crate::support::etcd::Version;
use crate::support::raw::{Client, Options};
use crate::support::router::Router;
use crate::support::servers::ServerOptions;
use crate::support::{Etcd, Kind, Proxy, Server, proxy};

const SEMI_SYNC_SET: [&str; 2] = [
    "SET GLOBAL rpl_semi_sync_master_enabled = 1",
    "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; SET GLOBAL rpl_semi_sync_source_enabled = 1",
];

/// The finding comes and goes with a setting.
#[track_caller]
fn toggles(folder: &Folder, direct: &mut Client, code: &str, (shows, not): (&str, &str)) -> Found {
    direct.run(shows);
    let found = folder.check();
    assert!(found.has(code), "{shows}: {:#}", found.0);
    direct.run(not);
    let after = folder.check();
    assert!(!after.has(code), "{not}: {:#}", after.0);
    found
}

#[test]
fn settings_of_the_server() {
    for kind in Kind::ALL {
        let options = ServerOptions { binlog: true, ..Default::default() };
        let Some(server) = Server::start_with(kind, options) else { continue };
        let mut direct = client(&server);
        direct.run(format!("CREATE DATABASE shop; USE shop; {TABLE}"));
        let folder = Folder::new(&server, ROOT);
        folder.rules("shop", RULES);
        let mut toggles =
            |code: &str, shows: &str, not: &str| drop(toggles(&folder, &mut direct, code, (shows, not)));
        toggles(
            "binlog-statement",
            "SET GLOBAL binlog_format = 'STATEMENT'",
            "SET GLOBAL binlog_format = 'MIXED'",
        );
        toggles("server-read-only", "SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0");
        toggles(
            "stray-zero",
            "SET @mode = @@GLOBAL.sql_mode; SET GLOBAL sql_mode = ''",
            "SET GLOBAL sql_mode = @mode",
        );
        toggles(
            "driver-step",
            "SET GLOBAL auto_increment_increment = 2",
            "SET GLOBAL auto_increment_increment = 1",
        );
        compression_of_the_server(kind, &server, &folder);
        folder.configure(&server, ROOT, "");
        store_in_a_table(kind, &server, &folder);
    }
}

fn compression_of_the_server(kind: Kind, server: &Server, folder: &Folder) {
    let offers: &[(&str, &str, bool)] = match kind {
        Kind::MariaDb => &[("", "zstd", true), ("", "any", false), ("", "off", false)],
        Kind::MySql9 => &[("uncompressed", "any", true), ("zstd,uncompressed", "any", false)],
    };
    for (offered, wanted, expect) in offers {
        if !offered.is_empty() {
            client(server).run(format!("SET GLOBAL protocol_compression_algorithms = '{offered}'"));
        }
        folder.configure(server, ROOT, "");
        let path = folder.path().join("rowstamp.toml");
        let config = fs::read_to_string(&path).unwrap();
        fs::write(path, format!("backend.compression = '{wanted}'\n{config}")).unwrap();
        assert_eq!(
            folder.check().has("compression-unoffered"),
            *expect,
            "{} {offered} {wanted}",
            kind.name()
        );
    }
}

/// The remedy of a finding is the statement that ends it.
#[test]
fn rights_on_a_store_in_a_table() {
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let mut direct = client(server);
        direct.run(
            "DROP DATABASE IF EXISTS rights_on_store; CREATE DATABASE rights_on_store; CREATE TABLE rights_on_store.leaf_alloc(\
             biz_tag VARCHAR(128) PRIMARY KEY, max_id BIGINT NOT NULL, step INT NOT NULL)",
        );
        let folder = Folder::new(server, ROOT);
        let made = |table: &str| {
            format!(
                "CREATE TABLE rights_on_store.{table} (name VARBINARY(600) PRIMARY KEY, revision BIGINT UNSIGNED NOT NULL, \
                 value LONGBLOB NOT NULL)"
            )
        };
        for (user, table, before, lacks) in [
            ("nothing", "none", String::new(), "CREATE, SELECT, INSERT, UPDATE on `rights_on_store`.`none`"),
            ("reads", "reads", made("reads"), "INSERT, UPDATE on `rights_on_store`.`reads`"),
            (
                "leafs",
                "leaf_alloc",
                made("rowstamp_bounds"),
                "INSERT, UPDATE on `rights_on_store`.`leaf_alloc`",
            ),
        ] {
            direct.run(format!(
                "DROP USER IF EXISTS rs_{user}@'%'; CREATE USER rs_{user}@'%' IDENTIFIED BY 'p'"
            ));
            if !before.is_empty() {
                direct.run(before);
                direct.run(format!("GRANT SELECT ON rights_on_store.* TO rs_{user}@'%'"));
            }
            let store = format!(
                "[store]\nkind = 'mysql'\ntable = 'rights_on_store.{table}'\nuser = 'rs_{user}'\npassword = 'p'\n"
            );
            folder.configure(server, ROOT, &store);
            let text = folder.check().text("store-denied");
            assert!(text.contains(lacks), "{} {user}: {text}", kind.name());
            direct.run(text[text.find("GRANT ").unwrap()..].trim_end_matches('"'));
            assert!(!folder.check().has("store-denied"), "{} {user}", kind.name());
        }
    }
}

fn store_in_a_table(kind: Kind, server: &Server, folder: &Folder) {
    let mut direct = client(server);
    folder.configure(server, ROOT, "[store]\nkind = 'mysql'\ntable = 'shop.bounds'\n");
    let found = toggles(
        folder,
        &mut direct,
        "store-not-durable",
        ("SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
    );
    assert!(found.text("store-async").starts_with("warning"), "{:#}", found.0);
    // Nothing is made by looking.
    let tables = direct.run("SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'bounds'");
    assert_eq!(tables[0].cell(0, 0).as_deref(), Some("0"));
    direct.run(SEMI_SYNC_SET[usize::from(kind == Kind::MySql9)]);
    assert!(!folder.check().has("store-async"), "{}", kind.name());

    assert!(!folder.check().has("store-suspected"));
    let suspect = r#"{"v":1,"by":"p1","since":"today","reason":"it is gone"}"#;
    direct.run(
        "CREATE TABLE shop.bounds (name VARBINARY(600) PRIMARY KEY, revision BIGINT UNSIGNED NOT NULL, value LONGBLOB NOT NULL)",
    );
    direct.run(format!("INSERT INTO shop.bounds VALUES ('suspect', 1, '{suspect}')"));
    assert!(folder.check().text("store-suspected").contains("p1 suspects since today"));
    let records = direct.run("SELECT COUNT(*) FROM shop.bounds");
    assert_eq!(records[0].cell(0, 0).as_deref(), Some("1"), "no format is written by looking");
    direct
        .run("UPDATE shop.bounds SET name = 'generators/shop.g', value = 'nonsense' WHERE name = 'suspect'");
    assert!(folder.check().has("store-unread"));

    direct.run("CREATE TABLE shop.leaf_alloc (biz_tag VARCHAR(128) PRIMARY KEY, max_id BIGINT NOT NULL, step INT NOT NULL)");
    folder.configure(server, ROOT, "[store]\nkind = 'mysql'\ntable = 'shop.leaf_alloc'\n");
    assert!(!folder.check().has("store-unread"));
    let tables =
        direct.run("SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'rowstamp_bounds'");
    assert_eq!(tables[0].cell(0, 0).as_deref(), Some("0"), "nor what a store in Leaf's table has beside it");

    folder.configure(server, ROOT, "");
    assert!(!folder.check().has("store-unread"), "there is no file yet");
    assert!(!folder.path().join("rowstamp.redb").exists(), "and none is made");
    fs::write(folder.path().join("rowstamp.redb"), "no store").unwrap();
    assert!(folder.check().has("store-unread"));
}

/// MySQL takes `lower_case_table_names` only when its data folder is made; there the unit tests say what is found.
/// Users of a store in a file, and a door.
#[test]
fn users_who_draw_ids() {
    const DOOR: &str = "[resp]\naddress = '127.0.0.1:0'\n";
    const DBA: &str = "[[admin.users]]\nname = 'dba'\npassword = 'c4nary'\n";
    const RECORDS: &str = r#"{"key":"users/bad","value":{"v":1,"grants":"c4nary","change":"c"}}
{"key":"users/dba","value":{"v":1,"change":"c"}}
{"key":"users/app","value":{"v":1,"grants":[{"right":"READ","on":"users_of_store.gone"}],"change":"c"}}
"#;
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let folder = Folder::new(server, ROOT);
        folder.rules("users_of_store", RULES);
        let codes = ["user-unreadable", "user-twice", "grant-unmatched", "nobody-draws"];
        let shown = |found: &Found| codes.map(|code| found.has(code));
        folder.configure(server, ROOT, DBA);
        assert_eq!(shown(&folder.check()), [false; 4], "{}", kind.name());
        folder.configure(server, ROOT, &format!("{DOOR}{DBA}"));
        assert_eq!(shown(&folder.check()), [false, false, false, true], "{}", kind.name());
        fs::write(folder.path().join("records"), RECORDS).unwrap();
        let imported = folder.run(&["store", "import", "records"]);
        assert!(imported.status.success(), "{imported:?}");
        let found = folder.check();
        assert_eq!(shown(&found), [true; 4], "{}: {:#}", kind.name(), found.0);
        assert!(!found.0.to_string().contains("c4nary"), "{:#}", found.0);
        folder.configure(server, ROOT, &format!("{DOOR}{DBA}role = 'write'\n"));
        assert_eq!(shown(&folder.check()), [true, true, true, false], "{}", kind.name());
    }
}

#[test]
fn rules_that_differ_in_case_only() {
    let options =
        ServerOptions { arguments: vec!["--lower-case-table-names=1".into()], ..Default::default() };
    let Some(server) = Server::start_with(Kind::MariaDb, options) else { return };
    client(&server).run(format!("CREATE DATABASE shop; USE shop; {TABLE}"));
    let folder = Folder::new(&server, ROOT);
    folder.rules("shop", &format!("{RULES}[tables.T]\ncolumn = 'id'\ngenerator = 'g'\n"));
    let found = folder.check();
    assert!(found.has("rules-differ-in-case") && found.has("table-ambiguous"), "{:#}", found.0);
    folder.rules("shop", &RULES.replace("[tables.t]", "[tables.T]"));
    let found = folder.check();
    assert!(!found.has("rules-differ-in-case") && !found.has("name-case"), "{:#}", found.0);
}

/// A proxy with another store has the table, or anybody who knows the lock's name.
#[test]
fn a_lock_that_another_holds() {
    for kind in Kind::ALL {
        let Some(server) = crate::lint::rig::server(kind) else { continue };
        let mut direct = client(server);
        direct.run(format!(
            "CREATE DATABASE held; USE held; {TABLE} CREATE USER held_eve{}",
            match kind {
                Kind::MariaDb => "",
                Kind::MySql9 => " IDENTIFIED BY ''",
            }
        ));
        let rules = format!("schema = 'held'\n{RULES}");
        let folder = Folder::new(server, ROOT);
        folder.rules("held", RULES);
        assert!(!folder.check().has("lock-held"));
        let mut proxy = Proxy::start(&proxy::config(&server.address()), &[("held", &rules)]);
        let of_its_own = |proxy: &Proxy| {
            let config = proxy.dir().join("rowstamp.toml").display().to_string();
            String::from_utf8(folder.run(&["check", "--online", "--json", "--config", &config]).stdout)
                .unwrap()
        };
        assert!(folder.check().of("held").contains(&"lock-held"), "{}: another store's proxy", kind.name());
        assert!(!of_its_own(&proxy).contains("lock-held"), "{}: its own", kind.name());
        proxy.stop();
        let name = Sha256::digest("held.t")
            .iter()
            .take(16)
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let options = Options { user: "held_eve".into(), ..Options::default() };
        let mut eve = Client::connect(&server.address(), &options).unwrap();
        eve.run(format!("SELECT GET_LOCK('rowstamp.{name}', 0)"));
        let said = folder.check().text("lock-held");
        let kill = format!("KILL {}", eve.connection_id);
        assert!(said.starts_with("error") && said.contains("held_eve") && said.contains(&kill), "{said}");
        eve.run(format!("DO RELEASE_LOCK('rowstamp.{name}')"));
        assert!(!folder.check().has("lock-held"));
        direct.run("DROP DATABASE held");
    }
}

/// Cases that are tried on one kind of server each.
#[test]
fn peculiarities() {
    let rows = [
        // The primary key has row_end after the id, though nobody wrote it there.
        (
            Kind::MariaDb,
            "column-not-unique",
            false,
            "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY) WITH SYSTEM VERSIONING",
        ),
        (Kind::MySql9, "column-not-indexed", true, "CREATE TABLE t (id BIGINT NOT NULL, KEY ((id + 1)))"),
        (
            Kind::MySql9,
            "column-default",
            true,
            "CREATE TABLE t (id BIGINT NOT NULL DEFAULT (UUID_SHORT()) PRIMARY KEY)",
        ),
        (
            Kind::MariaDb,
            "column-default",
            true,
            "CREATE TABLE t (id BIGINT NOT NULL DEFAULT (UUID_SHORT()) PRIMARY KEY)",
        ),
        (Kind::MariaDb, "not-a-table", true, "CREATE SEQUENCE t"),
        (
            Kind::MariaDb,
            "body-inserts",
            true,
            "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT); SET sql_mode = 'ORACLE'; \
             CREATE PACKAGE p AS PROCEDURE q; END; CREATE PACKAGE BODY p AS PROCEDURE q AS BEGIN INSERT INTO t (a) VALUES (1); END; END",
        ),
    ];
    for kind in Kind::ALL {
        let Some(server) = crate::lint::rig::server(kind) else { continue };
        let folder = Folder::new(server, ROOT);
        let mine = || rows.iter().enumerate().filter(|(_, row)| row.0 == kind);
        for (nth, (_, _, _, sql)) in mine() {
            client(server).run(format!("CREATE DATABASE only_{nth}; USE only_{nth}; {sql}"));
            folder.rules(&format!("only_{nth}"), RULES);
        }
        let found = folder.check();
        for (nth, (_, code, expect, sql)) in mine() {
            let of = found.of(&format!("only_{nth}"));
            assert_eq!(of.contains(code), *expect, "{} {sql}: {of:?}\n{:#}", kind.name(), found.0);
            client(server).run(format!("DROP DATABASE only_{nth}"));
        }
    }
}

/// An etcd that is away takes nothing from the rest.
#[test]
fn a_store_in_etcd() {
    let Some(server) = crate::lint::rig::server(Kind::MariaDb) else { return };
    let Some(mut etcd) = Etcd::start(Version::Debian, 1) else { return };
    client(server).run("CREATE DATABASE in_etcd; USE in_etcd; CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); INSERT INTO t VALUES (70)");
    let folder = Folder::new(server, ROOT);
    folder.rules("in_etcd", RULES);
    folder.configure(
        server,
        ROOT,
        &format!("[store]\nkind = 'etcd'\nendpoints = {}\n", etcd.endpoints_toml()),
    );
    let found = folder.check();
    assert!(found.of("in_etcd").is_empty() && !found.has("store-unread"), "{:#}", found.0);
    assert_eq!(etcd.ctl(0, &["get", "--prefix", "/rowstamp/"]), "", "a look writes nothing");
    assert!(folder.run(&["store", "raise", "in_etcd.g", "--to", "50"]).status.success());
    let found = folder.check();
    assert_eq!(found.of("in_etcd"), ["rows-above-bound"]);
    etcd.kill(0);
    let found = folder.check();
    assert!(found.of("in_etcd").is_empty() && found.has("store-unread"), "{:#}", found.0);
}

#[test]
fn connections_that_mysql_router_shares() {
    let Some(server) = Server::start(Kind::MySql9) else { return };
    client(&server).run(format!("CREATE DATABASE shop; USE shop; {TABLE}"));
    for sharing in [true, false] {
        let Some(router) = Router::start(&server, sharing) else { return };
        let folder = Folder::at(&router.address(), ROOT);
        folder.rules("shop", RULES);
        assert_eq!(folder.check().has("connections-shared"), sharing);
    }
}
