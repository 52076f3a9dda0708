//! Which table's column is filled by which generator.
//!
//! [`keys`] is what may be written, [`load()`] reads and links the files, [`model`] is what acts, [`set`] finds a
//! table's rule, [`pattern`] matches names, [`template`] makes those of generators, [`mentions`] decides which texts
//! can name a ruled table at all, `watch` when changed files are read, `changes` what has changed.

mod changes;
pub mod column;
pub mod keys;
mod limits;
mod load;
pub mod mentions;
pub mod model;
pub mod pattern;
pub mod set;
mod spec;
pub mod template;
mod timestamp;
mod watch;

pub use changes::{changes, word};
pub use load::{is_of_unused, load};
pub use set::{Ambiguous, RuleSet, is_of_the_server};
pub use timestamp::short_lived;
pub use watch::{Mark, Watch};
