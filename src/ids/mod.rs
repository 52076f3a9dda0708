//! Ids: ranges, and the generators that own them.

pub mod range;
pub mod sequence;
