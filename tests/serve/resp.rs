//! The Redis protocol of a proxy that runs.

mod answers;
pub(crate) mod client;
mod hostile;
mod ids;
mod logins;
mod native;
