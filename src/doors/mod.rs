//! Ids for applications without an INSERT: doors, each a protocol, in front of one issuer.
//!
//! A door reads what a client asks for and writes what the issuer says. The issuer ([`Issuer`]) knows who asks, whether it may, how many ids
//! there are for one request, where they come from, and counts and notes what it gave. So all doors give ids by the same rules, and from
//! the generators that INSERTs get theirs from (docs/design/doors.md).

pub mod api;
mod entry;
mod issuer;
mod meter;
pub mod resp;
#[cfg(test)]
mod rig;

pub use entry::{Door, Protocol, Terms};
pub use issuer::Issuer;
pub use meter::DoorMeter;
pub(crate) use meter::Seat;
