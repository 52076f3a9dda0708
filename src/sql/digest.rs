//! The text of a statement without its values, for logs and for people: no literal, no comment, and one text for all
//! that differ in nothing else. MySQL's and MariaDB's DIGEST_TEXT is the model (manual, "Performance Schema Statement
//! Digests").
//!
//! | in the statement | in the digest |
//! |---|---|
//! | strings, numbers with their sign, `?`, NULL and TRUE where a value stands | `?` |
//! | two values and more in parentheses; one after VALUES or IN | `(...)` |
//! | rows that look the same one after the other | one |
//! | comments, blanks, a semicolon at the end | nothing; one blank between words |
//! | reserved words, and the word a statement begins with | in upper case |
//! | names | as they are written, quotes and all |
//!
//! The servers' hashes are of their own tokens: a digest of theirs is not one of ours.

mod keywords;
mod writer;

use sha2::{Digest as _, Sha256};

use self::writer::Writer;
use super::dialect::Dialect;
use super::lex::{Lexer, Odd, Token, TokenKind};
use super::statement::{self, Statement};

/// The most bytes of a text, without [`CUT`]: the default of the servers' `performance_schema_max_digest_length`.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Stands after a text that was cut. No statement that can be read has it outside of quotes.
pub const CUT: &str = " [...]";

/// The hash of every text that cannot be read for certain.
pub const UNREADABLE: &str = "unreadable";

/// A statement, or the several of a packet, without what they say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest {
    /// At most [`TEXT_BYTES_MAX`] and [`CUT`]; no control characters. Empty where the statement
    /// cannot be read.
    pub text: String,
    /// 16 hexadecimal digits, the beginning of the SHA-256 of the text before it was cut, or
    /// [`UNREADABLE`].
    pub hash: String,
}

impl Digest {
    /// The digest of a text that is not known any more.
    pub fn unknown() -> Digest {
        Digest { text: String::new(), hash: "unknown".to_owned() }
    }

    pub fn is_unreadable(&self) -> bool {
        self.hash == UNREADABLE
    }
}

/// The digest of `text`, which the server reads in this dialect.
pub fn digest(text: &[u8], dialect: &Dialect) -> Digest {
    match normalised(text, dialect) {
        Ok(mut text) => {
            let first = Sha256::digest(&text).iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte));
            if text.len() > TEXT_BYTES_MAX {
                text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
                text.push_str(CUT);
            }
            Digest { text, hash: format!("{first:016x}") }
        }
        Err(_) => Digest { text: String::new(), hash: UNREADABLE.to_owned() },
    }
}

fn normalised(text: &[u8], dialect: &Dialect) -> Result<String, Odd> {
    let too_long = Odd { at: 0, what: "a statement of 4 GiB or more" };
    let mut lexer = Lexer::new(text, *dialect).ok_or(too_long)?;
    let mut writer = Writer::new(text, dialect.charset);
    let mut reading = Reading { behind: *dialect, in_body: false, is_blind: false };
    reading.begins(&mut lexer)?;
    loop {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::End => return Ok(writer.finish()),
            TokenKind::Punct(b';') => {
                writer.semicolon();
                reading.begins(&mut lexer)?;
                writer.charset = lexer.dialect().charset;
            }
            _ => {
                reading.passes(text, token);
                writer.token(token);
            }
        }
    }
}

/// The way in which the statements of a packet are read, one after the other. If they were read wrongly, a literal
/// could pass for a name.
struct Reading {
    /// The dialect of the text after the statement.
    behind: Dialect,
    /// After the beginning of a routine or a block, where a `;` need not end the statement.
    in_body: bool,
    /// A statement before may have changed how what follows is read.
    is_blind: bool,
}

impl Reading {
    /// Looks at the statement that the lexer stands before.
    fn begins(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Odd> {
        lexer.set_dialect(self.behind);
        let kind = statement::classify(&mut lexer.clone())?;
        if self.is_blind && kind != Statement::Empty {
            let what = "a statement after one that may change how the text is read";
            return Err(Odd { at: lexer.position(), what });
        }
        match kind {
            Statement::Set(set) => {
                self.is_blind |= set.opaque;
                self.behind.sql_mode = set.sql_mode.unwrap_or(self.behind.sql_mode);
                self.behind.charset = set.charset.unwrap_or(self.behind.charset);
            }
            Statement::Opaque | Statement::Dynamic(_) => self.is_blind |= !self.in_body,
            Statement::Routine | Statement::Compound => self.in_body = true,
            _ => {}
        }
        Ok(())
    }

    /// In a body, what names a variable that changes the reading may set it, for what follows at
    /// the body's end.
    fn passes(&mut self, text: &[u8], token: Token) {
        if self.in_body && matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) {
            let word = token.span.of(text).to_ascii_lowercase();
            self.is_blind |= [&b"sql_mode"[..], b"character", b"charset", b"names"]
                .iter()
                .any(|name| memchr::memmem::find(&word, name).is_some());
        }
    }
}

#[cfg(test)]
mod tests;
