//! Rowstamp from outside: the program, private servers, and clients that know nothing of the library. No name of the library
//! stands here, so that a change of it links nothing new.
//!
//! One crate, for a changed line of `src` has each crate of tests built again: `cargo test --test e2e crash::` runs one
//! module. What such a line costs: docs/design/tests.md.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod alerts;
mod away;
mod chaos;
mod commands;
mod crash;
mod differential;
mod failover;
mod faults;
mod guards;
mod harness;
mod idle;
mod lint;
mod migrate;
mod outage;
mod random;
mod support;
mod values;
