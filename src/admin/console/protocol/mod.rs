//! The wire: connections are accepted, logged in and read packet by packet.

pub(super) mod gate;
pub(super) mod login;
pub(super) mod scramble;
pub(super) mod throttle;
pub(super) mod wire;
