//! The effects of a packet's statements on the session that the next packet is read in, as far as their
//! text shows.

use std::sync::Arc;

use crate::rewrite::plan::prepared_names::NamedChange;
use crate::rewrite::plan::target::Target;
use crate::sql::dialect::{ClientCharset, SqlMode};
use crate::table_name::TableName;

/// The effects are applied when the server has answered the packet without an error. If it failed half-way, session
/// tracking reports the state.
#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Debug, Default)]
pub struct Effects {
    /// A schema may have changed: cached shapes are to be read again.
    pub ddl: bool,
    /// Rows may have other ids than before, or rows may have come that Rowstamp gave no ids: the highest ids of tables are to be read before
    /// the next id.
    pub moves_ids: bool,
    /// Something ran whose text is not there (CALL, EXECUTE): default database, `sql_mode` and
    /// character set are what session tracking says they are.
    pub opaque: bool,
    /// The last `USE`.
    pub schema: Option<String>,
    /// The last `SET sql_mode`.
    pub sql_mode: Option<SqlMode>,
    /// The last `SET NAMES` or its like.
    pub charset: Option<ClientCharset>,
    /// `session_track_...` was set: the proxy's own list of tracked variables is to be put back.
    pub tracking: bool,
    /// `insert_id` was set: the id that the server generates next.
    pub insert_id: bool,
    /// Names that temporary tables hide from now on, or no longer, in the order of the text, each
    /// with its statement's number.
    pub temporary: Vec<(usize, Temporary)>,
    /// All effects are known, so that a report of changed state says nothing new. Such a report does not distinguish
    /// temporary tables from variables.
    pub explains_report: bool,
    /// An INSERT that is left alone because a temporary table hides this name of a ruled one.
    pub hidden_insert: Option<Box<TableName>>,
    /// A routine or a compound statement ran: it may have prepared other statements under the
    /// session's names.
    pub routine: bool,
    /// The changes that PREPARE and DEALLOCATE made to the session's names, in the order of the text, each with
    /// its statement's number in the packet.
    pub prepared_names: Vec<(usize, NamedChange)>,
    /// The table that the single INSERT of a text that is prepared goes into, where no rule concerns it.
    pub inserts_into: Option<Box<TableName>>,
    /// Ruled tables whose new rows the server numbers itself: the statement went on as it came.
    pub natively: Vec<Arc<Target>>,
}

impl Effects {
    /// The effects of a text that nobody has read.
    pub fn unseen() -> Self {
        Effects { opaque: true, routine: true, moves_ids: true, ..Effects::default() }
    }

    /// The effects of such a text that inserts into tables whose rows the server numbers.
    pub fn forwarded(natively: Vec<Arc<Target>>) -> Self {
        Effects { natively, ..Effects::unseen() }
    }

    /// A routine or a compound statement ran.
    pub(in crate::rewrite) fn note_routine(&mut self) {
        self.routine = true;
        self.moves_ids = true;
    }

    pub fn is_nothing(&self) -> bool {
        self.leave_session()
            && !self.explains_report
            && self.hidden_insert.is_none()
            && self.inserts_into.is_none()
            && self.natively.is_empty()
    }

    /// True if a later statement is read just as this one was.
    pub fn leave_session(&self) -> bool {
        !(self.ddl || self.moves_ids || self.opaque || self.tracking || self.insert_id || self.routine)
            && self.prepared_names.is_empty()
            && self.schema.is_none()
            && self.sql_mode.is_none()
            && self.charset.is_none()
            && self.temporary.is_empty()
    }
}

/// The change of a temporary table. One that is dropped goes before a table that it hides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Temporary {
    Created(TableName),
    Gone(TableName),
    Renamed { from: TableName, to: TableName },
}
