//! The wire: clients log in, their commands are read packet by packet, and opensrv-mysql serves
//! them.

pub(super) mod commands;
pub(super) mod login;
pub(super) mod opensrv;
mod scramble;
pub(super) mod wire;
