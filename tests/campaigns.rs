//! The modules that break things at random, or measure: tests/campaigns.sh calls them by their scripts.
//! `cargo test` and tests/run.sh leave this crate out (Cargo.toml), because a machine that does other things
//! too decides how they end.
//!
//! Like e2e it knows the program alone: `cargo test --test campaigns crash::` runs one module.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod alerts;
mod away;
mod chaos;
mod crash;
mod failover;
mod faults;
mod guards;
mod idle;
mod outage;
mod support;
