//! `rowstamp explain`: what would be sent for a statement, or for those in a server's query log. Nothing is issued, and nothing
//! sent but a look at the tables.

mod from;
mod general;
mod lines;
mod log;
mod replay;
mod slow;
mod tally;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;

use super::{ConfigArg, EXIT_FOUND, Usage, load};
use crate::config::Loaded;
use crate::ids::range::block::Spacing;
use crate::proxy::settings::Verify;
use crate::rewrite::plan::{Lookup, Planned, Protocol, Target, View, plan};
use crate::rewrite::render::describe;
use crate::rewrite::verify::{Opinion, opinion_on_sample};
use crate::rules::RuleSet;
use crate::rules::model::{Mode, NameCase, Rule, TableShape};
use crate::schema::{Schema, SchemaError};
use crate::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};

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
    pub format: log::Format,
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
    /// [default: the one that a log of --from names, else 10.11.6-MariaDB].
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
    let input = ExplainInput {
        statement: &statement,
        database: args.database.as_deref(),
        sql_mode: &args.sql_mode,
        server_version: args.server.as_deref().unwrap_or(SERVER),
    };
    let live = live_tables(&loaded)?;
    let explained = explain_statement(&input, &loaded.rules, live.as_ref(), loaded.config.rewrite.verify)?;
    writeln!(io::stdout().lock(), "{}", explained.text)?;
    Ok(ExitCode::from(if explained.is_refused { EXIT_FOUND } else { 0 }))
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
    let dialect = dialect(Some(input.server_version), input.sql_mode)?;
    let is_shadow = AtomicBool::new(false);
    let tables = |schema: &str, table: &str| {
        let found = lookup(rules, live, schema, table);
        let case = live.map_or(NameCase::Sensitive, |live| live.case);
        is_shadow.fetch_or(rules.shadow(case, schema, table).is_some(), Ordering::Relaxed);
        found
    };
    let view = View {
        dialect: &dialect,
        multi_statements: true,
        default_schema: input.database,
        any_rules: !rules.is_empty(),
        tables: &tables,
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
    if let (Planned::Rewrite(plan), Verify::Sample | Verify::Always) = (&planned, verify) {
        explained.add(opinion_on_sample(plan, &dialect, input.statement));
    }
    Ok(explained)
}

fn dialect(server: Option<&str>, sql_mode: &str) -> Result<Dialect, Usage> {
    let version = server.unwrap_or(SERVER);
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

/// Columns of the live tables, read before anything is planned.
#[derive(Debug)]
pub struct LiveTables {
    case: NameCase,
    shapes: BTreeMap<(String, String), Arc<TableShape>>,
}

impl LiveTables {
    /// Every table of the ruled schemas that has a rule.
    pub(super) async fn of(schema: &Schema, rules: &RuleSet) -> Result<LiveTables, SchemaError> {
        let case = schema.name_case().await?;
        let mut shapes = BTreeMap::new();
        for (table, rule) in schema.ruled_tables(case, rules).await?.tables {
            if let Some(shape) = schema.shape(&rule.schema, &table).await? {
                shapes.insert((rule.schema.to_lowercase(), table.to_lowercase()), Arc::new(shape));
            }
        }
        Ok(LiveTables { case, shapes })
    }
}

fn lookup(rules: &RuleSet, live: Option<&LiveTables>, schema: &str, table: &str) -> Lookup {
    let case = live.map_or(NameCase::Sensitive, |live| live.case);
    let rule = match rules.find(case, schema, table) {
        Ok(Some(rule)) if rule.mode == Mode::Shadow => Arc::new(Rule { mode: Mode::On, ..Rule::clone(rule) }),
        Ok(Some(rule)) => rule.clone(),
        Ok(None) => return Lookup::NotRuled,
        Err(ambiguous) => return Lookup::Refused(ambiguous.to_string()),
    };
    let shape =
        live.and_then(|live| live.shapes.get(&(schema.to_lowercase(), table.to_lowercase()))).cloned();
    if live.is_some() && shape.is_none() {
        return Lookup::Missing;
    }
    let one_by_one = Spacing::by(NonZeroU64::MIN);
    let spacing = rules.generator(&rule.generator).map_or(one_by_one, |spec| spec.kind.spacing());
    Lookup::Ruled(Arc::new(Target { rule, table: table.to_owned(), shape, spacing, view: None }))
}
