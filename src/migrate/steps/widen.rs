//! Narrow integers become BIGINT, with all columns that foreign keys tie to them: the keys go first, and come back.

use std::collections::BTreeSet;

use super::alter::{COPY, around};
use super::{Sql, Step};
use crate::migrate::definition::Definition;
use crate::migrate::family::{Family, Member};
use crate::migrate::interleave::Flavour;
use crate::schema::WholeKey;
use crate::sql::name::{quoted, same_column};
use crate::table_name::TableName;

/// MySQL 8.4 and later keep a key that refers to columns that are not unique, but add none, and drop none beside it (1553).
const OLD_KEYS: &str =
    "SET SESSION /*!80400 restrict_fk_on_non_standard_key = OFF, */ foreign_key_checks = ON";

/// Makes these columns BIGINT.
pub fn widen(family: &Family, flavour: Flavour) -> Step {
    let wide = |definition: &Definition| definition.with_type("bigint");
    let (sql, back) = (alters(family, flavour, wide), alters(family, flavour, Clone::clone));
    if family.columns.is_empty() {
        let about = vec!["All columns are BIGINT: there is nothing to do.".to_owned()];
        return Step { name: "widen", about, sql, about_back: Vec::new(), back };
    }
    let mut about = vec![
        "The server copies each table. Writers wait meanwhile, readers do not.".to_owned(),
        "If an ALTER fails with error 1205, a long transaction blocks it: run the ALTER again.".to_owned(),
    ];
    let mut about_back = vec![
        "Keep these lines: after the step no server knows the old type. The lines fail if an id does not fit the old type. If the".to_owned(),
        "next id of AUTO_INCREMENT does not fit, later INSERTs fail.".to_owned(),
    ];
    if family.keys.is_empty() {
        about.push("For a large table use gh-ost or pt-online-schema-change.".to_owned());
        about.push(
            "Error 1833 or 3780 means a foreign key that the control account does not see: GRANT SELECT, SHOW VIEW to it on the key's schema.".to_owned(),
        );
    } else {
        about.extend(about_keys(family));
        about_back.push("The cautions of the step about foreign keys apply to the way back too.".to_owned());
    }
    Step { name: "widen", about, sql, about_back, back }
}

fn about_keys(family: &Family) -> Vec<String> {
    let mut about: Vec<String> = [
        "Foreign keys connect these columns, and the server changes no column of a key. So the step drops the keys and adds them again.",
        "From the first DROP FOREIGN KEY to the last ADD CONSTRAINT nothing checks the keys: the server accepts rows without a parent,",
        "and deletes a parent without its children. To add a key, the server reads the whole table while writers wait.",
        "Keep this output (| tee widen.sql | mysql): the server does not know the dropped keys. If a statement fails, fix the cause and",
        "continue with this statement, with the SET lines in front of it. Do not print the SQL again: dropped keys would be missing.",
        "If there are other keys to these columns, the SELECT in front fails with error 1690 and nothing is changed. Such a key is new,",
        "or the control account does not see it (GRANT SELECT, SHOW VIEW to the account on the key's schema). Then print the SQL again.",
        "To leave no row unchecked, run this line first and UNLOCK TABLES at the end: all clients wait then, readers too.",
    ]
    .map(str::to_owned)
    .into();
    let tables: BTreeSet<&TableName> = family
        .columns
        .iter()
        .map(|of| &of.table)
        .chain(family.keys.iter().flat_map(|key| [&key.child, &key.parent]))
        .collect();
    let locks: Vec<_> = tables.into_iter().map(|table| format!("{} WRITE", name_of(table))).collect();
    about.push(format!("    LOCK TABLES {};", locks.join(", ")));
    about.push(
        "If ADD CONSTRAINT fails with error 1452, rows without a parent came meanwhile. These statements find the rows:"
            .to_owned(),
    );
    about.extend(family.keys.iter().map(|key| format!("    {};", orphans(key))));
    about.push("Neither gh-ost nor pt-online-schema-change changes both ends of a key.".to_owned());
    about
}

/// Keys away; then each table, with those of its keys whose other ends are done; then the other keys.
fn alters(family: &Family, flavour: Flavour, definition: impl Fn(&Definition) -> Definition) -> Vec<Sql> {
    let drop = |key: &WholeKey| {
        let table = name_of(&key.child);
        format!("ALTER TABLE {table} DROP FOREIGN KEY {}, ALGORITHM=INPLACE, LOCK=NONE", quoted(&key.name))
    };
    let mut sql: Vec<String> = family.keys.iter().map(drop).collect();
    if !family.keys.is_empty() {
        sql.insert(0, these_alone(family));
        if flavour == Flavour::MySql {
            sql.insert(0, OLD_KEYS.to_owned());
        }
    }
    let (mut done, mut left) = (Vec::new(), family.keys.iter().collect::<Vec<_>>());
    for table in tables(&family.columns) {
        done.push(table);
        let mine = family.columns.iter().filter(|of| of.table == *table);
        let modify = |of: &Member| {
            format!("MODIFY COLUMN {} {}", quoted(&of.column.name), definition(&of.definition).as_str())
        };
        let mut clauses: Vec<String> = mine.map(modify).collect();
        // MariaDB makes no key of a table to itself in the ALTER that changes its columns (1005).
        let is_due =
            |key: &&WholeKey| key.child == *table && key.parent != *table && done.contains(&&key.parent);
        clauses.extend(left.iter().copied().filter(is_due).map(add));
        left.retain(|key| !is_due(key));
        sql.push(alter(table, &clauses));
    }
    while let Some(first) = left.first().copied() {
        let (mine, others): (Vec<_>, Vec<_>) = left.iter().partition(|key| key.child == first.child);
        sql.push(alter(&first.child, &mine.into_iter().map(add).collect::<Vec<_>>()));
        left = others;
    }
    around(sql.into_iter().map(Sql::Plain).collect())
}

/// A query that fails (1690) before any key is dropped, if the account that runs it sees other keys to these columns.
fn these_alone(family: &Family) -> String {
    let text = |name: &str| format!("'{}'", name.replace('\\', "\\\\").replace('\'', "''"));
    let leads = |key: &WholeKey| {
        let is_here = |to: &str| {
            family.columns.iter().any(|of| of.table == key.parent && same_column(&of.column.name, to))
        };
        key.columns.iter().filter(|(_, to)| is_here(to)).count()
    };
    let to = |of: &Member| {
        format!(
            "(referenced_table_schema = {} AND referenced_table_name = {} AND referenced_column_name = {})",
            text(&of.table.schema),
            text(&of.table.table),
            text(&of.column.name)
        )
    };
    format!(
        "SELECT POW(10, 400 * (COUNT(*) <> {})) AS these_keys_alone FROM information_schema.key_column_usage WHERE {}",
        family.keys.iter().map(leads).sum::<usize>(),
        family.columns.iter().map(to).collect::<Vec<_>>().join(" OR ")
    )
}

/// Each once, in their order.
fn tables(columns: &[Member]) -> Vec<&TableName> {
    let mut tables = Vec::new();
    for of in columns {
        if !tables.contains(&&of.table) {
            tables.push(&of.table);
        }
    }
    tables
}

fn name_of(table: &TableName) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.table))
}

fn alter(table: &TableName, clauses: &[String]) -> String {
    format!("ALTER TABLE {} {}, {COPY}", name_of(table), clauses.join(", "))
}

fn add(key: &WholeKey) -> String {
    let list =
        |names: Vec<&String>| names.into_iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let (from, to) = key.columns.iter().map(|(from, to)| (from, to)).unzip();
    format!(
        "ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {} ({}) ON DELETE {} ON UPDATE {}",
        quoted(&key.name),
        list(from),
        name_of(&key.parent),
        list(to),
        key.on_delete,
        key.on_update
    )
}

/// Rows of the child whose parent is not there. A key with a NULL in it refers to nothing.
fn orphans(key: &WholeKey) -> String {
    let each = |one: &dyn Fn(&(String, String)) -> String, between: &str| {
        key.columns.iter().map(one).collect::<Vec<_>>().join(between)
    };
    format!(
        "SELECT child.* FROM {} child LEFT JOIN {} parent ON {} WHERE {} AND {}",
        name_of(&key.child),
        name_of(&key.parent),
        each(&|(from, to)| format!("parent.{} = child.{}", quoted(to), quoted(from)), " AND "),
        each(&|(from, _)| format!("child.{} IS NOT NULL", quoted(from)), " AND "),
        key.columns.first().map_or_else(String::new, |(_, to)| format!("parent.{} IS NULL", quoted(to))),
    )
}

#[cfg(test)]
mod tests {
    use super::widen;
    use crate::migrate::definition::Definition;
    use crate::migrate::family::tests_of_families::{key, table};
    use crate::migrate::family::{Family, Member};
    use crate::migrate::interleave::Flavour;
    use crate::migrate::steps::{Print, render};
    use crate::rules::model::ColumnShape;

    fn member(of: &str, column: &str, definition: &str) -> Member {
        let create = format!("CREATE\n `{column}` {definition},");
        Member {
            table: table(of),
            column: ColumnShape::of(column, "int", definition, ""),
            definition: Definition::of(&create, column).unwrap(),
        }
    }

    #[track_caller]
    fn check(family: &Family, flavour: Flavour, print: Print, expect: &[&str]) -> String {
        let text = render(&[widen(family, flavour)], print);
        let alters: Vec<_> = text.lines().filter(|line| line.starts_with("ALTER")).collect();
        assert_eq!(alters, expect);
        let waits = text.lines().any(|line| line.starts_with("SET SESSION lock_wait_timeout"));
        assert_eq!(waits, !expect.is_empty(), "{text}");
        text
    }

    #[test]
    fn without_keys() {
        let family = Family {
            columns: vec![member("t", "id", "int(11) unsigned NOT NULL AUTO_INCREMENT")],
            keys: vec![],
        };
        let alter = |to: &str| {
            format!(
                "ALTER TABLE `shop`.`t` MODIFY COLUMN `id` {to} unsigned NOT NULL AUTO_INCREMENT, ALGORITHM=COPY, LOCK=SHARED;"
            )
        };
        let text = check(&family, Flavour::MySql, Print::Forward, &[&alter("bigint")]);
        assert!(text.contains("gh-ost or") && !text.contains("LOCK TABLES"), "{text}");
        check(&family, Flavour::MySql, Print::Back, &[&alter("int(11)")]);
        let none = check(&Family::default(), Flavour::MySql, Print::Forward, &[]);
        assert!(none.contains("there is nothing to do"), "{none}");
    }

    /// A table in between, a key to itself, one of two columns, and a circle.
    #[test]
    fn keys_go_and_come_back() {
        let family = Family {
            columns: vec![
                member("orders", "id", "int NOT NULL AUTO_INCREMENT"),
                member("orders", "up", "int DEFAULT NULL"),
                member("items", "order_id", "int NOT NULL"),
                member("notes", "order_id", "int NOT NULL"),
                member("orders", "last", "int DEFAULT NULL"),
            ],
            keys: vec![
                key("c1", "items", "orders", &[("order_id", "id")]),
                key("c2", "notes", "items", &[("order_id", "order_id"), ("nr", "nr")]),
                key("c3", "orders", "orders", &[("up", "id")]),
                key("c4", "orders", "notes", &[("last", "order_id")]),
            ],
        };
        let (copy, rules) = ("ALGORITHM=COPY, LOCK=SHARED;", "ON DELETE CASCADE ON UPDATE NO ACTION");
        let expect = |int: &str| {
            let drop = |of: &str, name: &str| {
                format!("ALTER TABLE `shop`.`{of}` DROP FOREIGN KEY `{name}`, ALGORITHM=INPLACE, LOCK=NONE;")
            };
            [
                drop("items", "c1"),
                drop("notes", "c2"),
                drop("orders", "c3"),
                drop("orders", "c4"),
                format!(
                    "ALTER TABLE `shop`.`orders` MODIFY COLUMN `id` {int} NOT NULL AUTO_INCREMENT, MODIFY COLUMN `up` {int} DEFAULT NULL, \
                     MODIFY COLUMN `last` {int} DEFAULT NULL, {copy}"
                ),
                format!(
                    "ALTER TABLE `shop`.`items` MODIFY COLUMN `order_id` {int} NOT NULL, ADD CONSTRAINT `c1` FOREIGN KEY (`order_id`) \
                     REFERENCES `shop`.`orders` (`id`) {rules}, {copy}"
                ),
                format!(
                    "ALTER TABLE `shop`.`notes` MODIFY COLUMN `order_id` {int} NOT NULL, ADD CONSTRAINT `c2` FOREIGN KEY (`order_id`, \
                     `nr`) REFERENCES `shop`.`items` (`order_id`, `nr`) {rules}, {copy}"
                ),
                format!(
                    "ALTER TABLE `shop`.`orders` ADD CONSTRAINT `c3` FOREIGN KEY (`up`) REFERENCES `shop`.`orders` (`id`) {rules}, \
                     ADD CONSTRAINT `c4` FOREIGN KEY (`last`) REFERENCES `shop`.`notes` (`order_id`) {rules}, {copy}"
                ),
            ]
        };
        for (print, int) in [(Print::Forward, "bigint"), (Print::Back, "int")] {
            let expect = expect(int);
            check(&family, Flavour::MariaDb, print, &expect.each_ref().map(String::as_str));
        }
        let text = render(&[widen(&family, Flavour::MySql)], Print::Forward);
        for expect in [
            "\n--     LOCK TABLES `shop`.`items` WRITE, `shop`.`notes` WRITE, `shop`.`orders` WRITE;\n",
            "\n--     SELECT child.* FROM `shop`.`notes` child LEFT JOIN `shop`.`items` parent ON parent.`order_id` = \
             child.`order_id` AND parent.`nr` = child.`nr` WHERE child.`order_id` IS NOT NULL AND child.`nr` IS NOT NULL AND \
             parent.`order_id` IS NULL;\n",
            "\nSELECT POW(10, 400 * (COUNT(*) <> 4)) AS these_keys_alone FROM information_schema.key_column_usage WHERE \
             (referenced_table_schema = 'shop' AND referenced_table_name = 'orders' AND referenced_column_name = 'id') OR ",
            "\nSET SESSION /*!80400 restrict_fk_on_non_standard_key = OFF, */ foreign_key_checks = ON;\n",
        ] {
            assert!(text.contains(expect), "{expect}: {text}");
        }
    }
}
