//! Triggers that keep out who writes past the proxy: an INSERT that brings no id.
//!
//! In a BEFORE INSERT trigger the id that the server would generate is not there yet: measured on MariaDB 10.11 and MySQL 9.7,
//! `NEW.id` is 0 where the column is left out, DEFAULT or 0, and 0 (MySQL) or NULL (MariaDB) where NULL is written; where an id is
//! given, as the proxy does, it is that. Without AUTO_INCREMENT it is NULL where it is left out. INSERT IGNORE does not
//! swallow the signal.

use sha2::{Digest, Sha256};

use super::{Sql, Step, Subject};
use crate::sql::name::quoted;

const PREFIX: &str = "rowstamp_guard_";
/// MySQL manual, "Identifier Length Limits".
const NAME_CHARS_MAX: usize = 64;

/// The trigger's name; a long table's has a digest in the place of its end.
pub fn guard_name(table: &str) -> String {
    if PREFIX.len() + table.chars().count() <= NAME_CHARS_MAX {
        return format!("{PREFIX}{table}");
    }
    let digest = Sha256::digest(table.as_bytes());
    let hex = |bits: u8| char::from_digit(u32::from(bits & 15), 16);
    let digest: String = digest.iter().take(4).flat_map(|byte| [byte >> 4, *byte]).filter_map(hex).collect();
    let kept: String = table.chars().take(NAME_CHARS_MAX - PREFIX.len() - 9).collect();
    format!("{PREFIX}{kept}_{digest}")
}

pub fn guard(subjects: &[Subject]) -> Step {
    let trigger = |of: &Subject| {
        let (schema, name, table) = (quoted(&of.schema), quoted(&guard_name(&of.table)), quoted(&of.table));
        (format!("{schema}.{name}"), format!("{schema}.{table}"), quoted(&of.column.name))
    };
    let make = |of: &Subject| {
        let (trigger, table, id) = trigger(of);
        let message = "This INSERT has no id: Rowstamp makes the ids of this table, connect to Rowstamp";
        Sql::Body(format!(
            "CREATE TRIGGER IF NOT EXISTS {trigger} BEFORE INSERT ON {table} FOR EACH ROW\n\
             IF NEW.{id} IS NULL OR NEW.{id} = 0 THEN\n  \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{message}';\n\
             END IF"
        ))
    };
    let lock_timeout = || Sql::Plain(super::alter::LOCK_TIMEOUT.to_owned());
    Step {
        name: "guard",
        about: [
            "Run the step when all writers have moved: an INSERT without an id then fails with error 1644 (45000) and gets no id of",
            "the server's counter. Do not run the step while a client still writes directly. The step waits for open transactions on",
            "the table. If a transaction takes too long, the step fails with error 1205: run the step again.",
        ]
        .map(str::to_owned)
        .into(),
        sql: std::iter::once(lock_timeout()).chain(subjects.iter().map(make)).collect(),
        about_back: vec!["Run this before a client writes directly again.".to_owned()],
        back: std::iter::once(lock_timeout())
            .chain(subjects.iter().map(|of| Sql::Plain(format!("DROP TRIGGER IF EXISTS {}", trigger(of).0))))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{guard, guard_name};
    use crate::migrate::steps::tests_of_subjects::subject;
    use crate::migrate::steps::{Print, render};

    #[test]
    fn names_fit() {
        assert_eq!(guard_name("orders"), "rowstamp_guard_orders");
        assert_eq!(guard_name(&"x".repeat(49)).len(), 64);
        let (a, b) = (guard_name(&("x".repeat(60) + "a")), guard_name(&("x".repeat(60) + "b")));
        assert!(a != b && a.chars().count() == 64 && b.chars().count() == 64, "{a} {b}");
    }

    #[test]
    fn a_trigger_for_each_table() {
        let text = render(&[guard(&[subject("or`ders", "bigint NOT NULL AUTO_INCREMENT")])], Print::Forward);
        assert!(
            text.contains(
                "CREATE TRIGGER IF NOT EXISTS `shop`.`rowstamp_guard_or``ders` BEFORE INSERT ON `shop`.`or``ders`"
            ),
            "{text}"
        );
        assert!(text.contains("IF NEW.`id` IS NULL OR NEW.`id` = 0 THEN"), "{text}");
        let back = render(&[guard(&[subject("orders", "bigint")])], Print::Back);
        assert!(back.contains("DROP TRIGGER IF EXISTS `shop`.`rowstamp_guard_orders`;"), "{back}");
    }
}
