//! Commands that no rule can concern. In a session that has not named anything ruled yet they pass
//! as they came, and the server is asked nothing. In one that has, they are not refused, however little of them can be read
//! ([`spared`]). The words of the text decide (`rules/mentions`), and the first of them
//! (`sql/look`). Both are the same under every sql_mode and character set.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::proxy::decide::Basis;
use crate::proxy::known::Known;
use crate::proxy::known::moves::Move;
use crate::proxy::known::note::Note;
use crate::proxy::known::session_state::{Mentioned, SessionState};
use crate::proxy::known::statements::{Kept, Source};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::{Lookup, Planned};
use crate::rewrite::planner::{self, Inserts};
use crate::rules::mentions::{DefaultSchema, Mention};
use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};
use crate::sql::lex::Lexer;
use crate::sql::look::{
    begins_with, begins_with_row_change, has_any_word, has_whole_word, has_word, is_only_comments,
    may_execute_name, may_run_routine, may_see_tracking,
};
use crate::table_name::TableName;
use crate::tables::{Tables, is_concerning, may_change_calls};

/// The answer to the question whether a rule may concern a command that was read whole.
pub(crate) enum Unconcerned {
    /// A rule may concern the command.
    No,
    /// The command may insert into a view that nobody has read yet.
    ViewsFirst,
    /// No rule can concern the text. The note is what the answer to it means to the session.
    Text(Note),
    /// The execution is of an INSERT that none could concern when it was prepared, nor can now. The types of its
    /// parameters are to be noted.
    Execution,
}

/// The name of a default database that is not known. No schema has this name.
const UNKNOWN: &str = "";

/// The ways to read a text whose character set is not known.
const ANY_CHARSET: [ClientCharset; 5] = [
    ClientCharset::Utf8,
    ClientCharset::Gbk,
    ClientCharset::Gb18030,
    ClientCharset::Big5,
    ClientCharset::Sjis,
];

/// The result of looking for an INSERT to keep in a text that is being prepared. No rule concerns the text.
enum Keeping {
    /// The text is no INSERT.
    Nothing,
    Kept(Arc<Kept>),
    /// The name of the INSERT's table depends on what must be asked.
    Unclear,
}

/// Decides if a rule may concern a text. Notes what the text may do to the session.
pub(crate) fn text(known: &mut Known, by: Basis<'_>, text: &[u8]) -> Unconcerned {
    let tables = by.tables;
    let dialect = known.session.dialect();
    if is_only_comments(text, dialect) {
        return Unconcerned::Text(Note::Nothing);
    }
    if !begins_with_row_change(text, dialect) && (may_see_tracking(text) || has_word(text, b"call")) {
        known.session.may_miss_reports();
    }
    let default = known.session.default_schema();
    let mention = tables.mention(text, default);
    let doubts = mention.moves || mention.dynamic || mention.schema;
    let only_rows = doubts && changes_rows(known, by, text);
    // USE and PREPARE within the values of an INSERT are no statements.
    let mention =
        Mention { moves: mention.moves && !only_rows, dynamic: mention.dynamic && !only_rows, ..mention };
    let mentioned = known.session.mentioned;
    if is_concerning(mention, text, escapes(&known.session, by.is_first))
        && (mention.draws || !is_unnamed_compound(tables, text, &known.session))
    {
        return if tables.awaits_views(text) { Unconcerned::ViewsFirst } else { Unconcerned::No };
    }
    if may_execute_name(text)
        && known.session.prepared_unseen.may_run(tables)
        && !changes_rows(known, by, text)
    {
        known.session.sql_prepared.others_lost = true;
        return Unconcerned::No;
    }
    let changes_calls = may_change_calls(mention, text);
    let moves = mention.moves.then(|| Move::of(by.command, text));
    let moves_ids = (mention.schema || tables.has_rules_in(default)) && may_run_others(&known.session, text);
    let note = match by.command {
        Command::StmtPrepare => match keeping(known, text) {
            Keeping::Unclear => return Unconcerned::No,
            Keeping::Kept(kept) => Note::Prepare(kept),
            Keeping::Nothing if moves_ids => {
                Note::PrepareActing(Arc::new(Effects { moves_ids, ..Effects::default() }))
            }
            Keeping::Nothing => Note::Nothing,
        },
        // A schema's tables may be dropped with the schema.
        _ if mention.schema || mention.moves || changes_calls || moves_ids => {
            let schema = moves.as_ref().and_then(Move::now);
            let ddl = mention.schema && !only_rows || changes_calls;
            Note::effects(Arc::new(Effects { ddl, moves_ids, schema, ..Effects::default() }))
        }
        _ => Note::Nothing,
    };
    let may_make_tables = may_run_routine(text);
    known.session.mentioned = mentioned.and(Mentioned::new(mention, tables.has_rules_in(default)));
    if mention.dynamic {
        known.session.prepared_unseen.note(text, tables);
    }
    match moves {
        None => {}
        Some(Move::Later(to)) => known.session.moves_unseen.add(Some(to)),
        Some(Move::Now(_)) => known.session.may_move(),
        Some(Move::Unclear) => {
            known.session.may_move();
            if mention.dynamic || by.command == Command::StmtPrepare {
                known.session.moves_unseen.add(None);
            }
        }
    }
    if may_make_tables {
        known.session.temporary.unsure();
    }
    Unconcerned::Text(note)
}

/// Decides if a rule may concern the execution of a kept INSERT.
pub(crate) fn execution(known: &Known, by: Basis<'_>) -> Unconcerned {
    let tables = by.tables;
    let kept = by.statement.and_then(|id| known.statements.get(id)).map(|one| &one.kept);
    let Some(kept) = kept.filter(|kept| kept.prepared.is_none()) else { return Unconcerned::No };
    let TableName { schema, table } = &kept.source.table;
    match tables.lookup_since(schema, table, tables.ddl_seen(), (by.clock)()) {
        Lookup::Unknown if tables.misses_views() => Unconcerned::ViewsFirst,
        found if kept.is_current(&found) && tables.shadowed(schema, table).is_none() => {
            Unconcerned::Execution
        }
        _ => Unconcerned::No,
    }
}

/// True if a text may run what it does not show: a routine, or events of a binary log.
fn may_run_others(session: &SessionState, text: &[u8]) -> bool {
    begins_with(text, session.dialect(), &["CALL", "BINLOG"])
        || session.multi_statements && [&b"call"[..], b"binlog"].iter().any(|word| has_whole_word(text, word))
}

/// True if a text changes rows, and does nothing else: tables and views stay as they are.
fn changes_rows(known: &Known, by: Basis<'_>, text: &[u8]) -> bool {
    begins_with_row_change(text, known.session.dialect())
        && (!known.session.multi_statements || is_one_statement(&known.session, by.is_first, text))
}

fn is_one_statement(session: &SessionState, is_first: bool, text: &[u8]) -> bool {
    if memchr::memchr(b';', text).is_none() {
        return true;
    }
    // The end of a string depends on what backslashes are.
    if escapes(session, is_first).is_none() {
        return false;
    }
    // And in some character sets the second byte of a character may look like one.
    let may_hide_quotes = !text.is_ascii() && memchr::memchr2(b'\\', b'`', text).is_some();
    let reported = session.reported_charset();
    let charsets: &[ClientCharset] = match &reported {
        Some(charset) => std::slice::from_ref(charset),
        None if may_hide_quotes => &ANY_CHARSET,
        None => &[ClientCharset::Utf8],
    };
    charsets.iter().all(|charset| {
        let dialect = Dialect { charset: *charset, ..session.presumed_dialect() };
        Lexer::new(text, dialect).is_some_and(|mut lexer| matches!(lexer.skip_statement(), Ok(false)))
    })
}

/// True if backslashes are escapes to the server, by its last answer. `None`: it has not answered all yet.
fn escapes(session: &SessionState, is_first: bool) -> Option<bool> {
    let dialect = is_first.then(|| session.presumed_dialect());
    dialect.map(|dialect| !dialect.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES))
}

/// An INSERT is kept, since a rule may come while it is prepared.
fn keeping(known: &Known, text: &[u8]) -> Keeping {
    if !has_any_word(text, &["insert", "replace"]) {
        return Keeping::Nothing;
    }
    let database = match known.session.default_schema() {
        DefaultSchema::Is(name) => Some(name),
        DefaultSchema::Unknown | DefaultSchema::OneOf(..) => Some(UNKNOWN),
        DefaultSchema::None => None,
    };
    let dialect = known.session.presumed_dialect();
    let table = match planner::inserts_into(text, &dialect, database) {
        Inserts::Into(table) if table.schema != UNKNOWN => *table,
        Inserts::Nothing => return Keeping::Nothing,
        Inserts::Into(_) | Inserts::Unclear => return Keeping::Unclear,
    };
    let database = database.map(str::to_owned);
    // Strings and names in these quotes, and characters of several bytes, end where the session's state says.
    let reads_alike = text.is_ascii() && !text.iter().any(|b| matches!(b, b'"' | b'\\'));
    let has_room = reads_alike && known.statements.has_room(2 * text.len());
    let text = has_room.then(|| text.to_vec());
    let source = Arc::new(Source { text, dialect, reads_alike, database, settings: None, table });
    Keeping::Kept(Arc::new(Kept { source, prepared: None }))
}

/// True if a text is a compound statement or makes a routine, the default schema has no rules, and the words of the
/// text and of the session so far are not those of a ruled table and its schema. A statement that it prepares within
/// is not shown, as in a routine: it would have to make the name from pieces.
fn is_unnamed_compound(tables: &Tables, text: &[u8], session: &SessionState) -> bool {
    const COMPOUND: &[&str] =
        &["BEGIN", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR", "DECLARE", "CREATE", "ALTER"];
    let default = session.default_schema();
    begins_with(text, session.dialect(), COMPOUND)
        && !tables.has_rules_in(default)
        && !session.mentioned.and(Mentioned::new(tables.mention(text, default), false)).is_ruled()
}

/// A plan that refuses what no rule can concern lets it pass instead. DDL that names nothing
/// ruled makes nobody read columns or views again.
pub(crate) fn spared(known: &Known, by: Basis<'_>, text: &[u8], planned: Planned) -> Planned {
    match planned {
        Planned::Refused(_)
        | Planned::Unreadable(_)
        | Planned::Stale { .. }
        | Planned::Away(_)
        | Planned::Cut(_)
            if is_unconcerned(known, by, text) =>
        {
            Planned::Untouched(Effects::unseen())
        }
        Planned::Untouched(effects) if effects.ddl || effects.moves_ids => {
            let (tables, dialect) = (by.tables, known.session.dialect());
            let default = known.session.default_schema();
            let mention = tables.mention(text, default);
            let moves_ids =
                effects.moves_ids && (mention.table || mention.schema || tables.has_rules_in(default));
            // The statements that a routine prepares are not run when it is made.
            let hides = mention.dynamic && !begins_with(text, dialect, &["CREATE"]);
            let names_nothing =
                !(mention.table || mention.schema || hides || may_change_calls(mention, text));
            let ddl = effects.ddl && (!names_nothing || has_word(text, b"execute"));
            Planned::Untouched(Effects { ddl, moves_ids, ..effects })
        }
        planned => planned,
    }
}

/// Which parts of ruled names a text mentions, or the server's answers about its variables.
pub(crate) fn mentioned(known: &Known, tables: &Tables, text: &[u8]) -> Mentioned {
    let session = &known.session;
    let default = session.default_schema();
    let mentioned = |text: &[u8]| Mentioned::new(tables.mention(text, default), tables.has_rules_in(default));
    session
        .sql_prepared
        .answered_texts()
        .map(|text| mentioned(text.as_bytes()))
        .fold(mentioned(text), Mentioned::and)
}

/// True if no rule can concern a text, nor the server's answers about the variables that it runs.
pub(crate) fn is_unconcerned(known: &Known, by: Basis<'_>, text: &[u8]) -> bool {
    let (tables, session) = (&**by.tables, &known.session);
    let default = session.default_schema();
    let concerns = |text: &[u8]| tables.concerns(text, default, escapes(session, by.is_first));
    if is_unnamed_compound(tables, text, session) {
        return true;
    }
    if may_execute_name(text) && session.sql_prepared.may_run(concerns) {
        return false;
    }
    let mut answered = session.sql_prepared.answered_texts().peekable();
    let is_seen = if answered.peek().is_some() {
        // The one text of the only statement.
        memchr::memchr(b';', text.trim_ascii_end().strip_suffix(b";").unwrap_or(text)).is_none()
            && !tables.mention(text, default).table
    } else {
        !concerns(text)
    };
    is_seen && answered.all(|text| !concerns(text.as_bytes()))
}
