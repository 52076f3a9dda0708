//! What the session knows of itself: how the server would read its statements, and which insert id it still owes.
//!
//! Nothing is asked before the first statement that may matter, or that leaves counts which asking later would spoil.
//! Then session tracking is switched on and the state is read, in front of that statement; from there the server reports
//! each change, however it was made.

use std::collections::VecDeque;
use std::sync::Arc;

use super::named::Names;
use super::tables::InForce;
use super::temporary::{Hides, TemporaryTables};
use crate::mysql::ok::{OkPacket, StateChange, status};
use crate::mysql::reader::Reader;
use crate::rewrite::effects::Effects;
use crate::sql::dialect::{ClientCharset, Dialect, Server, SqlMode};

/// Adds to what the server reports in its OK packets; what the client asked for stays. MySQL refuses a list with a name
/// twice in it.
pub(super) const TRACK_SQL: &str = "SET session_track_schema=ON, session_track_state_change=ON, session_track_system_variables=\
    IF(@@session_track_system_variables='*','*',CONCAT_WS(',',NULLIF(@@session_track_system_variables,''),\
    IF(FIND_IN_SET('sql_mode',REPLACE(@@session_track_system_variables,' ','')),NULL,'sql_mode'),\
    IF(FIND_IN_SET('character_set_client',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'character_set_client'),\
    IF(FIND_IN_SET('session_track_schema',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'session_track_schema'),\
    IF(FIND_IN_SET('session_track_state_change',REPLACE(@@session_track_system_variables,' ','')),NULL,\
    'session_track_state_change')))";
/// In hexadecimal digits, so that the answer does not depend on character_set_results.
pub(super) const STATE_SQL: &str = "SELECT HEX(@@sql_mode),HEX(@@character_set_client),HEX(@@session_track_state_change),HEX(CONVERT(DATABASE() USING utf8mb4))";

pub(super) struct View {
    pub(super) tables: Arc<InForce>,
    server: Server,
    knowledge: Knowledge,
    multi_statements: bool,
    /// Status bits of the last response.
    status: u16,
    temporary: TemporaryTables,
    pub(super) names: Names,
    /// What SQL's PREPARE would have named, were the rules in shadow mode on.
    pub(super) rehearsed_names: Names,
    /// `LAST_INSERT_ID()` should show this, and the server does not know it yet.
    owed_insert_id: Option<OwedInsertId>,
}

#[derive(Debug)]
enum Knowledge {
    /// Not yet asked for.
    None,
    Asked,
    /// It was known before.
    AskedAgain,
    Known(State),
    /// Something that the text does not show has run since, and may have switched tracking off: it is asked for again in front
    /// of the next statement that may stand behind a question.
    Doubted(State),
    /// The server would not tell.
    Never,
}

/// What the meaning of a statement depends on.
#[derive(Debug)]
pub(super) struct State {
    pub(super) dialect: Dialect,
    pub(super) database: Option<String>,
}

impl View {
    pub(super) fn new(tables: Arc<InForce>, server: Server, multi_statements: bool, status: u16) -> Self {
        View {
            tables,
            server,
            knowledge: Knowledge::None,
            temporary: TemporaryTables::default(),
            names: Names::default(),
            rehearsed_names: Names::default(),
            multi_statements,
            status,
            owed_insert_id: None,
        }
    }

    pub(super) fn multi_statements(&self) -> bool {
        self.multi_statements
    }

    pub(super) fn set_multi_statements(&mut self, on: bool) {
        self.multi_statements = on;
    }

    pub(super) fn in_transaction(&self) -> bool {
        self.status & status::IN_TRANS != 0
    }

    pub(super) fn take_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Whether the state is known, or will never be: then there is nothing to wait for.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.knowledge, Knowledge::Known(_) | Knowledge::Doubted(_) | Knowledge::Never)
    }

    /// Whether the state was asked for.
    pub(super) fn was_asked(&self) -> bool {
        !matches!(self.knowledge, Knowledge::None)
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        matches!(self.knowledge, Knowledge::Doubted(_))
    }

    /// Whether the state must be asked for now; it counts as asked from here on.
    pub(super) fn ask(&mut self) -> bool {
        let asked = match &self.knowledge {
            Knowledge::None => Knowledge::Asked,
            Knowledge::Doubted(_) => Knowledge::AskedAgain,
            Knowledge::Asked | Knowledge::AskedAgain | Knowledge::Known(_) | Knowledge::Never => {
                return false;
            }
        };
        self.knowledge = asked;
        true
    }

    pub(super) fn state(&self) -> Option<&State> {
        match &self.knowledge {
            Knowledge::Known(state) | Knowledge::Doubted(state) => Some(state),
            Knowledge::None | Knowledge::Asked | Knowledge::AskedAgain | Knowledge::Never => None,
        }
    }

    /// A routine has run, and may have switched tracking off so that nothing is reported of it.
    fn doubt_state(&mut self) {
        self.knowledge = match std::mem::replace(&mut self.knowledge, Knowledge::None) {
            Knowledge::Known(state) => Knowledge::Doubted(state),
            other => other,
        };
    }

    /// Something has changed that no text shows: temporary tables, or the tracking that all of this rests on.
    pub(super) fn doubt(&mut self) {
        self.temporary.unsure();
        self.doubt_state();
    }

    /// The session is as after a login: nothing is known, nothing is tracked, no id is owed.
    pub(super) fn forget(&mut self) {
        self.knowledge = Knowledge::None;
        self.owed_insert_id = None;
        self.temporary = TemporaryTables::default();
        self.names = Names::default();
        self.rehearsed_names = Names::default();
        self.status &= !status::IN_TRANS;
    }

    /// It is asked for again, in front of the next statement that may matter.
    pub(super) fn forget_state(&mut self) {
        self.knowledge = Knowledge::None;
    }

    pub(super) fn cannot_be_known(&mut self) {
        self.knowledge = Knowledge::Never;
    }

    /// The row that answers [`STATE_SQL`].
    pub(super) fn take_state(&mut self, row: Option<&[u8]>) {
        if matches!(self.knowledge, Knowledge::Never) {
            // Changes are not reported, so what is true now may not be true later.
            return;
        }
        if let Some((state, was_tracked)) = row.and_then(|row| self.parse_state(row)) {
            if !was_tracked && matches!(self.knowledge, Knowledge::AskedAgain) {
                self.temporary.unsure();
            }
            self.knowledge = Knowledge::Known(state);
        } else {
            tracing::warn!("the session's state came in an unknown form: its ruled statements are refused");
            self.cannot_be_known();
        }
    }

    /// And whether changes of what [`View::doubt`] is about were still reported.
    fn parse_state(&self, row: &[u8]) -> Option<(State, bool)> {
        let mut r = Reader::new(row);
        let sql_mode = unhex(r.lenenc_bytes("sql_mode").ok()?)?;
        let charset = unhex(r.lenenc_bytes("character set").ok()?)?;
        // HEX() of a number, which may come in UTF-16 too.
        let was_tracked = r.lenenc_bytes("session tracking").ok()?.contains(&b'1');
        // NULL (0xFB): no default database.
        let database = match r.peek()? {
            0xFB => None,
            _ => Some(unhex(r.lenenc_bytes("database").ok()?)?),
        };
        let dialect = Dialect {
            server: self.server,
            sql_mode: SqlMode::parse(&sql_mode),
            charset: ClientCharset::parse(&charset),
        };
        Some((State { dialect, database }, was_tracked))
    }

    /// What an OK packet reports.
    /// `explained`: the text shows what a report that something of the session's state has changed is about.
    ///
    /// A routine that switches tracking off is reported by SESSION_TRACK_STATE_CHANGE, or by the variable that it sets, or, where it
    /// has set both, by nothing at all behind the status bit that announces it (measured on MariaDB 10.11 and MySQL 9.7).
    pub(super) fn take_changes(&mut self, ok: &OkPacket<'_>, explained: bool) {
        let changes = ok.state_changes();
        let is_unexplained = |change| match change {
            // SESSION_TRACK_STATE_CHANGE, which does not say what; temporary tables are among it.
            StateChange::Other(2, _) => true,
            StateChange::SystemVariable { name, .. } => name.starts_with(b"session_track_"),
            _ => false,
        };
        let says_nothing = ok.has_state() && changes.clone().next().is_none();
        if !explained && (says_nothing || changes.clone().any(is_unexplained)) {
            self.doubt();
        }
        let (Knowledge::Known(state) | Knowledge::Doubted(state)) = &mut self.knowledge else { return };
        for change in changes {
            match change {
                StateChange::SystemVariable { name: b"sql_mode", value } => {
                    state.dialect.sql_mode = SqlMode::parse(&String::from_utf8_lossy(value));
                }
                StateChange::SystemVariable { name: b"character_set_client", value } => {
                    state.dialect.charset = ClientCharset::parse(&String::from_utf8_lossy(value));
                }
                StateChange::Schema(name) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    state.database = (!name.is_empty()).then_some(name);
                }
                StateChange::SystemVariable { .. } | StateChange::Other(..) => {}
            }
        }
    }

    /// What a packet's statements did. Default database, sql_mode and character set come by [`View::take_changes`],
    /// however far the packet got.
    pub(super) fn take_effects(&mut self, effects: &Effects, succeeded: bool, answered: usize) {
        if effects.ddl {
            self.tables.forget_shapes();
        }
        if effects.tracking {
            self.knowledge = Knowledge::None;
        }
        if effects.routine {
            self.doubt_state();
        }
        let tables = &self.tables;
        self.temporary.take_effects(effects, succeeded, answered, |a, b| tables.is_same_name(a, b));
    }

    /// Whether a temporary table of this session hides the name.
    pub(super) fn hides(&self, schema: &str, table: &str) -> Hides {
        self.temporary.hides(schema, table, |a, b| self.tables.is_same_name(a, b))
    }

    /// What the server has said to [`super::temporary::question`].
    pub(super) fn take_temporary(&mut self, schema: &str, table: &str, hides: Hides) {
        let tables = &self.tables;
        self.temporary.note(schema, table, hides, |a, b| tables.is_same_name(a, b));
    }

    /// A statement ran that nobody saw the effects of.
    pub(super) fn unsure_of_temporary(&mut self) {
        self.temporary.unsure();
    }

    pub(super) fn owe_insert_id(&mut self, id: Option<u64>) {
        self.owed_insert_id = id.map(|id| OwedInsertId { id, perhaps_newer: VecDeque::new() });
    }

    /// A statement that no rule concerns has answered with an insert id: the server has generated it, or the client wrote it.
    pub(super) fn saw_insert_id(&mut self, id: u64) {
        if let Some(owed) = &mut self.owed_insert_id {
            owed.perhaps_newer.truncate(NEWER_IDS_MAX - 1);
            owed.perhaps_newer.push_front(id);
        }
    }

    pub(super) fn owes_insert_id(&self) -> bool {
        self.owed_insert_id.is_some()
    }

    pub(super) fn take_owed_insert_id(&mut self) -> Option<OwedInsertId> {
        self.owed_insert_id.take()
    }
}

/// How many insert ids behind the owed one are told apart: those of the last statements of a packet.
const NEWER_IDS_MAX: usize = 16;

/// What `LAST_INSERT_ID()` should show and the server does not know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OwedInsertId {
    id: u64,
    /// Insert ids that later statements of the same packet answered with, the last one first. Where the function shows one of
    /// them, the server has generated it, and nothing is owed any more; an id that the client wrote reaches the packet only.
    perhaps_newer: VecDeque<u64>,
}

impl OwedInsertId {
    /// The statement that brings the function up to date.
    pub(super) fn statement(&self) -> String {
        let Self { id, perhaps_newer } = self;
        if perhaps_newer.is_empty() {
            return format!("SET last_insert_id={id}");
        }
        let newer = perhaps_newer.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        format!("SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN({newer}),LAST_INSERT_ID(),{id})AS UNSIGNED)")
    }
}

/// Text from hexadecimal digits. Zero bytes are passed over: the digits may come in UTF-16 or UTF-32.
pub(super) fn unhex(digits: &[u8]) -> Option<String> {
    let digits: Vec<u8> = digits
        .iter()
        .filter(|&&b| b != 0)
        .map(|&b| char::from(b).to_digit(16))
        .map(|d| d.and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{OwedInsertId, unhex};

    #[test]
    fn what_brings_the_insert_id_up_to_date() {
        let owed = |newer: &[u64]| OwedInsertId { id: 5, perhaps_newer: newer.iter().copied().collect() };
        assert_eq!(owed(&[]).statement(), "SET last_insert_id=5");
        let expect = "SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN(9,7),LAST_INSERT_ID(),5)AS UNSIGNED)";
        assert_eq!(owed(&[9, 7]).statement(), expect);
    }

    #[test]
    fn hexadecimal_digits() {
        assert_eq!(unhex(b"616263").as_deref(), Some("abc"));
        assert_eq!(unhex(b"\x006\x001").as_deref(), Some("a"));
        assert_eq!(unhex(b"").as_deref(), Some(""));
        assert_eq!((unhex(b"6"), unhex(b"6g"), unhex(b"ff")), (None, None, None));
    }
}
