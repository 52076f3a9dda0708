//! The checks, one subject a file. Each adds its findings.

pub(super) mod accounts;
pub(super) mod bodies;
pub(super) mod columns;
pub(super) mod counters;
pub(super) mod floors;
pub(super) mod grants;
pub(super) mod keys;
pub(super) mod names;
pub(super) mod server;
pub(super) mod stored;
pub(super) mod users;
pub(super) mod views;
pub(super) mod widths;
