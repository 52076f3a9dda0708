//! Ids for applications without an INSERT: doors, each a protocol, in front of one desk.
//!
//! A door reads what a client asks for and writes what the desk says. The desk ([`IdDesk`]) knows who asks, whether it may, how many ids
//! there are for one request, where they come from, and counts and notes what it gave. So all doors give ids by the same rules, and from
//! the generators that INSERTs get theirs from (docs/design/doors.md).

pub mod api;
mod desk;
mod entry;
mod meter;
pub mod resp;
#[cfg(test)]
mod rig;

pub use desk::IdDesk;
pub use entry::{Door, Protocol, Terms};
pub use meter::DoorMeter;
pub(crate) use meter::Seat;
