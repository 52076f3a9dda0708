//! `rowstamp explain`: what would be sent for a statement. Nothing is issued and no server is asked.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use clap::Args;

use super::{ConfigArg, EXIT_FOUND, Usage, load};
use crate::rules::RuleSet;

/// max_allowed_packet's own limit: a longer statement reaches no server.
const STATEMENT_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// The statement, or several with semicolons between them; - reads standard input.
    #[arg(value_name = "SQL")]
    pub statement: String,
    /// The session's default database.
    #[arg(long, value_name = "NAME")]
    pub database: Option<String>,
    /// The session's sql_mode, as in ANSI_QUOTES,NO_BACKSLASH_ESCAPES; default: none of those that change the text's meaning.
    #[arg(long, value_name = "MODES", default_value = "")]
    pub sql_mode: String,
    /// The server's version as `SELECT VERSION()` shows it, as in 10.11.6-MariaDB or 9.4.0: which `/*! */` comments are code.
    #[arg(long, value_name = "VERSION", default_value = "10.11.6-MariaDB")]
    pub server: String,
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
    let statement = statement(&args.statement)?;
    let input = ExplainInput {
        statement: &statement,
        database: args.database.as_deref(),
        sql_mode: &args.sql_mode,
        server_version: &args.server,
    };
    let explained = explain_statement(&input, &loaded.rules)?;
    writeln!(io::stdout().lock(), "{}", explained.text)?;
    Ok(ExitCode::from(if explained.is_refused { EXIT_FOUND } else { 0 }))
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

/// Plans the statement as a session would.
pub fn explain_statement(_input: &ExplainInput<'_>, _rules: &RuleSet) -> anyhow::Result<Explained> {
    anyhow::bail!("explain is not in this version of Rowstamp")
}
