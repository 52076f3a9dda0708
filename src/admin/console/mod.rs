//! The console: a port that any MySQL client, driver or GUI logs in to, and that answers its own commands. docs/console.md is what
//! operators read of it.
//!
//! In the order of a connection: `listener` accepts, `login` finds out who it is (`scramble`, `throttle`, `wire`), `gate` and `voice`
//! stand between the client and opensrv-mysql, `session` is what that asks. A statement is `run`: what clients send on their own account
//! is answered by `greetings` (`select`, `variables`, `catalog`, `information_schema`), the rest is a `command`, cut into `words`, or
//! `syntax` says why it is none; what it shows are `tables` (`generators`, `stats`).

mod answer;
mod client;
mod command;
mod context;
mod failure;
mod help;
mod listener;
mod patience;
mod protocol;
mod run;
mod session;
mod show;
mod syntax;
mod tokens;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use super::desk::Desk;

pub use listener::{ListenError, Listener};
pub use protocol::login::Tls;

/// What the greeting says: drivers and GUIs go by the number, and MySQL 8.0's is the one that all of them know.
const SERVER_VERSION: &str = concat!("8.0.40-rowstamp-", env!("CARGO_PKG_VERSION"));
/// Connections at once, logged in or not.
const CONNECTIONS_MAX: usize = 64;
/// Of a statement. What is explained may be long; what is longer than this is not read by people.
const PACKET_BYTES_MAX: usize = 1 << 20;
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may be silent: MySQL's own wait_timeout.
const IDLE_TIMEOUT: Duration = Duration::from_hours(8);
/// How long a client may leave its answer unread.
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);

/// Serves the console for as long as it is polled. `tls` is asked at each login, so that a reload's certificates act.
pub async fn serve(listener: Listener, desk: Arc<dyn Desk>, tls: impl Fn() -> Tls + Send + Sync) {
    let doorman = protocol::login::Doorman { desk, throttle: protocol::throttle::Throttle::default() };
    listener::accept(listener, doorman, tls).await;
}
