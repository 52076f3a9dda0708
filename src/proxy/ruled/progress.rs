//! How far a command came, and what is left to do for one that takes several steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::prepared::ParamType;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::{Need, Shown};
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::outstanding::Note;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::tables::Tables;

/// How far a command came.
pub(in crate::proxy) enum Progress {
    /// It is sent, or answered.
    Done,
    /// This is to be found out first.
    Needs(Need),
    /// It is an INSERT ... SELECT, which takes questions to the server and several statements.
    Select(Box<Task>),
    /// It cannot be read, and is shown to the server.
    Show(Shown),
    /// Its ids go into user variables first, or were taken a while ago.
    Later(Box<Later>),
}

/// An INSERT ... SELECT: the client's command, whose payload is still in its lane.
#[derive(Debug)]
pub(in crate::proxy) enum Task {
    /// COM_QUERY; its text begins at `text_at` of its payload.
    Text {
        text_at: usize,
        plan: Box<Plan>,
    },
    Prepare(Arc<Kept>),
    /// COM_STMT_EXECUTE, and what its payload is read with.
    Execute {
        kept: Arc<Kept>,
        types: Option<Vec<ParamType>>,
        long_data: BTreeSet<u16>,
    },
}

impl Task {
    pub(in crate::proxy) fn insert(&self) -> Option<&InsertPlan> {
        match self {
            Task::Text { plan, .. } => plan.inserts.first(),
            Task::Prepare(kept) | Task::Execute { kept, .. } => Some(&kept.prepared.as_ref()?.insert),
        }
    }

    /// The client's text within its payload; an execution has none.
    pub(in crate::proxy) fn text<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        let text = match self {
            Task::Text { text_at, .. } => payload.get(*text_at..),
            Task::Prepare(_) => payload.get(1..),
            Task::Execute { .. } => None,
        };
        text.unwrap_or_default()
    }

    pub(in crate::proxy) fn had_long_data(&self) -> bool {
        matches!(self, Task::Execute { long_data, .. } if !long_data.is_empty())
    }
}

/// A packet and the ids that go into it.
pub(in crate::proxy) struct WithIds {
    pub(in crate::proxy) plan: Plan,
    pub(in crate::proxy) ranges: Vec<IdBlock>,
    pub(in crate::proxy) inserts: Vec<InsertReply>,
    pub(in crate::proxy) explicit: Vec<Explicit>,
    /// Where its text begins in the payload.
    pub(in crate::proxy) text_at: usize,
}

/// One that is not sent at once.
pub(in crate::proxy) struct Later {
    /// It reads its ids from user variables, which this statement sets.
    pub(in crate::proxy) sets: Option<String>,
    pub(in crate::proxy) packet: Packet,
    /// The rules that it was planned by.
    pub(in crate::proxy) tables: Arc<Tables>,
}

pub(in crate::proxy) enum Packet {
    Text(WithIds),
    Execution { payload: Vec<u8>, note: Note },
}

impl Packet {
    pub(in crate::proxy) fn inserts(&self) -> &[InsertReply] {
        match self {
            Packet::Text(text) => &text.inserts,
            Packet::Execution { note, .. } => note.inserts(),
        }
    }
}
