//! One process takes the place of another (`rowstamp serve --takeover`) while clients connect and
//! insert.
//!
//! The process that runs listens on a Unix socket in `state.path`. What goes over it are lines of
//! JSON, requests and replies (`wire`); the way of a takeover is
//!
//! | the new process | the one that runs |
//! |---|---|
//! | `take_over` | accepts no more clients: the kernel keeps them |
//! | | closes its generators, which hand their unused ids back, gives up its tables' locks and its store |
//! | | `handed`, and with it the listening socket |
//! | opens the store and the tables, puts its own socket in the other's place | its ruled INSERTs wait |
//! | `ready` | `done`: from here on the new process serves |
//! | accepts clients | serves those it has; the ids of their INSERTs it asks the new process for (`take`, `pass`) |
//! | | ends with its last session, or at `limits.drain_timeout` |
//!
//! There is never more than one process that makes ids. Where the new one ends before `done`, the
//! old one opens the store again and accepts on.

mod server;
mod socket;
mod successor;
mod wire;

pub use server::{Handover, Sockets, TakeoverRequest, TakeoverServer};
pub use socket::{SOCKET, TakeoverError};
pub use successor::RemoteSuccessor;
