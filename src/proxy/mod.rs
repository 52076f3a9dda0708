//! The proxy: listener, sessions, login, the pump.

pub mod backend;
pub mod login;
mod packet_io;
mod self_signed;
pub mod settings;
pub mod stream;
pub mod tls;
