//! The servers' answers to the clauses that `migrate sql` prints, and to stricter ones: a server that learns
//! more shows here.

use crate::migrate::bench::{Bench, folder};
use crate::support::raw::Client;
use crate::support::{Kind, Server};

const RULES: &str = "schema = \"c\"\n[generators.t]\nkind = \"sequence\"\n[tables.\"t`;t\"]\ncolumn = \"i d\"\ngenerator = \"t\"\nmode = \"off\"\n";

/// A table whose every name needs quotes, with a row of id 0, which an ALTER could number again.
const TABLE: &str = "CREATE TABLE c.`t``;t` (`i d` INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'it''s \\\\ AUTO_INCREMENT', a INT, PRIMARY KEY (`i d`))";

fn refuses(client: &mut Client, sql: &str) -> bool {
    const NOT_SUPPORTED: [u16; 2] = [1845, 1846];
    let outcomes = client.query(sql).unwrap();
    outcomes[0].err().is_some_and(|error| NOT_SUPPORTED.contains(&error.code))
}

#[test]
fn each_step_and_its_way_back_are_taken_as_they_are_printed() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let bench = Bench::new(&server);
        let mut root = server.client();
        root.run("CREATE DATABASE c");
        root.run(TABLE);
        root.run("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'");
        root.run("INSERT INTO c.`t``;t` VALUES (0, 1), (7, 2)");
        root.run("SET sql_mode = DEFAULT");
        let (_kept, folder) = folder(&server, &[("c", RULES)]);
        let column = |root: &mut Client| {
            let sql = "SELECT CONCAT(data_type, ' ', extra, ' ', column_comment) FROM information_schema.columns \
                       WHERE table_schema = 'c' AND column_name = 'i d'";
            root.run(sql)[0].cell(0, 0).unwrap()
        };
        let comment = "it's \\ AUTO_INCREMENT";
        let step = |root: &mut Client, line: &str, expect: &str| {
            bench.check(&folder, &format!("rowstamp migrate sql --step {line} | mysql"), 0, &[]);
            assert_eq!(column(root), format!("{expect} {comment}"), "{}: {line}", kind.name());
            assert_eq!(
                root.run("SELECT GROUP_CONCAT(`i d`) FROM c.`t``;t`")[0].cell(0, 0).as_deref(),
                Some("0,7")
            );
        };
        // All steps at once, piped into a client, do nothing.
        bench.check(&folder, "rowstamp migrate sql --guard-triggers | mysql", 0, &[]);
        assert_eq!(column(&mut root), format!("int auto_increment {comment}"), "{}", kind.name());
        step(&mut root, "widen", "bigint auto_increment");
        step(&mut root, "drop", "bigint ");
        step(&mut root, "drop", "bigint ");
        step(&mut root, "drop --back --counter 70", "bigint auto_increment");
        let insert = "INSERT INTO c.`t``;t` (a) VALUES (3)";
        step(&mut root, "guard", "bigint auto_increment");
        // Again: of several tables some may have been locked.
        step(&mut root, "guard", "bigint auto_increment");
        for refused in [
            insert,
            "INSERT IGNORE INTO c.`t``;t` (a) VALUES (3)",
            "INSERT INTO c.`t``;t` VALUES (NULL, 3), (60, 3)",
        ] {
            let error =
                root.query(refused).unwrap()[0].err().map(|error| (error.code, error.sqlstate.clone()));
            assert_eq!(error, Some((1644, "45000".to_owned())), "{}: {refused}", kind.name());
        }
        root.run("INSERT INTO c.`t``;t` VALUES (60, 3)");
        root.run("DELETE FROM c.`t``;t` WHERE `i d` = 60");
        step(&mut root, "guard --back", "bigint auto_increment");
        let id = root.run(insert)[0].ok().unwrap().insert_id;
        assert!(id >= 70, "{}: {id}", kind.name());

        // Nothing stricter is to be had.
        let alter = |to: &str, clauses: &str| format!("ALTER TABLE c.x MODIFY id {to}, {clauses}");
        for (from, to, is_instant) in [
            ("BIGINT NOT NULL AUTO_INCREMENT", "BIGINT NOT NULL", kind == Kind::MariaDb),
            ("BIGINT NOT NULL", "BIGINT NOT NULL AUTO_INCREMENT", false),
            ("INT NOT NULL AUTO_INCREMENT", "BIGINT NOT NULL AUTO_INCREMENT", false),
        ] {
            root.run("DROP TABLE IF EXISTS c.x");
            root.run(format!("CREATE TABLE c.x (id {from} PRIMARY KEY)"));
            for clauses in ["ALGORITHM=COPY, LOCK=NONE", "ALGORITHM=INPLACE, LOCK=NONE", "ALGORITHM=INSTANT"]
            {
                let expect = !is_instant || clauses.contains("COPY");
                assert_eq!(
                    refuses(&mut root, &alter(to, clauses)),
                    expect,
                    "{}: {from} to {to}, {clauses}",
                    kind.name()
                );
                root.run(alter(from, "ALGORITHM=COPY"));
            }
        }
    }
}

#[test]
fn the_counter_is_made_odd_for_sessions_to_come() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let bench = Bench::new(&server);
        let mut old = server.client();
        old.run("CREATE DATABASE c");
        old.run(TABLE);
        let (_kept, folder) = folder(&server, &[("c", RULES)]);
        let insert = "INSERT INTO c.`t``;t` (a) VALUES (1)";
        let id = |client: &mut Client| client.run(insert)[0].ok().unwrap().insert_id;
        id(&mut old);
        let text =
            bench.check(&folder, "rowstamp migrate sql --step interleave | mysql", 0, &["sessions_up_to"]);
        let up_to = crate::migrate::guide::last_number(&text).unwrap();
        assert!(up_to >= u64::from(old.connection_id), "{text}");
        // Who is connected goes on as before; who comes takes odd ids, whatever is inserted in between.
        let mut new = server.client();
        for nth in 0..20 {
            id(&mut old);
            let highest =
                old.run("SELECT MAX(`i d`) FROM c.`t``;t`")[0].cell(0, 0).unwrap().parse::<u64>().unwrap();
            if nth % 3 == 0 {
                new.run(format!("INSERT INTO c.`t``;t` VALUES ({}, 9)", (highest + 10) & !1));
            }
            assert_eq!(id(&mut new) % 2, 1, "{}", kind.name());
        }
        let line = format!("rowstamp migrate verify --step interleaved --sessions-up-to {up_to}");
        // The control account is root, and so is the old session: it is taken for one of Rowstamp's own.
        bench.check(&folder, &line, 1, &["proved   auto_increment_increment is 2", "issues odd ids too"]);
        bench.check(&folder, "rowstamp migrate sql --step interleave --back | mysql", 0, &[]);
        let globals = "SELECT CONCAT(@@global.auto_increment_increment, @@global.auto_increment_offset)";
        assert_eq!(new.run(globals)[0].cell(0, 0).as_deref(), Some("11"));
    }
}
