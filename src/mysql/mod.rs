//! The wire's words, as the MySQL and MariaDB manuals name them.

pub mod attributes;
pub mod auth;
pub mod bulk;
pub mod capabilities;
pub mod change_user;
pub mod command;
pub mod compressed;
pub mod error;
pub mod handshake;
pub mod ok;
pub mod packet;
pub mod prepared;
pub mod reader;
pub mod response;
