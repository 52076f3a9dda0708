//! The session layer of `rowstamp serve` on both servers: what passes, what is answered, what ends, and in which order.

// Helpers outside of #[test] are tests too: a panic is how they fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

#[path = "../support/mod.rs"]
mod support;

mod attributes;
mod audit;
mod bodies;
mod bulk;
mod canary;
mod compressed;
mod console;
mod cursors;
mod drains;
mod ends;
mod fleet;
mod hostile;
mod http;
mod ids;
mod in_table;
mod isolation;
mod large;
mod limits;
mod lock_lease;
mod logs;
mod lower;
mod moves;
mod named;
mod names;
mod operator;
mod pipeline;
mod prepared;
mod primary;
mod procedures;
mod proxy_protocol;
mod refused_logins;
mod reload;
mod remembered;
mod reprepared;
mod rig;
mod rights;
mod rogue;
mod router;
mod schema;
mod select;
mod settle;
mod shadow;
mod sizes;
mod state;
mod store_primary;
mod storm;
mod swaps;
mod tables;
mod takeover;
mod timestamps;
mod tracking;
mod untouched;
mod users;
mod waiting;
mod watch;
