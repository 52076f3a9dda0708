//! Which table's column is filled by which generator.
//!
//! [`model`] is what acts, [`set`] finds the rule of a table, [`pattern`] matches names.

pub mod model;
pub mod pattern;
pub mod set;

pub use set::{Ambiguous, RuleSet};
