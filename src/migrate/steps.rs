//! The statements of each step and of its way back, printed for a person to read and to pipe into a client; never executed.

mod alter;
mod guard;
mod widen;

use std::fmt::Write as _;

use super::definition::Definition;
use super::interleave::{Counting, Flavour, Increments, Seat};
use crate::rules::model::ColumnShape;

pub use alter::{drop_counter, left_out};
pub use guard::{guard, guard_name};
pub use widen::widen;

/// A ruled table of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub schema: String,
    pub table: String,
    pub column: ColumnShape,
    pub definition: Definition,
    /// The lowest number that the server's counter may begin at on the way back; or why it may not come back as things stand.
    pub counter_from: Result<u64, &'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: &'static str,
    /// Lines that say what the step does, and what to know before it.
    pub about: Vec<String>,
    pub sql: Vec<Sql>,
    pub about_back: Vec<String>,
    pub back: Vec<Sql>,
}

/// A statement, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sql {
    Plain(String),
    /// There are semicolons in it.
    Body(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Print {
    /// To be read: all statements are comments, for no client may run all steps at once.
    All,
    Forward,
    Back,
}

/// The server's counter hands out odd ids only.
pub fn interleave(counting: &Counting, seat: Seat) -> Step {
    let (odd, whole) = (seat.odd(), seat.whole());
    let mut about = vec![
        "After this step the server's counter gives odd ids, and the generator gives even ids (step = 2, offset = 0).".to_owned(),
        "A session keeps the increment that it began with. No rule may be on until every session up to the printed number".to_owned(),
        "has ended (rowstamp migrate verify --step interleaved --sessions-up-to NUMBER).".to_owned(),
        "The step concerns all tables with AUTO_INCREMENT; tables without a rule use every second number meanwhile.".to_owned(),
        "Run the step on every server that takes writes, and on every replica that may be promoted.".to_owned(),
    ];
    if counting.flavour == Flavour::MariaDb {
        about.push(
            "MariaDB forgets SET GLOBAL at a restart: write both variables into the option file too."
                .to_owned(),
        );
    }
    if counting.is_galeras {
        about.push(
            "Galera would set both variables again: switch off wsrep_auto_increment_control on every node first.".to_owned(),
        );
    }
    let mut sql = Vec::new();
    if counting.is_galeras {
        sql.push(Sql::Plain("SET GLOBAL wsrep_auto_increment_control = OFF".to_owned()));
    }
    sql.extend(set(counting.flavour, odd));
    // A client that was logging in meanwhile may have begun with the old value. It has its number when the sleep ends.
    sql.push(Sql::Plain("DO SLEEP(1)".to_owned()));
    sql.push(Sql::Plain("SELECT MAX(id) AS sessions_up_to FROM information_schema.processlist".to_owned()));
    Step {
        name: "interleave",
        about,
        sql,
        about_back: vec![
            "Not while a rule is on and its table has AUTO_INCREMENT, unless the table has a guard trigger."
                .to_owned(),
        ],
        back: set(counting.flavour, whole).collect(),
    }
}

/// Source: MySQL manual, "Persisted System Variables"; MariaDB has none.
fn set(flavour: Flavour, to: Increments) -> impl Iterator<Item = Sql> {
    let scope = match flavour {
        Flavour::MySql => "PERSIST",
        Flavour::MariaDb => "GLOBAL",
    };
    let both = [("auto_increment_increment", to.increment), ("auto_increment_offset", to.offset)];
    both.into_iter().map(move |(name, value)| Sql::Plain(format!("SET {scope} {name} = {value}")))
}

/// The text of the steps as a client reads it: statements end with `;`, bodies with another delimiter.
pub fn render(steps: &[Step], print: Print) -> String {
    let mut text = String::new();
    let backwards = print == Print::Back;
    let mut steps: Vec<&Step> = steps.iter().collect();
    if backwards {
        steps.reverse();
    }
    for step in steps {
        let (about, sql) = if backwards { (&step.about_back, &step.back) } else { (&step.about, &step.sql) };
        let what = if backwards { "The way back of step" } else { "Step" };
        comment(&mut text, &format!("{what} {}", step.name));
        for line in about {
            comment(&mut text, line);
        }
        match print {
            Print::Forward | Print::Back => text += &statements(sql),
            Print::All => commented(&mut text, sql),
        }
        if !backwards {
            comment(&mut text, "The way back:");
            for line in &step.about_back {
                comment(&mut text, line);
            }
            commented(&mut text, &step.back);
        }
        text.push('\n');
    }
    text
}

fn commented(text: &mut String, sql: &[Sql]) {
    for line in statements(sql).lines() {
        comment(text, &format!("    {line}"));
    }
}

fn statements(sql: &[Sql]) -> String {
    let mut text = String::new();
    for one in sql {
        // Writing to a String does not fail.
        let _ = match one {
            Sql::Plain(sql) => writeln!(text, "{sql};"),
            Sql::Body(sql) => writeln!(text, "DELIMITER //\n{sql}//\nDELIMITER ;"),
        };
    }
    text
}

/// A line that is no statement, whatever stands in the names that it mentions.
fn comment(text: &mut String, line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    text.push_str("-- ");
    text.push_str(&line);
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::{Print, Sql, Step, interleave, render};
    use crate::migrate::interleave::{Counting, Flavour, Increments, Seat};

    fn counting(flavour: Flavour, increment: u64, offset: u64, is_galeras: bool) -> Counting {
        Counting { flavour, increments: Increments { increment, offset }, is_galeras }
    }

    #[track_caller]
    fn check(counting: Counting, seat: Seat, forward: &[&str], back: &[&str]) {
        let step = interleave(&counting, seat);
        let plain = |all: &[Sql]| {
            let text = |sql: &Sql| match sql {
                Sql::Plain(sql) | Sql::Body(sql) => sql.clone(),
            };
            all.iter().map(text).filter(|sql| sql.starts_with("SET")).collect::<Vec<_>>()
        };
        assert_eq!(plain(&step.sql), forward);
        assert_eq!(plain(&step.back), back);
    }

    #[test]
    fn the_counter_is_made_odd_and_whole() {
        check(
            counting(Flavour::MariaDb, 1, 1, false),
            Seat { nth: 1, of: 1 },
            &["SET GLOBAL auto_increment_increment = 2", "SET GLOBAL auto_increment_offset = 1"],
            &["SET GLOBAL auto_increment_increment = 1", "SET GLOBAL auto_increment_offset = 1"],
        );
        // After the step the same command prints the way back to the state before it.
        check(
            counting(Flavour::MySql, 2, 1, false),
            Seat { nth: 1, of: 1 },
            &["SET PERSIST auto_increment_increment = 2", "SET PERSIST auto_increment_offset = 1"],
            &["SET PERSIST auto_increment_increment = 1", "SET PERSIST auto_increment_offset = 1"],
        );
        check(
            counting(Flavour::MariaDb, 3, 2, true),
            Seat { nth: 2, of: 3 },
            &[
                "SET GLOBAL wsrep_auto_increment_control = OFF",
                "SET GLOBAL auto_increment_increment = 6",
                "SET GLOBAL auto_increment_offset = 3",
            ],
            &["SET GLOBAL auto_increment_increment = 3", "SET GLOBAL auto_increment_offset = 2"],
        );
    }

    #[test]
    fn what_is_printed() {
        let step = Step {
            name: "x",
            about: vec!["of `a\nDROP TABLE b; `".to_owned()],
            sql: vec![Sql::Plain("DO 1".to_owned()), Sql::Body("BEGIN\nDO 2; END".to_owned())],
            about_back: vec!["careful".to_owned()],
            back: vec![Sql::Plain("DO 3".to_owned())],
        };
        let check = |print, expect: &str| assert_eq!(render(std::slice::from_ref(&step), print), expect);
        let about = "-- Step x\n-- of `a?DROP TABLE b; `\n";
        let back = "-- The way back:\n-- careful\n--     DO 3;\n\n";
        check(
            Print::Forward,
            &format!("{about}DO 1;\nDELIMITER //\nBEGIN\nDO 2; END//\nDELIMITER ;\n{back}"),
        );
        check(Print::Back, "-- The way back of step x\n-- careful\nDO 3;\n\n");
        check(
            Print::All,
            &format!(
                "{about}--     DO 1;\n--     DELIMITER //\n--     BEGIN\n--     DO 2; END//\n--     DELIMITER ;\n{back}"
            ),
        );
    }
}

#[cfg(test)]
pub(super) mod tests_of_subjects {
    use super::Subject;
    use crate::migrate::definition::Definition;
    use crate::rules::model::ColumnShape;

    /// `shop.TABLE` with an `id` so defined.
    pub(in crate::migrate) fn subject(table: &str, definition: &str) -> Subject {
        Subject {
            schema: "shop".into(),
            table: table.into(),
            column: ColumnShape::of("id", "bigint", "bigint", "auto_increment"),
            definition: Definition::of(&format!("CREATE\n `id` {definition},"), "id").expect("a definition"),
            counter_from: Ok(70),
        }
    }
}
