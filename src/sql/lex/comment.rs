//! Comments, and those that are code for some versions.

use memchr::{memchr2, memmem};

use super::{ClientCharset, Lexer, Odd, Span, is_blank, offset};

/// The first MySQL whose reading of six digits was tried; others are not guessed.
const SIX_DIGITS_SINCE: u32 = 90_700;

impl Lexer<'_> {
    /// In single-byte character sets some bytes from 0x80 on are blanks or control characters.
    pub(super) fn is_unclear_blank(&self, ahead: usize) -> bool {
        self.dialect.charset != ClientCharset::Utf8 && self.byte(ahead).is_some_and(|b| b >= 0x80)
    }

    /// The server strips semicolons and blanks off a packet's end before it reads it: `1--;` ends in a comment.
    pub(super) fn is_stripped_end(&self, ahead: usize) -> bool {
        let rest = self.rest().get(ahead..).unwrap_or_default();
        rest.first() == Some(&b';') && rest.iter().all(|&b| b == b';' || is_blank(b))
    }

    pub(super) fn line_comment(&mut self) -> Result<(), Odd> {
        // The server's line comments end at a NUL byte too.
        let end = memchr2(b'\n', 0, self.rest());
        if end.is_some_and(|end| self.byte(end) == Some(0)) {
            return Err(self.odd("a NUL byte in a comment"));
        }
        self.at = end.map_or(self.text.len(), |end| self.at + end + 1);
        Ok(())
    }

    pub(super) fn comment(&mut self) -> Result<(), Odd> {
        let is_mariadb = self.dialect.is_mariadb();
        let (version_at, is_maria_only) = match (self.byte(2), self.byte(3)) {
            (Some(b'!'), _) => (3, false),
            (Some(b'M'), Some(b'!')) if is_mariadb => (4, true),
            _ => return self.plain_comment(),
        };
        if self.in_code_comment {
            return Err(self.odd("a version comment within another"));
        }
        let Some((len, version)) = self.comment_version(version_at)? else {
            self.at += version_at;
            self.in_code_comment = true;
            return Ok(());
        };
        if version == 99_997 && is_mariadb {
            return Err(self.odd("a comment for Galera"));
        }
        let known = version <= self.dialect.server.version;
        if known && (!is_mariadb || is_maria_only || !(50_700..=99_999).contains(&version)) {
            self.at += version_at + len;
            self.in_code_comment = true;
            return Ok(());
        }
        self.skipped_code_comment()
    }

    /// The number of the version's digits, and their value. `None`: fewer than five digits, which are code.
    fn comment_version(&self, at: usize) -> Result<Option<(usize, u32)>, Odd> {
        let digits = self.rest().iter().skip(at).take(6).take_while(|b| b.is_ascii_digit());
        let number =
            |len: usize| digits.clone().take(len).fold(0u32, |sum, b| sum * 10 + u32::from(b - b'0'));
        let server = self.dialect.server;
        Ok(match digits.clone().count() {
            0..=4 => None,
            6 if self.dialect.is_mariadb() => Some((6, number(6))),
            6 => match self.byte(at + 6) {
                // Neither reading is code.
                _ if number(5) > server.version && number(6) > server.version => Some((5, number(5))),
                // Measured on 9.7: the sixth counts where a blank follows it, and is text of the comment where none does.
                Some(next) if server.version >= SIX_DIGITS_SINCE && next.is_ascii() => {
                    let len = if is_blank(next) { 6 } else { 5 };
                    Some((len, number(len)))
                }
                _ => return Err(self.odd("a version of six digits in a comment")),
            },
            len => Some((len, number(len))),
        })
    }

    pub(super) fn plain_comment(&mut self) -> Result<(), Odd> {
        let start = self.at;
        let Some(found) = self.text.get(self.at + 2..).and_then(|inner| memmem::find(inner, b"*/")) else {
            return Err(self.odd("an unclosed comment"));
        };
        if self.byte(2) == Some(b'+') {
            self.hint = Some(Span { start: offset(start), end: offset(start + found + 4) });
        }
        self.at += found + 4;
        Ok(())
    }

    /// A version comment that is none here: it may hold plain comments, one level deep.
    pub(super) fn skipped_code_comment(&mut self) -> Result<(), Odd> {
        self.at += 2;
        loop {
            let Some(found) = memchr2(b'*', b'/', self.rest()) else {
                return Err(self.odd("an unclosed comment"));
            };
            self.at += found;
            match (self.byte(0), self.byte(1)) {
                (Some(b'*'), Some(b'/')) => {
                    self.at += 2;
                    return Ok(());
                }
                (Some(b'/'), Some(b'*')) => {
                    let inner = self.text.get(self.at + 2..).unwrap_or_default();
                    let end = memmem::find(inner, b"*/").ok_or_else(|| self.odd("an unclosed comment"))?;
                    if memmem::find(inner.get(..end).unwrap_or_default(), b"/*").is_some() {
                        return Err(self.odd("comments within comments"));
                    }
                    self.at += end + 4;
                }
                _ => self.at += 1,
            }
        }
    }
}
