//! `rowstamp check`: everything that is wrong with the configuration and the rules, and what on this machine would stop
//! `serve`; with `--online` against the live server.

mod online;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use crate::cli::output::stdout;
use crate::cli::{ConfigArg, EXIT_FOUND, block_on};
use crate::config::{Config, LoadError, Loaded, load_file};
use crate::daemon::{doors, preflight};
use crate::lint::Finding;
use crate::lint::report::{Report, counted};
use crate::rules::RuleSet;
use crate::toml_file::{Findings, Severity};

/// The help text of `--json`.
const JSON: &str = concat!(
    "Print one JSON document on standard output, and nothing else. Its schema: ",
    crate::book::page!("check")
);

#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub config: ConfigArg,
    /// Check the live server too, through the control account (tables, columns, keys, ids,
    /// triggers, routines, views), and the store. Changes nothing on the server or in the store.
    #[arg(long)]
    pub online: bool,
    #[arg(long, help = JSON)]
    pub json: bool,
}

pub fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    match load_file(&args.config.config) {
        Ok(mut loaded) => {
            let here = block_on(async { Ok(preflight::findings(&loaded).await) })?;
            loaded.warnings.extend(here);
            loaded.warnings = std::mem::take(&mut loaded.warnings).sorted();
            if args.online {
                return online::run(&loaded, args.json);
            }
            let Loaded { rules, warnings, config, .. } = loaded;
            show(args.json, &warnings, Some(&summary(&rules, &config, None)))?;
            Ok(ExitCode::from(if warnings.has_errors() { EXIT_FOUND } else { 0 }))
        }
        // `serve` exits with 2 for these findings. `check` exists to find them, so it exits with 1.
        Err(LoadError::Findings(findings)) => {
            show(args.json, &findings, None)?;
            if args.online && online::lacks_account(&findings) {
                return Err(online::no_account(None).into());
            }
            Ok(ExitCode::from(EXIT_FOUND))
        }
        Err(error @ LoadError::NoFile(_)) => Err(error.into()),
    }
}

/// Prints the findings about the files, and the summary of files that were loaded. JSON has no summary.
fn show(json: bool, findings: &Findings, summary: Option<&str>) -> io::Result<()> {
    let mut out = stdout();
    if json {
        return print_json(&mut out, &Report::of(findings.iter().map(Finding::from).collect()));
    }
    print(&mut out, findings)?;
    out.write_all(summary.unwrap_or_default().as_bytes())
}

fn print_json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

fn print(out: &mut impl Write, findings: &Findings) -> io::Result<()> {
    if findings.iter().next().is_some() {
        writeln!(out, "{findings}")?;
        let (errors, warnings) = (findings.count(Severity::Error), findings.count(Severity::Warning));
        writeln!(out, "{}, {}", counted(errors, "error"), counted(warnings, "warning"))?;
    }
    Ok(())
}

/// The numbers of rules and generators and, if there are doors, the doors and the numbers of users. `of_store`: how many
/// users the store has; `None`: that is not known.
fn summary(rules: &RuleSet, config: &Config, of_store: Option<usize>) -> String {
    let patterns = rules.rules().filter(|rule| rule.is_pattern()).count();
    let [all, tables, patterns, generators] = [
        counted(rules.rules().len(), "rule"),
        counted(rules.rules().len() - patterns, "table"),
        counted(patterns, "pattern"),
        counted(rules.specs().count(), "generator"),
    ];
    let mut summary = format!("{all} for {tables} and {patterns}, {generators}\n");
    let doors: Vec<_> = doors::described(config).collect();
    if !doors.is_empty() {
        let of_file = config.admin.users.len();
        let of_store = of_store.map_or_else(String::new, |users| format!(", {users} of the store"));
        let _ = writeln!(summary, "doors: {}", doors.join(", "));
        let _ = writeln!(summary, "users: {of_file} of rowstamp.toml{of_store}");
    }
    summary
}
