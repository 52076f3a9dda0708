//! Deciding what becomes of a client's command. These are functions over what is known: none of
//! them waits, asks the server, reads a clock of its own, or moves a byte. The parts that they are handed may act: tables and
//! users give ids that are at hand, and count; the verifier and the rehearsal note what they found.
//! `serve` calls them, and carries their verdicts out. `decisions.txt` shows verdicts, one for each row.
//!
//! [`text`] decides statements that come as texts, [`execution`] those that were prepared. What they
//! lack they say by a [`Need`](crate::proxy::known::need::Need).

pub(super) mod drawn_execution;
pub(super) mod draws;
pub(super) mod execution;
mod ids;
pub(super) mod natively;
pub(super) mod params;
mod rehearsal;
pub(super) mod set_id;
pub(super) mod staged;
#[cfg(test)]
mod tests;
pub(super) mod text;
pub(super) mod unconcerned;
pub(super) mod verdict;

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::proxy::known::need::Clock;
use crate::proxy::verifier::Verifier;
use crate::tables::Tables;
use crate::users::Directory;

/// The facts that a command is decided by, besides what the session knows.
#[derive(Clone, Copy)]
pub(super) struct Basis<'a> {
    pub(super) tables: &'a Arc<Tables>,
    pub(super) verifier: &'a Verifier,
    pub(super) clock: Clock,
    /// The users of ours, whose rights limit what calls draw.
    pub(super) users: Option<&'a Directory>,
    /// `rewrite.on_doubt` is "forward".
    pub(super) forwards: bool,
    pub(super) command: Command,
    /// The prepared statement that the command names, by the client's id.
    pub(super) statement: Option<u32>,
    /// Nothing that the session sent before it is under way.
    pub(super) is_first: bool,
}
