//! The commands, one file each.

pub mod book;
pub mod check;
pub mod completions;
pub mod decode;
pub mod environment;
pub mod explain;
pub mod man;
pub mod migrate;
pub mod serve;
pub mod status;
pub mod store;
mod table;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::config::{DEFAULT_PATH, LoadError};

/// Problems were found, or the command failed.
pub const EXIT_FOUND: u8 = 1;
/// The command line or the configuration is wrong.
pub const EXIT_USAGE: u8 = 2;

/// A MySQL-protocol proxy that fills id columns of INSERTs from an embedded id generator.
#[derive(Debug, Parser)]
#[command(
    name = "rowstamp",
    version,
    long_version = env!("ROWSTAMP_VERSION"),
    arg_required_else_help = true,
    after_help = environment::IN_SHORT,
    after_long_help = environment::help()
)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the proxy. Changed rules act by themselves, SIGHUP reads all files again, SIGTERM
    /// drains.
    Serve(serve::ServeArgs),
    /// Validate the configuration and the rules, and what they name on this machine; with --online
    /// against the live tables.
    Check(check::CheckArgs),
    /// Show what would be sent for a statement, issuing nothing.
    Explain(explain::ExplainArgs),
    /// Show a running proxy on one screen: generators, rates, reserve, sessions, checks.
    Status(status::StatusArgs),
    /// Take timestamp ids apart: when, where and as which of its tick each was made.
    Decode(decode::DecodeArgs),
    /// Move tables off AUTO_INCREMENT, and back: plan, raise floors, print the SQL, prove each step.
    #[command(subcommand, after_help = concat!("Step by step: ", crate::book::page!("migrate")))]
    Migrate(migrate::MigrateCommand),
    /// Look into the store of bounds, and raise them, without serving.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Print a page of the book: what is refused, every error, every key, and so on.
    Book(book::BookArgs),
    /// Print what a shell needs to complete rowstamp's commands and flags.
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write those of all commands.
    Man(man::ManArgs),
}

#[derive(Debug, Args)]
pub struct ConfigArg {
    /// The configuration file. Without one keys come from the environment (rowstamp --help).
    #[arg(short, long, value_name = "FILE", env = "ROWSTAMP_CONFIG", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
}

/// Runs a command to its end.
pub fn run(line: CommandLine) -> anyhow::Result<ExitCode> {
    match line.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Migrate(command) => migrate::run(&command),
        Command::Store(command) => store::run(&command),
        Command::Book(args) => book::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// The reader has ended, as `head` does in `rowstamp status | head`.
fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Runs what waits for servers and stores, on this thread.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Tells the error on stderr, the only place that does, and says how the process ends.
pub fn report(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<LoadError>() {
        // A line each, and each says whether it is an error or a warning.
        Some(LoadError::Findings(findings)) => eprintln!("{findings}"),
        _ => eprintln!("error: {error:#}"),
    }
    let is_usage = error.is::<LoadError>() || error.is::<Usage>();
    ExitCode::from(if is_usage { EXIT_USAGE } else { EXIT_FOUND })
}

/// What was asked for cannot be done as it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);
