//! The proxy: from an accepted connection to the end of its session. Each room uses those below it only.
//!
//! | room | what it does |
//! |---|---|
//! | [`listener`] | accepts clients, and ends with them |
//! | [`serve`] | serves one client: carries out what is decided, and asks the server questions |
//! | `decide/` | decides what becomes of a command, by what is known |
//! | [`shared`] | what all sessions share |
//! | `relay/` | the protocol without sockets: two lanes, and the queue of what is outstanding |
//! | `known/` | what a session knows: its state, its prepared statements, its temporary tables, what it still needs |
//! | [`connect`] | connections: sockets, TLS, compression, the login |
//! | [`settings`] | what the configuration makes of all this |

mod complaints;
pub mod connect;
mod decide;
mod known;
pub mod listener;
mod relay;
pub mod rsa_key;
pub mod serve;
pub mod settings;
pub mod shared;
pub mod verifier;
