//! One of the places where a statement runs: a session, and the schema of its tables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::time::Duration;

use crate::support::raw::{Client, ErrPacket, Options, Outcome, Param, Prepared, Value};
use crate::values::columns::{self, Column};
use crate::values::plan::Statement;

/// Names of schemas are of one length, since servers cut the texts of errors.
pub(crate) const NATIVE: &str = "val_nat";
pub(crate) const TRIED: &str = "val_try";
pub(crate) const AUTO: &str = "val_aut";
pub(crate) const PLAIN: &str = "val_pla";
pub(crate) const TABLES: [&str; 2] = ["t", "tm"];

/// In transaction, autocommit, more results, no backslash escapes.
const STATUS_COMPARED: u16 = 0x0001 | 0x0002 | 0x0008 | 0x0200;
const ER_UNSUPPORTED_PS: u16 = 1295;
/// The warning that InnoDB and MyISAM meet: MySQL gives it once in a while only.
const ER_TWO_ENGINES: &str = "6414";
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const PIECE_BYTES: usize = 100_001;
/// A statement of the longest values takes seconds where the machine is busy.
const TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct Side {
    pub(crate) schema: &'static str,
    address: String,
    client: Client,
    sql_mode: String,
}

/// The outcome of a statement, as a session sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The insert id of each execution that succeeded.
    pub(crate) insert_ids: Vec<u64>,
    pub(crate) has_failed: bool,
}

/// The rows of one statement: their ids, and what is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) ids: Vec<u64>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Side {
    pub(crate) fn connect(address: &str, schema: &'static str) -> io::Result<Side> {
        let client = connect(address, schema)?;
        Ok(Side { schema, address: address.to_owned(), client, sql_mode: String::new() })
    }

    pub(crate) fn set_mode(&mut self, sql_mode: &str) {
        sql_mode.clone_into(&mut self.sql_mode);
        self.client.run(format!("SET sql_mode='{sql_mode}'"));
        // So that the time is the same everywhere.
        self.client.run("SET timestamp=1700000000.25");
    }

    /// A new session, after one that broke off.
    pub(crate) fn connect_again(&mut self) -> io::Result<()> {
        self.client = connect(&self.address, self.schema)?;
        self.set_mode(&self.sql_mode.clone());
        Ok(())
    }

    pub(crate) fn run(&mut self, statement: &Statement) -> io::Result<Answer> {
        for setup in &statement.setup {
            self.client.query(setup)?;
        }
        let mut answer = Answer::default();
        match &statement.executions {
            None => self.text(&statement.sql, &mut answer)?,
            Some(executions) => self.prepared(statement, executions, &mut answer)?,
        }
        Ok(answer)
    }

    fn text(&mut self, sql: &str, answer: &mut Answer) -> io::Result<()> {
        let outcomes = self.client.query(sql)?;
        self.note(&outcomes, answer)
    }

    fn prepared(
        &mut self,
        statement: &Statement,
        executions: &[Vec<Param>],
        answer: &mut Answer,
    ) -> io::Result<()> {
        let prepared = match self.client.prepare(&statement.sql)? {
            Ok(prepared) => prepared,
            Err(error) if error.code == ER_UNSUPPORTED_PS => return self.text(&statement.sql, answer),
            Err(error) => return self.note(&[Outcome::Err(error)], answer),
        };
        let described = format!(
            "{} parameters, {} columns, {} warnings",
            prepared.params,
            prepared.columns.len(),
            prepared.warnings
        );
        answer.facts.push(("prepared", described));
        for parameters in executions {
            let parameters =
                if statement.in_pieces { self.pieces(&prepared, parameters)? } else { parameters.clone() };
            let outcomes = self.client.execute(&prepared, &parameters)?;
            self.note(&outcomes, answer)?;
        }
        self.client.close(&prepared)
    }

    /// Sends all but the last piece of each; the execution sends that.
    fn pieces(&mut self, prepared: &Prepared, parameters: &[Param]) -> io::Result<Vec<Param>> {
        let mut last = Vec::new();
        for (index, parameter) in (0_u16..).zip(parameters) {
            let Param::Long(bytes) = parameter else {
                last.push(parameter.clone());
                continue;
            };
            let mut pieces: Vec<_> = bytes.chunks(PIECE_BYTES).collect();
            last.push(Param::Long(pieces.pop().unwrap_or_default().to_vec()));
            for piece in pieces {
                let body = [&prepared.id.to_le_bytes()[..], &index.to_le_bytes(), piece].concat();
                self.client.send_command(COM_STMT_SEND_LONG_DATA, &body)?;
            }
        }
        Ok(last)
    }

    fn note(&mut self, outcomes: &[Outcome], answer: &mut Answer) -> io::Result<()> {
        let warned = outcomes
            .iter()
            .any(|outcome| outcome.err().is_some() || outcome.ok().is_some_and(|ok| ok.warnings > 0));
        let (warnings, not_counted) = if warned { self.warnings()? } else { (String::new(), 0) };
        for outcome in outcomes {
            match outcome {
                Outcome::Ok(ok) => {
                    let counted = ok.warnings - not_counted;
                    let old = format!("Warnings: {}", ok.warnings);
                    answer.facts.extend([
                        ("affected rows", ok.affected_rows.to_string()),
                        ("info", ok.info.replace(&old, &format!("Warnings: {counted}"))),
                        ("warning count", counted.to_string()),
                        ("status", format!("{:#06x}", ok.status & STATUS_COMPARED)),
                    ]);
                    answer.insert_ids.push(ok.insert_id);
                }
                Outcome::Err(error) => self.note_error(error, answer),
                Outcome::Rows(_) => answer.facts.push(("answer", "rows".to_owned())),
            }
        }
        answer.facts.extend((!warnings.is_empty()).then_some(("warnings", warnings)));
        Ok(())
    }

    /// The text of the warnings, without those of chance, and how many these are.
    fn warnings(&mut self) -> io::Result<(String, u16)> {
        let outcomes = self.client.query("SHOW WARNINGS")?;
        let mut text = String::new();
        let mut of_chance = 0;
        for row in outcomes.iter().flat_map(Outcome::rows) {
            let cells: Vec<_> = row.iter().filter_map(Value::text).collect();
            if cells.get(1).is_some_and(|code| code == ER_TWO_ENGINES) {
                of_chance += 1;
            } else {
                let _ = write!(text, "{}; ", cells.join(" "));
            }
        }
        Ok((self.without_schema(&text), of_chance))
    }

    fn note_error(&self, error: &ErrPacket, answer: &mut Answer) {
        answer.has_failed = true;
        if error.message.starts_with("rowstamp: ") {
            answer.facts.push(("refused", error.message.clone()));
            return;
        }
        answer.facts.extend([
            ("error", format!("{} {}", error.code, error.sqlstate)),
            ("error's text", self.without_schema(&error.message)),
        ]);
    }

    fn without_schema(&self, text: &str) -> String {
        text.replace(self.schema, "val_???")
    }
}

fn connect(address: &str, schema: &str) -> io::Result<Client> {
    let options = Options { database: Some(schema.to_owned()), timeout: TIMEOUT, ..Options::default() };
    Client::connect(address, &options)
}

/// Schemas with a table for values of each engine, and the tables that queries read.
pub(crate) fn make_tables(observer: &mut Client, columns: &[Column], sources: &[String]) {
    observer.run("SET sql_mode=''");
    for schema in [NATIVE, TRIED, AUTO, PLAIN] {
        let counter = if schema == PLAIN { "" } else { "AUTO_INCREMENT" };
        let definitions = columns::definitions(columns);
        observer.run(format!("CREATE DATABASE {schema} CHARACTER SET utf8mb4"));
        observer.run(format!("USE {schema}"));
        for (table, engine) in TABLES.iter().zip(["InnoDB", "MyISAM"]) {
            observer.run(format!(
                "CREATE TABLE {table} (id BIGINT NOT NULL {counter} PRIMARY KEY, k INT, {definitions}) ENGINE={engine}"
            ));
        }
        observer.run(format!("CREATE TABLE src (n INT PRIMARY KEY, {definitions})"));
        for source in sources {
            observer.run(source);
        }
        observer.run("CREATE TABLE many (n INT PRIMARY KEY)");
        let numbers: Vec<_> = (1..=40).map(|n| format!("({n})")).collect();
        observer.run(format!("INSERT INTO many VALUES {}", numbers.join(",")));
    }
}

/// Returns the rows that all statements have stored in a table, by their numbers, and empties the table.
pub(crate) fn take_stored(
    observer: &mut Client,
    schema: &str,
    table: &str,
    columns: &[Column],
) -> BTreeMap<usize, Stored> {
    let shown = columns.iter().fold(String::new(), |list, column| list + "," + &column.shown());
    let outcomes =
        observer.run(format!("SELECT COALESCE(k,0),id{shown} FROM {schema}.{table} ORDER BY k,id"));
    let mut stored: BTreeMap<usize, Stored> = BTreeMap::new();
    for row in outcomes.iter().flat_map(Outcome::rows) {
        let mut cells = row.iter().map(|value| value.text().unwrap_or_else(|| "NULL".to_owned()));
        let mut number = || cells.next().and_then(|text| text.parse::<u64>().ok()).expect("a number");
        let (k, id) = (number(), number());
        let stored = stored.entry(usize::try_from(k).expect("a statement's number")).or_default();
        stored.ids.push(id);
        stored.rows.push(cells.collect());
    }
    observer.run(format!("TRUNCATE {schema}.{table}"));
    stored
}
