//! `rowstamp check --online --json` on real servers: for each code schemas that show it, and schemas that nearly do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod docs;
mod rig;
mod rows;
mod servers;
mod text;
