//! Ids: ranges, and the generators that own them.

pub mod bindings;
mod demand;
mod dispenser;
mod fence;
pub mod generator;
mod kinds;
pub mod layout;
pub mod moves;
mod nodes;
pub mod range;
pub mod reach;
mod refill;
pub mod sequence;
mod slots;
pub mod timestamp;

pub use fence::{bound_of, issued_below, raise_bound};
pub use generator::{Advanced, OpenError, Sequence, Stats, TakeError};
pub use kinds::Generator;
pub use nodes::raise_ticks;
pub use slots::ID_MAX;
