//! `rowstamp explain --from LOG`: what of one's own traffic would be rewritten, left and refused.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use super::log::Log;
use super::replay::{Beginning, Replay};
use super::{ExplainArgs, dialect, live_tables};
use crate::cli::EXIT_FOUND;
use crate::config::Loaded;

/// Lines are read in pieces of so many bytes.
const PIECE_BYTES: usize = 1 << 20;

pub(super) fn run(args: &ExplainArgs, loaded: &Loaded) -> anyhow::Result<ExitCode> {
    let live = live_tables(loaded)?;
    let beginning = Beginning {
        dialect: dialect(args.server.as_deref(), &args.sql_mode)?,
        database: args.database.clone(),
        keeps_server: args.server.is_some(),
    };
    let mut replay = Replay::new(&loaded.rules, live.as_ref(), loaded.config.rewrite.verify, beginning);
    let bytes_max = loaded.config.proxy.limits.statement_bytes_max;
    for path in &args.from {
        let name = path.display().to_string();
        let reads = || format!("reading {name}");
        let file: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::with_capacity(PIECE_BYTES, File::open(path).with_context(reads)?))
        };
        replay.starts_over();
        let mut log = Log::new(file, args.format, bytes_max);
        while let Some(entry) = log.next().with_context(reads)? {
            replay.take(entry, &name);
        }
        replay.tally.broken_lines += log.broken;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", replay.tally.json()?)?;
    } else {
        write!(out, "{}", replay.tally.text())?;
    }
    Ok(ExitCode::from(if replay.tally.is_refused() { EXIT_FOUND } else { 0 }))
}
