//! The Redis protocol of a proxy that runs.

mod answers;
mod client;
mod hostile;
mod ids;
mod logins;
mod native;
