//! `rowstamp book`: the pages of the book.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::output::stdout;
use super::table::table;
use crate::book::PAGES;

#[derive(Debug, Args)]
pub struct BookArgs {
    /// The page to print, as Markdown. Without a name: the names and titles of all pages.
    #[arg(hide_possible_values = true, value_parser = PossibleValuesParser::new(PAGES.iter().map(|page| page.name)))]
    pub page: Option<String>,
}

pub(super) fn run(args: &BookArgs) -> anyhow::Result<ExitCode> {
    let text = match &args.page {
        Some(name) => PAGES.iter().filter(|page| page.name == name).map(|page| page.text).collect(),
        None => table(["PAGE", "TITLE"], PAGES.iter().map(|page| [page.name.into(), page.title().into()])),
    };
    stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
