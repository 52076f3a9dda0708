//! Ids: ranges, and the generators that own them.
//!
//! From the bottom up: `block` is a run of ids that nobody else has. `slots` and `layout` say how ids
//! are numbered, `sequence` what a rule says of a sequence. `fence` raises a generator's bound in the
//! store, `reach` says how far it may be raised by hand. `refill` asks for it in time, as `demand` has
//! it, and `dispenser` hands out what is below the bound. `generator` is the sequence generator,
//! `timestamp` the other one, `kinds` either. `bindings` ties tables to generators, `nodes` numbers
//! the proxies of a timestamp generator, `errors` says why there are no ids.

pub mod bindings;
pub mod block;
mod demand;
mod dispenser;
pub mod errors;
pub mod fence;
pub mod generator;
mod kinds;
pub mod layout;
pub mod nodes;
pub mod reach;
mod refill;
pub mod sequence;
#[cfg(test)]
mod simulated;
mod slots;
pub mod timestamp;

pub use errors::{OpenError, TakeError};
pub use fence::{bound_of, issued_below, raise_bound};
pub use generator::{Advanced, Sequence, Stats};
pub use kinds::{Generator, close_all};
pub use nodes::{Holder, raise_ticks};
pub use slots::{BIGINT_MAX, ID_MAX};
