//! The progress of a command, and the steps that are left for one that takes several.

use std::sync::Arc;

use crate::proxy::decide::verdict::{FilledPacket, Task};
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::{Need, Shown};
use crate::proxy::known::note::Note;
use crate::proxy::relay::command::{Arrived, Handled};
use crate::tables::Tables;

pub(super) enum Progress {
    /// The command is sent, or answered.
    Done(Handled),
    /// The command is still at the front of the client's window.
    Left(Arrived, Left),
}

/// The step that is left to do for a command.
pub(super) enum Left {
    /// The command needs this to be found out first.
    Needs(Need),
    /// The command goes by way of a stage, which takes several statements.
    Stage(Box<Task>),
    /// The command is SHOW WARNINGS, of a statement that went by way of a stage.
    ShowWarnings,
    /// The statement cannot be read, and is shown to the server.
    Show(Shown),
    /// There are no ids for an execution, for this reason, and the server is to number its rows.
    Natively(String),
    /// The command's ids go into user variables first or were taken a while ago, or it takes several packets.
    Later(Box<Later>),
}

/// A command that has its ids and is not sent yet. Before it goes, the leases of its ids are looked at again.
pub(super) struct Later {
    /// The statement that sets the user variables from which the command reads its ids.
    pub(super) sets: Option<String>,
    pub(super) packet: Packet,
    /// The rules that it was planned by. If they are retired by then, its ids may be another proxy's too.
    pub(super) tables: Arc<Tables>,
}

pub(super) enum Packet {
    Text(FilledPacket),
    Execution { payload: Vec<u8>, note: Note },
}

impl Packet {
    pub(super) fn inserts(&self) -> &[InsertReply] {
        match self {
            Packet::Text(text) => &text.inserts,
            Packet::Execution { note, .. } => note.inserts(),
        }
    }
}
