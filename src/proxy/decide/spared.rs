//! Texts that no rule can concern, in a session that has named something ruled before. They are not refused, however
//! little of them can be read.

use crate::proxy::decide::Basis;
use crate::proxy::decide::unconcerned::{escapes, is_unnamed_compound};
use crate::proxy::known::Known;
use crate::proxy::known::session_state::Mentioned;
use crate::rewrite::plan::Planned;
use crate::rewrite::plan::effects::Effects;
use crate::sql::look::{begins_with, has_word, may_execute_name};
use crate::tables::{Tables, may_change_calls};

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
