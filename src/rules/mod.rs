//! Which table's column is filled by which generator.

pub mod model;
