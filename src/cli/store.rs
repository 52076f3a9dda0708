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

/// Who wrote last, in a generator's record.
const OWNER: &str = "rowstamp store raise";

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show what is in the store: generators with their bounds, slots, bindings, proxies that live.
    List(list::ListArgs),
    /// Raise a generator's bound, or, behind a copy that was put back, all of them.
    Raise(raise::RaiseArgs),
    /// Lower a sequence's bound, while no proxy runs.
    Lower(lower::LowerArgs),
    /// Write bounds and bindings to a file, a JSON line each.
    Export(transfer::ExportArgs),
    /// Raise the store to what `export` wrote; nothing in it is lowered or removed.
    Import(transfer::ImportArgs),
    /// Raise the store to what another configuration's store holds, whose proxies are stopped.
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
