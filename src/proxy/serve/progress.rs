//! How far a command came, and what is left to do for one that takes several steps.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::prepared::ParamType;
use crate::proxy::known::explicit::Explicit;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::{Need, Shown};
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::outstanding::Note;
use crate::rewrite::plan::stage::Named;
use crate::rewrite::plan::{InsertPlan, Plan};
use crate::tables::Tables;

/// How far a command came.
pub(in crate::proxy) enum Progress {
    /// It is sent, or answered.
    Done,
    /// This is to be found out first.
    Needs(Need),
    /// It goes by way of a stage, which takes several statements.
    Stage(Box<Task>),
    /// It is SHOW WARNINGS, of a statement that went by way of a stage.
    ShowWarnings,
    /// It cannot be read, and is shown to the server.
    Show(Shown),
    /// There are no ids for an execution, for this reason, and the server is to number its rows.
    Natively(String),
    /// Its ids go into user variables first, or were taken a while ago.
    Later(Box<Later>),
}

/// What goes by way of a stage: the client's command, whose payload is still in its lane.
#[derive(Debug)]
pub(in crate::proxy) enum Task {
    /// COM_QUERY; its text begins at `text_at` of its payload.
    Text { text_at: usize, plan: Box<Plan> },
    /// An execution, and what its payload is read with.
    Execute {
        kept: Arc<Kept>,
        types: Option<Vec<ParamType>>,
        /// What was sent ahead.
        long_data: BTreeMap<u16, Vec<u8>>,
        /// MariaDB's COM_STMT_BULK_EXECUTE: a row for each set of parameters.
        is_bulk: bool,
        around: Option<Around>,
    },
}

/// What stands around a question: statements that set what was then, and what is now.
#[derive(Debug)]
pub(in crate::proxy) struct Around {
    pub(super) before: Vec<Vec<u8>>,
    pub(super) after: Vec<Vec<u8>>,
    /// The last one, where the default database is another.
    pub(super) back: Option<Vec<u8>>,
    /// Drops the stage, as the session is now.
    pub(super) drop: Vec<u8>,
}

impl Task {
    pub(in crate::proxy) fn insert(&self) -> Option<&InsertPlan> {
        match self {
            Task::Text { plan, .. } => plan.inserts.first(),
            Task::Execute { kept, .. } => Some(&kept.prepared.as_ref()?.insert),
        }
    }

    /// What SQL's EXECUTE or EXECUTE IMMEDIATE runs.
    pub(in crate::proxy) fn named(&self) -> Option<&Named> {
        self.insert()?.stage.as_ref()?.named.as_ref()
    }

    /// The client's text.
    pub(in crate::proxy) fn text<'a>(&'a self, payload: &'a [u8]) -> &'a [u8] {
        let text = match self {
            Task::Text { text_at, .. } => match self.named() {
                Some(named) => Some(&*named.text),
                None => payload.get(*text_at..),
            },
            Task::Execute { kept, .. } => kept.server_text(),
        };
        text.unwrap_or_default()
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
