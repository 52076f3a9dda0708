//! `rowstamp store`: the operator's commands over the store that the configuration names; and that
//! store, opened.

mod known;
mod list;
mod lower;
pub(super) mod raise;
mod settle;
pub(super) mod ticks;
mod transfer;

use std::process::ExitCode;

use clap::Subcommand;

use crate::cli::block_on;

/// The name of this command as the last writer in a generator's record.
const OWNER: &str = "rowstamp store raise";

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show the contents of the store: generators with their bounds, nodes, tables, running proxies.
    List(list::ListArgs),
    /// Raise the bound of a generator; or, after a restore of the store, of all generators.
    Raise(raise::RaiseArgs),
    /// Lower the bound of a sequence while no proxy runs.
    Lower(lower::LowerArgs),
    /// Write the bounds, and the generator of each table, to a file with one JSON line each.
    Export(transfer::ExportArgs),
    /// Raise the bounds in the store to those of an `export`. Nothing is lowered or removed.
    Import(transfer::ImportArgs),
    /// Move the bounds from the store of another configuration. The proxies of that store must be
    /// stopped.
    Move(transfer::MoveArgs),
}

/// Runs a command to its end. It takes no proxy's name and writes nothing in one.
pub(super) fn run(command: &StoreCommand) -> anyhow::Result<ExitCode> {
    block_on(async {
        match command {
            StoreCommand::List(args) => list::run(args).await,
            StoreCommand::Raise(args) if args.settle => settle::run(args).await,
            StoreCommand::Raise(args) => raise::run(args).await,
            StoreCommand::Lower(args) => lower::run(args).await,
            StoreCommand::Export(args) => transfer::export(args).await,
            StoreCommand::Import(args) => transfer::import(args).await,
            StoreCommand::Move(args) => transfer::run_move(args).await,
        }
    })
}
