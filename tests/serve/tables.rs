//! Ruled tables that come, go and change, through the proxy and past it; views of them.

use std::time::Duration;

use crate::rig::{code, code_of, each, each_with, insert_id, message, rows, rules};
use crate::support::Proxy;
use crate::support::raw::{CLIENT_MULTI_STATEMENTS, Client, Param};

#[test]
fn a_table_that_is_made_later() {
    let rules = rules("tables_later").replace("[tables.t]", "[tables.\"t*\"]");
    each_with("tables_later", "", "", &rules, |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t2(a) VALUES(1)"), 1146, "{}", rig.name());
        rig.direct().run("CREATE TABLE t2 (id BIGINT PRIMARY KEY, a INT)");
        rig.direct().run("INSERT INTO t2 VALUES (5000000,0)");
        rig.wait_until("the table is not seen", || code(&mut client, "INSERT INTO t2(a) VALUES(1)") == 0);
        assert_eq!(rows(&mut client, "SELECT id>5000000 FROM t2 WHERE a=1"), "1", "{}", rig.name());
        // Through the proxy, at once.
        client.run("CREATE TABLE t3 AS SELECT 9000000 id, 0 a");
        assert!(insert_id(&mut client, "INSERT INTO t3(a) VALUES(1)") > 9_000_000, "{}", rig.name());
    });
}

/// The lock of a table that a rule names exactly is held before the table is there: nobody waits then until other proxies issue no ids
/// for it any more (600 ms).
#[test]
fn the_lock_of_a_table_that_is_to_come_is_held() {
    let names = ["new1", "new2", "new3", "new4"];
    let more = names.map(|name| format!("[tables.{name}]\ncolumn = \"id\"\ngenerator = \"g\"\n")).concat();
    let rules = rules("tables_new") + &more;
    each_with("tables_new", "", "", &rules, |rig| {
        let (mut client, mut direct) = (rig.client(), rig.direct());
        let holder = |direct: &mut Client, name: &str| {
            let lock = format!("CONCAT('rowstamp.',LEFT(SHA2('tables_new.{name}',256),32))");
            rows(direct, &format!("SELECT IS_USED_LOCK({lock})"))
        };
        // The locks of tables without a rule are given up each second.
        std::thread::sleep(Duration::from_secs(2));
        for name in names {
            let before = holder(&mut direct, name);
            assert_ne!(before, "NULL", "{}: {name}", rig.name());
            client.run(format!("CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, a INT)"));
            direct.run(format!("INSERT INTO {name} VALUES(1000000,0)"));
            let id = insert_id(&mut client, &format!("INSERT INTO {name}(a) VALUES(1)"));
            assert!(id > 1_000_000, "{}", rig.name());
            assert_eq!(holder(&mut direct, name), before, "{}: {name}", rig.name());
        }
    });
}

#[test]
fn ids_go_on_above_those_that_ddl_brings() {
    each("tables_brought", "CREATE TABLE brought (id BIGINT NOT NULL PRIMARY KEY, a INT);", |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO t(a) VALUES(1)");
        client.run("INSERT INTO brought VALUES(50000,0)");
        client.run("RENAME TABLE t TO old, brought TO t");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(2)"), 50_001, "{}", rig.name());
        client.run("ALTER TABLE t MODIFY id BIGINT NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=70000");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(3)"), 70_000, "{}", rig.name());
        client.run("DROP TABLE t");
        client.run("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, a INT) AS SELECT 90000 AS id, 0 AS a");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(4)"), 90_001, "{}", rig.name());
        // The statements that mysqldump writes. The control account cannot look into the table then.
        client.run("LOCK TABLES t WRITE");
        client.run("ALTER TABLE t DISABLE KEYS");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(5)"), 90_002, "{}", rig.name());
        client.run("UNLOCK TABLES");
        client.run("TRUNCATE TABLE t");
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(6)"), 90_003, "{}", rig.name());
    });
}

#[test]
fn columns_that_are_added_past_the_proxy() {
    each("tables_added", "", |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO t VALUES(NULL,1)");
        rig.direct().run("ALTER TABLE t ADD COLUMN b INT FIRST");
        // The count does not fit what is known: read again at once.
        assert_eq!(code(&mut client, "INSERT INTO t VALUES(7,NULL,2)"), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT b,a FROM t WHERE a=2 AND id>0"), "7,2", "{}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO t VALUES(NULL,2)"), 1136, "the server's own word");
        // Through the proxy: known with the next statement.
        client.run("ALTER TABLE t DROP COLUMN b, ADD COLUMN c INT FIRST");
        assert_eq!(code(&mut client, "INSERT INTO t VALUES(8,NULL,3)"), 0);
        assert_eq!(rows(&mut client, "SELECT c FROM t WHERE a=3 AND id>0"), "8", "{}", rig.name());
        let alter = client.prepare("ALTER TABLE t DROP COLUMN c, ADD COLUMN d INT").unwrap().unwrap();
        client.run("INSERT INTO t VALUES(9,NULL,4)");
        assert_eq!(code_of(&client.execute(&alter, &[]).unwrap()), 0);
        client.run("INSERT INTO t VALUES(NULL,5,10)");
        assert_eq!(rows(&mut client, "SELECT d FROM t WHERE a=5 AND id>0"), "10", "{}", rig.name());
    });
}

#[test]
fn views_of_a_ruled_table() {
    each("tables_view", "CREATE VIEW old AS SELECT * FROM t;", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        let check = |client: &mut Client, view: &str, a: u32| {
            let id = insert_id(client, &format!("INSERT INTO {view}(a) VALUES({a})"));
            let found = rows(client, &format!("SELECT id FROM t WHERE a={a}"));
            assert_eq!(found, id.to_string(), "{}: through {view}", rig.name());
        };
        check(&mut client, "old", 1);
        client.run("CREATE VIEW new AS SELECT a, id FROM old");
        check(&mut client, "new", 2);
        // Pipelined.
        let create = b"CREATE VIEW newer AS SELECT id, a FROM t";
        client.pipeline(&[(3, create), (3, b"INSERT INTO newer(a) VALUES(3)")]).unwrap();
        for _ in 0..2 {
            client.next_response();
            assert_eq!(code_of(&client.read_outcomes(false).unwrap()), 0, "{}", rig.name());
        }
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE a=3 AND id>0"), "1", "{}", rig.name());
        // In one packet, which goes in parts: what it will be is known once it is there.
        let both = "CREATE VIEW newest AS SELECT id, a FROM t; INSERT INTO newest(a) VALUES(4)";
        assert_eq!(code(&mut client, both), 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t WHERE a=4 AND id>0"), "1", "{}", rig.name());
        let create = client.prepare("CREATE VIEW prepared AS SELECT id, a FROM t").unwrap().unwrap();
        client.run("INSERT INTO u VALUES(1,1)");
        assert_eq!(code_of(&client.execute(&create, &[]).unwrap()), 0);
        check(&mut client, "prepared", 5);
        client.run("DROP VIEW old, new, newer, newest, prepared");
        client.run("CREATE TABLE old (a INT)");
        assert_eq!(code(&mut client, "INSERT INTO old(a) VALUES(1)"), 0, "{}: a table now", rig.name());
    });
}

#[test]
fn a_view_that_changes_behind_a_prepared_insert() {
    each("tables_view_again", "CREATE VIEW v AS SELECT id, a FROM t;", |rig| {
        let mut client = rig.client();
        let insert = client.prepare("INSERT INTO v(a) VALUES(?)").unwrap().unwrap();
        assert_eq!(code_of(&client.execute(&insert, &[Param::Int(1)]).unwrap()), 0);
        client.run("CREATE OR REPLACE VIEW v AS SELECT a AS id, id AS a FROM t");
        assert_eq!(code_of(&client.execute(&insert, &[Param::Int(7)]).unwrap()), 0, "{}", rig.name());
        client.run("CREATE OR REPLACE VIEW v AS SELECT a, id FROM t");
        assert_eq!(code_of(&client.execute(&insert, &[Param::Int(2)]).unwrap()), 0, "{}", rig.name());
        assert_eq!(
            rows(&mut client, "SELECT id>=7,a FROM t ORDER BY id"),
            "0,1 1,NULL 1,2",
            "{}",
            rig.name()
        );
    });
}

/// Nobody can say what such a view selects from, so no row goes through it without the owner of the account knowing.
#[test]
fn a_view_whose_definition_the_control_account_cannot_see() {
    let sql = "CREATE VIEW v AS SELECT id, a FROM t; CREATE USER blind IDENTIFIED BY 'b'; GRANT SELECT ON tables_blind.* TO blind;";
    each("tables_blind", sql, |rig| {
        let config = crate::support::proxy::config(&rig.server.address())
            .replace("user = \"root\"\npassword = \"\"", "user = \"blind\"\npassword = \"b\"");
        let dir = "[store]\npath = \"blind.redb\"\n";
        rig.proxy.stop();
        let proxy = Proxy::start(&format!("{config}{dir}"), &[("rules", &rules("tables_blind"))]);
        let mut client = proxy.client();
        let said = message(&mut client, "INSERT INTO tables_blind.v(a) VALUES(1)");
        assert!(said.starts_with("1235") && said.contains("SHOW VIEW"), "{}: {said}", rig.name());
        assert!(insert_id(&mut client, "INSERT INTO tables_blind.t(a) VALUES(1)") > 0, "{}", rig.name());
        rig.direct().run("GRANT SHOW VIEW ON tables_blind.* TO blind");
        client.run("CREATE TABLE tables_blind.z (a INT)");
        assert!(insert_id(&mut client, "INSERT INTO tables_blind.v(a) VALUES(2)") > 1, "{}", rig.name());
    });
}
