//! `rowstamp migrate plan` and what is wrong with a command line.

use std::fs;
use std::path::Path;

use crate::migrate::bench::{Bench, folder};
use crate::support::{Kind, Server};

const TABLES: [&str; 6] = [
    "CREATE DATABASE plan",
    "CREATE TABLE plan.big (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE TABLE plan.small (no TINYINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)",
    "CREATE TABLE plan.none (id BIGINT NOT NULL PRIMARY KEY)",
    "INSERT INTO plan.big VALUES (41, 1)",
    "INSERT INTO plan.small VALUES (241, 1)",
];

#[test]
fn tables_are_listed_and_rules_are_added() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let bench = Bench::new(&server);
        for sql in TABLES {
            server.client().run(sql);
        }
        let (_kept, folder) = folder(&server, &[]);
        let file = folder.join("rules/plan.toml");
        let text = bench.check(
            &folder,
            "rowstamp migrate plan",
            0,
            &[
                "plan.big",
                "9223372036854775766",
                "99 %",
                "warning: plan.small: 5 % of its ids are left",
                "rules/plan.toml (--write writes it)",
            ],
        );
        assert!(!text.contains("plan.none") && !file.exists(), "{text}");
        let json = bench.check(&folder, "rowstamp migrate plan --json --table 'plan.s*'", 0, &[]);
        let json: serde_json::Value = serde_json::from_str(
            json.lines().filter(|line| !line.starts_with("note")).collect::<Vec<_>>().join("\n").as_str(),
        )
        .unwrap();
        let table = &json["tables"][0];
        assert_eq!(table["table"], "small");
        assert_eq!(
            (&table["max_id"], &table["counter"], &table["left"]),
            (&241.into(), &242.into(), &14.into()),
            "{json:#}"
        );
        // What people wrote stays, and what they have is not proposed again.
        let mine = "# mine\nschema = \"plan\"\n[generators.x]\nkind = \"sequence\" # of mine\n[tables.small]\ncolumn = \"no\"\ngenerator = \"x\"\n";
        fs::write(&file, mine).unwrap();
        bench.check(
            &folder,
            "rowstamp migrate plan --schema plan --write",
            0,
            &["on (plan.x)", "1 table is new, with mode = \"off\""],
        );
        let written = fs::read_to_string(&file).unwrap();
        assert!(
            written.contains("# mine\n")
                && written.contains("# of mine\n")
                && written.contains("[tables.big]\n"),
            "{written}"
        );
        bench.check(&folder, "rowstamp check", 0, &["2 rules for 2 tables"]);
        bench.check(&folder, "rowstamp migrate plan --write", 0, &["off (plan.big)"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), written, "run again");
        let timestamps =
            "rowstamp migrate plan --kind timestamp --layout snowflake --table none --table small";
        bench.check(&folder, timestamps, 0, &["error: plan.small: tinyint", "widen it first"]);

        twins(&bench, &server, &folder);
        for (line, code, expect) in [
            ("plan --kind timestamp", 2, "--layout"),
            ("plan --kind timestamp --layout snowflak", 2, "did you mean \"snowflake\"?"),
            ("plan --kind timestamp --layout snowflake --interleave", 2, "--interleave is for sequences"),
            ("plan --schema nowhere", 0, "no table that was asked for has AUTO_INCREMENT"),
            ("sql --back", 2, "--step"),
            ("sql --table nothing", 1, "has no table that the rules name"),
            ("sql --table big --servers 2 --server 3", 2, "--server 3 is not one of --servers 2"),
            ("sql --table big --servers 2 --server 2", 2, "this server counts by 1 from 1"),
            ("seed --shard localhost", 2, "has no port"),
            ("seed --shard 127.0.0.1:1", 1, "127.0.0.1:1"),
            ("verify --step away", 2, "interleaved, on, moved, dropped, back"),
        ] {
            bench.check(&folder, &format!("rowstamp migrate {line}"), code, &[expect]);
        }
    }
}

/// Names that differ only in letter case, and schemas whose files would have one name.
fn twins(bench: &Bench, server: &Server, folder: &Path) {
    for sql in [
        "CREATE DATABASE `a b`",
        "CREATE TABLE `a b`.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY)",
        "CREATE TABLE `a b`.T (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY)",
        "INSERT INTO `a b`.t VALUES (5)",
        "INSERT INTO `a b`.T VALUES (77)",
        "CREATE DATABASE `a_b`",
        "CREATE TABLE a_b.t (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY)",
    ] {
        server.client().run(sql);
    }
    let text = bench.check(folder, "rowstamp migrate plan --schema 'a b'", 0, &["[tables.T]", "[tables.t]"]);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("a b."))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let counters: Vec<_> =
        lines.iter().filter(|line| line.len() > 6).map(|line| (line[1], line[5], line[6])).collect();
    assert_eq!(counters, [("b.T", "77", "78"), ("b.t", "5", "6")], "{}: {text}", server.kind.name());
    let both = "rowstamp migrate plan --schema 'a b' --schema a_b --write";
    bench.check(folder, both, 2, &["the rules of a_b and of a b would both be", "a_b.toml"]);
}
