//! The tasks that remain when a command is answered.

use std::sync::Arc;

use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::statements::Kept;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::target::Target;
use crate::rewrite::prepare::PreparedInsert;

/// The meaning of the response to a client's command, for the session.
#[derive(Debug)]
pub(crate) enum Note {
    Nothing,
    /// Statements of a packet: the ruled INSERTs among them, whose OK packets may need their insert
    /// id, and what they do to the session.
    Statements {
        inserts: Vec<InsertReply>,
        /// Ids among them that the client wrote.
        explicit: Vec<ExplicitIds>,
        /// `None`: nothing.
        effects: Option<Arc<Effects>>,
    },
    /// A statement is being prepared that reads what the statement before it has left (ROW_COUNT and its like), and
    /// perhaps the insert id too.
    PrepareNextToLast {
        names_insert_id: bool,
    },
    /// A statement is being prepared whose executions do something to the session.
    PrepareActing(Arc<Effects>),
    /// An INSERT that is being prepared, with parameters of ours where a rule concerns it.
    Prepare(Arc<Kept>),
}

impl Note {
    /// True if ids were put into the command.
    pub(crate) fn has_inserts(&self) -> bool {
        self.inserts().iter().any(|insert| insert.taken().is_some())
    }

    /// The ruled INSERTs whose OK packets may need their insert id.
    pub(crate) fn inserts(&self) -> &[InsertReply] {
        if let Note::Statements { inserts, .. } = self { inserts } else { &[] }
    }

    pub(crate) fn prepared(&self) -> Option<&PreparedInsert> {
        if let Note::Prepare(kept) = self { kept.prepared.as_deref() } else { None }
    }

    pub(crate) fn targets(&self) -> impl Iterator<Item = &Arc<Target>> {
        let inserts = self.inserts().iter().map(|insert| &insert.target);
        inserts.chain(self.prepared().map(|prepared| &prepared.insert.target))
    }

    /// The note of a packet without ruled INSERTs.
    pub(crate) fn effects(effects: Arc<Effects>) -> Note {
        Note::Statements { inserts: Vec::new(), explicit: Vec::new(), effects: Some(effects) }
    }

    /// Allocates nothing where nothing is done to the session.
    pub(crate) fn statements(
        inserts: Vec<InsertReply>,
        explicit: Vec<ExplicitIds>,
        effects: Effects,
    ) -> Note {
        let effects = (!effects.is_nothing()).then(|| Arc::new(effects));
        if inserts.is_empty() && explicit.is_empty() && effects.is_none() {
            return Note::Nothing;
        }
        Note::Statements { inserts, explicit, effects }
    }

    /// True if later commands take ids only after this one has been answered.
    pub(crate) fn moves_ids(&self) -> bool {
        matches!(self, Note::Statements { effects: Some(effects), .. } if effects.moves_ids)
    }
}
