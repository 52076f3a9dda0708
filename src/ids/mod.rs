//! Ids: ranges, and the generators that own them.

pub mod bindings;
mod demand;
mod dispenser;
pub mod errors;
pub mod fence;
pub mod generator;
mod kinds;
pub mod layout;
pub mod nodes;
pub mod range;
pub mod reach;
mod refill;
pub mod sequence;
mod slots;
pub mod timestamp;

pub use errors::{OpenError, TakeError};
pub use fence::{bound_of, issued_below, raise_bound};
pub use generator::{Advanced, Sequence, Stats};
pub use kinds::Generator;
pub use nodes::raise_ticks;
pub use slots::ID_MAX;
