//! The session's prepared INSERTs, which are prepared again where rules or columns change; of all others next to nothing is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::mysql::prepared::{Expected, LAST_PREPARED, ParamType};
use crate::proxy::known::drawn::{DrawingStatement, PreparedDraws};
use crate::proxy::known::session_state::State;
use crate::proxy::known::tracking::SessionSettings;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::stage::Kind;
use crate::rewrite::prepare::PreparedInsert;
use crate::sql::dialect::Dialect;
use crate::table_name::TableName;

/// Texts of a session are kept up to so many bytes; a client that prepares more has some of them to
/// prepare again by itself where rules change.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// An INSERT that the client prepared, and the session as it was then: its names and strings mean what they meant then.
#[derive(Debug)]
pub(crate) struct Source {
    /// `None`: there was no room for it.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) dialect: Dialect,
    /// The text reads the same under every sql_mode and character set: `dialect` is one of those that the session may have had.
    pub(crate) reads_alike: bool,
    pub(crate) database: Option<String>,
    /// `None`: they are not known, for no rule needed them.
    pub(crate) settings: Option<Arc<SessionSettings>>,
    pub(crate) table: TableName,
}

impl Source {
    /// True if names and strings are read as they were when the statement was prepared.
    pub(crate) fn reads_as_in(&self, now: &State) -> bool {
        (self.reads_alike || now.dialect == self.dialect) && now.database == self.database
    }
}

/// A client's INSERT, and the statement that was prepared for it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) source: Arc<Source>,
    /// `None`: no rule concerns it, and the server has it as it came.
    pub(crate) prepared: Option<Arc<PreparedInsert>>,
}

impl Kept {
    /// True if its executions go by way of a stage.
    pub(crate) fn is_staged(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.insert.stage.is_some())
    }

    /// True for INSERT ... SELECT: how many ids it takes shows at each execution.
    pub(crate) fn is_of_query(&self) -> bool {
        let stage = self.prepared.as_ref().and_then(|prepared| prepared.insert.stage.as_ref());
        stage.is_some_and(|stage| stage.kind == Kind::Query)
    }

    pub(crate) fn server_text(&self) -> Option<&[u8]> {
        match &self.prepared {
            Some(prepared) => Some(&prepared.text.text),
            None => self.source.text.as_deref(),
        }
    }

    /// True if the table's name still means what it meant when the statement was prepared.
    pub(crate) fn is_current(&self, lookup: &Lookup) -> bool {
        match (lookup, &self.prepared) {
            (Lookup::Ruled(now), Some(prepared)) => {
                Arc::ptr_eq(now, &prepared.insert.target) || *now == prepared.insert.target
            }
            (Lookup::NotRuled, None) => true,
            _ => false,
        }
    }
}

/// A prepared INSERT, with the state that its executions leave.
#[derive(Debug)]
pub(crate) struct PreparedStatement {
    pub(crate) kept: Arc<Kept>,
    /// The server's id, which is the client's until it is prepared again; `None`: not known yet.
    pub(crate) server_id: Option<u32>,
    /// The client's own parameters.
    pub(crate) params: u16,
    /// The types of the last execution that sent any: later ones may leave them out.
    pub(crate) types: Option<Vec<ParamType>>,
    /// The client's parameters that were sent ahead by COM_STMT_SEND_LONG_DATA.
    pub(crate) long_data: BTreeSet<u16>,
    /// The values that were sent ahead, for a statement that goes by way of a stage: the server has another text of
    /// it. `None`: they were too long.
    pub(crate) long_values: Option<BTreeMap<u16, Vec<u8>>>,
}

/// The state of a statement before it was prepared again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) server_id: Option<u32>,
    pub(crate) had_long_data: bool,
}

impl PreparedStatement {
    /// The facts that an execution of it is read with.
    pub(crate) fn expected(&self, with_attributes: bool) -> Expected<'_> {
        let params = self.kept.prepared.as_ref().map_or(self.params, |prepared| prepared.text.client_params);
        let (types, long_data) = (self.types.as_deref(), &self.long_data);
        Expected { params, types, long_data, with_attributes }
    }

    /// Keeps a piece of what is sent ahead, as long as all pieces have room.
    pub(crate) fn keep(&mut self, param: u16, piece: Option<&[u8]>, bytes_max: usize) {
        let kept: usize = self.long_values.iter().flatten().map(|(_, value)| value.len()).sum();
        match (piece, &mut self.long_values) {
            (Some(piece), Some(values)) if kept.saturating_add(piece.len()) <= bytes_max => {
                values.entry(param).or_default().extend_from_slice(piece);
            }
            _ => self.long_values = None,
        }
    }

    /// Forgets what was sent ahead; whether that was something.
    pub(crate) fn forget_long_data(&mut self) -> bool {
        self.long_values = Some(BTreeMap::new());
        !std::mem::take(&mut self.long_data).is_empty()
    }

    fn new(kept: Arc<Kept>) -> Self {
        let params = kept.prepared.as_ref().map_or(0, |prepared| prepared.text.client_params);
        PreparedStatement {
            kept,
            server_id: None,
            params,
            types: None,
            long_data: BTreeSet::new(),
            long_values: Some(BTreeMap::new()),
        }
    }
}

/// The prepared statements by the client's ids, which are those that the server gave at first. The statement prepared
/// last has a place of its own: a client may execute it before it knows its id.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    by_id: BTreeMap<u32, PreparedStatement>,
    last: Last,
    /// The effects that executions of other statements have on the session, where they have some.
    acting: BTreeMap<u32, Arc<Effects>>,
    /// Statements that read what the statement before them has left.
    next_to_last: BTreeMap<u32, NextToLast>,
    /// Statements that may see that the server tracks for the proxy.
    see_tracking: BTreeSet<u32>,
    /// Statements with calls that draw ids.
    drawing: BTreeMap<u32, DrawingStatement>,
    last_drawing: LastDrawing,
    kept_bytes: usize,
    /// The id that the server gave last: a client may name that statement as -1 (`LAST_PREPARED`).
    last_id: Option<u32>,
    /// A COM_STMT_PREPARE of ours came after the client's last: -1 means another statement to the server than to the client.
    pub(crate) is_displaced: bool,
}

/// A statement that reads what the statement before it has left (ROW_COUNT and its like), and perhaps the insert id too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextToLast {
    pub(crate) names_insert_id: bool,
}

/// The statement that was prepared last, if it has calls that draw ids.
#[derive(Debug, Default)]
enum LastDrawing {
    #[default]
    None,
    Pending(Box<DrawingStatement>),
    Known(u32),
}

#[derive(Debug, Default)]
enum Last {
    /// No statement that is kept here was prepared last.
    #[default]
    Other,
    /// The last COM_STMT_PREPARE was refused, so the server may take another statement for the last.
    Refused,
    Acting(Arc<Effects>),
    /// The server has not answered with its id yet.
    Pending(Box<PreparedStatement>),
    Known(u32),
}

impl Statements {
    pub(crate) fn get(&self, id: u32) -> Option<&PreparedStatement> {
        match &self.last {
            Last::Pending(statement) if id == LAST_PREPARED => Some(statement),
            Last::Known(last) if id == LAST_PREPARED => self.by_id.get(last),
            _ => self.by_id.get(&id),
        }
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut PreparedStatement> {
        match &mut self.last {
            Last::Pending(statement) if id == LAST_PREPARED => Some(statement),
            Last::Known(last) if id == LAST_PREPARED => self.by_id.get_mut(last),
            _ => self.by_id.get_mut(&id),
        }
    }

    /// A text of `bytes` is to be kept: whether there is room for it.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.kept_bytes.saturating_add(bytes) <= KEPT_BYTES_MAX
    }

    pub(crate) fn drawing(&mut self, id: u32) -> Option<&mut DrawingStatement> {
        match &mut self.last_drawing {
            LastDrawing::Pending(statement) if id == LAST_PREPARED => Some(statement),
            LastDrawing::Known(last) if id == LAST_PREPARED => self.drawing.get_mut(last),
            _ => self.drawing.get_mut(&id),
        }
    }

    pub(crate) fn draws(&self, id: u32) -> bool {
        match &self.last_drawing {
            LastDrawing::Pending(_) | LastDrawing::Known(_) if id == LAST_PREPARED => true,
            _ => self.drawing.contains_key(&id),
        }
    }

    /// COM_STMT_PREPARE was sent for a statement, with calls or without.
    pub(crate) fn prepare_drawing(&mut self, draws: Option<Arc<PreparedDraws>>) {
        self.last_drawing = match draws {
            Some(draws) => LastDrawing::Pending(Box::new(DrawingStatement::new(draws))),
            None => LastDrawing::None,
        };
    }

    /// The server has answered with its id.
    pub(crate) fn prepared_drawing(&mut self, id: u32, draws: &Arc<PreparedDraws>) {
        let statement = match std::mem::replace(&mut self.last_drawing, LastDrawing::Known(id)) {
            LastDrawing::Pending(statement) if Arc::ptr_eq(&statement.draws, draws) => *statement,
            last => {
                self.last_drawing = last;
                DrawingStatement::new(draws.clone())
            }
        };
        self.drawing.insert(id, statement);
    }

    /// COM_STMT_PREPARE was sent for it.
    pub(crate) fn prepare(&mut self, kept: Arc<Kept>) {
        self.last = Last::Pending(Box::new(PreparedStatement::new(kept)));
        self.is_displaced = false;
    }

    /// COM_STMT_PREPARE was sent for another statement.
    pub(crate) fn forget_last(&mut self) {
        self.last = Last::Other;
        self.is_displaced = false;
    }

    /// The server has given this id to a statement that the client prepared.
    pub(crate) fn note_id(&mut self, id: u32) {
        self.last_id = Some(id);
    }

    /// The server's id, where it is another than the client writes.
    pub(crate) fn translated(&self, id: u32) -> Option<u32> {
        let server_id = match self.get(id) {
            Some(statement) => statement.server_id.filter(|_| id != LAST_PREPARED || self.is_displaced),
            None => self.last_id.filter(|_| id == LAST_PREPARED && self.is_displaced),
        };
        server_id.filter(|&server_id| server_id != id)
    }

    /// Notes that the statement of the client's `id` was prepared again. `None`: there is no such statement.
    pub(crate) fn replace(&mut self, id: u32, server_id: u32, kept: Arc<Kept>) -> Option<Replaced> {
        let statement = self.get_mut(id)?;
        statement.kept = kept;
        Some(Replaced {
            had_long_data: statement.forget_long_data(),
            server_id: statement.server_id.replace(server_id),
        })
    }

    /// COM_STMT_PREPARE was sent for a statement whose executions do something to the session.
    pub(crate) fn prepare_acting(&mut self, effects: Arc<Effects>) {
        self.last = Last::Acting(effects);
    }

    pub(crate) fn prepared_acting(&mut self, id: u32, effects: &Arc<Effects>) {
        self.acting.insert(id, effects.clone());
    }

    /// The effects of an execution of this statement on the session. `None`: it has none.
    pub(crate) fn effects(&self, id: u32) -> Option<Arc<Effects>> {
        match &self.last {
            Last::Acting(effects) if id == LAST_PREPARED => Some(effects.clone()),
            _ => self.acting.get(&id).cloned(),
        }
    }

    /// Nothing was sent for the client's COM_STMT_PREPARE, or the server answered it with an error: then none is the last.
    pub(crate) fn refuse_last(&mut self) {
        self.last = Last::Refused;
    }

    /// True if a command must not reach the server, because it would mean another statement there.
    pub(crate) fn is_refused(&self, id: u32) -> bool {
        id == LAST_PREPARED && matches!(self.last, Last::Refused)
    }

    /// The server has answered with the id. `params`: those that it counts.
    pub(crate) fn prepared(&mut self, id: u32, kept: &Arc<Kept>, params: u16) {
        let mut statement = match std::mem::replace(&mut self.last, Last::Known(id)) {
            Last::Pending(statement) if Arc::ptr_eq(&statement.kept, kept) => *statement,
            last => {
                self.last = last;
                PreparedStatement::new(kept.clone())
            }
        };
        statement.server_id = Some(id);
        if kept.prepared.is_none() {
            statement.params = params;
        }
        self.kept_bytes += bytes_of(&statement);
        if let Some(old) = self.by_id.insert(id, statement) {
            self.kept_bytes = self.kept_bytes.saturating_sub(bytes_of(&old));
        }
    }

    /// Nothing of ours may be run between the last statement and this one.
    pub(crate) fn stays_next_to_last(&mut self, id: u32, names_insert_id: bool) {
        self.next_to_last.insert(id, NextToLast { names_insert_id });
    }

    pub(crate) fn may_see_tracking(&mut self, id: u32) {
        self.see_tracking.insert(id);
    }

    pub(crate) fn sees_tracking(&self, id: u32) -> bool {
        self.see_tracking.contains(&id) || id == LAST_PREPARED && !self.see_tracking.is_empty()
    }

    pub(crate) fn next_to_last(&self, id: u32) -> Option<NextToLast> {
        self.next_to_last.get(&id).copied()
    }

    pub(crate) fn close(&mut self, id: u32) {
        if let Some(old) = self.by_id.remove(&id) {
            self.kept_bytes = self.kept_bytes.saturating_sub(bytes_of(&old));
        }
        self.acting.remove(&id);
        self.drawing.remove(&id);
        self.see_tracking.remove(&id);
        self.next_to_last.remove(&id);
        if matches!(self.last, Last::Known(last) if last == id || id == LAST_PREPARED) {
            self.last = Last::Other;
        }
    }
}

/// Twice the length of the text, which is kept as it came and, where a rule concerns it, as the server has it.
fn bytes_of(statement: &PreparedStatement) -> usize {
    statement.kept.source.text.as_ref().map_or(0, |text| 2 * text.len())
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES_MAX, Kept, Replaced, Source, Statements};
    use crate::mysql::prepared::LAST_PREPARED;
    use crate::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};
    use crate::table_name::TableName;
    use std::sync::Arc;

    fn source(text: &str) -> Arc<Source> {
        let server = Server { kind: ServerKind::MariaDb, version: 101_100 };
        let charset = ClientCharset::parse("utf8mb4");
        Arc::new(Source {
            text: Some(text.into()),
            dialect: Dialect { server, sql_mode: SqlMode::parse(""), charset },
            reads_alike: false,
            database: None,
            settings: None,
            table: TableName::new("s", "t"),
        })
    }

    #[test]
    fn the_client_keeps_its_ids() {
        let mut statements = Statements::default();
        let first = Arc::new(Kept { source: source("INSERT INTO t VALUES(?)"), prepared: None });
        statements.prepare(first.clone());
        statements.note_id(1);
        statements.prepared(1, &first, 1);
        assert_eq!((statements.translated(1), statements.translated(LAST_PREPARED)), (None, None));
        statements.is_displaced = true;
        assert_eq!(statements.translated(LAST_PREPARED), Some(1), "the server takes ours for the last");
        statements.get_mut(1).unwrap().long_data.insert(0);
        let again = Arc::new(Kept { source: first.source.clone(), prepared: None });
        let before = Replaced { server_id: Some(1), had_long_data: true };
        assert_eq!(statements.replace(1, 9, again), Some(before));
        assert_eq!((statements.translated(1), statements.translated(LAST_PREPARED)), (Some(9), Some(9)));
        // A statement that is not kept.
        statements.forget_last();
        statements.note_id(10);
        assert_eq!(statements.translated(LAST_PREPARED), None);
        statements.is_displaced = true;
        assert_eq!(statements.translated(LAST_PREPARED), Some(10));
        statements.close(1);
        assert_eq!((statements.translated(1), statements.kept_bytes), (None, 0));
    }

    #[test]
    fn texts_have_a_limit() {
        let mut statements = Statements::default();
        let half = "x".repeat(KEPT_BYTES_MAX / 2);
        assert!(statements.has_room(2 * half.len()) && !statements.has_room(2 * half.len() + 1));
        let kept = Arc::new(Kept { source: source(&half), prepared: None });
        statements.prepare(kept.clone());
        statements.prepared(1, &kept, 0);
        assert!(!statements.has_room(1));
        statements.close(1);
        assert!(statements.has_room(1));
    }
}
