//! Patterns of schemas, and generators that are made for tables.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::rig::{code, each_with, insert_id, rows, server};
use crate::support::raw::{Client, Options, Param};
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Proxy, Server, proxy};

const FIRST: &str = "pat_1";

pub(crate) const TABLE: &str = "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)";

/// A sequence for each table.
pub(crate) const EACH: &str = "[generators.\"{table}\"]\nkind = \"sequence\"\n";
pub(crate) const TIMESTAMPS: &str =
    "[generators.\"{table}\"]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n";

/// A schema pattern means the schemas that are there, and those that are made later, and no others.
#[test]
fn a_pattern_of_schemas() {
    let made = format!(
        "CREATE TABLE none (a INT); CREATE DATABASE pat_2; CREATE TABLE pat_2.t {TABLE}; \
         INSERT INTO pat_2.t VALUES (70, 0); CREATE DATABASE unruled; CREATE TABLE unruled.t {TABLE};"
    );
    let rules = "schema = \"pat_*\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{table}\"\n";
    each_with(FIRST, &made, "", rules, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{name}");
        assert_eq!(insert_id(&mut client, "INSERT INTO pat_2.t(a) VALUES(1)"), 71, "{name}");
        client.run("INSERT INTO none VALUES(1)");
        // Made later, by a session of the proxy.
        client.run("CREATE DATABASE pat_3");
        client.run(format!("CREATE TABLE pat_3.t {TABLE}"));
        client.run("INSERT INTO pat_3.t VALUES(500, 0)");
        assert_eq!(insert_id(&mut client, "INSERT INTO pat_3.t(a) VALUES(1), (2)"), 501, "{name}");
        client.run("USE pat_3");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 503, "{name}");
        // The server's own counter there is as it was: the ids are ours.
        client.run("SET insert_id = 9000");
        assert_eq!(insert_id(&mut client, "INSERT INTO unruled.t(a) VALUES(1)"), 9000, "{name}");
    });
}

/// Shards in two schemas: `ids.{table}` is one for those of a name, and a family has one for all. No id comes twice.
#[test]
fn shards_over_schemas_share_a_generator() {
    let shards = |db: &str| {
        let table = |n: u32| format!("CREATE TABLE {db}.orders_{n} {TABLE}; ");
        (0..8).map(table).collect::<String>()
    };
    let made = format!(
        "CREATE DATABASE fam_2; {}{}INSERT INTO fam_2.orders_7 VALUES (300, 0);",
        shards("fam_1"),
        shards("fam_2")
    );
    let rules = |generator: &str| {
        format!(
            "schema = \"fam_?\"\n[tables.\"orders_*\"]\ncolumn = \"auto\"\ngenerator = \"ids.{generator}\"\n"
        )
    };
    each_with("fam_1", &made, "", &rules("{table}"), |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        let mut insert =
            |n: u32, db: &str| insert_id(&mut client, &format!("INSERT INTO {db}.orders_{n}(a) VALUES(1)"));
        for n in 0..8 {
            let (first, second) = (insert(n, "fam_1"), insert(n, "fam_2"));
            assert_eq!((first, second), if n == 7 { (301, 302) } else { (1, 2) }, "{name}: orders_{n}");
        }
        rig.proxy.write_rules("rules", &rules("orders"));
        rig.proxy.write_rules("ids", "schema = \"ids\"\n[generators.orders]\nkind = \"sequence\"\n");
        let (is_active, log) = rig.proxy.reload();
        assert!(is_active, "{name}: {log}");
        let mut seen = BTreeSet::new();
        for n in (0..8).chain(0..8) {
            for db in ["fam_1", "fam_2"] {
                let id = insert(n, db);
                assert!(id > 302 && seen.insert(id), "{name}: {id} again");
            }
        }
        let all = (0..8).flat_map(|n| {
            ["fam_1", "fam_2"].map(|db| format!("SELECT id FROM {db}.orders_{n} WHERE id > 302"))
        });
        let all = all.collect::<Vec<_>>().join(" UNION ALL ");
        assert_eq!(
            rows(&mut rig.direct(), &format!("SELECT COUNT(*), COUNT(DISTINCT id) FROM ({all}) x")),
            "32,32",
            "{name}"
        );
    });
}

/// A generator's name is what its ids go on by: whether it was written or made counts for nothing.
#[test]
fn ids_go_on_from_rules_by_name_to_the_pattern_and_back() {
    let db = "patn_1";
    let by_name = format!(
        "schema = \"{db}\"\n[generators.t]\nkind = \"sequence\"\n[generators.second]\nkind = \"sequence\"\n\
         [tables.t]\ncolumn = \"id\"\ngenerator = \"t\"\n[tables.second]\ncolumn = \"id\"\ngenerator = \"second\"\n"
    );
    let wide = "schema = \"patn_*\"\n[tables.\"*\"]\ncolumn = \"id\"\ngenerator = \"{table}\"\n";
    let made = format!("CREATE TABLE second {TABLE};");
    each_with(db, &made, "", &by_name, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        let prepared = client.prepare("INSERT INTO second(a) VALUES(?)").unwrap().unwrap();
        for (nth, rules) in [&*by_name, wide, &by_name, wide, wide, &by_name].into_iter().enumerate() {
            if nth > 0 {
                rig.proxy.write_rules("rules", rules);
                let (is_active, log) = rig.proxy.reload();
                assert!(is_active, "{name}: {log}");
            }
            let first = 3 * u64::try_from(nth).unwrap() + 1;
            assert_eq!(
                insert_id(&mut client, "INSERT INTO t(a) VALUES(NULL),(NULL),(NULL)"),
                first,
                "{name}"
            );
            assert_eq!(insert_id(&mut client, "INSERT INTO second(a) VALUES(1),(2)"), first, "{name}");
            let outcomes = client.execute(&prepared, &[Param::Int(1)]).unwrap();
            assert_eq!(outcomes[0].ok().unwrap().insert_id, first + 2, "{name}");
        }
        // So it is where the proxy starts again.
        rig.proxy.write_rules("rules", wide);
        rig.proxy.stop();
        rig.proxy.restart();
        assert_eq!(insert_id(&mut rig.client(), "INSERT INTO t(a) VALUES(NULL)"), 19, "{name}");
    });
}

#[test]
fn each_table_has_a_timestamp_generator() {
    let rules = format!(
        "schema = \"patt_*\"\n{TIMESTAMPS}[tables.\"*\"]\ncolumn = \"id\"\ngenerator = \"{{table}}\"\n"
    );
    each_with("patt_1", &format!("CREATE TABLE second {TABLE};"), "", &rules, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        let mut last = [0; 3];
        for round in 0..3 {
            if round == 1 {
                client.run(format!("CREATE TABLE later {TABLE}"));
                client.run(format!("INSERT INTO later VALUES ({}, 0)", last[0] + (40 << 22)));
            }
            if round == 2 {
                rig.proxy.restart();
                client = rig.client();
            }
            for (nth, table) in ["t", "second", "later"].into_iter().take(2 + round.min(1)).enumerate() {
                for _ in 0..20 {
                    let id = insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(NULL),(NULL)"));
                    assert!(id > last[nth] && id > 1 << 40, "{name}: {table}: {id} after {}", last[nth]);
                    last[nth] = id + 1;
                }
            }
            // An id of the client's is kept, and takes no clock along.
            assert_eq!(
                code(&mut client, format!("INSERT INTO second VALUES ({}, 0)", u64::MAX / 2 - round as u64)),
                0
            );
        }
        assert!(last[2] > last[0], "{name}: above the table's ids: {last:?}");
    });
}

/// A table that is made again goes on with its generator, and one by another name has another; each is above the table's ids.
#[test]
fn tables_that_are_dropped_renamed_and_swapped() {
    let rules = "schema = \"patr_*\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{table}\"\n";
    each_with("patr_1", &format!("CREATE TABLE a {TABLE}; CREATE TABLE b {TABLE};"), "", rules, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        let mut insert = |table: &str| insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(1)"));
        assert_eq!((insert("a"), insert("a"), insert("b")), (1, 2, 1), "{name}");
        let mut direct = rig.direct();
        let run = |client: &mut Client, sql: &str| drop(client.run(sql));
        let mut through = rig.client();
        run(&mut through, "DROP TABLE a");
        run(&mut through, &format!("CREATE TABLE a {TABLE}"));
        assert_eq!(insert("a"), 3, "{name}: made again");
        run(&mut through, "INSERT INTO b VALUES(90, 1)");
        run(&mut through, "RENAME TABLE a TO gone, b TO a, gone TO b");
        assert_eq!((insert("a"), insert("b")), (91, 91), "{name}: swapped");
        run(&mut through, "RENAME TABLE a TO c");
        assert_eq!(insert("c"), 92, "{name}: renamed");
        run(&mut direct, "DROP TABLE c");
        run(&mut direct, &format!("CREATE TABLE c {TABLE}"));
        run(&mut direct, "INSERT INTO c VALUES(500, 1)");
        let mut ids = BTreeSet::from([500]);
        for _ in 0..5 {
            let id = insert("c");
            assert!(ids.insert(id), "{name}: {id} again");
        }
        // Another schema of the pattern, and a table that goes there.
        run(&mut through, "CREATE DATABASE patr_2");
        run(&mut through, "RENAME TABLE patr_1.c TO patr_2.c");
        let highest: u64 = rows(&mut through, "SELECT MAX(id) FROM patr_2.c").parse().unwrap();
        assert_eq!(insert("patr_2.c"), highest + 1, "{name}: in another schema");
        assert_eq!(code(&mut through, "INSERT INTO patr_1.c(a) VALUES(1)"), 1146, "{name}");
    });
}

/// A rule in shadow mode makes nothing; what it is switched to goes on above the server's ids.
#[test]
fn a_template_in_shadow_mode() {
    let rules = |mode: &str| {
        format!(
            "schema = \"pats_*\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{{table}}\"\nmode = \"{mode}\"\n"
        )
    };
    each_with("pats_1", &format!("CREATE TABLE a {TABLE};"), "", &rules("shadow"), |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        client.run(format!("CREATE TABLE later {TABLE}"));
        assert_eq!(
            insert_id(&mut client, "INSERT INTO later(a) VALUES(1)"),
            1,
            "{name}: its columns are not read yet"
        );
        std::thread::sleep(Duration::from_millis(2500));
        for table in ["a", "later"] {
            let first = 1 + u64::from(table == "later");
            assert_eq!(
                insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(1),(2)")),
                first,
                "{name}"
            );
        }
        assert!(!rig.proxy.log().contains("has made a generator"), "{name}");
        for (mode, first) in [("on", 3), ("off", 5), ("on", 7)] {
            rig.proxy.write_rules("rules", &rules(mode));
            let (is_active, log) = rig.proxy.reload();
            assert!(is_active, "{name}: {log}");
            for table in ["a", "later"] {
                let sql = format!("INSERT INTO {table}(a) VALUES(1),(2)");
                let first = first + u64::from(table == "later");
                assert_eq!(insert_id(&mut client, &sql), first, "{name}: {table} {mode}");
            }
        }
        rig.proxy.stop();
        let log = rig.proxy.last_log();
        for (table, unknown) in [("a", 0), ("later", 1)] {
            let told = format!(
                "table=\"pats_1.{table}\" rewritten=1 passed=0 refused=0 server_first=0 unknown={unknown} asked=0 ids=2"
            );
            assert!(log.contains(&told), "{name}: {told}: {log}");
        }
    });
}

/// One table of the server has one generator, whatever letter case a statement or the rules use.
#[test]
fn letter_case_of_names() {
    let rules = "schema = \"Cased_*\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{schema}.{table}\"\n";
    let connect = |proxy: &Proxy, db: &str| {
        let options = Options { database: Some(db.to_owned()), ..Options::default() };
        Client::connect(&proxy.address(), &options).unwrap()
    };
    // MySQL wants the setting when its data are made, and the tests' data are made without.
    let options =
        ServerOptions { arguments: vec!["--lower-case-table-names=1".into()], ..Default::default() };
    if let Some(server) = Server::start_with(Kind::MariaDb, options) {
        let mut direct = server.client();
        direct.run("CREATE DATABASE CASED_1");
        direct.run(format!("CREATE TABLE cased_1.Orders {TABLE}"));
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", rules)]);
        let mut client = connect(&proxy, "cAsed_1");
        for (nth, name) in
            ["orders", "ORDERS", "CASED_1.Orders", "`cased_1`.`oRDERS`"].into_iter().enumerate()
        {
            let id = insert_id(&mut client, &format!("INSERT INTO {name}(a) VALUES(1)"));
            assert_eq!(id, nth as u64 + 1, "{name}");
        }
        client.run("CREATE DATABASE Cased_2");
        client.run(format!("CREATE TABLE CASED_2.Later {TABLE}"));
        for (nth, name) in ["cased_2.LATER", "Cased_2.later"].into_iter().enumerate() {
            assert_eq!(insert_id(&mut client, &format!("INSERT INTO {name}(a) VALUES(1)")), nth as u64 + 1);
        }
        let made: Vec<_> = proxy
            .log()
            .lines()
            .filter(|l| l.contains("has made a generator for the table"))
            .map(str::to_owned)
            .collect();
        assert!(made.len() == 1 && made[0].contains("cased_2.later"), "{made:?}");
    }
    // These two are tables of their own, and so are their generators; the pattern is of other letters.
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let mut direct = server.client();
        direct.run("CREATE DATABASE Cased_1");
        direct.run("CREATE DATABASE cased_3");
        for table in ["Cased_1.orders", "Cased_1.ORDERS", "cased_3.orders"] {
            direct.run(format!("CREATE TABLE {table} {TABLE}"));
        }
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", rules)]);
        let mut client = connect(&proxy, "Cased_1");
        for (name, expect) in [("orders", 1), ("ORDERS", 1), ("orders", 2), ("ORDERS", 2)] {
            assert_eq!(insert_id(&mut client, &format!("INSERT INTO {name}(a) VALUES(1)")), expect, "{name}");
        }
        client.run("SET insert_id = 9000");
        assert_eq!(
            insert_id(&mut client, "INSERT INTO cased_3.orders(a) VALUES(1)"),
            9000,
            "{}",
            kind.name()
        );
    }
}

/// An application that makes tables under ever new names does not fill the proxy with their generators.
#[test]
fn generators_of_tables_that_are_gone_are_closed() {
    let rules = "schema = \"patg_*\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{table}\"\n";
    each_with("patg_1", &format!("CREATE TABLE kept {TABLE};"), "", rules, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        let mut insert = |sql: &str| insert_id(&mut client, sql);
        assert_eq!(insert("INSERT INTO kept(a) VALUES(1)"), 1, "{name}");
        let mut ddl = rig.client();
        for n in 0..40 {
            ddl.run(format!("CREATE TABLE tmp_{n} {TABLE}"));
            assert_eq!(insert(&format!("INSERT INTO tmp_{n}(a) VALUES(1),(2)")), 1, "{name}");
            ddl.run(format!("DROP TABLE tmp_{n}"));
        }
        ddl.run("CREATE DATABASE patg_2");
        ddl.run(format!("CREATE TABLE patg_2.t {TABLE}"));
        assert_eq!(insert("INSERT INTO patg_2.t(a) VALUES(1)"), 1, "{name}");
        ddl.run("DROP DATABASE patg_2");
        rig.wait_until("they are closed", || {
            let log = rig.proxy.log();
            let closed =
                log.lines().filter(|line| line.contains("has closed the generators that it made for them"));
            let counts = closed
                .filter_map(|line| line.split("generators=").nth(1)?.split(' ').next()?.parse::<u32>().ok());
            counts.sum::<u32>() == 41
        });
        // Generators that are still there go on, and one that is made again begins above all that was issued.
        assert_eq!(insert("INSERT INTO kept(a) VALUES(1)"), 2, "{name}");
        ddl.run(format!("CREATE TABLE tmp_7 {TABLE}"));
        let again = insert("INSERT INTO tmp_7(a) VALUES(1)");
        assert!(again > 2, "{name}: {again}");
    });
}
