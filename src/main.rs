//! The binary: flags, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use rowstamp::cli::{self, CommandLine};

fn main() -> ExitCode {
    // clap prints its own usage errors and ends with 2, as our contract has it.
    cli::run(CommandLine::parse()).unwrap_or_else(|error| cli::report(&error))
}
