//! A pattern that names a whole schema, also tables that have no such column.

use std::time::{Duration, Instant};

use crate::rig::{Rig, code, code_of, each, each_with, insert_id, make, message, rows, server};
use crate::support::raw::{Client, Param};
use crate::support::wait::NEVER;
use crate::support::{Kind, Proxy, proxy};

/// Tables as Django makes them, in short: most have an id, some have none.
const DJANGO: &str = "\
    CREATE TABLE auth_user (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, username VARCHAR(150) NOT NULL UNIQUE); \
    CREATE TABLE auth_group (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(150) NOT NULL UNIQUE); \
    CREATE TABLE auth_user_groups (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, user_id INT NOT NULL, \
      group_id INT NOT NULL, FOREIGN KEY (user_id) REFERENCES auth_user (id), FOREIGN KEY (group_id) REFERENCES auth_group (id)); \
    CREATE TABLE django_session (session_key VARCHAR(40) NOT NULL PRIMARY KEY, session_data LONGTEXT NOT NULL); \
    CREATE TABLE tags (user_id INT NOT NULL, tag VARCHAR(20) NOT NULL, PRIMARY KEY (user_id, tag)); \
    CREATE TABLE profile (user_ptr_id INT NOT NULL PRIMARY KEY, bio TEXT); \
    CREATE TABLE log (at_second BIGINT, line TEXT); \
    CREATE VIEW sessions AS SELECT session_key, session_data FROM django_session;";

fn whole_schema(db: &str, column: &str) -> String {
    format!(
        "schema = \"{db}\"\n[generators.all]\nkind = \"sequence\"\nstart = 1000\n\
         [tables.\"*\"]\ncolumn = \"{column}\"\ngenerator = \"all\"\n"
    )
}

/// Runs an INSERT with one `?` as text, and prepared.
fn both(rig: &Rig, client: &mut Client, sql: &str, text: [&str; 2]) -> Vec<u64> {
    let first = client.query(sql.replace('?', &format!("'{}'", text[0]))).unwrap();
    assert_eq!(code_of(&first), 0, "{}: {sql}: {first:?}", rig.name());
    let statement = client.prepare(sql).unwrap().unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let second = client.execute(&statement, &[Param::String(text[1].into())]).unwrap();
    assert_eq!(code_of(&second), 0, "{}: {sql}, prepared: {second:?}", rig.name());
    [first, second].iter().map(|outcomes| outcomes[0].ok().unwrap().insert_id).collect()
}

#[test]
fn a_whole_schema_by_one_pattern() {
    let db = "schema_whole";
    each_with(db, DJANGO, "", &whole_schema(db, "id"), |rig| {
        let mut client = rig.client();
        let users = both(rig, &mut client, "INSERT INTO auth_user(username) VALUES(?)", ["a", "b"]);
        assert_eq!(users, [1000, 1001], "{}", rig.name());
        let groups = both(rig, &mut client, "INSERT INTO auth_group VALUES(NULL,?)", ["a", "b"]);
        assert_eq!(groups, [1002, 1003], "{}: one generator", rig.name());
        client.run("INSERT INTO auth_user_groups(user_id,group_id) VALUES(1000,1002),(1001,1003)");
        // No column, no rule: these are nobody's.
        for sql in [
            "INSERT INTO django_session VALUES(?,'x')",
            "INSERT INTO sessions VALUES(CONCAT(?,'v'),'x')",
            "INSERT INTO tags VALUES(1000,?)",
            "REPLACE INTO profile SET user_ptr_id=1000, bio=?",
            "INSERT INTO log(line) VALUES(?)",
            "INSERT INTO log(line) SELECT ?",
        ] {
            assert_eq!(both(rig, &mut client, sql, ["k1", "k2"]), [0, 0], "{}: {sql}", rig.name());
        }
        let all = "SELECT COUNT(*) FROM django_session UNION ALL SELECT COUNT(*) FROM tags UNION ALL \
                   SELECT COUNT(*) FROM profile UNION ALL SELECT COUNT(*) FROM log";
        assert_eq!(rows(&mut client, all), "4 2 1 4", "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT id FROM auth_user_groups ORDER BY id"), "1004 1005");
        assert!(!rig.proxy.log().contains("ERROR"), "{}: {}", rig.name(), rig.proxy.log());
    });
}

#[test]
fn a_table_that_gets_the_column_later() {
    let db = "schema_later";
    each_with(db, DJANGO, "", &whole_schema(db, "id"), |rig| {
        let mut client = rig.client();
        client.run("INSERT INTO log(line) VALUES('before')");
        // Through the proxy: at once, above the ids that are there.
        let with = |client: &mut Client, first: u32| {
            client.run(format!(
                "ALTER TABLE log ADD id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, AUTO_INCREMENT={first}"
            ));
            let highest = rows(client, "SELECT MAX(id)+1 FROM log");
            let id = insert_id(client, "INSERT INTO log(line) VALUES('with')");
            assert_eq!(id.to_string(), highest, "{}", rig.name());
        };
        with(&mut client, 5000);
        client.run("ALTER TABLE log DROP id");
        assert_eq!(insert_id(&mut client, "INSERT INTO log(line) VALUES('without')"), 0, "{}", rig.name());
        with(&mut client, 9000);
        // Past it: within seconds.
        client.run("INSERT INTO profile VALUES(1,'x')");
        rig.direct().run("ALTER TABLE profile ADD id BIGINT");
        let end = Instant::now() + NEVER;
        while insert_id(&mut client, "REPLACE INTO profile(user_ptr_id) VALUES(1)") == 0 {
            assert!(Instant::now() < end, "{}: the column is not seen", rig.name());
            std::thread::sleep(Duration::from_millis(200));
        }
    });
}

/// A name that somebody wrote is meant.
#[test]
fn an_exact_name_without_the_column_stays_an_error() {
    let db = "schema_exact";
    let rules = format!(
        "{}[tables.log]\ncolumn = \"id\"\ngenerator = \"all\"\n[tables.tags]\ncolumn = \"auto\"\ngenerator = \"all\"\n",
        whole_schema(db, "id")
    );
    each_with(db, DJANGO, "", &rules, |rig| {
        let mut client = rig.client();
        let said = message(&mut client, "INSERT INTO log(line) VALUES('x')");
        assert!(said.starts_with("1235") && said.contains("has no column id"), "{}: {said}", rig.name());
        let said = message(&mut client, "INSERT INTO tags VALUES(1,'x')");
        assert!(said.starts_with("1235") && said.contains("no AUTO_INCREMENT"), "{}: {said}", rig.name());
        assert_eq!(code(&mut client, "INSERT INTO django_session VALUES('x','x')"), 0, "{}", rig.name());
    });
}

/// `column = "auto"`: each table's own.
#[test]
fn the_column_that_is_found_by_itself() {
    let db = "schema_auto";
    let sql = format!(
        "{DJANGO} CREATE TABLE odd (a INT PRIMARY KEY, n BIGINT NOT NULL AUTO_INCREMENT UNIQUE); \
         CREATE TABLE `key` (code CHAR(3) PRIMARY KEY, auto INT);"
    );
    each_with(db, &sql, "", &whole_schema(db, "auto"), |rig| {
        let mut client = rig.client();
        let check = |client: &mut Client, sql: &str, expect: u64| {
            assert_eq!(insert_id(client, sql), expect, "{}: {sql}", rig.name());
        };
        check(&mut client, "INSERT INTO auth_user(username) VALUES('a')", 1000);
        check(&mut client, "INSERT INTO odd(a) VALUES(7)", 1001);
        check(&mut client, "INSERT INTO odd VALUES(8,NULL)", 1002);
        check(&mut client, "INSERT INTO profile(bio) VALUES('p')", 1003);
        check(&mut client, "INSERT INTO tags VALUES(1,'x')", 0);
        check(&mut client, "INSERT INTO django_session VALUES('x','x')", 0);
        check(&mut client, "INSERT INTO `key` VALUES('x',NULL)", 0);
        assert_eq!(rows(&mut client, "SELECT a,n FROM odd ORDER BY a"), "7,1001 8,1002", "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT user_ptr_id FROM profile"), "1003", "{}", rig.name());
        // Another column takes its place.
        client.run("ALTER TABLE profile DROP PRIMARY KEY, ADD n INT NOT NULL AUTO_INCREMENT PRIMARY KEY");
        check(&mut client, "INSERT INTO profile(user_ptr_id,bio) VALUES(5,'q')", 1004);
        assert_eq!(rows(&mut client, "SELECT n FROM profile WHERE user_ptr_id=5"), "1004", "{}", rig.name());
    });
}

/// The proxy leaves a column alone that no generator can fill. It once kept the proxy from starting.
#[test]
fn tables_whose_id_is_of_another_type() {
    let db = "schema_types";
    for kind in Kind::ALL {
        let Some(server) = server(kind) else { continue };
        let mariadb = "CREATE TABLE tu (id UUID NOT NULL PRIMARY KEY DEFAULT UUID(), a INT); \
                       CREATE TABLE ti (id INET6 NOT NULL PRIMARY KEY, a INT);";
        let sql = format!(
            "{} CREATE TABLE td (id DATETIME NOT NULL PRIMARY KEY, a INT); CREATE TABLE tf (id FLOAT NOT NULL{} PRIMARY KEY, a INT); \
             CREATE TABLE tb (id BIT(8) NOT NULL PRIMARY KEY, a INT); CREATE TABLE tg (id POINT, a INT);",
            if kind == Kind::MariaDb { mariadb } else { "" },
            // MySQL has no such counters any more.
            if kind == Kind::MariaDb { " AUTO_INCREMENT" } else { "" }
        );
        make(server, db, &sql);
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("rules", &whole_schema(db, "id"))]);
        let rig = Rig { kind, server, proxy, db: db.to_owned() };
        let (mut client, mut direct) = (rig.client(), rig.direct());
        let mut as_natively = |sql: &str| {
            direct.run("BEGIN");
            let native = direct.query(sql).unwrap();
            direct.run("ROLLBACK");
            let got = client.query(sql).unwrap();
            assert_eq!(code_of(&got), code_of(&native), "{}: {sql}: {got:?}", rig.name());
            let prepared = client.prepare(sql).unwrap();
            assert_eq!(prepared.is_ok(), direct.prepare(sql).unwrap().is_ok(), "{}: {sql}", rig.name());
        };
        for sql in [
            "INSERT INTO td VALUES (NOW(), 1)",
            "INSERT INTO td (id, a) VALUES ('2020-01-31 00:00:00', 1)",
            "INSERT INTO td (a) VALUES (1)",
            "INSERT INTO tf (a) VALUES (1)",
            "INSERT INTO tf SELECT NULL, 2",
            "INSERT INTO tb (id, a) VALUES (b'101', 1)",
            "INSERT INTO tg (id, a) VALUES (POINT(1, 2), 1)",
            "INSERT INTO tg (a) VALUES (1)",
        ] {
            as_natively(sql);
        }
        if kind == Kind::MariaDb {
            for sql in [
                "INSERT INTO tu (a) VALUES (1)",
                "INSERT INTO tu (id, a) VALUES ('123e4567-e89b-12d3-a456-426655440000', 2), (UUID(), 3), (DEFAULT, 4)",
                "INSERT INTO tu SET id = x'723e4567e89b12d3a456426655440003', a = 5",
                "INSERT INTO tu (id, a) VALUES (NULL, 6)",
                "INSERT INTO tu (a) SELECT 7",
                "INSERT INTO tu VALUES (UUID(), 8) RETURNING a",
                "INSERT INTO ti (id, a) VALUES ('::1', 1), ('2001:db8::ff00:42:8329', 2)",
                "INSERT INTO ti (a) VALUES (3)",
            ] {
                as_natively(sql);
            }
        }
        assert!(!rig.proxy.log().contains("ERROR"), "{}: {}", rig.name(), rig.proxy.log());
        // Beside an id of ours, columns of any type.
        client.run(if kind == Kind::MariaDb {
            "CREATE TABLE others (id BIGINT NOT NULL PRIMARY KEY, u UUID, i INET6, g POINT, b BIT(3), e ENUM('a', 'b'))"
        } else {
            "CREATE TABLE others (id BIGINT NOT NULL PRIMARY KEY, u BINARY(16), i VARBINARY(16), g POINT, b BIT(3), e ENUM('a', 'b'))"
        });
        let u = if kind == Kind::MariaDb { "UUID()" } else { "UUID_TO_BIN(UUID())" };
        let insert =
            format!("INSERT INTO others (u, i, g, b, e) VALUES ({u}, '::1', POINT(1, 1), b'101', 'a')");
        assert!(insert_id(&mut client, &insert) > 0, "{}", rig.name());
        let insert = format!(
            "INSERT INTO others VALUES (NULL, {u}, '::', NULL, 1, 2), (0, NULL, NULL, NULL, NULL, NULL)"
        );
        assert!(insert_id(&mut client, &insert) > 0, "{}", rig.name());
        assert_eq!(rows(&mut client, "SELECT COUNT(*) FROM others WHERE id >= 1000"), "3", "{}", rig.name());
    }
}

#[test]
fn an_exact_name_whose_id_is_of_another_type_says_so() {
    let db = "schema_exact_types";
    let sql = "CREATE TABLE log (id DATETIME NOT NULL PRIMARY KEY, line TEXT);";
    let rules = format!("{}[tables.log]\ncolumn = \"id\"\ngenerator = \"all\"\n", whole_schema(db, "id"));
    each_with(db, sql, "", &rules, |rig| {
        let said = message(&mut rig.client(), "INSERT INTO log VALUES(NOW(),'x')");
        assert!(
            said.starts_with("1235") && said.contains("datetime, which cannot hold ids"),
            "{}: {said}",
            rig.name()
        );
    });
}

/// Values of an INSERT without a column list would go into other columns.
#[test]
fn columns_of_an_idle_table_that_changed_past_the_proxy() {
    each("schema_idle", "ALTER TABLE t DROP KEY a, MODIFY a INT, ADD b INT;", |rig| {
        let mut client = rig.client();
        let prepared = client.prepare("INSERT INTO t VALUES(NULL,?,?)").unwrap().unwrap();
        let mut direct = rig.direct();
        let mut expect = Vec::new();
        for round in 0..2 {
            // The columns are read while it is used, and for a second after.
            client.run("INSERT INTO t VALUES(NULL,0,0)");
            std::thread::sleep(Duration::from_secs(3));
            let (place, cells) =
                if round == 0 { ("b INT AFTER id", "1,0") } else { ("a INT AFTER id", "0,1") };
            direct.run(format!("ALTER TABLE t MODIFY {place}"));
            match round {
                0 => drop(client.run("INSERT INTO t VALUES(NULL,0,1)")),
                _ => drop(client.execute(&prepared, &[Param::Int(0), Param::Int(1)]).unwrap()),
            }
            expect.push(cells);
        }
        let seen = rows(&mut direct, "SELECT a,b FROM t WHERE a+b>0 ORDER BY id");
        assert_eq!(seen, expect.join(" "), "{}", rig.name());
    });
}

/// One file for two databases: each has generators of its own, and what another file defines is one for both.
#[test]
fn several_schemas_of_one_kind() {
    const OTHER: &str = "schema_second";
    let made = format!(
        "CREATE TABLE s_1 (id BIGINT PRIMARY KEY, a INT); CREATE TABLE s_2 (id BIGINT PRIMARY KEY, a INT); \
         CREATE DATABASE {OTHER}; CREATE TABLE {OTHER}.t (id BIGINT PRIMARY KEY, a INT); \
         CREATE TABLE {OTHER}.s_3 (id BIGINT PRIMARY KEY, a INT);"
    );
    let rules = format!(
        "schemas = [\"schema_first\", \"{OTHER}\"]\n[generators.g]\nkind = \"sequence\"\n\
         [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n[tables.\"s_?\"]\ncolumn = \"auto\"\ngenerator = \"ids.shards\"\n"
    );
    each_with("schema_first", &made, "", &rules.replace("ids.shards", "g"), |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        assert_eq!(insert_id(&mut client, "INSERT INTO t(a) VALUES(1)"), 1, "{name}");
        assert_eq!(insert_id(&mut client, "INSERT INTO s_1(a) VALUES(1)"), 2, "{name}");
        assert_eq!(insert_id(&mut client, &format!("INSERT INTO {OTHER}.t(a) VALUES(1)")), 1, "{name}");
        // One generator for all shards, in both.
        rig.proxy.write_rules("rules", &rules);
        rig.proxy.write_rules("ids", "schema = \"ids\"\n[generators.shards]\nkind = \"sequence\"\n");
        let (is_active, log) = rig.proxy.reload();
        assert!(is_active, "{name}: {log}");
        let mut client = rig.client();
        let mut ids: Vec<u64> = ["s_1".to_owned(), "s_2".to_owned(), format!("{OTHER}.s_3")]
            .into_iter()
            .map(|table| insert_id(&mut client, &format!("INSERT INTO {table}(a) VALUES(2)")))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 3, "{name}: {ids:?}");
        assert_eq!(insert_id(&mut client, &format!("INSERT INTO {OTHER}.t(a) VALUES(1)")), 2, "{name}");
    });
}
