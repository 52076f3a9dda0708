//! The session's prepared statements that insert into ruled tables; of all others next to nothing is kept.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::mysql::prepared::{LAST_PREPARED, ParamType};
use crate::rewrite::effects::Effects;
use crate::rewrite::plan::InsertPlan;
use crate::rewrite::prepare::PreparedText;

/// What an execution needs to know of its text.
#[derive(Debug)]
pub(super) struct PreparedInsert {
    /// What the client prepared.
    pub(super) source: Vec<u8>,
    pub(super) insert: InsertPlan,
    pub(super) text: PreparedText,
}

impl PreparedInsert {
    /// Whether the server's parameter of this number is ours.
    pub(super) fn hides(&self, server_param: u16) -> bool {
        self.text.hidden.iter().any(|hidden| hidden.index == server_param)
    }

    /// Where the client's parameter stands among the server's.
    pub(super) fn server_param(&self, client_param: u16) -> u16 {
        // Hidden ones ascend, and each in front of it moves it by one.
        self.text.hidden.iter().fold(client_param, |at, hidden| at + u16::from(hidden.index <= at))
    }
}

/// A prepared INSERT with what its executions leave behind.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) prepared: Arc<PreparedInsert>,
    /// The types of the last execution that sent any: later ones may leave them out.
    pub(super) types: Option<Vec<ParamType>>,
    /// The client's parameters that were sent ahead by COM_STMT_SEND_LONG_DATA.
    pub(super) long_data: BTreeSet<u16>,
}

impl Statement {
    fn new(prepared: Arc<PreparedInsert>) -> Self {
        Statement { prepared, types: None, long_data: BTreeSet::new() }
    }
}

/// By the server's statement ids, and the one prepared last, which a client may execute before it knows its id.
#[derive(Debug, Default)]
pub(super) struct Statements {
    by_id: HashMap<u32, Statement>,
    last: Last,
    /// What the executions of other statements do to the session, where they do something.
    acting: HashMap<u32, Arc<Effects>>,
    /// Statements that read what the one before them left behind.
    next_to_last: HashMap<u32, NextToLast>,
}

/// What a statement reads beside what the one before it left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextToLast {
    pub(super) names_insert_id: bool,
}

#[derive(Debug, Default)]
enum Last {
    /// Nothing of ours was prepared last.
    #[default]
    Other,
    /// It was refused, so the server takes another one for the last.
    Refused,
    Acting(Arc<Effects>),
    /// The server has not yet told its id.
    Pending(Box<Statement>),
    Known(u32),
}

impl Statements {
    pub(super) fn get(&self, id: u32) -> Option<&Statement> {
        match &self.last {
            _ if id != LAST_PREPARED => self.by_id.get(&id),
            Last::Other | Last::Refused | Last::Acting(_) => None,
            Last::Pending(statement) => Some(statement),
            Last::Known(id) => self.by_id.get(id),
        }
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Statement> {
        match &mut self.last {
            _ if id != LAST_PREPARED => self.by_id.get_mut(&id),
            Last::Other | Last::Refused | Last::Acting(_) => None,
            Last::Pending(statement) => Some(statement),
            Last::Known(id) => self.by_id.get_mut(id),
        }
    }

    /// COM_STMT_PREPARE was sent for it.
    pub(super) fn prepare(&mut self, prepared: Arc<PreparedInsert>) {
        self.last = Last::Pending(Box::new(Statement::new(prepared)));
    }

    /// COM_STMT_PREPARE was sent for another statement.
    pub(super) fn forget_last(&mut self) {
        self.last = Last::Other;
    }

    /// COM_STMT_PREPARE was sent for a statement whose executions do something to the session.
    pub(super) fn prepare_acting(&mut self, effects: Arc<Effects>) {
        self.last = Last::Acting(effects);
    }

    pub(super) fn prepared_acting(&mut self, id: u32, effects: &Arc<Effects>) {
        self.acting.insert(id, effects.clone());
    }

    /// What an execution of this statement does to the session, where that is something.
    pub(super) fn effects(&self, id: u32) -> Option<Arc<Effects>> {
        match &self.last {
            Last::Acting(effects) if id == LAST_PREPARED => Some(effects.clone()),
            _ => self.acting.get(&id).cloned(),
        }
    }

    /// Nothing was sent for the client's COM_STMT_PREPARE.
    pub(super) fn refuse_last(&mut self) {
        self.last = Last::Refused;
    }

    /// Whether a command must not reach the server, because it would mean another statement there.
    pub(super) fn is_refused(&self, id: u32) -> bool {
        id == LAST_PREPARED && matches!(self.last, Last::Refused)
    }

    /// The server has told the id.
    pub(super) fn prepared(&mut self, id: u32, prepared: &Arc<PreparedInsert>) {
        let is_last = matches!(&self.last, Last::Pending(s) if Arc::ptr_eq(&s.prepared, prepared));
        let statement = match std::mem::take(&mut self.last) {
            Last::Pending(statement) if is_last => {
                self.last = Last::Known(id);
                *statement
            }
            last => {
                self.last = last;
                Statement::new(prepared.clone())
            }
        };
        self.by_id.insert(id, statement);
    }

    /// Nothing of ours may be run between the last statement and this one.
    pub(super) fn stays_next_to_last(&mut self, id: u32, names_insert_id: bool) {
        self.next_to_last.insert(id, NextToLast { names_insert_id });
    }

    pub(super) fn next_to_last(&self, id: u32) -> Option<NextToLast> {
        self.next_to_last.get(&id).copied()
    }

    pub(super) fn close(&mut self, id: u32) {
        self.by_id.remove(&id);
        self.acting.remove(&id);
        self.next_to_last.remove(&id);
        if matches!(self.last, Last::Known(last) if last == id || id == LAST_PREPARED) {
            self.last = Last::Other;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Statements::default();
    }
}
