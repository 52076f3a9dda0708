//! Foreign keys: what `migrate sql` prints for columns that they tie together, run on tables with rows.

use std::fs;
use std::path::Path;

use crate::migrate::bench::{Bench, folder};
use crate::support::raw::Client;
use crate::support::{Kind, Server};

const RULES: &str = "schema = \"k\"\n[generators.orders]\nkind = \"sequence\"\n[tables.orders]\ncolumn = \"ID\"\ngenerator = \"orders\"\nmode = \"off\"\n";

/// Keys to a table itself, by two columns, from another schema, with every name in need of quotes, in a circle by a key that is
/// not unique; and one that has nothing to do with the id.
const TABLES: [&str; 10] = [
    "CREATE DATABASE k",
    "CREATE DATABASE `k 2`",
    "CREATE TABLE k.articles (id INT NOT NULL PRIMARY KEY)",
    "CREATE TABLE k.orders (id INT UNSIGNED NOT NULL AUTO_INCREMENT COMMENT 'the ''number''', up INT UNSIGNED NULL DEFAULT NULL COMMENT 'x', \
     last INT UNSIGNED NULL, PRIMARY KEY (id), CONSTRAINT own FOREIGN KEY (up) REFERENCES k.orders (id) ON DELETE SET NULL)",
    "CREATE TABLE k.items (order_id INT UNSIGNED NOT NULL, nr INT NOT NULL, article_id INT NULL, PRIMARY KEY (order_id, nr), \
     CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES k.orders (id) ON DELETE CASCADE ON UPDATE CASCADE, \
     CONSTRAINT of_article FOREIGN KEY (article_id) REFERENCES k.articles (id))",
    "ALTER TABLE k.orders ADD CONSTRAINT circle FOREIGN KEY (last) REFERENCES k.items (order_id) ON DELETE NO ACTION",
    "CREATE TABLE `k 2`.`no``tes` (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, `order;id` INT UNSIGNED NULL, nr INT NULL, \
     CONSTRAINT `of``item` FOREIGN KEY (`order;id`, nr) REFERENCES k.items (order_id, nr) ON DELETE CASCADE)",
    "INSERT INTO k.articles VALUES (1)",
    "INSERT INTO k.orders (up) SELECT NULL FROM information_schema.columns LIMIT 300",
    "INSERT INTO k.items SELECT id, 1, 1 FROM k.orders",
];

const MORE: [&str; 4] = [
    "INSERT INTO `k 2`.`no``tes` (`order;id`, nr) SELECT order_id, nr FROM k.items",
    "INSERT INTO `k 2`.`no``tes` (`order;id`, nr) VALUES (NULL, 1), (7, NULL)",
    "UPDATE k.orders SET up = 1, last = 5 WHERE id > 10",
    "ANALYZE TABLE k.orders, k.items, `k 2`.`no``tes`",
];

const ALL: [&str; 3] = ["k.orders", "k.items", "`k 2`.`no``tes`"];

/// The guide's grants, for both schemas.
const GRANTS: [&str; 4] = [
    "CREATE USER looks@'%' IDENTIFIED BY ''",
    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON k.* TO looks@'%'",
    "GRANT SELECT, SHOW VIEW, TRIGGER, EVENT ON `k 2`.* TO looks@'%'",
    "GRANT ALL ON rowstamp.* TO looks@'%'",
];

fn make(server: &Server) -> Client {
    let mut root = server.client();
    if server.kind == Kind::MySql9 {
        root.run("SET restrict_fk_on_non_standard_key = OFF");
    }
    for sql in TABLES.iter().chain(&MORE).chain(&GRANTS) {
        root.run(*sql);
    }
    root
}

/// The definitions, each a sorted list of lines, and the rows.
#[derive(Debug, PartialEq)]
struct Shown(Vec<Vec<String>>, Vec<String>);

fn shown(root: &mut Client) -> Shown {
    let definition = |table: &&str| {
        let text = root.run(format!("SHOW CREATE TABLE {table}"))[0].cell(0, 1).unwrap();
        let mut lines: Vec<_> = text
            .lines()
            .map(|line| line.trim_end_matches(',').split(" AUTO_INCREMENT=").next().unwrap().to_owned())
            .collect();
        lines.sort();
        lines
    };
    let definitions = ALL.iter().map(definition).collect();
    let sums = [
        "SELECT CONCAT_WS(':', COUNT(*), SUM(id), SUM(up), SUM(last)) FROM k.orders",
        "SELECT CONCAT_WS(':', COUNT(*), SUM(order_id), SUM(nr)) FROM k.items",
        "SELECT CONCAT_WS(':', COUNT(*), SUM(`order;id`), SUM(nr)) FROM `k 2`.`no``tes`",
    ];
    Shown(definitions, sums.iter().map(|sql| root.run(*sql)[0].cell(0, 0).unwrap()).collect())
}

/// The same definitions with BIGINT for the id and the columns that refer to it.
fn widened(shown: &Shown) -> Shown {
    let family =
        ["`id` int(10) unsigned", "`id` int unsigned", "`up` ", "`last` ", "`order_id` ", "`order;id` "];
    let wide = |line: &String| {
        if family.iter().any(|begin| line.trim_start().starts_with(begin)) {
            line.replace("int(10) unsigned", "bigint(20) unsigned")
                .replace(" int unsigned", " bigint unsigned")
        } else {
            line.clone()
        }
    };
    let definitions = shown.0.iter().map(|lines| {
        let mut lines: Vec<_> = lines.iter().map(wide).collect();
        lines.sort();
        lines
    });
    Shown(definitions.collect(), shown.1.clone())
}

/// Each key refuses what it should, and cascades.
fn keys_hold(kind: Kind, root: &mut Client) {
    for refused in [
        "INSERT INTO k.items VALUES (99999, 1, 1)",
        "INSERT INTO k.orders (id, up) VALUES (800, 99999)",
        "UPDATE k.orders SET last = 99999 WHERE id = 1",
        "INSERT INTO `k 2`.`no``tes` (`order;id`, nr) VALUES (3, 99)",
    ] {
        let error = root.query(refused).unwrap()[0].err().map(|error| error.code);
        assert_eq!(error, Some(1452), "{}: {refused}", kind.name());
    }
    root.run("BEGIN");
    root.run("DELETE FROM k.orders WHERE id = 9");
    let left = "SELECT CONCAT((SELECT COUNT(*) FROM k.items WHERE order_id = 9), (SELECT COUNT(*) FROM `k 2`.`no``tes` WHERE `order;id` = 9))";
    assert_eq!(root.run(left)[0].cell(0, 0).as_deref(), Some("00"), "{}", kind.name());
    root.run("ROLLBACK");
}

/// Statements that are comments of what was printed.
fn commented(text: &str, begin: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("--     "));
    lines.filter(|line| line.starts_with(begin)).map(|line| line.trim_end_matches(';').to_owned()).collect()
}

/// A key that the account does not see, or not all of: nothing is done, and it is said.
fn unseen(kind: Kind, bench: &Bench, folder: &Path, root: &mut Client) {
    let rights = "SELECT, SHOW VIEW, TRIGGER, EVENT ON `k 2`.*";
    root.run(format!("REVOKE {rights} FROM looks@'%'"));
    let (code, said) = bench.run(folder, "rowstamp migrate sql --step widen | mysql");
    assert!(code == Some(1) && said.contains("ERROR 1690"), "{}: {said}", kind.name());
    root.run("GRANT SELECT ON `k 2`.* TO looks@'%'");
    if kind == Kind::MariaDb {
        let expect =
            ["foreign key of`item of k 2.no`tes", "GRANT SELECT, SHOW VIEW ON `k 2`.* to the account"];
        bench.check(folder, "rowstamp migrate sql --step widen", 1, &expect);
    }
    root.run(format!("GRANT {rights} TO looks@'%'"));
}

fn as_looks(folder: &Path) {
    let file = folder.join("rowstamp.toml");
    let config = fs::read_to_string(&file).unwrap().replace("\"root\"", "\"looks\"");
    fs::write(&file, config).unwrap();
}

#[test]
fn columns_that_keys_tie_together_are_widened_and_narrowed() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let (bench, (_kept, folder)) = (Bench::new(&server), folder(&server, &[("k", RULES)]));
        let mut root = make(&server);
        as_looks(&folder);
        let before = shown(&mut root);
        keys_hold(kind, &mut root);
        unseen(kind, &bench, &folder, &mut root);
        assert_eq!(shown(&mut root), before, "{}", kind.name());
        let back = bench.check(
            &folder,
            "rowstamp migrate sql --step widen --back | tee back.sql",
            0,
            &["DROP FOREIGN KEY"],
        );
        assert!(!back.contains("articles"), "{back}");
        let text = bench.check(
            &folder,
            "rowstamp migrate sql --step widen | tee widen.sql && mysql <widen.sql",
            0,
            &["LOCK TABLES"],
        );
        assert_eq!(shown(&mut root), widened(&before), "{}: {text}", kind.name());
        keys_hold(kind, &mut root);
        bench.check(&folder, "rowstamp migrate sql --step widen | mysql", 0, &[]);
        // Ids that INT does not hold, on both ends.
        root.run("INSERT INTO k.orders (id, up) VALUES (5000000000, 1)");
        root.run("INSERT INTO k.items VALUES (5000000000, 1, 1)");
        root.run("DELETE FROM k.orders WHERE id = 5000000000");
        root.run("ALTER TABLE k.orders AUTO_INCREMENT = 801");

        // Without the keys somebody writes what they would refuse: it is found, and the rest goes on.
        let alters: Vec<_> =
            back.lines().filter(|line| line.starts_with("ALTER") || line.starts_with("SET")).collect();
        let (drops, rest): (Vec<_>, Vec<_>) =
            alters.into_iter().partition(|line| line.contains("DROP FOREIGN KEY"));
        fs::write(folder.join("drops.sql"), drops.join("\n")).unwrap();
        fs::write(folder.join("rest.sql"), rest.join("\n")).unwrap();
        bench.check(&folder, "(grep ^SET rest.sql; cat drops.sql) | mysql", 0, &[]);
        let orphans = commented(&text, "SELECT child");
        assert_eq!(orphans.len(), 4, "{text}");
        let found = |root: &mut Client| {
            orphans.iter().map(|sql| root.run(sql.as_str())[0].rows().len()).sum::<usize>()
        };
        assert_eq!(found(&mut root), 0, "{}", kind.name());
        root.run("INSERT INTO `k 2`.`no``tes` (`order;id`, nr) VALUES (3, 99)");
        assert_eq!(found(&mut root), 1, "{}", kind.name());
        let (code, said) = bench.run(&folder, "mysql <rest.sql");
        assert!(code == Some(1) && said.contains("1452"), "{}: {said}", kind.name());
        root.run("DELETE FROM `k 2`.`no``tes` WHERE nr = 99");
        let (_, failed) = said.split_once("at line ").unwrap();
        let line: usize = failed.split(':').next().unwrap().parse().unwrap();
        let again = format!("(grep ^SET rest.sql; tail -n +{line} rest.sql) | mysql");
        bench.check(&folder, &again, 0, &[]);
        assert_eq!(shown(&mut root), before, "{}", kind.name());
        keys_hold(kind, &mut root);

        // Nothing goes unchecked under locks.
        let locks = commented(&text, "LOCK TABLES");
        let script = format!(
            "{};\n{}\nUNLOCK TABLES;\n",
            locks[0],
            fs::read_to_string(folder.join("widen.sql")).unwrap()
        );
        fs::write(folder.join("locked.sql"), script).unwrap();
        bench.check(&folder, "mysql <locked.sql", 0, &[]);
        assert_eq!(shown(&mut root), widened(&before), "{}", kind.name());
        bench.check(&folder, "mysql <back.sql", 0, &[]);
        assert_eq!(shown(&mut root), before, "{}", kind.name());
    }
}

#[test]
fn the_counter_of_a_column_that_keys_refer_to_goes_and_comes() {
    for kind in Kind::ALL {
        let Some(server) = Server::start(kind) else { continue };
        let (bench, (_kept, folder)) = (Bench::new(&server), folder(&server, &[("k", RULES)]));
        let mut root = make(&server);
        let before = shown(&mut root);
        bench.check(&folder, "rowstamp migrate sql --step drop | mysql", 0, &[]);
        let without = shown(&mut root);
        assert!(before != without && before.1 == without.1, "{}", kind.name());
        keys_hold(kind, &mut root);
        bench.check(&folder, "rowstamp migrate sql --step drop --back --counter 900 | mysql", 0, &[]);
        assert_eq!(shown(&mut root), before, "{}", kind.name());
        keys_hold(kind, &mut root);
        assert_eq!(
            root.run("INSERT INTO k.orders () VALUES ()")[0].ok().unwrap().insert_id,
            900,
            "{}",
            kind.name()
        );
    }
}
