//! The console, over a desk of the tests' own: by real clients and drivers, by what GUIs send when they connect, and by peers that do
//! not keep to the protocol.

// Helpers outside of #[test] are tests too: a panic is how they fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod clients;
mod desk;
mod hostile;
mod openings;
mod pipeline;
mod raw;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod throttled;
