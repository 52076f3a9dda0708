//! `rowstamp man`: the manual pages.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::Man;

use super::CommandLine;
use super::output::stdout;

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command (rowstamp.1, rowstamp-serve.1 and so on) to this folder, for
    /// example /usr/local/share/man/man1.
    #[arg(long, value_name = "FOLDER")]
    pub dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let command = CommandLine::command();
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page)?;
        stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    clap_mangen::generate_to(command, folder).with_context(|| {
        let what = if fs::metadata(folder).is_ok() { "cannot be written to" } else { "does not exist" };
        format!("{} {what}; name a folder that this user may write to", folder.display())
    })?;
    Ok(ExitCode::SUCCESS)
}
