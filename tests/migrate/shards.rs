//! `seed` and `verify` over two servers, and with a store that a running proxy holds.

use std::fs;

use crate::migrate::bench::{Bench, folder};
use crate::support::raw::Client;
use crate::support::{Kind, Proxy, Server, proxy};

const RULES: &str = "schema = \"s\"\n[generators.t]\nkind = \"sequence\"\n[generators.u]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n\
                     [tables.t]\ncolumn = \"id\"\ngenerator = \"t\"\n[tables.u]\ncolumn = \"id\"\ngenerator = \"u\"\n";

fn make(server: &Server) -> Client {
    let mut root = server.client();
    root.run("CREATE DATABASE s");
    root.run("CREATE TABLE s.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)");
    root.run("CREATE TABLE s.u (id BIGINT NOT NULL, KEY (id))");
    root
}

#[test]
fn two_shards_are_seeded_and_compared() {
    let (Some(first), Some(second)) = (Server::start(Kind::MariaDb), Server::start(Kind::MariaDb)) else {
        return;
    };
    let bench = Bench::new(&first);
    let (mut to_first, mut to_second) = (make(&first), make(&second));
    let (_kept, folder) = folder(&first, &[("s", RULES)]);
    let both = format!("--shard {} --shard {}", first.address(), second.address());
    to_first.run("INSERT INTO s.t VALUES (50, 1)");
    to_second.run("INSERT INTO s.t VALUES (70, 1), (20000, 1)");
    to_second.run("DELETE FROM s.t WHERE id = 20000");
    // The counter of the second one counts, and its row is gone.
    let seed = |more: &str, expect: &[&str]| {
        bench.check(&folder, &format!("rowstamp migrate seed --table t {more}"), 0, expect);
    };
    seed("--dry-run", &["s.t would be made at 51"]);
    seed("", &["s.t is created at 51"]);
    seed(&format!("{both} --dry-run"), &["s.t would be raised from 51 to 20001"]);
    seed(&format!("{both} --margin 1000"), &["s.t is raised from 51 to 21001"]);
    seed(&both, &["s.t is already at 21001"]);

    let verify = |more: &str, code: i32, expect: &[&str]| {
        bench.check(&folder, &format!("rowstamp migrate verify {both} {more}"), code, expect);
    };
    let row = format!("s.t on {}", second.address());
    verify("--table t", 0, &[&row, "2 ids of 2 tables compared: none is double", "Not checked: "]);
    // More than a page, in both.
    to_first.run("INSERT INTO s.t (a) SELECT 1 FROM mysql.help_topic a JOIN mysql.help_topic b LIMIT 25000");
    to_second.run("INSERT INTO s.t (id) VALUES (61), (15000)");
    let places = format!("61 in s.t on {} and s.t on {}, 70 in", first.address(), second.address());
    verify("--table t", 1, &["3 ids came twice", &places]);
    verify("--table t --since-id 70 --up-to-id 14999", 0, &["none is double"]);
    verify("--table t --since-id 70", 1, &["1 id came twice: 15000 in"]);
    // Above the bound: from elsewhere.
    verify(
        "--table t --json",
        1,
        &["\"outcome\": \"finding\"", "is not below the generator's committed bound 21001"],
    );

    // Timestamps: only what is decoded and reserved.
    to_first.run("INSERT INTO s.u VALUES (5), (5)");
    verify(
        "--table u",
        1,
        &["2 rows have ids with a node that never reserved any time", "1 id came twice: 5 in s.u on"],
    );
    bench.check(&folder, "rowstamp migrate seed --table u", 0, &["s.u: new nodes begin at 20"]);
}

/// Tables that the account does not see on one server are not left out in silence.
#[test]
fn a_shard_whose_tables_the_account_does_not_see() {
    let (Some(first), Some(second)) = (Server::start(Kind::MariaDb), Server::start(Kind::MariaDb)) else {
        return;
    };
    let bench = Bench::new(&first);
    let (mut to_first, mut to_second) = (make(&first), make(&second));
    for root in [&mut to_first, &mut to_second] {
        root.run("CREATE USER few@'%' IDENTIFIED BY ''");
        root.run("GRANT SELECT ON s.u TO few@'%'");
        root.run("INSERT INTO s.t VALUES (50, 1)");
    }
    for grant in ["SELECT ON s.* TO few@'%'", "ALL ON rowstamp.* TO few@'%'"] {
        to_first.run(format!("GRANT {grant}"));
    }
    let (_kept, folder) = folder(&first, &[("s", RULES)]);
    let file = folder.join("rowstamp.toml");
    let config = fs::read_to_string(&file).unwrap().replace("\"root\"", "\"few\"");
    fs::write(&file, config).unwrap();
    let both = format!("--shard {} --shard {}", first.address(), second.address());
    let lacks = format!("s.t: the control account sees no table of this rule on {}", second.address());
    let seed = format!("rowstamp migrate seed {both}");
    bench.check(&folder, &seed, 1, &[&lacks, "GRANT SELECT on the table to the account"]);
    bench.check(&folder, &format!("{seed} --dry-run"), 1, &[&lacks]);
    bench.check(&folder, "rowstamp store list", 0, &["the store has no generators"]);
    let verify = format!("rowstamp migrate verify {both}");
    let about = format!("s.t on {}\n  FINDING  the control account sees no such table", second.address());
    bench.check(&folder, &verify, 1, &[&about]);
    to_second.run("GRANT SELECT ON s.* TO few@'%'");
    bench.check(&folder, &seed, 0, &["s.t is created at 51"]);
    bench.check(&folder, &verify, 1, &["1 id came twice: 50 in"]);
    // Nowhere: it may not be made yet.
    for root in [&mut to_first, &mut to_second] {
        root.run("DROP TABLE s.t");
    }
    bench.check(
        &folder,
        &seed,
        0,
        &["note: s.t: the control account sees no such table on ", "; no generator is raised for the table"],
    );
    bench.check(
        &folder,
        &verify,
        0,
        &["  open     the control account sees no such table, so verify proves nothing of the table"],
    );
}

/// `verify` does not call well what it does not see.
#[test]
fn what_is_no_proof() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let bench = Bench::new(&server);
        let mut root = make(&server);
        let even = RULES.replacen("\"sequence\"", "\"sequence\"\nstep = 2", 1);
        let (_kept, folder) = folder(&server, &[("s", &even)]);
        let verify = |more: &str, code: i32, expect: &[&str]| {
            bench.check(&folder, &format!("rowstamp migrate verify {more}"), code, expect);
        };
        root.run("INSERT INTO s.t VALUES (50, 1)");
        verify("--table t --step moved --since-id 50", 0, &["no row has an id above 50", "counter is at 51"]);
        // Somebody's transaction is still open.
        let mut stray = server.client();
        stray.run("BEGIN");
        stray.run("INSERT INTO s.t (a) VALUES (1)");
        verify(
            "--table t --step moved --since-id 50",
            1,
            &["1 row above 50 has an id of other writers (51 to 51)"],
        );
        verify(
            "--table t --step moved --since-id 60",
            1,
            &["counter is at 52, so rows above 60 do not show"],
        );
        stray.run("ROLLBACK");
        // Two servers number their sessions apart.
        let twice = format!(
            "--table t --shard {0} --shard {0} --step interleaved --sessions-up-to",
            server.address()
        );
        verify(&format!("{twice} 7"), 2, &["--sessions-up-to has 1 number for 2 servers"]);
        verify(&format!("{twice} 7 --sessions-up-to 9"), 1, &["no session began before"]);
        // Text has another order than numbers.
        root.run("ALTER TABLE s.t MODIFY id VARCHAR(20) NOT NULL");
        root.run("INSERT INTO s.t VALUES ('9', 1), ('10', 1), ('100', 1)");
        let twice = format!("--table t --shard {0} --shard {0}", server.address());
        verify(
            &twice,
            0,
            &["  open     an id may be double: verify does not compare ids that are no integers"],
        );
        verify("--table t", 0, &["  proved   no id is double: the column has a unique key"]);
    }
}

#[test]
fn a_store_that_a_proxy_holds() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let bench = Bench::new(&server);
        let mut root = make(&server);
        root.run("INSERT INTO s.t VALUES (50, 1)");
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("s", RULES)]);
        proxy.client().run("INSERT INTO s.t (a) VALUES (2)");
        proxy.client().run("INSERT INTO s.u VALUES ()");
        let folder = proxy.dir();
        bench.check(
            folder,
            "rowstamp migrate seed",
            1,
            &["is open in a running proxy", "there is nothing to do"],
        );
        let text = bench.check(
            folder,
            "rowstamp migrate verify",
            0,
            &["open     the generators' bounds cannot be read", "2 rows with id % 1 = 0"],
        );
        let headings: Vec<_> = text.lines().filter(|line| ["s.t", "s.u"].contains(line)).collect();
        assert_eq!(headings, ["s.t", "s.u"], "{}: {text}", kind.name());

        let caution = "warning: The generators' bounds cannot be read";
        let begins = "warning: The counter of step drop --back begins above the tables' ids";
        let t = "s.t is left out, because ids would come twice: its generator issues odd ids";
        let u = "s.u is left out, because ids would come twice: its generator makes timestamps";
        let back = "rowstamp migrate sql --step drop --back";
        for (tables, left_out) in [("--table t", vec![t]), ("--table u", vec![u]), ("", vec![t, u])] {
            let expect = [vec![caution, begins, "error: no table is left for step drop --back:\n"], left_out];
            let text = bench.check(folder, &format!("{back} {tables} 2>&1 >printed"), 1, &expect.concat());
            assert!(!text.contains("ALTER TABLE"), "{}: {text}", kind.name());
            assert_eq!(fs::read_to_string(folder.join("printed")).unwrap(), "", "{}: {tables}", kind.name());
        }
        proxy.write_rules("s", &RULES.replacen("\"sequence\"", "\"sequence\"\nstep = 2", 1));
        let expect =
            ["-- The generators' bounds cannot be read", "-- s.u is left out", "AUTO_INCREMENT = 52"];
        bench.check(folder, &format!("{back} 2>said"), 0, &expect);
        let said = fs::read_to_string(folder.join("said")).unwrap();
        assert!(said.contains(caution) && said.contains(begins), "{}: {said}", kind.name());
    }
}

/// If the step goes from 2 to 1, odd ids of the counter may be anywhere, also above the generator's own.
#[test]
fn a_generator_that_is_made_whole_begins_above_the_counters_ids() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let mut root = make(&server);
        let even = RULES.replacen("\"sequence\"", "\"sequence\"\nstep = 2\nbatch = 100", 1);
        let proxy = Proxy::start(&proxy::config(&server.address()), &[("s", &even)]);
        let mut client = proxy.client();
        let mut insert = || client.run("INSERT INTO s.t (a) VALUES (1)")[0].ok().unwrap().insert_id;
        assert_eq!(insert(), 2);
        root.run("SET auto_increment_increment = 2, auto_increment_offset = 1");
        for _ in 0..200 {
            root.run("INSERT INTO s.t (a) VALUES (1)");
        }
        assert_eq!(insert(), 4);
        let highest: u64 = root.run("SELECT MAX(id) FROM s.t")[0].cell(0, 0).unwrap().parse().unwrap();
        proxy.write_rules("s", RULES);
        assert!(proxy.reload().0, "{}", proxy.log());
        let ids: Vec<_> = (0..300).map(|_| insert()).collect();
        assert!(ids[0] > highest && ids.is_sorted(), "{}: {ids:?} above {highest}", kind.name());
        // By steps of 2 it would be 598. Ids may be missing (docs/inserts.md).
        let span = ids[299] - ids[0];
        assert!((299..320).contains(&span), "{}: all numbers: {ids:?}", kind.name());
    }
}
