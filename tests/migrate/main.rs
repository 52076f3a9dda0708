//! `rowstamp migrate`: docs/migrate.md, walked command by command under 16 writers on both servers; and what each command says
//! of servers made for it.

// Helpers outside of #[test] are tests too: a panic is how they fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod clauses;
mod fleet;
mod guide;
mod keys;
mod plan;
mod shards;
mod walk;
mod writers;
