//! The door for clients of Redis: the Redis serialization protocol, versions 2 and 3 (RESP2, RESP3). A key is a generator's name.
//!
//! Sources: <https://redis.io/docs/latest/develop/reference/protocol-spec/>, <https://redis.io/docs/latest/commands/>; what differs is
//! measured on redis 7.0.15 (tests/serve/resp/native.rs).
//!
//! Requests are read, and answers written, by code of our own (`request`, `reply`): redis-protocol 6.0 reads nested arrays by recursion, so
//! that 100 KB end the process, reads what has not come whole again from the start, does not look at the end of a string, and knows no
//! inline commands.

mod client;
mod cluster;
mod command;
mod commands;
mod reply;
mod request;
mod session;

pub use session::Redis;
