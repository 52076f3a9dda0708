//! Ids: ranges, and the generators that own them.

pub mod bindings;
mod demand;
mod dispenser;
mod fence;
pub mod generator;
pub mod layout;
pub mod range;
mod refill;
pub mod sequence;
mod slots;
pub mod timestamp;

pub use fence::{bound_of, raise_bound};
pub use generator::{Advanced, OpenError, Sequence, Stats, TakeError};
pub use slots::ID_MAX;
