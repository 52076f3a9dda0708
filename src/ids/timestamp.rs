//! The timestamp generator: time, node and a number within the tick in one id.

pub mod spec;
