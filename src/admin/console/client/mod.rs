//! What clients send on their own account, and what they get.

mod catalog;
pub(super) mod greetings;
pub(super) mod guest;
mod information_schema;
mod select;
mod variables;
