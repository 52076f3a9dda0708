//! The proxy: listener, sessions, login, the pump.

pub mod backend;
pub mod login;
pub mod settings;
pub mod stream;
pub mod tls;
