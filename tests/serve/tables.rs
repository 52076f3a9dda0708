//! Ruled tables that come, go and change, through the proxy and past it; views of them.

use std::time::{Duration, Instant};

use crate::rig::{code, code_of, each, each_with, insert_id, rows, rules};
use crate::support::raw::CLIENT_MULTI_STATEMENTS;

#[test]
fn a_table_that_is_made_later() {
    let rules = rules("tables_later").replace("[tables.t]", "[tables.\"t*\"]");
    each_with("tables_later", "", "", &rules, |rig| {
        let mut client = rig.client();
        assert_eq!(code(&mut client, "INSERT INTO t2(a) VALUES(1)"), 1146, "{}", rig.name());
        rig.direct().run("CREATE TABLE t2 (id BIGINT PRIMARY KEY, a INT)");
        rig.direct().run("INSERT INTO t2 VALUES (5000000,0)");
        let end = Instant::now() + Duration::from_secs(7);
        while code(&mut client, "INSERT INTO t2(a) VALUES(1)") != 0 {
            assert!(Instant::now() < end, "{}: the table is not seen", rig.name());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(rows(&mut client, "SELECT id>5000000 FROM t2 WHERE a=1"), "1", "{}", rig.name());
        // Through the proxy, at once.
        client.run("CREATE TABLE t3 AS SELECT 9000000 id, 0 a");
        assert!(insert_id(&mut client, "INSERT INTO t3(a) VALUES(1)") > 9_000_000, "{}", rig.name());
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
fn views_of_a_ruled_table_are_refused() {
    each("tables_view", "CREATE VIEW old AS SELECT * FROM t;", |rig| {
        let mut client = rig.client_with(CLIENT_MULTI_STATEMENTS);
        assert_eq!(code(&mut client, "INSERT INTO old(a) VALUES(1)"), 1235, "{}", rig.name());
        client.run("CREATE VIEW new AS SELECT id, a FROM old");
        assert_eq!(code(&mut client, "INSERT INTO new(a) VALUES(1)"), 1235, "{}", rig.name());
        // Pipelined.
        let create = b"CREATE VIEW newer AS SELECT id, a FROM t";
        client.pipeline(&[(3, create), (3, b"INSERT INTO newer(a) VALUES(1)")]).unwrap();
        for expect in [0, 1235] {
            client.next_response();
            assert_eq!(code_of(&client.read_outcomes(false).unwrap()), expect, "{}", rig.name());
        }
        // In one packet.
        let both = "CREATE VIEW newest AS SELECT id, a FROM t; INSERT INTO newest(a) VALUES(1)";
        assert_eq!(code(&mut client, both), 1235, "{}", rig.name());
        let create = client.prepare("CREATE VIEW prepared AS SELECT id, a FROM t").unwrap().unwrap();
        client.run("INSERT INTO u VALUES(1,1)");
        assert_eq!(code_of(&client.execute(&create, &[]).unwrap()), 0);
        assert_eq!(code(&mut client, "INSERT INTO prepared(a) VALUES(1)"), 1235, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM t"), "0", "{}", rig.name());
        client.run("DROP VIEW old, new, newer, prepared");
        client.run("CREATE TABLE old (a INT)");
        assert_eq!(code(&mut client, "INSERT INTO old(a) VALUES(1)"), 0, "{}: a table now", rig.name());
    });
}
