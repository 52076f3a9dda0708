//! `rowstamp explain`: what would be sent for a statement, or for those in a server's query log.
//! Nothing is issued, and nothing sent but a look at the tables.

mod from;

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use crate::cli::output::stdout;
use crate::cli::{ConfigArg, EXIT_FOUND, Usage, block_on};
use crate::config::{Loaded, load_file};
use crate::explain::tables::LiveTables;
use crate::explain::{ExplainInput, SERVER, explain_statement};
use crate::opened::control;
use crate::querylog::log::Format;
use crate::schema::Schema;

pub use self::from::explain_log;

/// max_allowed_packet's own limit: a longer statement reaches no server.
const STATEMENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The statement, or several with semicolons between them; - reads standard input.
    #[arg(value_name = "SQL", required_unless_present = "from")]
    pub statement: Option<String>,
    /// A general or slow query log of MySQL or MariaDB instead of a statement; - reads standard
    /// input. Prints by digest, without a value, which statements would be rewritten, left or
    /// refused. May be given several times.
    #[arg(long, value_name = "FILE", conflicts_with = "statement")]
    pub from: Vec<PathBuf>,
    /// The kind of the log that --from names.
    #[arg(long, value_enum, default_value = "auto", conflicts_with = "statement")]
    pub format: Format,
    /// Print the result of --from as JSON.
    #[arg(long, requires = "from", conflicts_with = "statement")]
    pub json: bool,
    /// The session's default database; with --from, that of sessions whose database the log does not
    /// show.
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// The session's sql_mode, for example ANSI_QUOTES,NO_BACKSLASH_ESCAPES; default: no mode that
    /// changes how a text is read.
    #[arg(long, value_name = "MODES", default_value = "")]
    pub sql_mode: String,
    /// The server's version as `SELECT VERSION()` shows it, for example 10.11.6-MariaDB or 9.4.0.
    /// The version decides which `/*! */` comments are code [default: the version that a log of
    /// --from names, else the backend's, else 10.11.6-MariaDB].
    #[arg(long, value_name = "VERSION")]
    pub server: Option<String>,
}

pub fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let loaded = load_file(&args.config.config)?;
    let Some(argument) = &args.statement else { return from::run(args, &loaded) };
    let statement = statement(argument)?;
    let live = live_tables(&loaded);
    let input = ExplainInput {
        statement: &statement,
        database: args.database.as_deref(),
        sql_mode: &args.sql_mode,
        server_version: version(args, live.as_ref()),
    };
    let explained = explain_statement(&input, &loaded.rules, live.as_ref(), loaded.config.rewrite.verify)?;
    writeln!(stdout(), "{}", explained.text)?;
    if explained.is_refused && loaded.config.rewrite.forwards() {
        let note = concat!(
            "note: rewrite.on_doubt = \"forward\": the statement goes to the server as it came if each of its tables with a rule keeps \
             AUTO_INCREMENT and accepts ids that clients write; exceptions: ",
            crate::book::page!("native")
        );
        writeln!(stdout(), "{note}")?;
    }
    Ok(ExitCode::from(if explained.is_refused { EXIT_FOUND } else { 0 }))
}

/// The server's version: the argument's, else that of the live server, else the default.
fn version<'a>(args: &'a ExplainArgs, live: Option<&'a LiveTables>) -> &'a str {
    args.server.as_deref().or(live.map(|live| live.version.as_str())).unwrap_or(SERVER)
}

/// The live tables by the control account. Without them the rules alone say what they can.
fn live_tables(loaded: &Loaded) -> Option<LiveTables> {
    let Some(control) = control(&loaded.config) else {
        eprintln!("note: there is no [backend.control]: the tables' columns are not known");
        return None;
    };
    let reading = async { Ok(LiveTables::of(&Schema::connect(&control).await?, &loaded.rules).await?) };
    block_on(reading).inspect_err(|error| eprintln!("note: the tables' columns are not known: {error}")).ok()
}

fn statement(argument: &str) -> anyhow::Result<Vec<u8>> {
    if argument != "-" {
        return Ok(argument.as_bytes().to_vec());
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(STATEMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > STATEMENT_BYTES_MAX {
        bail!(Usage("the statement is longer than 1 GiB, the most that a server accepts".to_owned()));
    }
    Ok(bytes)
}
