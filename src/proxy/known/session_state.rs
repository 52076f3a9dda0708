//! The state of a session: how the server would read its statements, and which insert id is still owed to it.
//!
//! Nothing is asked before the first statement that a rule may concern (`unconcerned`), or that
//! leaves counts which a later question would reset. The state is then read, and session tracking
//! is switched on (`tracking`). From there the server reports each change, however it was made.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::mysql::ok::{OkPacket, StateChange, StateReport, Tracking, status};
use crate::mysql::reader::Reader;
use crate::proxy::known::drawn::DrawnBefore;
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::moves::{DefaultDatabase, UnseenMoves};
use crate::proxy::known::sql_prepared::{PreparedUnseen, SqlPrepared};
use crate::proxy::known::temporary::TemporaryTables;
use crate::proxy::known::tracking::{OwnTracking, SessionSettings};
use crate::proxy::known::warned::Warned;
use crate::rewrite::plan::effects::Effects;
use crate::rules::mentions::{DefaultSchema, Mention, letters_of_ascii};
use crate::sql::dialect::{ClientCharset, Dialect, Server, ServerKind, SqlMode};
use crate::table_name::NameCase;
use crate::text_query::unhex;

pub(crate) struct SessionState {
    server: Server,
    knowledge: Knowledge,
    /// The client's own tracking, while the server tracks for the proxy too.
    own_tracking: Option<OwnTracking>,
    /// The kinds of ruled names that the session's texts have mentioned so far.
    pub(crate) mentioned: Mentioned,
    default: DefaultDatabase,
    /// The one before the last statement that may move it.
    moved_from: DefaultDatabase,
    /// Statements were prepared that may move it, whenever they are executed.
    pub(crate) moves_unseen: UnseenMoves,
    pub(crate) multi_statements: bool,
    /// Status bits of the last response.
    pub(crate) status: u16,
    /// The character set that the server has reported last, to a client that lets it track. Servers track it by default.
    reported_charset: Option<ClientCharset>,
    /// The client may have had the server report it no longer.
    may_miss_reports: bool,
    pub(crate) temporary: TemporaryTables,
    pub(crate) sql_prepared: SqlPrepared,
    pub(crate) prepared_unseen: PreparedUnseen,
    /// The statements that SQL's PREPARE would have named if the rules in shadow mode were on.
    pub(crate) rehearsed_prepared: SqlPrepared,
    /// `LAST_INSERT_ID()` should show this, and the server does not know it yet.
    pub(crate) owed_insert_id: Option<OwedInsertId>,
    /// The temporary table of an INSERT ... SELECT is still there: what drops it.
    pub(crate) stage: Option<Vec<u8>>,
    /// The warnings of the last statement, where the server does not show them all.
    pub(crate) warned: Option<Box<Warned>>,
    pub(crate) set_id: SetId,
    pub(crate) drawn: DrawnBefore,
}

#[derive(Debug)]
enum Knowledge {
    /// Nothing was asked, and no rule could concern what was sent so far.
    Untouched,
    /// The state is to be asked for again.
    Forgotten,
    /// The state is to be asked for again. The client has its own tracking again, and may look at it or set it.
    GivenBack,
    Asked,
    /// The state was known before, and is asked for again.
    AskedAgain,
    Known(State),
    /// A routine has run since, and may have switched tracking off. It is asked for again before
    /// the next statement that a question may stand before.
    Doubted(State),
    /// The server would not tell.
    Never,
    /// The server's error to everything until the session's user changes the password. Asked for again before the next statement.
    Locked(Vec<u8>),
}

/// Which parts of ruled names the session's texts have mentioned. A session that has mentioned both
/// may put such a name together from pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mentioned {
    table: bool,
    /// A text has mentioned a schema with rules, or the default database was one.
    schema: bool,
}

impl Mentioned {
    pub(crate) fn new(mention: Mention, has_default_rules: bool) -> Self {
        Mentioned { table: mention.words, schema: mention.schema || has_default_rules }
    }

    pub(crate) fn and(self, other: Mentioned) -> Self {
        Mentioned { table: self.table || other.table, schema: self.schema || other.schema }
    }

    pub(crate) fn is_ruled(self) -> bool {
        self.table && self.schema
    }
}

/// The part of the session's state that the meaning of a statement depends on.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) dialect: Dialect,
    pub(crate) database: Option<String>,
    /// `None`: one of them has changed since they were read.
    pub(crate) settings: Option<Arc<SessionSettings>>,
}

impl State {
    /// A text of ours in the session's character set. `None`: it has not all of the characters.
    pub(crate) fn written(&self, text: &str) -> Option<Vec<u8>> {
        self.dialect.charset.written(text).map(Cow::into_owned)
    }
}

impl SessionState {
    /// `database`: as the client named it when it logged in.
    pub(crate) fn new(
        server: Server,
        case: NameCase,
        multi_statements: bool,
        status: u16,
        database: Option<&[u8]>,
    ) -> Self {
        SessionState {
            server,
            knowledge: Knowledge::Untouched,
            own_tracking: None,
            mentioned: Mentioned::default(),
            default: DefaultDatabase::at_login(database),
            moved_from: DefaultDatabase::Unknown,
            moves_unseen: UnseenMoves::default(),
            temporary: TemporaryTables::new(case),
            sql_prepared: SqlPrepared::default(),
            prepared_unseen: PreparedUnseen::default(),
            rehearsed_prepared: SqlPrepared::default(),
            multi_statements,
            status,
            reported_charset: None,
            may_miss_reports: false,
            owed_insert_id: None,
            stage: None,
            warned: None,
            set_id: SetId::Unset,
            drawn: DrawnBefore::default(),
        }
    }

    pub(crate) fn has_status(&self, bit: u16) -> bool {
        self.status & bit != 0
    }

    /// True if the state is known, or will never be: then there is nothing to wait for.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(
            self.knowledge,
            Knowledge::Known(_) | Knowledge::Doubted(_) | Knowledge::Never | Knowledge::Locked(_)
        )
    }

    /// True if nothing was asked, and no rule could concern what was sent so far.
    pub(crate) fn is_untouched(&self) -> bool {
        matches!(self.knowledge, Knowledge::Untouched)
    }

    /// The dialect in which the server reads statements, as far as the status bits tell.
    pub(crate) fn presumed_dialect(&self) -> Dialect {
        let mode = |bit, mode| if self.status & bit != 0 { mode } else { SqlMode::NONE };
        let backslash = mode(status::NO_BACKSLASH_ESCAPES, SqlMode::NO_BACKSLASH_ESCAPES);
        let quotes = match self.server.kind {
            ServerKind::MariaDb => mode(status::ANSI_QUOTES, SqlMode::ANSI_QUOTES),
            ServerKind::MySql => SqlMode::NONE,
        };
        Dialect { server: self.server, sql_mode: backslash.union(quotes), charset: ClientCharset::Utf8 }
    }

    /// The way in which the server reads statements, as far as it is certain.
    pub(crate) fn dialect(&self) -> Dialect {
        if let Knowledge::Known(state) = &self.knowledge {
            return state.dialect;
        }
        let charset = self.reported_charset().unwrap_or(ClientCharset::Unknown);
        Dialect { charset, ..self.presumed_dialect() }
    }

    /// `character_set_client`, where the server has reported it.
    pub(crate) fn reported_charset(&self) -> Option<ClientCharset> {
        self.reported_charset.filter(|_| !self.may_miss_reports)
    }

    /// A statement may change what the server reports.
    pub(crate) fn may_miss_reports(&mut self) {
        self.may_miss_reports = true;
    }

    /// True if a statement may look at the client's own tracking, or set it.
    pub(crate) fn shows_own_tracking(&self) -> bool {
        matches!(self.knowledge, Knowledge::GivenBack)
    }

    /// The default database, as far as it is known without asking.
    pub(crate) fn default_schema(&self) -> DefaultSchema<'_> {
        match (&self.knowledge, &self.default) {
            (Knowledge::Known(state), _) => DefaultSchema::of(state.database.as_deref()),
            (_, DefaultDatabase::Is(name)) => self.moves_unseen.from(name.as_deref()),
            (_, DefaultDatabase::Unknown) => DefaultSchema::Unknown,
        }
    }

    /// Something was sent that may move it.
    pub(crate) fn may_move(&mut self) {
        self.moved_from = std::mem::replace(&mut self.default, DefaultDatabase::Unknown);
    }

    /// A COM_CHANGE_USER has succeeded with this one.
    pub(crate) fn starts_in(&mut self, database: &[u8]) {
        self.default = DefaultDatabase::at_login(Some(database));
    }

    /// Which changes of the session's state the client gets, if it gets any.
    pub(crate) fn state_report(&self) -> StateReport<'_> {
        self.own_tracking.as_ref().map_or(StateReport::All, |own| StateReport::Filtered(&own.0))
    }

    /// True if the client must not see the status bit for a changed state, because only the proxy asked for it.
    pub(crate) fn hides_state_bit(&self) -> bool {
        self.own_tracking.as_ref().is_some_and(|own| !own.0.state_change)
    }

    /// True if the server tracks all that is needed, whatever the proxy sets.
    pub(crate) fn is_tracked_anyway(&self) -> bool {
        self.own_tracking.as_ref().is_some_and(OwnTracking::suffices)
    }

    /// True if the server was asked for the state and has not answered.
    pub(crate) fn awaits_state(&self) -> bool {
        matches!(self.knowledge, Knowledge::Asked | Knowledge::AskedAgain)
    }

    pub(crate) fn is_tracked(&self) -> bool {
        self.own_tracking.is_some()
    }

    /// The statement that puts the client's own tracking back, for it may look at it or set it. The
    /// state is asked for again before the next statement that may matter.
    pub(crate) fn give_back_tracking(&mut self) -> Option<String> {
        let own = self.own_tracking.take_if(|own| !own.suffices())?;
        self.temporary.unsure();
        self.knowledge = Knowledge::GivenBack;
        Some(own.statement())
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(self.knowledge, Knowledge::Doubted(_))
    }

    /// Notes that the state is asked for, where it must be asked for now. True if it must.
    pub(crate) fn ask(&mut self) -> bool {
        let asked = match &self.knowledge {
            Knowledge::Untouched | Knowledge::Forgotten | Knowledge::GivenBack => Knowledge::Asked,
            Knowledge::Doubted(_) | Knowledge::Known(State { settings: None, .. }) => Knowledge::AskedAgain,
            _ => return false,
        };
        self.knowledge = asked;
        true
    }

    pub(crate) fn state(&self) -> Option<&State> {
        match &self.knowledge {
            Knowledge::Known(state) | Knowledge::Doubted(state) => Some(state),
            _ => None,
        }
    }

    /// [`State::written`], if the state is known.
    pub(crate) fn written(&self, text: &str) -> Option<Vec<u8>> {
        self.state()?.written(text)
    }

    /// A routine has run, and may have switched tracking off so that nothing is reported of it.
    fn doubt_state(&mut self) {
        self.knowledge = match std::mem::replace(&mut self.knowledge, Knowledge::Forgotten) {
            Knowledge::Known(state) => Knowledge::Doubted(state),
            other => other,
        };
    }

    /// Something has changed that no text shows: temporary tables, or the tracking that all of this rests on.
    pub(crate) fn doubt(&mut self) {
        self.temporary.unsure();
        self.doubt_state();
    }

    /// The session is as after a login: nothing is known, nothing is tracked, no id is owed.
    pub(crate) fn forget(&mut self) {
        let (case, status) = (self.temporary.case(), self.status & !status::IN_TRANS);
        *self = SessionState {
            mentioned: self.mentioned,
            default: DefaultDatabase::Unknown,
            ..SessionState::new(self.server, case, self.multi_statements, status, None)
        };
    }

    /// The session is as after a login, but what is known of its default database stays: for a COM_RESET_CONNECTION,
    /// and for a COM_CHANGE_USER that the server has refused.
    pub(crate) fn reset(&mut self) {
        let default = std::mem::replace(&mut self.default, DefaultDatabase::Unknown);
        let moves = std::mem::take(&mut self.moves_unseen);
        self.forget();
        if moves.are_known() {
            (self.default, self.moves_unseen) = (default, moves);
        }
    }

    /// A statement was decided without the state. Where that could not be read, it is asked for
    /// again before the next one: the question was killed, say, or the password is changed by now.
    pub(crate) fn forget_failure(&mut self) {
        if matches!(self.knowledge, Knowledge::Never | Knowledge::Locked(_)) {
            self.knowledge = Knowledge::Forgotten;
        }
    }

    /// The server's error to everything but a change of the password.
    pub(crate) fn locked(&self) -> Option<&[u8]> {
        match &self.knowledge {
            Knowledge::Locked(error) => Some(error),
            _ => None,
        }
    }

    /// The state was asked for, and this was the answer. The other question that goes with it may succeed on MariaDB.
    pub(crate) fn is_locked(&mut self, error: Vec<u8>) {
        self.knowledge = Knowledge::Locked(error);
    }

    pub(crate) fn cannot_be_known(&mut self) {
        self.knowledge = Knowledge::Never;
    }

    /// The row that answers [`crate::proxy::known::tracking::STATE_SQL`]. False if it cannot be read.
    pub(crate) fn take_state(&mut self, row: Option<&[u8]>) -> bool {
        if matches!(self.knowledge, Knowledge::Never) {
            // Changes are not reported, so what is true now may not be true later.
            return true;
        }
        if let Some((state, found, has_set_id)) = row.and_then(|row| self.parse_state(row)) {
            self.set_id.read(has_set_id);
            if !found.state_change && matches!(self.knowledge, Knowledge::AskedAgain) {
                self.temporary.unsure();
            }
            match &mut self.own_tracking {
                Some(own) => own.found_again(found),
                None => self.own_tracking = Some(OwnTracking(found)),
            }
            self.default = DefaultDatabase::Is(state.database.clone());
            self.sql_prepared.collation = state.settings.as_ref().map(|settings| settings.collation.clone());
            self.knowledge = Knowledge::Known(state);
            return true;
        }
        self.cannot_be_known();
        false
    }

    /// The state in the row, and with it what was tracked and whether `insert_id` is set.
    fn parse_state(&self, row: &[u8]) -> Option<(State, Tracking, bool)> {
        let mut r = Reader::new(row);
        let sql_mode = unhex(r.lenenc_bytes("sql_mode").ok()?)?;
        let charset = unhex(r.lenenc_bytes("character set").ok()?)?;
        let collation = unhex(r.lenenc_bytes("collation").ok()?)?;
        let results = unhex(r.lenenc_bytes("results").ok()?)?;
        // HEX() of a number, which may come in UTF-16 too.
        let state_change = r.lenenc_bytes("session_track_state_change").ok()?.contains(&b'1');
        let schema = r.lenenc_bytes("session_track_schema").ok()?.contains(&b'1');
        let variables = unhex(r.lenenc_bytes("session_track_system_variables").ok()?)?;
        // `HEX(@@insert_id)`, in any character set: is the number another than zero?
        let mut digits = r.lenenc_bytes("insert_id").ok()?.iter();
        let has_set_id = digits.any(|digit| matches!(digit, b'1'..=b'9' | b'A'..=b'F'));
        let database = Some(unhex(r.lenenc_bytes("database").ok()?)?).filter(|name| !name.is_empty());
        let dialect = Dialect {
            server: self.server,
            sql_mode: SqlMode::parse(&sql_mode),
            charset: ClientCharset::parse(&charset),
        };
        let settings = Some(Arc::new(SessionSettings { sql_mode, charset, collation, results }));
        Some((
            State { dialect, database, settings },
            Tracking { schema, state_change, variables },
            has_set_id,
        ))
    }

    /// Notes the changes that an OK packet reports. `explained`: the text shows what has changed where the server
    /// reports a change of the session's state.
    ///
    /// A routine that switches tracking off is reported by SESSION_TRACK_STATE_CHANGE, or by the
    /// variable that it sets, or, where it has set both, by nothing at all after the status bit
    /// that announces it (measured on MariaDB 10.11 and MySQL 9.7). `is_last`: nothing was sent
    /// after what it answers.
    pub(crate) fn take_changes(&mut self, ok: &OkPacket<'_>, explained: bool, is_last: bool) {
        let changes = ok.state_changes();
        for change in changes.clone() {
            match change {
                StateChange::Schema(name) => {
                    // In UTF-8, whatever the client's character set is.
                    let name = std::str::from_utf8(name).ok();
                    let name = name.filter(|name| is_last && letters_of_ascii(name.as_bytes()).is_empty());
                    self.default = name.map_or(DefaultDatabase::Unknown, |name| {
                        DefaultDatabase::Is((!name.is_empty()).then(|| name.to_owned()))
                    });
                }
                StateChange::SystemVariable { name: b"character_set_client", value } => {
                    self.reported_charset = Some(ClientCharset::parse(&String::from_utf8_lossy(value)));
                }
                StateChange::SystemVariable { .. } | StateChange::Other(..) => {}
            }
        }
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
                StateChange::SystemVariable { name, value } if SessionSettings::depend_on(name) => {
                    (state.settings, self.sql_prepared.collation) = (None, None);
                    let value = String::from_utf8_lossy(value);
                    match name {
                        b"sql_mode" => state.dialect.sql_mode = SqlMode::parse(&value),
                        b"character_set_client" => state.dialect.charset = ClientCharset::parse(&value),
                        _ => {}
                    }
                }
                StateChange::Schema(name) => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    state.database = (!name.is_empty()).then_some(name);
                }
                StateChange::SystemVariable { .. } | StateChange::Other(..) => {}
            }
        }
    }

    /// Notes what a packet's statements did to the session. Default database, sql_mode and character set come by
    /// [`SessionState::take_changes`], however far the packet got.
    /// `is_last`: nothing was sent after what has been answered.
    pub(crate) fn take_effects(
        &mut self,
        effects: &Effects,
        succeeded: bool,
        answered: usize,
        is_last: bool,
    ) {
        if self.is_untouched() && is_last && effects.schema.is_some() {
            let from = std::mem::replace(&mut self.moved_from, DefaultDatabase::Unknown);
            self.default = if succeeded { DefaultDatabase::Is(effects.schema.clone()) } else { from };
        }
        if effects.tracking {
            self.knowledge = Knowledge::Forgotten;
        }
        if effects.insert_id {
            self.set_id = SetId::MayBeSet;
        }
        if effects.routine {
            self.doubt_state();
        }
        self.temporary.take_effects(effects, succeeded, answered);
    }

    pub(crate) fn owe_insert_id(&mut self, id: Option<u64>) {
        self.owed_insert_id = id.map(|id| OwedInsertId { id, perhaps_newer: VecDeque::new() });
    }

    /// A statement that no rule concerns has answered with an insert id: the server has generated it, or the client wrote it.
    pub(crate) fn saw_insert_id(&mut self, id: u64) {
        if let Some(owed) = &mut self.owed_insert_id {
            owed.perhaps_newer.truncate(NEWER_IDS_MAX - 1);
            owed.perhaps_newer.push_front(id);
        }
    }
}

/// Insert ids that are kept beside the owed one: those of the last statements of a packet.
const NEWER_IDS_MAX: usize = 16;

/// The id that `LAST_INSERT_ID()` should show and the server does not know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwedInsertId {
    pub(crate) id: u64,
    /// Insert ids that later statements of the same packet answered with, the last one first. Where
    /// the function shows one of them, the server has generated it, and nothing is owed any more;
    /// an id that the client wrote reaches the packet only.
    pub(crate) perhaps_newer: VecDeque<u64>,
}

impl OwedInsertId {
    /// The statement that brings the function up to date.
    pub(crate) fn statement(&self) -> String {
        let Self { id, perhaps_newer } = self;
        if perhaps_newer.is_empty() {
            return format!("SET last_insert_id={id}");
        }
        let newer = perhaps_newer.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        format!("SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN({newer}),LAST_INSERT_ID(),{id})AS UNSIGNED)")
    }
}

#[cfg(test)]
mod tests {
    use super::OwedInsertId;

    #[test]
    fn what_brings_the_insert_id_up_to_date() {
        let owed = |newer: &[u64]| OwedInsertId { id: 5, perhaps_newer: newer.iter().copied().collect() };
        assert_eq!(owed(&[]).statement(), "SET last_insert_id=5");
        let expect = "SET last_insert_id=CAST(IF(LAST_INSERT_ID() IN(9,7),LAST_INSERT_ID(),5)AS UNSIGNED)";
        assert_eq!(owed(&[9, 7]).statement(), expect);
    }
}
