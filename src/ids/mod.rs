//! Ids: ranges, and the generators that own them.

pub mod bindings;
pub mod generator;
pub mod range;
pub mod sequence;

pub use generator::{Advanced, OpenError, Sequence, Stats, TakeError};
