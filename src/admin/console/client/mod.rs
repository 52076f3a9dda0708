//! What clients send on their own account, and what they get.

mod catalog;
pub(super) mod select;
pub(super) mod setup;
mod variables;
