//! The first bytes of a statement, and what they tell: whether it must be read whole, whether it may read the
//! insert id, whether it leaves counts to the next statement.

use std::sync::Arc;

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::reader::Malformed;
use crate::proxy::known::note::Note;
use crate::proxy::relay::{Relay, Step};
use crate::rewrite::plan::effects::Effects;
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::draws::may_be_in;
use crate::sql::lex::Lexer;
use crate::sql::look::{
    Glance, LOOK_BYTES_MAX, LooksBack, begins_with, glance, has_any_word, has_word, past_comments,
};
use crate::sql::reads::Reads;
use crate::sql::statement::moves::moves_ids;

/// Bytes in which a statement's first word and a SELECT's options stand.
const OPTIONS_BYTES_MAX: usize = 128;

/// Query attributes that take more are read together with their statement.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

pub(super) enum Treatment {
    /// The command passes unread.
    Pass { may_change_session: bool, note: Note },
    /// The whole payload of the command is looked at.
    Read,
    /// Passes but for the parameter's number.
    LongData,
}

impl Relay {
    /// Distinguishes a statement that cannot matter from one that must be read, by its first word.
    pub(super) fn glance_at(&self, command: Command, header: Header) -> Result<Treatment, Step> {
        let window = self.up.window();
        let whole = header.packet_bytes();
        let is_complete = window.len() >= whole && !header.continues();
        let Some(at) = self.text_at(command, header)? else { return Ok(Treatment::Read) };
        let text = window.get(at..whole.min(window.len())).unwrap_or_default();
        let multi_statements = command == Command::Query && self.known.session.multi_statements;
        // A text that is prepared is read whole for it.
        let may_be_noted = command == Command::Query || is_complete;
        let dialect = self.known.session.presumed_dialect();
        match glance(text, dialect, is_complete, multi_statements) {
            Glance::Harmless(_) if is_complete && self.may_draw(text) => Ok(Treatment::Read),
            Glance::Harmless(_) if !is_complete && self.may_draw_later(header) => Err(Step::More(whole)),
            Glance::Harmless(word) if may_be_noted && self.may_move_ids(word, text, is_complete) => {
                if command != Command::Query {
                    return Ok(Treatment::Read);
                }
                let effects = Effects { moves_ids: true, ..Effects::default() };
                Ok(Treatment::Pass { may_change_session: true, note: Note::effects(Arc::new(effects)) })
            }
            Glance::Harmless(_) => {
                let mut note = Note::Nothing;
                if command == Command::StmtPrepare {
                    let text = self.beginning(command, header)?;
                    let back = LooksBack::of(text, self.known.session.dialect());
                    if !back.may_read_insert_id() {
                        note = Note::PrepareNextToLast { names_insert_id: back.reads.insert_id };
                    }
                }
                Ok(Treatment::Pass { may_change_session: false, note })
            }
            Glance::Unclear if !is_complete && text.len() < LOOK_BYTES_MAX => {
                Err(Step::More(window.len().saturating_mul(2).clamp(HEADER_BYTES + 2, whole)))
            }
            Glance::Unclear | Glance::Read => Ok(Treatment::Read),
        }
    }

    /// True if an UPDATE or DELETE, or one of which this is the beginning, may give rows of a ruled table other ids. `word`:
    /// its first word.
    fn may_move_ids(&self, word: &[u8], text: &[u8], is_complete: bool) -> bool {
        let may_be = word.eq_ignore_ascii_case(b"update")
            || word.eq_ignore_ascii_case(b"delete") && has_word(text, b"portion")
            || word.eq_ignore_ascii_case(b"with") && has_word(text, b"update");
        if !may_be {
            return false;
        }
        let tables = self.tables.now();
        let moves = |dialect| match Lexer::new(text, dialect).map(|mut lexer| moves_ids(&mut lexer, &*tables))
        {
            Some(Ok(moves)) => moves.unwrap_or(!is_complete),
            _ => true,
        };
        let known = self.known.session.state().map(|state| state.dialect);
        let presumed = self.known.session.presumed_dialect();
        let mut may_move = moves(known.unwrap_or(presumed));
        // MySQL does not report ANSI_QUOTES.
        if known.is_none() && !presumed.is_mariadb() && memchr::memchr(b'"', text).is_some() {
            may_move |=
                moves(Dialect { sql_mode: presumed.sql_mode.union(SqlMode::ANSI_QUOTES), ..presumed });
        }
        // A beginning without SET may not have the table's name yet.
        let has_names = is_complete || has_word(text, b"set");
        may_move && (!has_names || tables.mention(text, self.known.session.default_schema()).table)
    }

    fn may_draw(&self, text: &[u8]) -> bool {
        self.tables.has_draws() && may_be_in(text) && self.tables.now().may_draw(text)
    }

    /// True if calls in the rest of a text may draw ids.
    fn may_draw_later(&self, header: Header) -> bool {
        !header.continues() && header.payload_bytes <= self.statement_bytes_max && self.tables.has_draws()
    }

    /// True if the session's state is to be read before this statement: it leaves ROW_COUNT(),
    /// FOUND_ROWS() or warnings to the next one, and a read after it would take these away. False if the
    /// statement itself reads what the one before it left.
    pub(crate) fn leaves_counts(&self, command: Command, header: Header) -> Result<bool, Step> {
        if command != Command::Query || !self.known.session.is_untouched() {
            return Ok(false);
        }
        // Elsewhere no INSERT follows that needs the state.
        if !self.tables.now().has_rules_in(self.known.session.default_schema()) {
            return Ok(false);
        }
        let dialect = self.known.session.dialect();
        let text = past_comments(self.beginning(command, header)?, dialect);
        let options = text.get(..OPTIONS_BYTES_MAX).unwrap_or(text);
        let leaves = has_any_word(options, &["update", "delete", "with", "sql_calc_found_rows"]);
        Ok(leaves && !Reads::of(text, dialect).last_result())
    }

    /// True if a statement may call a function, which may make temporary tables.
    pub(crate) fn may_call(&self, command: Command, header: Header) -> Result<bool, Step> {
        // An execution runs what was seen when it was prepared.
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            return Ok(false);
        }
        let is_long = header.continues() || header.packet_bytes() > LOOK_BYTES_MAX;
        Ok(is_long || memchr::memchr(b'(', self.beginning(command, header)?).is_some())
    }

    /// The offset of the text in the window. `None`: attributes before it are malformed, or more than one looks at.
    pub(crate) fn text_at(&self, command: Command, header: Header) -> Result<Option<usize>, Step> {
        if command != Command::Query || !self.known.has_attributes() {
            return Ok(Some(HEADER_BYTES + 1));
        }
        let window = self.up.window();
        let whole = header.packet_bytes();
        let payload = window.get(HEADER_BYTES..whole.min(window.len())).unwrap_or_default();
        match text_at(payload, true) {
            Ok(at) => Ok(Some(HEADER_BYTES + at)),
            Err(Malformed::Truncated(_)) if window.len() < whole.min(ATTRIBUTES_BYTES_MAX) => {
                Err(Step::More(window.len().saturating_mul(2).min(whole)))
            }
            Err(_) => Ok(None),
        }
    }

    /// A statement's text as far as it is looked at; empty where it does not begin within reach.
    pub(crate) fn beginning(&self, command: Command, header: Header) -> Result<&[u8], Step> {
        let Some(at) = self.text_at(command, header)? else { return Ok(&[]) };
        let end = header.packet_bytes().min(at + LOOK_BYTES_MAX);
        self.up.window().get(at..end).ok_or(Step::More(end))
    }

    /// True if the session's state, where it is in doubt, is to be asked for right before this
    /// command. False if the command reads what the statement before it left, or if no INSERT can be
    /// in it.
    pub(crate) fn may_follow_question(&self, command: Command, header: Header) -> Result<bool, Step> {
        if command == Command::Query {
            let text = self.beginning(command, header)?;
            let dialect = self.known.session.dialect();
            let is_call =
                !self.known.session.multi_statements && begins_with(text, dialect, &["CALL", "SET", "DO"]);
            let back = self.known.session.sql_prepared.looks_back(text, dialect);
            return Ok(!is_call && back.may_read_insert_id());
        }
        Ok(self.named_statement().and_then(|id| self.known.statements.next_to_last(id)).is_none())
    }
}
