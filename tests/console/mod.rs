//! The console, over a desk of the tests' own: by real clients and drivers, by what GUIs send when they connect, and by peers that do
//! not keep to the protocol.

mod clients;
/// The unit tests' own.
#[path = "../../src/admin/fake.rs"]
mod fake;
mod hostile;
mod openings;
mod pipeline;
mod raw;
mod rig;
mod throttled;

/// The file `fake.rs` finds the modules by these names.
use rowstamp::admin as desk;
use rowstamp::users;
