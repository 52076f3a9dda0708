//! `rowstamp explain`: what would be sent for a statement, or for those in a server's query log. Nothing is issued, and nothing
//! sent but a look at the tables.

mod from;
mod general;
mod lines;
mod log;
mod replay;
mod slow;
mod tables;
mod tally;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use clap::Args;

use self::tables::{NO_DATABASE, Tables};
use super::{ConfigArg, EXIT_FOUND, Usage, load};
use crate::config::Loaded;
use crate::proxy::settings::Verify;
use crate::rewrite::plan::{Lookup, Planned, Protocol, View};
use crate::rewrite::planner::plan;
use crate::rewrite::render::describe;
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::rules::RuleSet;
use crate::schema::Schema;
use crate::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};

pub use self::from::explain_log;
pub use self::log::Format;
pub use self::tables::LiveTables;

/// Where nobody says which server it is.
pub(super) const SERVER: &str = "10.11.6-MariaDB";

/// max_allowed_packet's own limit: a longer statement reaches no server.
const STATEMENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The statement, or several with semicolons between them; - reads standard input.
    #[arg(value_name = "SQL", required_unless_present = "from")]
    pub statement: Option<String>,
    /// A general or slow query log of MySQL or MariaDB instead of a statement, - for standard input; may be given several times:
    /// what of it would be rewritten, left and refused, by digest, without a value of it.
    #[arg(long, value_name = "FILE", conflicts_with = "statement")]
    pub from: Vec<PathBuf>,
    /// Which log --from names.
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "statement")]
    pub format: Format,
    /// Print what --from finds as JSON.
    #[arg(long, requires = "from", conflicts_with = "statement")]
    pub json: bool,
    /// The session's default database; with --from, of sessions whose own the log does not show.
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// The session's sql_mode, as in ANSI_QUOTES,NO_BACKSLASH_ESCAPES; default: none of those that change the text's meaning.
    #[arg(long, value_name = "MODES", default_value = "")]
    pub sql_mode: String,
    /// The server's version as `SELECT VERSION()` shows it, as in 10.11.6-MariaDB or 9.4.0: which `/*! */` comments are code
    /// [default: the one that a log of --from names, else the backend's, else 10.11.6-MariaDB].
    #[arg(long, value_name = "VERSION")]
    pub server: Option<String>,
}

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

pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let loaded = load(&args.config.config)?;
    let Some(argument) = &args.statement else { return from::run(args, &loaded) };
    let statement = statement(argument)?;
    let live = live_tables(&loaded)?;
    let input = ExplainInput {
        statement: &statement,
        database: args.database.as_deref(),
        sql_mode: &args.sql_mode,
        server_version: version(args, live.as_ref()),
    };
    let explained = explain_statement(&input, &loaded.rules, live.as_ref(), loaded.config.rewrite.verify)?;
    writeln!(io::stdout().lock(), "{}", explained.text)?;
    Ok(ExitCode::from(if explained.is_refused { EXIT_FOUND } else { 0 }))
}

/// The server's, by whoever says so.
fn version<'a>(args: &'a ExplainArgs, live: Option<&'a LiveTables>) -> &'a str {
    args.server.as_deref().or(live.map(|live| live.version.as_str())).unwrap_or(SERVER)
}

/// The live tables by the control account. Without them the rules alone say what they can.
fn live_tables(loaded: &Loaded) -> anyhow::Result<Option<LiveTables>> {
    let Some(control) = super::control(&loaded.config) else {
        eprintln!("note: there is no [backend.control]: the tables' columns are not known");
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reading = async { LiveTables::of(&Schema::connect(&control).await?, &loaded.rules).await };
    match runtime.block_on(reading) {
        Ok(live) => Ok(Some(live)),
        Err(error) => {
            eprintln!("note: the tables' columns are not known: {error}");
            Ok(None)
        }
    }
}

fn statement(argument: &str) -> anyhow::Result<Vec<u8>> {
    if argument != "-" {
        return Ok(argument.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(STATEMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STATEMENT_BYTES_MAX {
        return Err(Usage("the statement is longer than 1 GiB, more than a server takes".to_owned()).into());
    }
    Ok(bytes)
}

/// Plans the statement as a session would, with the live tables where they can be had.
pub fn explain_statement(
    input: &ExplainInput<'_>,
    rules: &RuleSet,
    live: Option<&LiveTables>,
    verify: Verify,
) -> anyhow::Result<Explained> {
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
    let view = View {
        dialect: &dialect,
        multi_statements: true,
        default_schema: Some(input.database.unwrap_or(NO_DATABASE)),
        any_rules: !rules.is_empty(),
        tables: &lookup,
        hidden: &|_, _| false,
        session: &crate::rewrite::named::Fresh,
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

fn dialect(version: &str, sql_mode: &str) -> Result<Dialect, Usage> {
    let server = Server::parse(version).ok_or_else(|| {
        Usage(format!("--server {version:?} is no version: write it as SELECT VERSION() shows it"))
    })?;
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
