//! The library's parts without a proxy around them: what the documentation says of them, what a statement becomes, a login, the
//! console; and the lexer beside the servers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // A panic is how a test fails.

mod console;
mod docs;
mod login;
mod oracle;
mod rewrite;
mod support;
