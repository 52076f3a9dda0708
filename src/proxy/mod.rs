//! The proxy: listener, sessions, login, the pump.

pub mod settings;
