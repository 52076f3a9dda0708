//! `rowstamp migrate`: docs/migrate.md and docs/migrate-back.md, walked command by command under 16 writers on both servers; and what each command says
//! of servers made for it.

mod bench;
mod clauses;
mod fleet;
mod guide;
mod keys;
mod plan;
mod shards;
mod walk;
mod writers;
