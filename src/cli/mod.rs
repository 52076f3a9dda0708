//! The commands, one file each.

pub mod book;
pub mod check;
pub mod completions;
pub mod decode;
pub mod environment;
pub mod explain;
pub mod man;
pub mod migrate;
mod output;
pub mod serve;
pub mod status;
pub mod store;
mod table;

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
    /// Run the proxy. It loads changed rules by itself; SIGHUP reloads all files; SIGTERM stops it
    /// when open transactions have ended.
    Serve(serve::ServeArgs),
    /// Check the configuration, the rules, and the files and ports that they name on this machine;
    /// with --online also the live tables.
    Check(check::CheckArgs),
    /// Show what Rowstamp would send to the server for a statement. No id is issued.
    Explain(explain::ExplainArgs),
    /// Show a running proxy on one screen: generators, rates, reserve, sessions, checks.
    Status(status::StatusArgs),
    /// Decode timestamp ids: time, node and sequence number.
    Decode(decode::DecodeArgs),
    /// Move tables off AUTO_INCREMENT, or back: plan, raise bounds, print the SQL, verify each step.
    #[command(subcommand, after_help = concat!("Step by step: ", crate::book::page!("migrate")))]
    Migrate(migrate::MigrateCommand),
    /// Show, raise, lower, export, import or move the bounds in the store.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Print a page of the book, for example `refused`, `errors` or `config`.
    Book(book::BookArgs),
    /// Print the completions of rowstamp's commands and flags for a shell.
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the manual pages of all commands to a folder.
    Man(man::ManArgs),
}

#[derive(Debug, Args)]
pub struct ConfigArg {
    /// The configuration file. If there is none, all keys come from the environment (rowstamp --help).
    #[arg(short, long, value_name = "FILE", env = "ROWSTAMP_CONFIG", default_value = DEFAULT_PATH)]
    pub config: PathBuf,
}

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

/// Runs what waits for servers and stores, on this thread.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// Prints the error on stderr, the only place that does, and returns the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<LoadError>() {
        // A line each, and each says whether it is an error or a warning.
        Some(LoadError::Findings(findings)) => eprintln!("{findings}"),
        _ => eprintln!("error: {error:#}"),
    }
    let is_usage = error.is::<LoadError>() || error.is::<Usage>();
    ExitCode::from(if is_usage { EXIT_USAGE } else { EXIT_FOUND })
}

/// An error: the command cannot do what was asked for, as it was asked. The text says why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);
