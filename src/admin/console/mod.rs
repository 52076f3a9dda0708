//! The console: a port that any MySQL client, driver or GUI logs in to, and that answers its own
//! commands. Operators read of it in docs/console.md.
//!
//! In the order of a connection: `listener` accepts, `protocol/` logs the client in and stands
//! between it and opensrv-mysql, whose calls are answered by `shim`. A statement is `run` in its
//! `context`: what clients send on their own account is answered by `client/`, the rest is a
//! `command`, read from `tokens`, or `syntax` says why it is none. What it shows are the tables of
//! `show/` and `help`. What a statement is answered is an `answer`, or a `failure`.

mod accounts;
mod answer;
mod client;
mod command;
mod context;
mod failure;
mod help;
mod listener;
mod protocol;
mod query;
mod run;
mod shim;
mod show;
mod syntax;
mod tokens;

use std::time::Duration;

pub use crate::address::listener::{ListenError, Listener};
pub use listener::serve;
pub use protocol::login::Tls;

/// In the greeting. Drivers and GUIs decide by the number, and all of them know MySQL 8.0's.
const SERVER_VERSION: &str = concat!("8.0.40-rowstamp-", env!("CARGO_PKG_VERSION"));
/// The most connections that log in at once, and the most that are logged in.
const CONNECTIONS_MAX: usize = 64;
/// The largest statement. One that is explained may be long, but nobody reads a longer one than this.
const PACKET_BYTES_MAX: usize = 1 << 20;
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a client may be silent: MySQL's own wait_timeout.
const IDLE_TIMEOUT: Duration = Duration::from_hours(8);
/// The time that a client may leave its answer unread.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
