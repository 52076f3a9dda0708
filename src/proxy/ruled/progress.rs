//! How far a command came, and what is left to do for one that takes several steps.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::ParamType;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::Need;
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::relay::outstanding::Note;
use crate::rewrite::plan::{InsertPlan, Plan, Unreadable};
use crate::tables::Tables;

/// How far a command came.
pub(in crate::proxy) enum Progress {
    /// It is sent, or answered.
    Done,
    /// This is to be found out first.
    Needs(Need),
    /// It takes more than one step.
    Slowly(Slowly),
}

/// A command that is answered after questions to the server, or in several statements.
pub(in crate::proxy) enum Slowly {
    /// INSERT ... SELECT.
    Select(Box<Task>),
    /// A text that cannot be read is shown to the server.
    Show(Shown),
    /// Its ids go into user's variables first, or were taken a while ago.
    Later(Box<Later>),
}

impl From<Need> for Progress {
    fn from(need: Need) -> Self {
        Progress::Needs(need)
    }
}

/// An INSERT ... SELECT: the client's command.
#[derive(Debug)]
pub(in crate::proxy) enum Task {
    /// COM_QUERY; its text begins at `text_at` of its payload.
    Text {
        payload: Vec<u8>,
        text_at: usize,
        plan: Box<Plan>,
    },
    Prepare {
        kept: Arc<Kept>,
        text: Vec<u8>,
    },
    /// COM_STMT_EXECUTE, and what its payload is read with.
    Execute {
        kept: Arc<Kept>,
        payload: Vec<u8>,
        types: Option<Vec<ParamType>>,
        long_data: BTreeSet<u16>,
    },
}

impl Task {
    pub(in crate::proxy) fn insert(&self) -> Option<&InsertPlan> {
        match self {
            Task::Text { plan, .. } => plan.inserts.first(),
            Task::Prepare { kept, .. } | Task::Execute { kept, .. } => Some(&kept.prepared.as_ref()?.insert),
        }
    }

    /// The client's text; of an execution, which needs none, nothing.
    pub(in crate::proxy) fn text(&self) -> &[u8] {
        match self {
            Task::Text { payload, text_at, .. } => payload.get(*text_at..).unwrap_or_default(),
            Task::Prepare { text, .. } => text,
            Task::Execute { .. } => &[],
        }
    }

    /// What an execution was prepared from.
    pub(in crate::proxy) fn source(&self) -> Option<&Source> {
        match self {
            Task::Execute { kept, .. } => Some(&kept.source),
            Task::Text { .. } | Task::Prepare { .. } => None,
        }
    }

    pub(in crate::proxy) fn had_long_data(&self) -> bool {
        matches!(self, Task::Execute { long_data, .. } if !long_data.is_empty())
    }
}

/// A statement that cannot be read, as it is shown to the server.
pub(in crate::proxy) struct Shown {
    pub(in crate::proxy) text: Vec<u8>,
    /// Where the server finds nothing wrong with it.
    pub(in crate::proxy) refusal: Refusal,
}

impl Shown {
    /// `text`: the packet's.
    pub(in crate::proxy) fn new(unreadable: Unreadable, text: &[u8]) -> Self {
        let Unreadable { statement, inner, refusal } = unreadable;
        let text = inner.unwrap_or_else(|| text.get(statement).unwrap_or(text).to_vec());
        Shown { text, refusal: refusal.into() }
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
    /// It reads its ids from user's variables, which this statement sets.
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
