//! What the fuzz targets of `fuzz_targets/` check. A target's `check` panics where something is wrong.

pub mod binary;
pub mod gap;
pub mod input;
pub mod insert_shape;
pub mod lexer;
pub mod prepared;
pub mod splice;
pub mod tamed;
pub mod tree;
