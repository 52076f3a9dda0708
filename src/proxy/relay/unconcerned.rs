//! Commands that no rule can concern, in a session that has not named anything ruled yet. They pass
//! as they came, and the server is asked nothing. The words of the text decide (`rules/mentions`), and the first of them
//! (`sql/look`). Both are the same under every sql_mode and character set.

use std::sync::Arc;

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::packet::{HEADER_BYTES, Header, payload_of};
use crate::mysql::prepared::statement_id;
use crate::proxy::known::moves::Move;
use crate::proxy::known::session_state::{Mentioned, SessionState};
use crate::proxy::known::statements::{Kept, Source};
use crate::proxy::relay::outstanding::{Note, Purpose};
use crate::proxy::relay::{Arrived, Relay, Step, number_after};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::planner::{self, Inserts};
use crate::rules::mentions::{DefaultSchema, Mention};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};
use crate::sql::lex::Lexer;
use crate::sql::look::{
    LOOK_BYTES_MAX, begins_with, begins_with_row_change, has_any_word, has_whole_word, has_word,
    is_only_comments, may_execute_name, may_run_routine, may_see_tracking,
};
use crate::table_name::TableName;
use crate::tables::{Tables, is_concerning, may_change_calls};

/// Whether a rule may concern a command that was read whole.
pub(in crate::proxy) enum Unconcerned {
    /// It may.
    No,
    /// It may insert into a view that nobody has read yet.
    ViewsFirst,
    /// None can; this is what the answer means to the session.
    Text(Note),
    /// Of an INSERT that none could concern when it was prepared, nor can now. The types of its
    /// parameters are noted.
    Execution,
}

/// For a default database that is not known: no schema has this name.
const UNKNOWN: &str = "";

/// The ways to read a text whose character set is not known.
const ANY_CHARSET: [ClientCharset; 5] = [
    ClientCharset::Utf8,
    ClientCharset::Gbk,
    ClientCharset::Gb18030,
    ClientCharset::Big5,
    ClientCharset::Sjis,
];

/// What is known of a prepared INSERT that no rule concerns.
enum Keeping {
    /// It is no INSERT.
    Nothing,
    Kept(Arc<Kept>),
    /// Its table's name depends on what must be asked.
    Unclear,
}

impl Relay {
    /// Whether a command that no rule can concern may pass before the session's state is known.
    pub(in crate::proxy) fn passes_unread(&self, command: Command, header: Header) -> bool {
        let is_text = matches!(command, Command::Query | Command::StmtPrepare);
        self.known.session.is_untouched()
            || is_text
                && self.known.session.shows_own_tracking()
                && self.sees_tracking(command, header).unwrap_or(false)
    }

    pub(in crate::proxy) fn unconcerned(&mut self, arrived: Arrived) -> Unconcerned {
        let command = arrived.command;
        let payload = payload_of(self.up.window(), arrived.window_bytes);
        let tables = self.tables.now();
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            let kept = arrived.statement.and_then(|id| self.known.statements.get(id)).map(|one| &one.kept);
            let Some(kept) = kept.filter(|kept| kept.prepared.is_none()) else { return Unconcerned::No };
            let TableName { schema, table } = &kept.source.table;
            return match tables.lookup(schema, table) {
                Lookup::Unknown if tables.misses_views() => Unconcerned::ViewsFirst,
                found if kept.is_current(&found) && tables.shadowed(schema, table).is_none() => {
                    Unconcerned::Execution
                }
                _ => Unconcerned::No,
            };
        }
        let has_attributes = command == Command::Query && self.known.has_attributes();
        let Ok(text_at) = text_at(&payload, has_attributes) else { return Unconcerned::No };
        let text = payload.get(text_at..).unwrap_or_default();
        let dialect = self.known.session.dialect();
        if is_only_comments(text, dialect) {
            return Unconcerned::Text(Note::Nothing);
        }
        if !begins_with_row_change(text, dialect) && (may_see_tracking(text) || has_word(text, b"call")) {
            self.known.session.may_miss_reports();
        }
        let default = self.known.session.default_schema();
        let mention = tables.mention(text, default);
        let doubts = mention.moves || mention.dynamic || mention.schema;
        let only_rows = doubts && self.changes_rows(text);
        // USE and PREPARE within the values of an INSERT are no statements.
        let mention =
            Mention { moves: mention.moves && !only_rows, dynamic: mention.dynamic && !only_rows, ..mention };
        let mentioned = self.known.session.mentioned;
        if is_concerning(mention, text, self.escapes())
            && (mention.draws || !is_unnamed_compound(&tables, text, &self.known.session))
        {
            return if tables.awaits_views(text) { Unconcerned::ViewsFirst } else { Unconcerned::No };
        }
        if may_execute_name(text)
            && self.known.session.prepared_unseen.may_run(&tables)
            && !self.changes_rows(text)
        {
            self.known.session.sql_prepared.others_lost = true;
            return Unconcerned::No;
        }
        let changes_calls = may_change_calls(mention, text);
        let moves = mention.moves.then(|| Move::of(command, text));
        let moves_ids = (mention.schema || tables.has_rules_in(default)) && self.may_run_others(text);
        let note = match command {
            Command::StmtPrepare => match self.keeping(text) {
                Keeping::Unclear => return Unconcerned::No,
                Keeping::Kept(kept) => Note::Prepare(kept),
                Keeping::Nothing if moves_ids => {
                    Note::PrepareActing(Arc::new(Effects { moves_ids, ..Effects::default() }))
                }
                Keeping::Nothing => Note::Nothing,
            },
            // Its tables may go with a schema.
            _ if mention.schema || mention.moves || changes_calls || moves_ids => {
                let schema = moves.as_ref().and_then(Move::now);
                let ddl = mention.schema && !only_rows || changes_calls;
                Note::effects(Arc::new(Effects { ddl, moves_ids, schema, ..Effects::default() }))
            }
            _ => Note::Nothing,
        };
        let may_make_tables = may_run_routine(text);
        self.known.session.mentioned = mentioned.and(Mentioned::new(mention, tables.has_rules_in(default)));
        if mention.dynamic {
            self.known.session.prepared_unseen.note(text, &tables);
        }
        match moves {
            None => {}
            Some(Move::Later(to)) => self.known.session.moves_unseen.add(Some(to)),
            Some(Move::Now(_)) => self.known.session.may_move(),
            Some(Move::Unclear) => {
                self.known.session.may_move();
                if mention.dynamic || command == Command::StmtPrepare {
                    self.known.session.moves_unseen.add(None);
                }
            }
        }
        if may_make_tables {
            self.known.session.temporary.unsure();
        }
        Unconcerned::Text(note)
    }

    /// Whether it runs what its text does not show: a routine, or events of a binary log.
    fn may_run_others(&self, text: &[u8]) -> bool {
        begins_with(text, self.known.session.dialect(), &["CALL", "BINLOG"])
            || self.known.session.multi_statements
                && [&b"call"[..], b"binlog"].iter().any(|word| has_whole_word(text, word))
    }

    /// Whether it changes rows, and does nothing else: tables and views stay as they are.
    fn changes_rows(&self, text: &[u8]) -> bool {
        begins_with_row_change(text, self.known.session.dialect())
            && (!self.known.session.multi_statements || self.is_one_statement(text))
    }

    fn is_one_statement(&self, text: &[u8]) -> bool {
        if memchr::memchr(b';', text).is_none() {
            return true;
        }
        // Where a string ends depends on what backslashes are.
        if self.escapes().is_none() {
            return false;
        }
        // And in some character sets the second byte of a character may look like one.
        let may_hide_quotes = !text.is_ascii() && memchr::memchr2(b'\\', b'`', text).is_some();
        let reported = self.known.session.reported_charset();
        let charsets: &[ClientCharset] = match &reported {
            Some(charset) => std::slice::from_ref(charset),
            None if may_hide_quotes => &ANY_CHARSET,
            None => &[ClientCharset::Utf8],
        };
        charsets.iter().all(|charset| {
            let dialect = Dialect { charset: *charset, ..self.known.session.presumed_dialect() };
            Lexer::new(text, dialect).is_some_and(|mut lexer| matches!(lexer.skip_statement(), Ok(false)))
        })
    }

    /// Whether backslashes are escapes to the server, as far as its last answer tells; `None`: it
    /// has not answered all yet.
    pub(in crate::proxy) fn escapes(&self) -> Option<bool> {
        let dialect = self.outstanding.is_empty().then(|| self.known.session.presumed_dialect());
        dialect.map(|dialect| !dialect.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES))
    }

    /// An INSERT is kept, since a rule may come while it is prepared.
    fn keeping(&self, text: &[u8]) -> Keeping {
        if !has_any_word(text, &["insert", "replace"]) {
            return Keeping::Nothing;
        }
        let database = match self.known.session.default_schema() {
            DefaultSchema::Is(name) => Some(name),
            DefaultSchema::Unknown | DefaultSchema::OneOf(..) => Some(UNKNOWN),
            DefaultSchema::None => None,
        };
        let dialect = self.known.session.presumed_dialect();
        let table = match planner::inserts_into(text, &dialect, database) {
            Inserts::Into(table) if table.schema != UNKNOWN => *table,
            Inserts::Nothing => return Keeping::Nothing,
            Inserts::Into(_) | Inserts::Unclear => return Keeping::Unclear,
        };
        let database = database.map(str::to_owned);
        // Strings and names in these quotes, and characters of several bytes, end where the
        // session's state says.
        let reads_alike = text.is_ascii() && !text.iter().any(|b| matches!(b, b'"' | b'\\'));
        let has_room = reads_alike && self.known.statements.has_room(2 * text.len());
        let text = has_room.then(|| text.to_vec());
        let source = Arc::new(Source { text, dialect, reads_alike, database, settings: None, table });
        Keeping::Kept(Arc::new(Kept { source, prepared: None }))
    }

    /// Whether the beginning of a statement that is too long to be read shows that it inserts into
    /// a table that no rule concerns.
    pub(in crate::proxy) fn begins_unconcerned(&self, command: Command, header: Header) -> bool {
        let Ok(text) = self.beginning(command, header) else { return false };
        let tables = self.tables.now();
        planner::begins_insert(text, &self.known.session.presumed_dialect())
            && !tables.concerns(text, self.known.session.default_schema(), None)
    }

    pub(in crate::proxy) fn pass_unconcerned(&mut self, arrived: Arrived, note: Note) {
        let Arrived { command, window_bytes, packets, .. } = arrived;
        self.command_packets = number_after(packets);
        if command == Command::StmtPrepare {
            self.known.statements.forget_last();
            match &note {
                Note::Prepare(kept) => self.known.statements.prepare(kept.clone()),
                Note::PrepareActing(effects) => self.known.statements.prepare_acting(effects.clone()),
                _ => {}
            }
        }
        self.owe(command.reply(), false, arrived.shift(), note);
        self.up.accept(window_bytes);
    }

    /// Where the command may look at the session's tracking, or set it, that is the client's own
    /// again.
    pub(in crate::proxy) fn give_back_tracking(&mut self, command: Command, header: Header) -> Option<Step> {
        let is_tracked = self.known.session.is_tracked() && !self.known.session.is_tracked_anyway()
            || self.known.session.awaits_state();
        let may_see = match command {
            // Its executions may come when the server tracks.
            Command::StmtPrepare => match self.sees_tracking(command, header) {
                Ok(sees) => {
                    self.prepares_what_sees_tracking = sees;
                    sees
                }
                Err(step) => return Some(step),
            },
            Command::Query if is_tracked => match self.sees_tracking(command, header) {
                Ok(sees) => sees,
                Err(step) => return Some(step),
            },
            Command::StmtExecute if is_tracked => {
                let start = self.up.window().get(HEADER_BYTES..HEADER_BYTES + 5);
                match start {
                    None if header.payload_bytes >= 5 => return Some(Step::More(HEADER_BYTES + 5)),
                    start => {
                        let id = start.and_then(|start| statement_id(start).ok());
                        id.is_some_and(|id| self.known.statements.sees_tracking(id))
                    }
                }
            }
            _ => false,
        };
        if !(may_see && is_tracked) {
            return None;
        }
        if self.known.session.awaits_state() {
            return Some(Step::Hold);
        }
        // After it the state would be asked for, and tracked, at once.
        if command != Command::StmtExecute && self.may_concern(command, header) {
            return None;
        }
        if !self.up.is_clear() {
            return Some(Step::SendFirst);
        }
        let statement = self.known.session.give_back_tracking()?;
        self.query_own(Purpose::Untrack, statement);
        Some(Step::SendFirst)
    }
}

impl Relay {
    fn may_concern(&self, command: Command, header: Header) -> bool {
        let Ok(text) = self.beginning(command, header) else { return true };
        header.packet_bytes() > LOOK_BYTES_MAX
            || self.tables.now().concerns(text, self.known.session.default_schema(), None)
    }

    fn sees_tracking(&self, command: Command, header: Header) -> Result<bool, Step> {
        let text = self.beginning(command, header)?;
        Ok(!begins_with_row_change(text, self.known.session.dialect()) && may_see_tracking(text))
    }
}

/// Whether it is a compound statement or makes a routine, in a schema without rules, and its words,
/// with those that the session has mentioned so far, are not those of a ruled table and its
/// schema. What it prepares within is not shown, as in a routine: it would have to make the name
/// from pieces.
pub(in crate::proxy) fn is_unnamed_compound(tables: &Tables, text: &[u8], session: &SessionState) -> bool {
    const COMPOUND: &[&str] =
        &["BEGIN", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR", "DECLARE", "CREATE", "ALTER"];
    let default = session.default_schema();
    begins_with(text, session.dialect(), COMPOUND)
        && !tables.has_rules_in(default)
        && !session.mentioned.and(Mentioned::new(tables.mention(text, default), false)).is_ruled()
}
