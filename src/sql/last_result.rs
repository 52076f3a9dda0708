//! What a statement may read of the one before it: the insert id, counts, warnings. Told by the
//! first bytes of its text, without reading it.

/// Bytes of a statement that are looked at: more than the comments at its start take.
pub const GLANCE_BYTES_MAX: usize = 8 * 1024;

/// Whether the function or one of the variables that show the insert id is in the text.
pub fn names_insert_id(text: &[u8]) -> bool {
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

pub fn first_word(text: &[u8]) -> &[u8] {
    behind_comments(text).split(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default()
}

/// The option of a SELECT that leaves a count for `FOUND_ROWS()`.
pub const CALC_FOUND_ROWS: &str = "sql_calc_found_rows";

/// Whether a statement may read what the one before it left: a count, or warnings.
pub fn reads_counts(text: &[u8]) -> bool {
    let text = text.get(..GLANCE_BYTES_MAX).unwrap_or(text).to_ascii_lowercase();
    let has = |word: &&str| memchr::memmem::find(&text, word.as_bytes()).is_some();
    let mut found_rows = memchr::memmem::find_iter(&text, b"found_rows");
    ["row_count", "warning_count", "error_count", "diagnostics"].iter().any(has)
        || found_rows.any(|at| !text.get(..at).unwrap_or_default().ends_with(b"sql_calc_"))
}

/// Which of the warnings and errors of the last statement are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    pub errors_only: bool,
    pub offset: usize,
    pub rows: usize,
}

/// Of SHOW WARNINGS and SHOW ERRORS, with or without LIMIT. `None`: it is another statement, or several.
pub fn shows_warnings(text: &[u8]) -> Option<Shown> {
    const BYTES_MAX: usize = 256;
    let text = std::str::from_utf8(behind_comments(text)).ok().filter(|text| text.len() <= BYTES_MAX)?;
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(';').unwrap_or(text).replace(',', " , ");
    let mut words = text.split_ascii_whitespace();
    let mut word = || words.next();
    if !word()?.eq_ignore_ascii_case("show") {
        return None;
    }
    let errors_only = match word()?.to_ascii_lowercase().as_str() {
        "warnings" => false,
        "errors" => true,
        _ => return None,
    };
    let rest: Vec<_> = words.collect();
    let number = |text: &str| text.parse::<usize>().ok();
    let (offset, rows) = match *rest {
        [] => (0, usize::MAX),
        [limit, rows] if limit.eq_ignore_ascii_case("limit") => (0, number(rows)?),
        [limit, offset, ",", rows] if limit.eq_ignore_ascii_case("limit") => (number(offset)?, number(rows)?),
        [limit, rows, by, offset]
            if limit.eq_ignore_ascii_case("limit") && by.eq_ignore_ascii_case("offset") =>
        {
            (number(offset)?, number(rows)?)
        }
        _ => return None,
    };
    Some(Shown { errors_only, offset, rows })
}

/// Whether a statement may read `LAST_INSERT_ID()` and does not read what belongs to the statement
/// before it.
pub fn may_read_insert_id(text: &[u8]) -> bool {
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

/// Whether a statement ends the transaction. Where GTID_NEXT names the transaction, MySQL drops no temporary table after that.
pub fn ends_transaction(text: &[u8]) -> bool {
    let text = text.get(..GLANCE_BYTES_MAX).unwrap_or(text).to_ascii_lowercase();
    matches!(first_word(&text), b"commit" | b"rollback" | b"begin" | b"start")
}

#[cfg(test)]
mod tests {
    use super::{Shown, ends_transaction, may_read_insert_id, reads_counts, shows_warnings};

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
    fn what_is_shown_of_the_warnings() {
        let check = |text: &str, errors_only, offset, rows| {
            assert_eq!(shows_warnings(text.as_bytes()), Some(Shown { errors_only, offset, rows }), "{text}");
        };
        check("SHOW WARNINGS", false, 0, usize::MAX);
        check("/* driver */ show  warnings ;", false, 0, usize::MAX);
        check("SHOW WARNINGS LIMIT 5", false, 0, 5);
        check("show warnings limit 2,5", false, 2, 5);
        check("show errors limit 5 offset 2", true, 2, 5);
        for other in [
            "SHOW COUNT(*) WARNINGS",
            "SHOW WARNINGS; SELECT 1",
            "SHOW WARNINGS LIMIT ?",
            "SHOW TABLES",
            "SHOW WARNINGS LIMIT 1,2,3",
            "",
        ] {
            assert_eq!(shows_warnings(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_ends_a_transaction() {
        for (text, expect) in [
            ("COMMIT", true),
            ("/* app */ rollback", true),
            ("BEGIN", true),
            ("START TRANSACTION", true),
            ("SAVEPOINT a", false),
            ("SELECT 'commit'", false),
        ] {
            assert_eq!(ends_transaction(text.as_bytes()), expect, "{text}");
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
