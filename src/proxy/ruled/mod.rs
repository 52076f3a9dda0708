//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's
//! place.
//!
//! `statement` has texts, `execute` executions of prepared ones, `select` INSERT ... SELECT. A text
//! comes to a `verdict`; `progress` says how far a command came.

pub(super) mod audited;
mod execute;
mod follow;
mod locked;
mod masked;
mod params;
pub(super) mod progress;
mod rehearsal;
mod select;
mod spared;
mod statement;
pub(super) mod verdict;
mod with_ids;
