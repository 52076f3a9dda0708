//! The statements that clients send on their own account, and the answers to them.

mod catalog;
pub(super) mod select;
pub(super) mod setup;
mod variables;
