//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's place.
//!
//! `statement` has texts, `execute` and `bulk` executions of prepared ones, `select` INSERT ... SELECT. Each comes to a `verdict`, and
//! says by `progress` how far it came.

pub(super) mod audited;
mod bulk;
mod execute;
mod follow;
mod hidden;
mod locked;
pub(super) mod progress;
mod rehearsal;
mod rights;
mod select;
mod spared;
mod statement;
pub(super) mod verdict;
mod with_ids;
