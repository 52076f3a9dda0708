//! The ALTERs, with the strictest clauses that a server takes for each: it refuses rather than copies a table unasked.

use super::{Sql, Step, Subject};
use crate::migrate::interleave::Flavour;
use crate::sql::name::quoted;

/// INSERTs wait for an ALTER that waits for a long transaction. So the ALTER gives up soon, and is tried again.
pub(super) const LOCK_TIMEOUT: &str = "SET SESSION lock_wait_timeout = 5";

/// Errors instead of cut values, backslashes in comments as SHOW CREATE TABLE writes them, and a row whose id is 0 keeps it.
const MODE: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO'";

/// Readers go on, writers wait.
pub(super) const COPY: &str = "ALGORITHM=COPY, LOCK=SHARED";

/// MySQL refuses to change AUTO_INCREMENT of a column that foreign keys refer to (1833), also where its type stays as it is.
const NO_KEY_CHECKS: &str = "SET SESSION foreign_key_checks = OFF";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    TakeCounter,
    GiveCounter,
}

/// Measured on MariaDB 10.11 and MySQL 9.7 (tests/migrate), on tables of InnoDB: MySQL copies the table for each of them.
/// Source: MySQL manual, "Online DDL Operations"; MariaDB Knowledge Base, "InnoDB Online DDL Overview".
fn clauses(flavour: Flavour, change: Change) -> &'static str {
    match (flavour, change) {
        (Flavour::MariaDb, Change::TakeCounter) => "ALGORITHM=INSTANT",
        _ => COPY,
    }
}

fn modify(of: &Subject, flavour: Flavour, definition: &str, change: Change, more: &str) -> Sql {
    let (table, column) = (format!("{}.{}", quoted(&of.schema), quoted(&of.table)), quoted(&of.column.name));
    let clauses = clauses(flavour, change);
    Sql::Plain(format!("ALTER TABLE {table} MODIFY COLUMN {column} {definition}{more}, {clauses}"))
}

pub(super) fn around(alters: Vec<Sql>) -> Vec<Sql> {
    if alters.is_empty() {
        return alters;
    }
    let before = [MODE, LOCK_TIMEOUT].map(|sql| Sql::Plain(sql.to_owned()));
    before.into_iter().chain(alters).collect()
}

pub fn drop_counter(subjects: &[Subject], flavour: Flavour) -> Step {
    let copies = match flavour {
        Flavour::MariaDb => {
            "The step takes no time on MariaDB; the way back copies the table while writers wait."
        }
        Flavour::MySql => "The step copies the table while writers wait; the way back does too.",
    };
    let mut about = vec![
        "The columns lose AUTO_INCREMENT. A direct INSERT without an id then fails with error 1364 in a strict sql_mode."
            .to_owned(),
        format!("{copies} For a large table use gh-ost or"),
        "pt-online-schema-change, or keep AUTO_INCREMENT and the guard trigger: the proxy serves the table in both forms."
            .to_owned(),
        "If an ALTER fails with error 1205, a long transaction blocks it: run the ALTER again.".to_owned(),
    ];
    let has_counter = |of: &&Subject| of.definition.has_counter();
    about.extend(
        subjects
            .iter()
            .filter(|of| !has_counter(of))
            .map(|of| format!("{}.{}: column {} has no AUTO_INCREMENT", of.schema, of.table, of.column.name)),
    );
    if flavour == Flavour::MySql {
        about.push(
            "foreign_key_checks is off for the ALTERs of this client only: no type and no row changes."
                .to_owned(),
        );
    }
    let take =
        |of: &Subject| modify(of, flavour, of.definition.without_counter().as_str(), Change::TakeCounter, "");
    let give = |of: &Subject| {
        let counter = format!(", AUTO_INCREMENT = {}", of.counter_from.ok()?);
        Some(modify(of, flavour, of.definition.with_counter().as_str(), Change::GiveCounter, &counter))
    };
    let about_back = [
        "Before this, the generators must issue even ids (step = 2, offset = 0), and step interleave must be complete.",
        "The counter begins above all odd ids that a generator may have issued. Writers wait while the table is copied.",
    ];
    Step {
        name: "drop",
        about,
        sql: around(unchecked(flavour, subjects.iter().filter(has_counter).map(take).collect())),
        about_back: about_back
            .map(str::to_owned)
            .into_iter()
            .chain(subjects.iter().filter_map(left_out))
            .collect(),
        back: around(unchecked(flavour, subjects.iter().filter_map(give).collect())),
    }
}

/// Why the table's counter may not come back; `None`: it may.
pub fn left_out(of: &Subject) -> Option<String> {
    let why = of.counter_from.err()?;
    Some(format!("{}.{} is left out, because ids would come twice: {why}", of.schema, of.table))
}

fn unchecked(flavour: Flavour, mut alters: Vec<Sql>) -> Vec<Sql> {
    if flavour == Flavour::MySql && !alters.is_empty() {
        alters.insert(0, Sql::Plain(NO_KEY_CHECKS.to_owned()));
    }
    alters
}

#[cfg(test)]
mod tests {
    use super::drop_counter;
    use crate::migrate::interleave::Flavour;
    use crate::migrate::steps::tests_of_subjects::subject;
    use crate::migrate::steps::{Print, Step, Subject, render};

    #[track_caller]
    fn check(step: &Step, print: Print, expect: &[&str]) {
        let text = render(std::slice::from_ref(step), print);
        let alters: Vec<_> = text.lines().filter(|line| line.starts_with("ALTER")).collect();
        assert_eq!(alters, expect);
        let waits = text.lines().any(|line| line.starts_with("SET SESSION lock_wait_timeout"));
        assert_eq!(waits, !expect.is_empty(), "{text}");
    }

    #[test]
    fn the_counter_goes_and_comes() {
        let step =
            drop_counter(&[subject("t", "bigint NOT NULL AUTO_INCREMENT COMMENT 'x'")], Flavour::MariaDb);
        check(
            &step,
            Print::Forward,
            &["ALTER TABLE `shop`.`t` MODIFY COLUMN `id` bigint NOT NULL COMMENT 'x', ALGORITHM=INSTANT;"],
        );
        let gone = drop_counter(&[subject("t", "bigint NOT NULL")], Flavour::MySql);
        check(&gone, Print::Forward, &[]);
        check(
            &gone,
            Print::Back,
            &[
                "ALTER TABLE `shop`.`t` MODIFY COLUMN `id` bigint NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 70, \
               ALGORITHM=COPY, LOCK=SHARED;",
            ],
        );
    }

    #[test]
    fn a_counter_that_may_not_come_back() {
        let stays = Subject {
            counter_from: Err("its generator issues odd ids too"),
            ..subject("t", "bigint NOT NULL")
        };
        let step = drop_counter(&[stays, subject("u", "bigint NOT NULL")], Flavour::MariaDb);
        let back = [
            "ALTER TABLE `shop`.`u` MODIFY COLUMN `id` bigint NOT NULL AUTO_INCREMENT, AUTO_INCREMENT = 70, \
                     ALGORITHM=COPY, LOCK=SHARED;",
        ];
        check(&step, Print::Back, &back);
        let text = render(std::slice::from_ref(&step), Print::Back);
        assert!(
            text.contains(
                "-- shop.t is left out, because ids would come twice: its generator issues odd ids too\n"
            ),
            "{text}"
        );
    }
}
