//! Connections: `login` makes of an accepted one a logged-in client with a `backend` connection of
//! its own. `stream` carries the bytes of either side, plain, in `tls` or compressed.

pub mod backend;
pub mod change_user;
pub mod control;
pub mod login;
mod packet_io;
pub mod proxy_protocol;
pub mod seats;
mod self_signed;
pub mod socket_users;
pub mod stream;
pub mod tls;
