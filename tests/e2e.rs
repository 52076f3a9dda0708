//! Rowstamp from outside: the program, private servers, and clients that know nothing of the library. No name of the library
//! stands here, so that a change of it links nothing new.
//!
//! One crate, because a changed line of `src` has each crate of tests built again: `cargo test --test e2e lint::` runs one
//! module. What such a line costs: docs/design/tests.md.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod commands;
mod differential;
mod harness;
mod lint;
mod migrate;
mod random;
mod support;
mod values;
