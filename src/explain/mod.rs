//! What would be sent for a statement, without sending it: by the rules, and by the live tables
//! where they can be read.

pub mod replay;
pub mod tables;
pub mod tally;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::explain::tables::{LiveTables, NO_DATABASE, Tables};
use crate::proxy::settings::Verify;
use crate::rewrite::plan::{Lookup, PlanContext, Planned, Protocol};
use crate::rewrite::planner::plan;
use crate::rewrite::render::describe;
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::rules::set::RuleSet;
use crate::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};

/// Where nobody says which server it is.
pub const SERVER: &str = "10.11.6-MariaDB";

/// Not as `SELECT VERSION()` shows it.
#[derive(Debug, thiserror::Error)]
#[error("--server {0:?} is no version: write it as SELECT VERSION() shows it")]
pub struct NoVersion(pub String);

/// What a statement is explained with.
#[derive(Debug)]
pub struct ExplainInput<'a> {
    pub statement: &'a [u8],
    pub database: Option<&'a str>,
    pub sql_mode: &'a str,
    pub server_version: &'a str,
}

/// What would become of the text.
#[derive(Debug)]
pub struct Explained {
    /// As it is printed, statement by statement.
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
    let dialect = dialect(input.server_version, input.sql_mode)?;
    let tables = Tables { rules, live };
    let (is_shadow, nowhere) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let lookup = |schema: &str, table: &str| {
        if schema == NO_DATABASE {
            nowhere.lock().unwrap_or_else(PoisonError::into_inner).push(table.to_owned());
            return Lookup::NotRuled;
        }
        is_shadow.fetch_or(tables.is_shadow(schema, table), Ordering::Relaxed);
        tables.lookup(schema, table)
    };
    let view = PlanContext {
        dialect: &dialect,
        multi_statements: true,
        default_schema: Some(input.database.unwrap_or(NO_DATABASE)),
        any_rules: !rules.is_empty(),
        tables: &lookup,
        hidden: &|_, _| false,
        session: &crate::rewrite::plan::prepared_names::Fresh,
    };
    let planned = plan(input.statement, &view, Protocol::Text);
    let is_refused = matches!(planned, Planned::Refused(_) | Planned::Unreadable(_) | Planned::Stale { .. });
    let mut explained = Explained { text: describe(input.statement, &planned), is_refused };
    if is_shadow.into_inner() {
        let note = "mode = \"shadow\": forwarded as it came; with the rule on:\n";
        explained.text.insert_str(0, note);
    }
    for table in nowhere.into_inner().unwrap_or_else(PoisonError::into_inner) {
        if let Some(first) = tables.databases_of(&table).first() {
            let note = format!(
                "note: this is without a default database, and {table} has a rule in {first}: --database {first}, or USE\n"
            );
            explained.text.push_str(&note);
        }
    }
    if let (Planned::Rewrite(plan), Verify::Sample | Verify::Always) = (&planned, verify) {
        explained.add(opinion_on_sample(plan, &dialect, input.statement));
    }
    Ok(explained)
}

pub fn dialect(version: &str, sql_mode: &str) -> Result<Dialect, NoVersion> {
    let server = Server::parse(version).ok_or_else(|| NoVersion(version.to_owned()))?;
    Ok(Dialect { server, sql_mode: SqlMode::parse(sql_mode), charset: ClientCharset::Utf8 })
}

impl Explained {
    fn add(&mut self, opinion: Opinion) {
        let said = match opinion {
            Opinion::Agrees => "the second parser agrees",
            Opinion::NotVerified => "the second parser cannot judge it",
            Opinion::Differs(difference) => {
                self.is_refused = true;
                self.text += "refused (1235)\n";
                difference.as_str()
            }
        };
        self.text.extend(["rewrite.verify: ", said, "\n"]);
    }
}
