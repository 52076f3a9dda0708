//! The first look at a text, before it is planned: how it begins, what it may run, how it depends on the statement before
//! it. Comments count for nothing, unless they are code to the server; the lexer knows which are.

use crate::sql::dialect::Dialect;
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind, is_blank};
use crate::sql::reads::Reads;
use crate::sql::statement::dynamic::{self, Dynamic, Literal, TextSource};

/// Bytes of a statement that are looked at: more than the comments at its start take.
pub const LOOK_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance<'t> {
    /// One statement that neither inserts nor changes how later ones are read. It begins with this word.
    Harmless(&'t [u8]),
    /// The text must be read whole.
    Read,
    /// The first word is not there yet.
    Unclear,
}

impl Glance<'_> {
    pub fn is_harmless(self) -> bool {
        matches!(self, Glance::Harmless(_))
    }
}

/// Statements that cannot insert and cannot change `sql_mode`, character set or default database. No proxy sees what stored
/// functions and triggers do inside them.
const HARMLESS: &[&str] =
    keywords!(SELECT UPDATE DELETE COMMIT ROLLBACK SHOW START SAVEPOINT RELEASE KILL WITH DO);

/// Looks at a statement or its beginning. With several statements allowed in a packet, a semicolon
/// anywhere makes it one that must be read.
pub fn glance(text: &[u8], dialect: Dialect, is_complete: bool, multi_statements: bool) -> Glance<'_> {
    let token = match first_token(text, dialect) {
        // The token may go on.
        Some(Ok(token)) if !is_complete && token.span.end as usize == text.len() => return Glance::Unclear,
        Some(Err(_)) if !is_complete => return Glance::Unclear,
        Some(Ok(token)) if HARMLESS.iter().any(|word| token.is_word(text, word)) => token,
        _ => return Glance::Read,
    };
    let rest = text.get(token.span.start as usize..).unwrap_or_default();
    if multi_statements && (!is_complete || memchr::memchr(b';', rest).is_some()) {
        return Glance::Read;
    }
    Glance::Harmless(token.span.of(text))
}

/// The first token past comments; at the end of the text that is [`TokenKind::End`]. `None`: the text has 4 GiB or more.
fn first_token(text: &[u8], dialect: Dialect) -> Option<Result<Token, Odd>> {
    // Most texts begin with a word and a blank, which need no lexer.
    let letters = text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    if letters > 0 && text.get(letters).is_some_and(|&byte| is_blank(byte)) {
        let span = Span { start: 0, end: u32::try_from(letters).ok()? };
        return Some(Ok(Token { kind: TokenKind::Word, span }));
    }
    Some(Lexer::new(text, dialect)?.next())
}

/// True if the first word of a text is one of these.
pub fn begins_with(text: &[u8], dialect: Dialect, words: &[&str]) -> bool {
    let word = match first_token(text, dialect) {
        Some(Ok(token)) if token.kind == TokenKind::Word => token.span.of(text),
        // The byte after a word may be one whose meaning depends on the character set.
        Some(Err(odd)) => {
            let before = text.get(..odd.at as usize).unwrap_or_default();
            let letters = before.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
            before.get(before.len() - letters..).unwrap_or_default()
        }
        _ => return false,
    };
    words.iter().any(|other| word.eq_ignore_ascii_case(other.as_bytes()))
}

/// A text without the comments that it begins with, as far as they can be read.
pub fn past_comments(text: &[u8], dialect: Dialect) -> &[u8] {
    let first = first_token(text, dialect).and_then(Result::ok);
    first.and_then(|first| text.get(first.span.start as usize..)).unwrap_or(text)
}

/// True for semicolons and blanks, which the server strips off a packet's end. A comment there is a statement to it.
pub fn is_stripped(rest: &[u8]) -> bool {
    rest.iter().all(|byte| matches!(byte, b';' | b' ' | b'\t'..=b'\r'))
}

/// True for statements that change rows. Nobody uses these, the longest and most frequent ones, to look at variables.
pub fn begins_with_row_change(text: &[u8], dialect: Dialect) -> bool {
    begins_with(text, dialect, keywords!(INSERT REPLACE UPDATE DELETE))
}

/// True for nothing but comments, which both servers answer with error 1065.
pub fn is_only_comments(text: &[u8], dialect: Dialect) -> bool {
    // The first byte decides for most texts.
    matches!(text.trim_ascii_start().first(), None | Some(b'#' | b'-' | b'/'))
        && matches!(first_token(text, dialect), Some(Ok(token)) if token.kind == TokenKind::End)
}

/// True if a statement ends the transaction. Where GTID_NEXT names the transaction, MySQL drops no temporary table after
/// that.
pub fn ends_transaction(text: &[u8], dialect: Dialect) -> bool {
    begins_with(text, dialect, keywords!(COMMIT ROLLBACK BEGIN START))
}

/// The places of a word of lower case in a text, in any letter case: the text before each, and after it.
fn places<'t>(text: &'t [u8], word: &'t [u8]) -> impl Iterator<Item = (&'t [u8], &'t [u8])> {
    let first = word.first().copied().unwrap_or_default();
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), text).filter_map(|at| {
        let (before, rest) = text.split_at_checked(at)?;
        let (place, after) = rest.split_at_checked(word.len())?;
        place.eq_ignore_ascii_case(word).then_some((before, after))
    })
}

/// True if a word of lower case is in a text, in any letter case, as a part of a longer one too.
pub fn has_word(text: &[u8], word: &[u8]) -> bool {
    places(text, word).next().is_some()
}

/// [`has_word`] of one of these words.
pub fn has_any_word(text: &[u8], words: &[&str]) -> bool {
    words.iter().any(|word| has_word(text, word.as_bytes()))
}

/// [`has_word`] where it is no part of a longer name. A digit before the word may be a version
/// comment's (`/*!50000CALL p()*/`), and a byte beyond ASCII may be anything: neither makes it part
/// of a name.
pub fn has_whole_word(text: &[u8], word: &[u8]) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$';
    places(text, word).any(|(before, after)| {
        !before.last().is_some_and(|&byte| is_letter(byte))
            && !after.first().is_some_and(|&byte| is_letter(byte) || byte.is_ascii_digit())
    })
}

/// True if EXECUTE may be in a text with the name of a prepared statement.
pub fn may_execute_name(text: &[u8]) -> bool {
    let is_immediate = |after: &[u8]| {
        after.trim_ascii_start().get(..9).is_some_and(|word| word.eq_ignore_ascii_case(b"immediate"))
    };
    places(text, b"execute").any(|(_, after)| !is_immediate(after))
}

/// True if a text may insert, or run a text that does.
pub fn may_insert(text: &[u8]) -> bool {
    has_any_word(text, &["insert", "replace", "load", "execute", "prepare"])
}

/// True if it may run a routine, which may make temporary tables: a call has parentheses, or one of
/// these words.
pub fn may_run_routine(text: &[u8]) -> bool {
    memchr::memchr(b'(', text).is_some() || has_any_word(text, &["call", "execute"])
}

/// True if a statement may read or set a session's variables by their names: it has
/// `session_track`, or `variables` (SHOW VARIABLES, and the tables that have them all).
pub fn may_see_tracking(text: &[u8]) -> bool {
    let has = |word: &[u8], at: Option<usize>| {
        let place = at.and_then(|at| text.get(at..at + word.len()));
        place.is_some_and(|place| place.eq_ignore_ascii_case(word))
    };
    // Each word is looked for by a letter that few texts have: `v`, and the `k` after twelve others.
    memchr::memchr2_iter(b'v', b'V', text).any(|at| has(b"variables", Some(at)))
        || memchr::memchr2_iter(b'k', b'K', text).any(|at| has(b"session_track", at.checked_sub(12)))
}

/// The text that EXECUTE runs.
pub enum Executed {
    /// The text was prepared under this name. `alone`: no other statement follows in the packet.
    Name { name: String, alone: bool },
    /// MariaDB: the string after IMMEDIATE.
    Text { text: Vec<u8>, alone: bool },
}

/// Reads EXECUTE. `None`: the text begins with something else, or runs the value of an expression.
pub fn executed(text: &[u8], dialect: Dialect) -> Option<Executed> {
    let mut lexer = Lexer::new(text, dialect)?;
    let first = lexer.next().ok()?;
    if !lexer.is_word(first, "EXECUTE") {
        return None;
    }
    let read = dynamic::read(&mut lexer, first).ok()??;
    let alone = is_stripped(text.get(lexer.position() as usize..)?);
    match read {
        Dynamic::Execute { name, .. } => Some(Executed::Name { name, alone }),
        Dynamic::Immediate { source: TextSource::Literal(Literal { text, .. }), .. } => {
            Some(Executed::Text { text, alone })
        }
        _ => None,
    }
}

/// The way in which a statement depends on the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LooksBack {
    pub reads: Reads,
    /// The first word of the statement, or of the text that it runs, shows that nothing in it reads the insert id.
    is_quiet: bool,
}

impl LooksBack {
    /// Looks at the beginning of a text.
    pub fn of(text: &[u8], dialect: Dialect) -> LooksBack {
        const QUIET: &[&str] = keywords!(SHOW GET COMMIT ROLLBACK BEGIN START SAVEPOINT RELEASE USE KILL);
        let text = text.get(..LOOK_BYTES_MAX).unwrap_or(text);
        LooksBack { reads: Reads::of(text, dialect), is_quiet: begins_with(text, dialect, QUIET) }
    }

    /// Adds a text that the statement runs. `alone`: nothing else is in the statement's packet.
    #[must_use]
    pub fn and_runs(self, text: &[u8], dialect: Dialect, alone: bool) -> LooksBack {
        // A statement that ends a transaction is to be seen where it is sent.
        let shows = alone && begins_with(text, dialect, keywords!(SHOW GET));
        LooksBack { reads: self.reads.and(Reads::of(text, dialect)), is_quiet: self.is_quiet || shows }
    }

    /// True if it may read `LAST_INSERT_ID()`, itself or by a trigger or function, and does not read what belongs to the
    /// statement before it.
    pub fn may_read_insert_id(self) -> bool {
        !self.is_quiet && !self.reads.last_result()
    }
}

/// The warnings or errors of the last statement that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    pub errors_only: bool,
    pub offset: usize,
    pub rows: usize,
}

/// Reads SHOW WARNINGS and SHOW ERRORS, with or without LIMIT. `None`: it is another statement, or several.
pub fn shows_warnings(text: &[u8], dialect: Dialect) -> Option<Shown> {
    let mut lexer = Lexer::new(text, dialect)?;
    if !lexer.eat_word("SHOW").ok()? {
        return None;
    }
    let what = lexer.next().ok()?;
    let errors_only = lexer.is_word(what, "ERRORS");
    if !errors_only && !lexer.is_word(what, "WARNINGS") {
        return None;
    }
    let number = |lexer: &mut Lexer<'_>| {
        let token = lexer.next().ok().filter(|token| token.kind == TokenKind::Integer)?;
        std::str::from_utf8(token.span.of(text)).ok()?.parse::<usize>().ok()
    };
    let (mut offset, mut rows) = (0, usize::MAX);
    if lexer.eat_word("LIMIT").ok()? {
        rows = number(&mut lexer)?;
        if lexer.eat_punct(b',').ok()? {
            offset = std::mem::replace(&mut rows, number(&mut lexer)?);
        } else if lexer.eat_word("OFFSET").ok()? {
            offset = number(&mut lexer)?;
        }
    }
    let end = lexer.peek().ok()?;
    let is_last = end.kind == TokenKind::End || is_stripped(text.get(end.span.start as usize..)?);
    is_last.then_some(Shown { errors_only, offset, rows })
}

#[cfg(test)]
mod tests;
