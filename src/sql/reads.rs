//! The parts of the last statement's result that a text reads, by its tokens: counts, warnings, the insert id.

use memchr::memmem;

use crate::sql::dialect::Dialect;
use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name;

/// A variable that is read as a row of a table (`session_variables`) is not seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reads {
    /// `ROW_COUNT()`, `FOUND_ROWS()`.
    pub counts: bool,
    /// `@@warning_count`, `@@error_count`, GET DIAGNOSTICS.
    pub warnings: bool,
    /// `LAST_INSERT_ID()`, `@@identity`, `@@last_insert_id`.
    pub insert_id: bool,
}

impl Reads {
    const COUNTS: Reads = Reads { counts: true, warnings: false, insert_id: false };
    const WARNINGS: Reads = Reads { counts: false, warnings: true, insert_id: false };
    const INSERT_ID: Reads = Reads { counts: false, warnings: false, insert_id: true };

    const FUNCTIONS: [(&str, Reads); 3] =
        [("row_count", Reads::COUNTS), ("found_rows", Reads::COUNTS), ("last_insert_id", Reads::INSERT_ID)];
    const VARIABLES: [(&str, Reads); 4] = [
        ("warning_count", Reads::WARNINGS),
        ("error_count", Reads::WARNINGS),
        ("last_insert_id", Reads::INSERT_ID),
        ("identity", Reads::INSERT_ID),
    ];
    const DIAGNOSTICS: (&str, Reads) = ("diagnostics", Reads::WARNINGS);

    pub fn of(text: &[u8], dialect: Dialect) -> Reads {
        // Few texts have one of the words at all.
        let words = Reads::by_words(text);
        if words == Reads::default() {
            return words;
        }
        let Some(mut lexer) = Lexer::new(text, dialect) else { return words };
        let (mut reads, mut before) = (Reads::default(), None);
        // PREPARE and EXECUTE IMMEDIATE run, or will, what stands in a string.
        let mut runs_strings = false;
        loop {
            let at = lexer.position() as usize;
            let Ok((token, more)) = Reads::of_next(&mut lexer, before, runs_strings) else {
                // The rest cannot be read, and may have any of its words.
                return reads.and(Reads::by_words(text.get(at..).unwrap_or_default()));
            };
            match token.kind {
                TokenKind::End => return reads,
                TokenKind::Punct(b';') => runs_strings = false,
                TokenKind::Word if !is_glued(before, token) => {
                    runs_strings |= lexer.is_any_word(token, keywords!(PREPARE IMMEDIATE));
                }
                _ => {}
            }
            (reads, before) = (reads.and(more), Some(token));
        }
    }

    /// True if a question before the statement would take away what it reads.
    pub fn last_result(self) -> bool {
        self.counts || self.warnings
    }

    #[must_use]
    pub fn and(self, more: Reads) -> Reads {
        Reads {
            counts: self.counts || more.counts,
            warnings: self.warnings || more.warnings,
            insert_id: self.insert_id || more.insert_id,
        }
    }

    /// Reads by words alone, in strings and comments too.
    fn by_words(text: &[u8]) -> Reads {
        let text = text.to_ascii_lowercase();
        let is_in = |(word, _): &&(&str, Reads)| memmem::find(&text, word.as_bytes()).is_some();
        let all = Reads::FUNCTIONS.iter().chain(&Reads::VARIABLES).chain([&Reads::DIAGNOSTICS]);
        all.filter(is_in).fold(Reads::default(), |all, (_, reads)| all.and(*reads))
    }

    /// The next token, which comes after `before`, and what it reads.
    fn of_next(
        lexer: &mut Lexer<'_>,
        before: Option<Token>,
        runs_strings: bool,
    ) -> Result<(Token, Reads), Odd> {
        let token = lexer.next()?;
        let reads = match token.kind {
            TokenKind::Punct(b'@') if is_glued(before, token) => {
                let name = variable_name(lexer)?;
                named(lexer, name, &Reads::VARIABLES)
            }
            TokenKind::Word | TokenKind::QuotedName if lexer.peek()?.is_punct(b'(') => {
                named(lexer, token, &Reads::FUNCTIONS)
            }
            TokenKind::Word if lexer.is_word(token, "DIAGNOSTICS") => {
                let gets = keywords!(GET CURRENT STACKED);
                let is_read = before.is_some_and(|before| lexer.is_any_word(before, gets));
                if is_read { Reads::WARNINGS } else { Reads::default() }
            }
            TokenKind::String if runs_strings => Reads::by_words(token.span.of(lexer.text())),
            _ => Reads::default(),
        };
        Ok((token, reads))
    }
}

fn is_glued(before: Option<Token>, token: Token) -> bool {
    before.is_some_and(|before| name::is_glued(before, token))
}

/// The last part of a system variable's name, after `@@`.
pub(super) fn variable_name(lexer: &mut Lexer<'_>) -> Result<Token, Odd> {
    let mut name = lexer.next()?;
    while lexer.eat_punct(b'.')? {
        name = lexer.next()?;
    }
    Ok(name)
}

fn named(lexer: &Lexer<'_>, token: Token, names: &[(&str, Reads)]) -> Reads {
    let Some(name) = name::decode(lexer.text(), token, lexer.dialect().charset) else {
        return Reads::default();
    };
    let found = names.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    found.map_or(Reads::default(), |(_, reads)| *reads)
}

#[cfg(test)]
mod tests {
    use super::Reads;
    use crate::sql::dialect::{ClientCharset, Dialect, SqlMode};

    const ANY: Dialect = Dialect::MARIADB;

    #[test]
    fn counts_warnings_and_the_insert_id_are_read() {
        for (text, counts, warnings, insert_id) in [
            ("select Found_Rows ()", true, false, false),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t", false, false, false),
            ("SELECT SQL_CALC_FOUND_ROWS FOUND_ROWS() FROM t", true, false, false),
            ("UPDATE t SET a=ROW_COUNT/**/()", true, false, false),
            ("INSERT INTO imports (row_count, error_count) VALUES (1, 2)", false, false, false),
            ("DELETE FROM t WHERE a=@@warning_count", false, true, false),
            ("SELECT @@SESSION.`Error_Count`", false, true, false),
            ("SELECT t.error_count, @warning_count FROM t", false, false, false),
            ("GET DIAGNOSTICS @n = NUMBER", false, true, false),
            (
                "BEGIN NOT ATOMIC GET CURRENT DIAGNOSTICS CONDITION 1 @a = MESSAGE_TEXT; END",
                false,
                true,
                false,
            ),
            ("SELECT a FROM diagnostics", false, false, false),
            ("SELECT LAST_INSERT_ID(), @@identity", false, false, true),
            ("SELECT ROW_COUNT(), @@local.last_insert_id", true, false, true),
            ("SELECT ROW_COUNT() AS last_insert_id", true, false, false),
            ("SELECT 1 /* row_count(), diagnostics */ -- @@warning_count", false, false, false),
            ("SELECT 1 /*!50000 , ROW_COUNT() */", true, false, false),
            ("SELECT 'ROW_COUNT()'", false, false, false),
            ("PREPARE s FROM 'SELECT ROW_COUNT()'", true, false, false),
            ("SELECT 'not closed, ROW_COUNT()", true, false, false),
            ("INSERT INTO t (a) VALUES ('row_count()') /* to prepare */", false, false, false),
            ("SELECT prepared, s.prepare, 'row_count()' FROM s", false, false, false),
            ("EXECUTE IMMEDIATE 'SELECT 1'; SELECT 'row_count()'", false, false, false),
            ("EXECUTE s USING ROW_COUNT()", true, false, false),
        ] {
            let reads = Reads { counts, warnings, insert_id };
            assert_eq!(Reads::of(text.as_bytes(), ANY), reads, "{text}");
        }
    }

    /// A call that a string swallows in one dialect is read in the other.
    #[test]
    fn the_dialect_says_where_strings_end() {
        let no_escapes = Dialect { sql_mode: SqlMode::NO_BACKSLASH_ESCAPES, ..ANY };
        let sjis = Dialect { charset: ClientCharset::Sjis, ..ANY };
        let unknown = Dialect { charset: ClientCharset::Unknown, ..ANY };
        let backslash = &br"SELECT '\\', 'a\', ROW_COUNT(), 'b', 'c'"[..];
        let second_byte = &b"SELECT '\x95\\', ROW_COUNT(), 'b', 'c'"[..];
        for (text, dialect, expect) in [
            (backslash, ANY, false),
            (backslash, no_escapes, true),
            (second_byte, ANY, false),
            (second_byte, sjis, true),
            (second_byte, unknown, true),
        ] {
            assert_eq!(Reads::of(text, dialect).counts, expect, "{} {dialect:?}", text.escape_ascii());
        }
    }
}
