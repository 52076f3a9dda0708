//! What the first bytes of a statement tell: whether it must be read whole, whether it may read the insert id, whether it
//! leaves counts behind.

use super::outstanding::{Note, Purpose};
use super::relay::{Relay, Step};
use super::upstream::Treatment;
use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::prepared::statement_id;
use crate::mysql::reader::Malformed;
use crate::sql::glance::{Glance, glance};

/// Bytes of a statement that are looked at before it is read whole: more than the comments at its start take.
pub(super) const GLANCE_BYTES_MAX: usize = 8 * 1024;

/// Bytes in which a statement's first word and a SELECT's options stand.
const OPTIONS_BYTES_MAX: usize = 128;

/// Query attributes that take more are read together with their statement.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

impl Relay {
    /// Tells a statement that cannot matter from one that must be read, by its first word.
    pub(super) fn glance_at(&self, command: Command, header: Header) -> Result<Treatment, Step> {
        let window = self.up.window();
        let whole = header.packet_bytes();
        let is_complete = window.len() >= whole && !header.continues();
        let Some(at) = self.text_at(command, header)? else { return Ok(Treatment::Read) };
        let text = window.get(at..whole.min(window.len())).unwrap_or_default();
        let multi_statements = command == Command::Query && self.view.multi_statements();
        match glance(text, is_complete, multi_statements) {
            Glance::Harmless => {
                let mut note = Note::Nothing;
                if command == Command::StmtPrepare {
                    let text = self.beginning(command, header)?;
                    if !may_read_insert_id(text) {
                        note = Note::PrepareNextToLast { names_insert_id: names_insert_id(text) };
                    }
                }
                Ok(Treatment::Pass { may_change_session: false, note })
            }
            Glance::Unclear if !is_complete && text.len() < GLANCE_BYTES_MAX => {
                Err(Step::More(window.len().saturating_mul(2).clamp(HEADER_BYTES + 2, whole)))
            }
            Glance::Unclear | Glance::Read => Ok(Treatment::Read),
        }
    }

    /// Whether this statement leaves something (ROW_COUNT, FOUND_ROWS, warnings) that reading the state after it would take
    /// away from the next one: then the state is read before it. Not where it reads itself what the statement before it left.
    pub(super) fn leaves_counts(&self, command: Command, header: Header) -> Result<bool, Step> {
        if command != Command::Query || !self.view.is_untouched() {
            return Ok(false);
        }
        // Elsewhere no INSERT follows that needs the state.
        if !self.view.tables.now().has_rules_in(self.view.default_schema()) {
            return Ok(false);
        }
        let text = self.beginning(command, header)?;
        let mut options = [0; OPTIONS_BYTES_MAX];
        for (to, from) in options.iter_mut().zip(text) {
            *to = from.to_ascii_lowercase();
        }
        let words = ["update", "delete", "with", CALC_FOUND_ROWS];
        let leaves = words.iter().any(|word| memchr::memmem::find(&options, word.as_bytes()).is_some());
        Ok(leaves && !reads_counts(text))
    }

    /// Whether a statement may call a function, which may make temporary tables.
    pub(super) fn may_call(&self, command: Command, header: Header) -> Result<bool, Step> {
        // An execution runs what was seen when it was prepared.
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            return Ok(false);
        }
        let is_long = header.continues() || header.packet_bytes() > GLANCE_BYTES_MAX;
        Ok(is_long || memchr::memchr(b'(', self.beginning(command, header)?).is_some())
    }

    /// Where the text begins in the window. `None`: attributes before it are malformed, or more than one looks at.
    pub(super) fn text_at(&self, command: Command, header: Header) -> Result<Option<usize>, Step> {
        if command != Command::Query || !self.has_attributes() {
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

    /// A statement's text as far as [`may_read_insert_id`] looks at it; empty where it does not begin within reach.
    pub(super) fn beginning(&self, command: Command, header: Header) -> Result<&[u8], Step> {
        let Some(at) = self.text_at(command, header)? else { return Ok(&[]) };
        let end = header.packet_bytes().min(at + GLANCE_BYTES_MAX);
        self.up.window().get(at..end).ok_or(Step::More(end))
    }

    /// Whether the state, if it is in doubt, is to be asked for before the command: not where that would take from it what the
    /// statement before it left, nor where no INSERT can be in it.
    pub(super) fn may_stand_behind_question(&self, command: Command, header: Header) -> Result<bool, Step> {
        if command == Command::Query {
            let text = self.beginning(command, header)?;
            let is_call = !self.view.multi_statements()
                && matches!(first_word(&text.to_ascii_lowercase()), b"call" | b"set" | b"do");
            let reads_counts =
                first_word(text).eq_ignore_ascii_case(b"execute") && self.view.names.any_reads_counts();
            return Ok(!is_call && !reads_counts && may_read_insert_id(text));
        }
        let payload = self.up.window().get(HEADER_BYTES..).unwrap_or_default();
        Ok(statement_id(payload).ok().and_then(|id| self.statements.next_to_last(id)).is_none())
    }

    /// What comes first where `LAST_INSERT_ID()` must be brought up to date before this command, which may read it: any
    /// statement may, by a trigger or a function. One that reads what the last statement left behind (ROW_COUNT, warnings)
    /// must stay next to it, and one that cannot read the id does not need it.
    pub(super) fn insert_id_before(&mut self, command: Command, header: Header) -> Option<Step> {
        let may_owe = self.outstanding.may_owe_insert_id();
        if !may_owe && !self.view.owes_insert_id() {
            return None;
        }
        let may_read = match command {
            Command::Query => match self.beginning(command, header) {
                Ok(text) if !may_read_insert_id(text) && names_insert_id(text) => {
                    return Some(if may_owe { Step::Hold } else { self.refuse(header, &reads_both()) });
                }
                Ok(text) => may_read_insert_id(text),
                Err(step) => return Some(step),
            },
            Command::StmtExecute => {
                let payload = self.up.window().get(HEADER_BYTES..).unwrap_or_default();
                match statement_id(payload).ok().and_then(|id| self.statements.next_to_last(id)) {
                    Some(statement) if statement.names_insert_id => {
                        return Some(if may_owe { Step::Hold } else { self.refuse(header, &reads_both()) });
                    }
                    statement => statement.is_none(),
                }
            }
            Command::StmtBulkExecute => true,
            _ => false,
        };
        match may_read {
            false => None,
            // Only its answer tells which id that is.
            true if may_owe => Some(Step::Hold),
            true => Some(self.send_insert_id()),
        }
    }

    fn send_insert_id(&mut self) -> Step {
        if self.up.is_clear()
            && let Some(owed) = self.view.take_owed_insert_id()
        {
            self.query_own(Purpose::LastInsertId, owed.statement());
        }
        Step::SendFirst
    }
}

/// What both of them show cannot be had in one statement: the one is brought up to date by a statement that spoils the other.
fn reads_both() -> Refusal {
    Refusal::Statement(
        "rowstamp: it reads LAST_INSERT_ID() together with ROW_COUNT(), FOUND_ROWS() or the number of warnings, after an \
         INSERT whose id the session learns only now; read them in statements of their own, LAST_INSERT_ID() last"
            .to_owned(),
    )
}

/// Whether the function or one of the variables that show the insert id is in the text.
fn names_insert_id(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    [&b"last_insert_id"[..], b"@@identity", b".identity"]
        .iter()
        .any(|name| memchr::memmem::find(&text, name).is_some())
}

/// Some drivers put a comment before every statement.
fn behind_comments(text: &[u8]) -> &[u8] {
    let mut text = text.trim_ascii_start();
    while let Some(comment) = text.strip_prefix(b"/*").filter(|rest| !rest.starts_with(b"!")) {
        let Some(end) = memchr::memmem::find(comment, b"*/") else { break };
        text = comment.get(end + 2..).unwrap_or_default().trim_ascii_start();
    }
    text
}

pub(super) fn first_word(text: &[u8]) -> &[u8] {
    behind_comments(text).split(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default()
}

/// The option of a SELECT that leaves a count for `FOUND_ROWS()`.
const CALC_FOUND_ROWS: &str = "sql_calc_found_rows";

/// Whether a statement may read what the one before it left: a count, or warnings.
fn reads_counts(text: &[u8]) -> bool {
    let text = text.get(..GLANCE_BYTES_MAX).unwrap_or(text).to_ascii_lowercase();
    let has = |word: &&str| memchr::memmem::find(&text, word.as_bytes()).is_some();
    let mut found_rows = memchr::memmem::find_iter(&text, b"found_rows");
    ["row_count", "warning_count", "error_count", "diagnostics"].iter().any(has)
        || found_rows.any(|at| !text.get(..at).unwrap_or_default().ends_with(b"sql_calc_"))
}

/// Whether a statement may read `LAST_INSERT_ID()` and does not read what belongs to the statement before it.
pub(super) fn may_read_insert_id(text: &[u8]) -> bool {
    let text = text.get(..GLANCE_BYTES_MAX).unwrap_or(text).to_ascii_lowercase();
    let has = |word: &str| memchr::memmem::find(&text, word.as_bytes()).is_some();
    let is_bound_to_the_last = ["row_count", "found_rows", "warning_count", "error_count", "diagnostics"];
    !matches!(
        first_word(&text),
        b"show"
            | b"get"
            | b"commit"
            | b"rollback"
            | b"begin"
            | b"start"
            | b"savepoint"
            | b"release"
            | b"use"
            | b"kill"
    ) && !is_bound_to_the_last.iter().any(|word| has(word))
}

#[cfg(test)]
mod tests {
    use super::{may_read_insert_id, reads_counts};

    #[track_caller]
    fn check(text: &str, expect: bool) {
        assert_eq!(may_read_insert_id(text.as_bytes()), expect, "{text}");
    }

    #[test]
    fn who_reads_what_the_statement_before_left() {
        for (text, expect) in [
            ("select Found_Rows()", true),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t", false),
            ("SELECT SQL_CALC_FOUND_ROWS FOUND_ROWS() FROM t", true),
            ("UPDATE t SET a=ROW_COUNT()", true),
            ("DELETE FROM t WHERE a=@@warning_count", true),
            ("DELETE FROM t", false),
        ] {
            assert_eq!(reads_counts(text.as_bytes()), expect, "{text}");
        }
    }

    #[test]
    fn who_may_read_the_insert_id() {
        check("select last_insert_id()", true);
        check("SELECT f()", true);
        check("insert into c(parent) values(LAST_INSERT_ID())", true);
        check("SELECT ROW_COUNT()", false);
        check("select found_rows()", false);
        check("  SHOW WARNINGS", false);
        check("/* app */ /* trace */SHOW WARNINGS", false);
        check("/* SHOW */ SELECT 1", true);
        check("/*! SHOW WARNINGS */", true);
        check("SELECT @@warning_count", false);
        check("GET DIAGNOSTICS @n = NUMBER", false);
        check("COMMIT", false);
    }
}
