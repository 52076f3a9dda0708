//! `rowstamp migrate plan` and what is wrong with a command line.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::migrate::bench::{Bench, folder};
use crate::support::{Kind, Proxy, Server, proxy};

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
                "warning: plan.small: 5 % of the column's ids are left",
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
        // The rules that people wrote stay, and tables that have one are not proposed again.
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
        bench.check(&folder, timestamps, 0, &["error: plan.small: tinyint", "widen the column first"]);

        shards(&bench, &server, &folder);
        databases(&bench, &server, &folder);
        twins(&bench, &server, &folder);
        for (line, code, expect) in [
            ("plan --kind timestamp", 2, "--layout"),
            ("plan --kind timestamp --layout snowflak", 2, "did you mean \"snowflake\"?"),
            ("plan --kind timestamp --layout snowflake --interleave", 2, "--interleave is for sequences"),
            ("plan --schema nowhere", 0, "no chosen table has AUTO_INCREMENT"),
            ("sql --back", 2, "--step"),
            ("sql --table nothing", 1, "; write a rule first"),
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

/// Tables of one kind with numbers: one generator, and a pattern where that means no other table.
fn shards(bench: &Bench, server: &Server, folder: &Path) {
    server.client().run("CREATE DATABASE sharded");
    let tables = ["orders_00", "orders_01", "orders_63", "orders_7", "logs_1", "logs_2", "logs_x", "single1"];
    for table in tables {
        server.client().run(format!(
            "CREATE TABLE sharded.{table} (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)"
        ));
    }
    server.client().run("INSERT INTO sharded.orders_63 VALUES (900, 1)");
    let name = server.kind.name();
    bench.check(folder, "rowstamp migrate plan --schema sharded --write", 0, &["8 tables are new"]);
    let written = fs::read_to_string(folder.join("rules/sharded.toml")).unwrap();
    let headers: Vec<_> = written.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(
        headers,
        [
            "[generators.logs]",
            "[generators.logs_x]",
            "[generators.orders]",
            "[generators.single1]",
            "[tables.logs_1]",
            "[tables.logs_2]",
            "[tables.logs_x]",
            "[tables.\"orders_??\"]",
            "[tables.\"orders_?\"]",
            "[tables.single1]"
        ],
        "{name}: {written}"
    );
    assert_eq!(written.matches("generator = \"orders\"\n").count(), 2, "{name}: {written}");
    assert_eq!(written.matches("generator = \"logs\"\n").count(), 2, "{name}: {written}");
    bench.check(folder, "rowstamp check", 0, &["8 rules for"]);
    bench.check(
        folder,
        "rowstamp migrate plan --schema sharded",
        0,
        &["off (sharded.orders)", "off (sharded.logs)"],
    );
}

/// Databases that differ in a number and have the same tables: one file for all, and a generator for each name of a table.
fn databases(bench: &Bench, server: &Server, folder: &Path) {
    let name = server.kind.name();
    for db in ["mall_01", "mall_02", "mall_16"] {
        server.client().run(format!("CREATE DATABASE {db}"));
        for table in ["orders", "items_0", "items_1"] {
            let columns = "(id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)";
            server.client().run(format!("CREATE TABLE {db}.{table} {columns}"));
        }
    }
    server.client().run("CREATE TABLE mall_02.more (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)");
    server.client().run("INSERT INTO mall_16.orders VALUES (700, 1)");
    let plan = "rowstamp migrate plan --schema mall_01 --schema mall_02 --schema mall_16";
    bench.check(
        folder,
        &format!("{plan} --interleave --write"),
        0,
        &["mall-shards.toml: 10 tables are new, with mode = \"off\"", "mall.toml: 3 generators are new"],
    );
    let read = |file: &str| fs::read_to_string(folder.join("rules").join(file)).unwrap();
    let (shards, generators) = (read("mall-shards.toml"), read("mall.toml"));
    let lines = |text: &str| {
        let is_told = |line: &&str| line.starts_with(['[', 's', 'g']) && !line.starts_with("step");
        text.lines().filter(is_told).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&shards),
        [
            "schema = \"mall_*\"",
            "[tables.\"items_?\"]",
            "generator = \"mall.items\"",
            "[tables.more]",
            "generator = \"mall.more\"",
            "[tables.orders]",
            "generator = \"mall.orders\""
        ],
        "{name}: {shards}"
    );
    let expect = ["schema = \"mall\"", "[generators.items]", "[generators.more]", "[generators.orders]"];
    assert_eq!(lines(&generators), expect, "{name}: {generators}");
    bench.check(folder, "rowstamp check", 0, &["and 5 patterns"]);
    // Again, and with a database that has come since: it is meant already.
    server.client().run("CREATE DATABASE mall_17");
    server.client().run("CREATE TABLE mall_17.orders (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT)");
    bench.check(
        folder,
        &format!("{plan} --schema mall_17 --write"),
        0,
        &["off (mall.orders)", "off (mall.items)"],
    );
    assert_eq!((read("mall-shards.toml"), read("mall.toml")), (shards.clone(), generators.clone()), "{name}");
    bench.check(
        folder,
        "rowstamp migrate verify --step interleaved --table 'mall_*.orders'",
        1,
        &["mall_17.orders"],
    );

    let on = shards.replace("\"off\"", "\"on\"");
    let proxy = Proxy::start(&proxy::config(&server.address()), &[("shards", &on), ("mall", &generators)]);
    let mut client = proxy.client();
    let mut ids = BTreeSet::new();
    for table in ["mall_01.orders", "mall_17.orders", "mall_16.orders", "mall_02.orders", "mall_01.orders"] {
        let outcomes = client.run(format!("INSERT INTO {table}(a) VALUES (1)"));
        let id = outcomes[0].ok().unwrap().insert_id;
        assert!(id > 700 && id.is_multiple_of(2) && ids.insert(id), "{name}: {table}: {id}");
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
    bench.check(folder, both, 2, &["the rules of a_b and of a b would both be in", "a_b.toml"]);
}
