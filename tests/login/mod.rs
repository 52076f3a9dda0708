//! Logins through the proxy: by real clients to real servers over every pair of transports, and by peers that do not
//! keep to the protocol.

mod hostile;
mod matrix;
mod pinned;
mod proxy;
mod servers;
