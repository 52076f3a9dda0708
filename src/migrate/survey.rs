//! A table with AUTO_INCREMENT as it stands: how far its column reaches, whose rule it has, what is in the way of moving it.

use serde::Serialize;

use super::interleave::Counting;
use crate::ids::ID_MAX;
use crate::rules::model::Mode;
use crate::rules::{Ambiguous, RuleSet, pattern};
use crate::schema::Counter;
use crate::table_name::NameCase;

/// A line of `rowstamp migrate plan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Surveyed {
    pub schema: String,
    pub table: String,
    pub column: String,
    pub column_type: String,
    /// The number of rows, as the engine estimates it.
    pub rows_approximate: u64,
    /// `null`: the table could not be read.
    pub max_id: Option<u64>,
    /// The id that the server would hand out next.
    pub counter: u64,
    /// Ids that the column still holds; `null`: its type is no integer.
    pub left: Option<u64>,
    pub left_percent: Option<u64>,
    pub rule: Ruled,
    pub findings: Vec<Note>,
}

/// The rule that a table has; `none`: it has none yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Ruled {
    None,
    Off { generator: String },
    On { generator: String },
}

/// Something that a person must know before the table moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    pub severity: Severity,
    pub why: String,
    pub remedy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Error,
    Warning,
}

/// Which generators are proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// `is_even`: shares the numbers with the server's counter, which has the odd ones.
    Sequence { is_even: bool },
    /// Ids up to `last`, by a layout of this name.
    Timestamp { layout: String, last: u64 },
}

/// Which tables are looked at, by `*` and `?`; a pattern with a dot has the schema in it. None: all.
#[derive(Debug, Clone, Default)]
pub struct Chosen(pub Vec<String>);

impl Chosen {
    pub fn has(&self, schema: &str, table: &str) -> bool {
        let full = format!("{schema}.{table}");
        let fits = |one: &String| pattern::matches(one, table) || pattern::matches(one, &full);
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

/// Less than this is left: a warning.
const LEFT_PERCENT_MIN: u64 = 20;

impl Surveyed {
    pub fn of(
        counter: &Counter,
        max_id: Option<u64>,
        wanted: &Wanted,
        (rules, case): (&RuleSet, NameCase),
    ) -> Result<Surveyed, Ambiguous> {
        let rule = match rules.find(case, &counter.schema, &counter.table)? {
            None => Ruled::None,
            // In shadow mode it issues nothing either.
            Some(rule) if rule.mode != Mode::On => Ruled::Off { generator: rule.generator.to_string() },
            Some(rule) => Ruled::On { generator: rule.generator.to_string() },
        };
        let used = max_id.unwrap_or(0).max(counter.next.saturating_sub(1));
        // Whatever the column holds: no larger id is issued.
        let highest = counter.column.highest().map(|highest| highest.min(ID_MAX));
        let left = highest.map(|highest| highest.saturating_sub(used));
        let percent = |left: u64, of: u64| u128::from(left) * 100 / u128::from(of.max(1));
        let left_percent =
            left.zip(highest).map(|(left, of)| u64::try_from(percent(left, of)).unwrap_or(100));
        let mut surveyed = Surveyed {
            schema: counter.schema.clone(),
            table: counter.table.clone(),
            column: counter.column.name.clone(),
            column_type: counter.column_type.clone(),
            rows_approximate: counter.rows,
            max_id,
            counter: counter.next,
            left,
            left_percent,
            rule,
            findings: Vec::new(),
        };
        surveyed.findings = surveyed.notes(counter, wanted);
        Ok(surveyed)
    }

    pub fn name(&self) -> String {
        format!("{}.{}", self.schema, self.table)
    }

    /// True if a rule can be proposed for the table.
    pub fn is_free(&self) -> bool {
        self.rule == Ruled::None && !self.findings.iter().any(|note| note.severity == Severity::Error)
    }

    fn notes(&self, counter: &Counter, wanted: &Wanted) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut note = |severity, why: String, remedy: &str| {
            notes.push(Note { severity, why, remedy: remedy.to_owned() });
        };
        if pattern::is_pattern(&self.table) {
            let why = format!("the table's name {:?} would be a pattern in the rules", self.table);
            note(
                Severity::Error,
                why,
                "rename the table, or write a pattern by hand that matches this table only",
            );
        }
        if self.max_id.is_none() {
            let why =
                "the table cannot be read: it is locked or damaged, or the control account lacks SELECT";
            note(Severity::Warning, why.to_owned(), "GRANT SELECT, or wait until DDL on the table has ended");
        }
        match (counter.column.highest(), wanted) {
            (None, _) => {
                let why = format!("{} rounds large numbers, so two ids may become one", self.column_type);
                note(Severity::Error, why, "change the column to BIGINT");
            }
            (Some(highest), Wanted::Timestamp { layout, last }) if highest < *last => {
                let why = format!(
                    "{} holds ids up to {highest}, and layout {layout} makes ids up to {last}",
                    self.column_type
                );
                note(Severity::Error, why, "widen the column first: rowstamp migrate sql --step widen");
            }
            _ if self.left_percent.is_some_and(|percent| percent < LEFT_PERCENT_MIN) => {
                let why = format!("{} % of the column's ids are left", self.left_percent.unwrap_or(0));
                note(Severity::Warning, why, "widen the column: rowstamp migrate sql --step widen");
            }
            _ => {}
        }
        if !counter.engine.eq_ignore_ascii_case("innodb") {
            let why = format!(
                "the table's engine is {}: each ALTER copies the table while writers wait",
                counter.engine
            );
            note(Severity::Warning, why, "plan time for the copies, or convert the table to InnoDB");
        }
        notes
    }
}

/// Notes that concern the server, not one of its tables.
pub fn server_notes(counting: &Counting, wanted: &Wanted) -> Vec<Note> {
    let mut notes = Vec::new();
    let is_even = matches!(wanted, Wanted::Sequence { is_even: true });
    if counting.is_galeras {
        notes.push(Note {
            severity: Severity::Warning,
            why: "Galera sets auto_increment_increment and auto_increment_offset by itself when a node joins or leaves".to_owned(),
            remedy: "SET GLOBAL wsrep_auto_increment_control = OFF on every node before step interleave".to_owned(),
        });
    }
    let increments = counting.increments;
    if increments.increment > 1 && !(is_even && increments.are_odd()) {
        let (increment, offset) = (increments.increment, increments.offset);
        notes.push(Note {
            severity: Severity::Warning,
            why: format!(
                "auto_increment_increment is {increment} and auto_increment_offset {offset}: other servers may write to these \
                 tables, and drivers count the ids of a statement by this increment"
            ),
            remedy: "do each step on every server that takes writes, and name each server with --shard".to_owned(),
        });
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::{Chosen, Counting, Note, Ruled, Severity, Surveyed, Wanted, server_notes};
    use crate::ids::{BIGINT_MAX, ID_MAX};
    use crate::migrate::interleave::{Flavour, Increments};
    use crate::rules::RuleSet;
    use crate::rules::model::ColumnShape;
    use crate::schema::Counter;
    use crate::table_name::NameCase;

    const EVEN: Wanted = Wanted::Sequence { is_even: true };

    pub(in crate::migrate) fn counter(table: &str, data_type: &str, unsigned: bool, next: u64) -> Counter {
        Counter {
            schema: "shop".into(),
            table: table.into(),
            column: ColumnShape::of(
                "id",
                data_type,
                if unsigned { "unsigned" } else { "" },
                "auto_increment",
            ),
            column_type: data_type.into(),
            engine: "InnoDB".into(),
            rows: 3,
            next,
        }
    }

    #[track_caller]
    fn check(
        counter: &Counter,
        max_id: Option<u64>,
        wanted: &Wanted,
        left: Option<(u64, u64)>,
        expect: &[(Severity, &str)],
    ) {
        let rules = (&RuleSet::default(), NameCase::Sensitive);
        let found = Surveyed::of(counter, max_id, wanted, rules).unwrap();
        assert_eq!(found.left.zip(found.left_percent), left);
        let found: Vec<_> =
            found.findings.iter().map(|Note { severity, why, .. }| (*severity, why.as_str())).collect();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (found, expect) in found.iter().zip(expect) {
            assert!(found.0 == expect.0 && found.1.contains(expect.1), "{found:?}: {expect:?}");
        }
    }

    #[test]
    fn what_is_left_and_in_the_way() {
        use Severity::{Error, Warning};
        let snowflake = Wanted::Timestamp { layout: "snowflake".into(), last: BIGINT_MAX };
        let t = |data_type, unsigned, next| counter("t", data_type, unsigned, next);
        check(&t("tinyint", false, 28), Some(26), &EVEN, Some((100, 78)), &[]);
        check(
            &t("tinyint", false, 28),
            Some(110),
            &EVEN,
            Some((17, 13)),
            &[(Warning, "13 % of the column's ids are left")],
        );
        check(&t("bigint", false, 1), Some(0), &snowflake, Some((BIGINT_MAX, 100)), &[]);
        check(&t("bigint", true, 1), Some(0), &snowflake, Some((ID_MAX, 100)), &[]);
        check(
            &t("int", true, 1),
            Some(0),
            &snowflake,
            Some((4_294_967_295, 100)),
            &[(Error, "holds ids up to 4294967295")],
        );
        check(&t("double", false, 1), Some(0), &EVEN, None, &[(Error, "rounds large numbers")]);
        check(&t("bigint", false, 1), None, &EVEN, Some((BIGINT_MAX, 100)), &[(Warning, "cannot be read")]);
        let myisam = Counter { engine: "MyISAM".into(), ..t("bigint", false, 1) };
        check(&myisam, Some(0), &EVEN, Some((BIGINT_MAX, 100)), &[(Warning, "MyISAM")]);
        check(
            &counter("a*", "bigint", false, 1),
            Some(0),
            &EVEN,
            Some((BIGINT_MAX, 100)),
            &[(Error, "a pattern")],
        );
    }

    #[test]
    fn a_table_is_free_where_nothing_is_in_the_way() {
        let rules = (&RuleSet::default(), NameCase::Sensitive);
        let of = |table: &str| Surveyed::of(&counter(table, "int", false, 1), Some(0), &EVEN, rules).unwrap();
        assert!(of("t").is_free() && !of("t?").is_free());
        let taken = Surveyed { rule: Ruled::Off { generator: "shop.t".into() }, ..of("t") };
        assert!(!taken.is_free());
    }

    #[test]
    fn tables_by_pattern() {
        let has = |patterns: &[&str]| {
            Chosen(patterns.iter().map(|one| (*one).to_owned()).collect()).has("shop", "order_7")
        };
        assert!(has(&[]) && has(&["order_*"]) && has(&["x", "shop.order_?"]) && has(&["*.order_7"]));
        assert!(!has(&["order"]) && !has(&["crm.*"]));
    }

    #[test]
    fn what_concerns_the_server() {
        let count = |increment, offset, is_galeras, wanted: &Wanted| {
            let increments = Increments { increment, offset };
            server_notes(&Counting { flavour: Flavour::MariaDb, increments, is_galeras }, wanted).len()
        };
        let whole = Wanted::Sequence { is_even: false };
        assert_eq!(count(1, 1, false, &EVEN), 0);
        assert_eq!(count(2, 1, false, &EVEN), 0, "interleaved already");
        assert_eq!(count(2, 1, false, &whole), 1);
        assert_eq!(count(2, 2, false, &EVEN), 1);
        assert_eq!(count(3, 1, true, &EVEN), 2);
    }
}
