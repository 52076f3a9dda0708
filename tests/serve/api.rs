//! The HTTP API of a proxy that runs.

mod answers;
pub(crate) mod client;
mod compat;
mod hostile;
mod ids;
mod logins;
