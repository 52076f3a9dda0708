//! The proxy: listener, sessions, login, the pump.
//!
//! `listener` accepts, `proxy_protocol` says whom; `login` takes a connection to a logged-in client with a backend of its own; `session` serves it:
//! `pump` moves bytes between the sockets and the two lanes (`lane`), `upstream` understands the client's commands,
//! `downstream` the backend's answers, matched by the queue of what is `outstanding`. Statements that may insert into a
//! ruled table go through `ruled`, `execute` and `bulk`; what the client learns of its ids is in `inserts`. Of those into a table in
//! shadow mode `rehearsal` plans what would become of them, and `shadow` counts it.

mod answers;
mod audited;
pub mod backend;
mod bulk;
mod change_user;
mod complaints;
pub mod control;
mod downstream;
mod drain;
mod execute;
mod explicit;
pub mod followed;
mod framing;
mod glances;
mod hidden;
mod inserts;
mod lane;
pub mod listener;
mod locked;
pub mod locks;
pub mod login;
mod moves;
mod named;
mod need;
mod outstanding;
mod packet_io;
pub mod proxy_protocol;
mod pump;
mod rehearsal;
mod relay;
pub mod rights;
pub mod rsa_key;
mod ruled;
pub mod seats;
mod select;
mod self_signed;
pub mod session;
pub mod settings;
pub mod shadow;
pub mod socket_users;
mod statements;
pub mod stream;
pub mod tables;
mod temporary;
pub mod tls;
mod tracking;
mod unconcerned;
mod upstream;
pub mod verifier;
mod view;
mod views;
mod with_ids;
