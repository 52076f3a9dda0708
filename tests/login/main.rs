//! Logins through the proxy: by real clients to real servers over every pair of transports, and by peers that do not
//! keep to the protocol.

// Helpers outside of #[test] are tests too: a panic is how they fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod hostile;
mod matrix;
mod pinned;
mod proxy;
mod servers;
