//! A thousand tables by rules of a few lines, and how often the server is asked about them.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::audit;
use crate::in_table::config;
use crate::rig::{each_with, insert_id, make, rows};
use crate::support::raw::Client;
use crate::support::servers::ServerOptions;
use crate::support::{Kind, Proxy, Server};

const DB: &str = "many";
const TABLES: u64 = 1_000;
const LAST: u64 = TABLES - 1;

/// No questions about tables: a connection of the pool asks for its settings whenever it is used, and a store in a table asks after each of its
/// writes whether the server is the primary.
const OTHERS: [&str; 5] = [
    "SELECT @@max_allowed_packet",
    "SHOW ALL SLAVES STATUS",
    "SHOW GLOBAL STATUS WHERE LOWER",
    "SHOW GLOBAL VARIABLES WHERE LOWER",
    "SHOW REPLICA STATUS",
];

/// Each of these tables has its own sequence, `PREFIX_table`.
fn rules(tables: &str, prefix: &str) -> String {
    format!(
        "schema = \"{DB}\"\ntables.\"{tables}\" = {{ column = \"auto\", generator = \"{prefix}_{{table}}\" }}\n"
    )
}

/// A query without its values, cut off where those of a list begin to differ in number.
fn kind_of(sql: &str) -> String {
    let mut kind = String::new();
    let mut rest = sql;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\'' => {
                rest = rest.split_once('\'').map_or("", |(_, rest)| rest);
                kind.push('?');
            }
            '0'..='9' if kind.ends_with('?') => {}
            '0'..='9' => kind.push('?'),
            c => kind.push(c),
        }
    }
    kind.chars().take(100).collect()
}

/// The questions of the control account since the last call, by kind.
fn asked(direct: &mut Client) -> Counts {
    direct.run("SET GLOBAL general_log = 0");
    let log = direct.run(
        "SELECT argument FROM mysql.general_log WHERE user_host LIKE 'asker%' AND command_type IN ('Query', 'Execute')",
    );
    let mut kinds = BTreeMap::new();
    for sql in log[0].rows().iter().filter_map(|row| row[0].text()) {
        *kinds.entry(kind_of(&sql)).or_default() += 1;
    }
    direct.run("TRUNCATE mysql.general_log");
    direct.run("SET GLOBAL general_log = 1");
    kinds
}

type Counts = BTreeMap<String, u64>;

struct Step {
    name: &'static str,
    counts: Counts,
    seconds: u64,
}

/// Starts a proxy, moves its tables to other generators, stops it and starts it again; counts what each step asks.
fn steps(server: &Server, tables: &str, prefix: &str) -> Vec<Step> {
    let direct = &mut server.client();
    let config = config(server, prefix, "bounds.bounds");
    let config = config.replace("user = \"root\"", "user = \"asker\"");
    direct.run("DROP DATABASE IF EXISTS bounds");
    direct.run("CREATE DATABASE bounds");
    asked(direct);
    let mut steps = Vec::new();
    let step = |name, began: Instant, direct: &mut Client| Step {
        name,
        counts: asked(direct),
        seconds: began.elapsed().as_secs() + 1,
    };
    let began = Instant::now();
    let mut proxy = Proxy::start(&config, &[("rules", &rules(tables, prefix))]);
    steps.push(step("start", began, direct));
    let mut client = proxy.client();
    client.run(format!("USE {DB}"));
    let mut insert = |nth: u64| insert_id(&mut client, &format!("INSERT INTO t_{nth}(a) VALUES(1)"));
    let first = [insert(LAST), insert(LAST)];
    assert!(first[0] >= 70 && first[1] == first[0] + 1, "{first:?}");
    asked(direct);
    proxy.write_rules("rules", &rules(tables, &format!("{prefix}_moved")));
    let began = Instant::now();
    let (is_active, log) = proxy.reload();
    assert!(is_active, "{log}");
    steps.push(step("reload", began, direct));
    let moved = insert(LAST);
    assert!(moved > first[1], "{first:?} {moved}");
    asked(direct);
    let began = Instant::now();
    proxy.stop();
    steps.push(step("stop", began, direct));
    let began = Instant::now();
    proxy.restart();
    steps.push(step("start again", began, direct));
    steps
}

/// The number of questions for a hundred tables, and for a thousand: with each 200 tables a question of each kind is added, at most. The bounds are
/// in a table of the same server, so that the questions to the store count too.
#[test]
fn a_thousand_tables_are_asked_for_by_the_hundred() {
    for kind in Kind::ALL {
        let arguments = ["--general-log=1", "--log-output=TABLE"].map(str::to_owned).to_vec();
        let options = ServerOptions { arguments, ..ServerOptions::default() };
        let Some(server) = Server::start_with(kind, options) else { continue };
        let table = |nth: u64| {
            format!(
                "CREATE TABLE t_{nth} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT) AUTO_INCREMENT = 70; "
            )
        };
        let tables: String = (0..TABLES).map(table).collect();
        make(&server, DB, &tables);
        let mut direct = server.client();
        direct.run("CREATE USER asker@'%'");
        direct.run("GRANT SELECT, SHOW VIEW, PROCESS ON *.* TO asker@'%'");
        direct.run("GRANT ALL ON bounds.* TO asker@'%'");
        let few = steps(&server, "t_9??", "few");
        let all = steps(&server, "t_*", "all");
        for (few, all) in few.iter().zip(&all) {
            // Some things are asked once a second, or twice.
            let before = |kind: &str| few.counts.get(kind).copied().unwrap_or(0) + 2 * all.seconds;
            let is_often = |(kind, count): &(&String, &u64)| {
                !OTHERS.iter().any(|other| kind.starts_with(other)) && **count > before(kind) + TABLES / 200
            };
            let often: Vec<_> = all.counts.iter().filter(is_often).collect();
            assert!(
                often.is_empty(),
                "{}: {} asks often: {often:#?}; for few tables: {:#?}",
                kind.name(),
                all.name,
                few.counts
            );
        }
    }
}

/// The tables of WordPress 6 with their id columns; [`RELATIONS`] has none.
const WORDPRESS: [(&str, &str); 11] = [
    ("wp_commentmeta", "meta_id"),
    ("wp_comments", "comment_ID"),
    ("wp_links", "link_id"),
    ("wp_options", "option_id"),
    ("wp_postmeta", "meta_id"),
    ("wp_posts", "ID"),
    ("wp_term_taxonomy", "term_taxonomy_id"),
    ("wp_termmeta", "meta_id"),
    ("wp_terms", "term_id"),
    ("wp_usermeta", "umeta_id"),
    ("wp_users", "ID"),
];
const RELATIONS: &str = "CREATE TABLE wp_term_relationships (object_id BIGINT UNSIGNED NOT NULL, \
                         term_taxonomy_id BIGINT UNSIGNED NOT NULL, PRIMARY KEY (object_id, term_taxonomy_id)); ";

/// docs/rules.md has these rules: each table has dense ids of its own, whatever its id column is called.
#[test]
fn four_lines_are_the_rules_of_wordpress() {
    let rules = "schema = \"wordpress\"\n[tables.\"*\"]\ncolumn = \"auto\"\ngenerator = \"{table}\"\n";
    let table = |(table, id): &(&str, &str)| {
        format!(
            "CREATE TABLE {table} ({id} BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, a INT, PRIMARY KEY ({id})); \
             INSERT INTO {table} (a) VALUES (0), (0); "
        )
    };
    let made = format!("{}{RELATIONS}", WORDPRESS.iter().map(table).collect::<String>());
    each_with("wordpress", &made, "[log]\naudit = \"audit.log\"\n", rules, |rig| {
        let (mut client, name) = (rig.client(), rig.name());
        for (table, id) in WORDPRESS {
            let of = |a: u32| format!("INSERT INTO {table}(a) VALUES({a})");
            assert_eq!(
                [insert_id(&mut client, &of(1)), insert_id(&mut client, &of(2))],
                [3, 4],
                "{name}: {table}"
            );
            let sql = format!("SELECT {id}, a FROM {table} WHERE a > 0 ORDER BY {id}");
            assert_eq!(rows(&mut rig.direct(), &sql), "3,1 4,2", "{name}: {table}");
        }
        // The server would have given the same ids. A line for each statement, and one for each form of statement.
        let lines = audit::lines(rig, "audit.log", 3 * WORDPRESS.len());
        for (table, _) in WORDPRESS {
            let of = format!("wordpress.{table}");
            let is_of = |line: &&serde_json::Value| line["table"] == of && line["generator"] == of;
            assert_eq!(lines.iter().filter(is_of).count(), 2, "{name}: {table}: {lines:?}");
        }
        client.run("INSERT INTO wp_term_relationships VALUES (3, 4)");
        assert_eq!(rows(&mut rig.direct(), "SELECT * FROM wp_term_relationships"), "3,4", "{name}");
    });
}
