//! Statements that may insert into ruled tables: planned, given their ids, and sent in the client's
//! place.
//!
//! `statement` has texts, `execute` executions of prepared ones, `stage` what
//! goes by way of a temporary table. A text
//! comes to a `verdict`; `progress` says how far a command came. What is refused leaves a trace by
//! `refusals`; what goes on without ids does so by `natively`.

pub(super) mod audited;
mod execute;
mod follow;
mod locked;
mod masked;
mod natively;
mod params;
pub(super) mod progress;
mod refusals;
mod rehearsal;
mod spared;
mod stage;
mod statement;
pub(super) mod verdict;
mod with_ids;
