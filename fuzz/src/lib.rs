//! What the fuzz targets of `fuzz_targets/` check. A target's `check` panics where something is wrong.

pub mod answers;
pub mod bench;
pub mod binary;
pub mod commands;
pub mod console;
pub mod digest;
pub mod draws;
pub mod frames;
pub mod gap;
pub mod handshake;
pub mod input;
pub mod insert_shape;
pub mod lexer;
pub mod login;
pub mod memory;
pub mod packets;
pub mod prepared;
pub mod proxy_header;
pub mod query_log;
pub mod responses;
pub mod served;
pub mod server;
pub mod slices;
pub mod splice;
pub mod tamed;
pub mod tree;
