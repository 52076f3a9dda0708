//! The console, over a desk of the tests' own: by real clients and drivers, by what GUIs send when they connect, and by peers that do
//! not keep to the protocol.

// Helpers outside of #[test] are tests too: a panic is how they fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod clients;
/// The unit tests' own.
#[path = "../../src/admin/fake.rs"]
mod fake;
mod hostile;
mod openings;
mod pipeline;
mod raw;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod throttled;

/// As that file finds it.
use rowstamp::admin as desk;
