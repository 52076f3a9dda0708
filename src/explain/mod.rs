//! Explains what Rowstamp would send for a statement, without sending it: by the rules, and by the live tables
//! where they can be read.

mod drawn;
pub mod replay;
pub mod tables;
pub mod tally;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::explain::drawn::{Drawn, drawn};
use crate::explain::tables::{LiveTables, NO_DATABASE, Tables};
use crate::proxy::settings::Verify;
use crate::rewrite::plan::{Lookup, Plan, PlanContext, Planned, Protocol};
use crate::rewrite::planner::plan;
use crate::rewrite::render::describe;
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::rules::set::RuleSet;
use crate::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};

/// The server's version if nobody names one.
pub const SERVER: &str = "10.11.6-MariaDB";

#[derive(Debug, thiserror::Error)]
#[error("--server {0:?} is not a version; write the version as SELECT VERSION() shows it")]
pub struct NoVersion(pub String);

/// A statement to explain, and its session: database, sql_mode and server version.
#[derive(Debug)]
pub struct ExplainInput<'a> {
    pub statement: &'a [u8],
    pub database: Option<&'a str>,
    pub sql_mode: &'a str,
    pub server_version: &'a str,
}

#[derive(Debug)]
pub struct Explained {
    /// The explanation as it is printed, statement by statement.
    pub text: String,
    /// At least one statement would be refused.
    pub is_refused: bool,
}

/// Plans the statement as a session would, with the live tables where they can be had.
pub fn explain_statement(
    input: &ExplainInput<'_>,
    rules: &RuleSet,
    live: Option<&LiveTables>,
    verify: Verify,
) -> Result<Explained, NoVersion> {
    let mut dialect = dialect(input.server_version, input.sql_mode)?;
    let tables = Tables { rules, live };
    let mut database = input.database.map(str::to_owned);
    let mut explained = Explained { text: String::new(), is_refused: false };
    let mut rest = input.statement;
    loop {
        match explained.explain(rest, (&dialect, database.as_deref()), &tables, verify) {
            Planned::Cut(at) if at > 0 => {
                let (first, later) = rest.split_at_checked(at).unwrap_or((rest, &[]));
                let planned = explained.explain(first, (&dialect, database.as_deref()), &tables, verify);
                if let Planned::Untouched(effects) | Planned::Rewrite(Plan { effects, .. }) = planned {
                    database = effects.schema.or(database);
                    dialect.sql_mode = effects.sql_mode.unwrap_or(dialect.sql_mode);
                    dialect.charset = effects.charset.unwrap_or(dialect.charset);
                }
                explained.text.push_str("after the server's answer:\n");
                rest = later;
            }
            _ => return Ok(explained),
        }
    }
}

pub fn dialect(version: &str, sql_mode: &str) -> Result<Dialect, NoVersion> {
    let server = Server::parse(version).ok_or_else(|| NoVersion(version.to_owned()))?;
    Ok(Dialect { server, sql_mode: SqlMode::parse(sql_mode), charset: ClientCharset::Utf8 })
}

impl Explained {
    /// Adds what becomes of one packet's text, unless it would be cut.
    fn explain(
        &mut self,
        text: &[u8],
        (dialect, database): (&Dialect, Option<&str>),
        tables: &Tables<'_>,
        verify: Verify,
    ) -> Planned {
        let drawn = drawn(text, dialect, database, tables);
        let text = match &drawn {
            Drawn::Nothing => text,
            Drawn::Cut(at) => return Planned::Cut(*at),
            Drawn::Refused(why) => {
                let planned = Planned::Refused(why.clone());
                self.is_refused = true;
                self.text.push_str(&describe(text, &planned));
                return planned;
            }
            Drawn::Text { text, told } => {
                self.text.push_str(told);
                text
            }
        };
        let (is_shadow, nowhere) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let lookup = |schema: &str, table: &str| {
            if schema == NO_DATABASE {
                nowhere.lock().push(table.to_owned());
                return Lookup::NotRuled;
            }
            is_shadow.fetch_or(tables.is_shadow(schema, table), Ordering::Relaxed);
            tables.lookup(schema, table)
        };
        let view = PlanContext {
            multi_statements: true,
            any_rules: !tables.rules.is_empty(),
            ..PlanContext::fresh(dialect, Some(database.unwrap_or(NO_DATABASE)), &lookup)
        };
        let planned = plan(text, &view, Protocol::Text);
        if let Planned::Cut(_) = planned {
            return planned;
        }
        self.is_refused |=
            matches!(planned, Planned::Refused(_) | Planned::Unreadable(_) | Planned::Stale { .. });
        if is_shadow.into_inner() {
            self.text.push_str("mode = \"shadow\": sent unchanged; with the rule on:\n");
        }
        match (&planned, &drawn) {
            (Planned::Untouched(_), Drawn::Text { text, .. }) => {
                self.text.extend([&*String::from_utf8_lossy(text), "\n"]);
            }
            _ => self.text.push_str(&describe(text, &planned)),
        }
        for table in nowhere.into_inner() {
            if let Some(first) = tables.databases_of(&table).first() {
                let note = format!(
                    "note: there is no default database, and {table} has a rule in {first}; write --database {first}, or begin with USE\n"
                );
                self.text.push_str(&note);
            }
        }
        if let (Planned::Rewrite(plan), Verify::Sample | Verify::Always) = (&planned, verify) {
            let said = match opinion_on_sample(plan, dialect, text) {
                Opinion::Agrees => "the second parser agrees".to_owned(),
                Opinion::NotVerified => "the second parser cannot judge the statement".to_owned(),
                Opinion::Differs(difference) => {
                    self.is_refused = true;
                    self.text += "refused (1235)\n";
                    difference.to_string()
                }
            };
            self.text.extend(["rewrite.verify: ", &said, "\n"]);
        }
        planned
    }
}
