//! `rowstamp completions`: what a shell needs to complete the command line.

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use super::CommandLine;
use super::output::stdout;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For bash: rowstamp completions bash > /usr/share/bash-completion/completions/rowstamp
    pub shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    // The text is made whole before it is printed: the library panics at a pipe that is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut CommandLine::command(), "rowstamp", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
