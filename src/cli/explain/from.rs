//! `rowstamp explain --from LOG`: what of one's own traffic would be rewritten, left and refused.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::EXIT_FOUND;
use crate::cli::explain::{ExplainArgs, live_tables, version};
use crate::cli::output::stdout;
use crate::config::Loaded;
use crate::explain::replay::{Beginning, Replay};
use crate::explain::tables::Tables;
use crate::explain::{SERVER, dialect};
use crate::proxy::settings::Verify;
use crate::querylog::log::{Format, Log};
use crate::rules::RuleSet;

/// Lines are read in pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;

pub(super) fn run(args: &ExplainArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let live = live_tables(loaded);
    let beginning = Beginning {
        dialect: dialect(version(args, live.as_ref()), &args.sql_mode)?,
        database: args.database.clone(),
        keeps_server: args.server.is_some(),
    };
    let tables = Tables { rules: &loaded.rules, live: live.as_ref() };
    let mut replay = Replay::new(tables, loaded.config.rewrite.verify, beginning);
    let bytes_max = loaded.config.proxy.limits.statement_bytes_max;
    for path in &args.from {
        let name = path.display().to_string();
        let file: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::with_capacity(PIECE_BYTES, File::open(path).with_context(|| reading(&name))?))
        };
        read(&mut replay, file, args.format, bytes_max, &name)?;
    }
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", replay.tally.json()?)?;
    } else {
        write!(out, "{}", replay.tally.text())?;
    }
    Ok(ExitCode::from(if replay.tally.is_refused() { EXIT_FOUND } else { 0 }))
}

fn reading(name: &str) -> String {
    format!("cannot read {name}")
}

/// Replays one file.
fn read(
    replay: &mut Replay<'_>,
    file: impl BufRead,
    format: Format,
    bytes_max: usize,
    name: &str,
) -> anyhow::Result<()> {
    replay.starts_over();
    let mut log = Log::new(file, format, bytes_max);
    let mut is_log = false;
    while let Some(entry) = log.next().with_context(|| reading(name))? {
        is_log = true;
        replay.take(entry, name);
    }
    anyhow::ensure!(
        is_log || log.broken == 0,
        "{name} is no query log: none of its lines (count: {}) begins an entry of a general or slow log of MySQL or MariaDB; name \
         a text file that general_log or slow_query_log wrote{}",
        log.broken,
        if format == Format::Auto { "" } else { ", or leave out --format" }
    );
    replay.tally.broken_lines += log.broken;
    Ok(())
}

/// Explains the statements of a log under the rules, without reading from any server: as text,
/// and as JSON.
pub fn explain_log(
    log: impl BufRead,
    format: Format,
    bytes_max: usize,
    rules: &RuleSet,
) -> anyhow::Result<(String, String)> {
    let beginning = Beginning { dialect: dialect(SERVER, "")?, database: None, keeps_server: false };
    let mut replay = Replay::new(Tables { rules, live: None }, Verify::Off, beginning);
    read(&mut replay, log, format, bytes_max, "the log")?;
    Ok((replay.tally.text(), replay.tally.json()?))
}
