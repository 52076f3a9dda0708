//! Bytes to tokens, as the server's lexer cuts them (MySQL's sql/sql_lex.cc, `lex_one_token`; MariaDB's is its sibling).
//!
//! The lexer stands on bytes and never recurses. Where the servers' lexers do something surprising, or what they do
//! depends on more than the text, it answers [`Odd`]: the statement is then nobody's to rewrite.

mod comment;
mod number;
mod quoted;

use memchr::memchr;

use super::charset::{char_bytes, skips_bytewise};
use super::dialect::{ClientCharset, Dialect, ServerKind, SqlMode};

/// Byte offsets into the text; statements are shorter than 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Empty where the span does not lie inside the text.
    pub fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or an unquoted name. Its place in the statement decides which.
    Word,
    /// In backticks, or in double quotes under ANSI_QUOTES.
    QuotedName,
    String,
    /// `N'...'`
    NationalString,
    Integer,
    Decimal,
    /// With an exponent.
    Float,
    /// `0x1F`, `x'1F'`
    Hex,
    /// `0b1`, `b'1'`
    Bits,
    /// `?`
    Placeholder,
    /// `:=`
    Assign,
    /// MariaDB's `\N`.
    BackslashN,
    /// MariaDB's `..` between the bounds of a FOR.
    DotDot,
    /// One byte that stands for itself.
    Punct(u8),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub span: Span,
}

impl Token {
    pub fn is_punct(self, byte: u8) -> bool {
        self.kind == TokenKind::Punct(byte)
    }

    /// A `;`, or the end of the text.
    pub fn ends_statement(self) -> bool {
        matches!(self.kind, TokenKind::End | TokenKind::Punct(b';'))
    }

    /// `=` or `:=`
    pub fn is_assignment(self) -> bool {
        matches!(self.kind, TokenKind::Assign | TokenKind::Punct(b'='))
    }

    /// True if the token is this keyword (upper case), unquoted.
    #[inline]
    pub fn is_word(self, text: &[u8], keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.span.of(text).eq_ignore_ascii_case(keyword.as_bytes())
    }
}

/// A part of the text that cannot be read for certain, and the byte where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct Odd {
    pub at: u32,
    pub what: &'static str,
}

/// A cursor over the statements of one packet.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
    /// Inside `/*! ... */` whose content is code here.
    in_code_comment: bool,
    /// The last token was a dot that glues a name to what precedes it: a keyword may follow as a name.
    after_dot: bool,
    /// `?` read so far.
    params: u32,
    /// The last `/*+ ... */` read.
    hint: Option<Span>,
}

/// The kind of token that a byte may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Blank,
    Word,
    Digit,
    Quote,
    Punct,
    Odd,
}

static CLASSES: [Class; 256] = {
    let mut table = [Class::Odd; 256];
    let mut i = 0;
    while i < 256 {
        // `i` is below 256.
        #[allow(clippy::cast_possible_truncation)]
        let byte = i as u8;
        #[allow(clippy::indexing_slicing)]
        let class = &mut table[i];
        *class = match byte {
            b' ' | b'\t'..=b'\r' => Class::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xFF => Class::Word,
            b'0'..=b'9' => Class::Digit,
            b'\'' | b'"' | b'`' => Class::Quote,
            0..=0x1F | 0x7F | b'[' | b']' => Class::Odd,
            _ => Class::Punct,
        };
        i += 1;
    }
    table
};

fn class(byte: u8) -> Class {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(Class::Odd)
}

pub(super) fn is_blank(byte: u8) -> bool {
    class(byte) == Class::Blank
}

/// Bytes of an unquoted name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    matches!(class(byte), Class::Word | Class::Digit)
}

impl<'a> Lexer<'a> {
    /// `None` for a text of 4 GiB or more.
    pub fn new(text: &'a [u8], dialect: Dialect) -> Option<Self> {
        u32::try_from(text.len()).ok()?;
        Some(Lexer { text, at: 0, dialect, in_code_comment: false, after_dot: false, params: 0, hint: None })
    }

    /// Reads what lies in `span`, which holds whole tokens, and then the end.
    pub(crate) fn over(&self, span: Span) -> Lexer<'a> {
        let text = self.text.get(..span.end as usize).unwrap_or_default();
        Lexer { text, at: span.start as usize, in_code_comment: false, after_dot: false, params: 0, ..*self }
    }

    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The statements that follow are read in this dialect.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    pub fn position(&self) -> u32 {
        offset(self.at)
    }

    pub fn params(&self) -> u32 {
        self.params
    }

    pub fn reset_params(&mut self) {
        self.params = 0;
        self.hint = None;
    }

    /// The last optimizer hint comment since the statement began.
    pub fn hint(&self) -> Option<Span> {
        self.hint
    }

    pub fn is_word(&self, token: Token, keyword: &str) -> bool {
        token.is_word(self.text, keyword)
    }

    pub fn is_any_word(&self, token: Token, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.is_word(token, keyword))
    }

    /// The next token, unread.
    pub fn peek(&self) -> Result<Token, Odd> {
        self.clone().next()
    }

    /// Past the next token outside of parentheses that `ends` it, or at the end; that token.
    pub(crate) fn skip_to(&mut self, ends: impl Fn(&Self, Token) -> bool) -> Result<Token, Odd> {
        let mut depth = 0u32;
        loop {
            let token = self.next()?;
            match token.kind {
                kind if kind == TokenKind::End || depth == 0 && ends(self, token) => return Ok(token),
                TokenKind::Punct(b'(') => depth += 1,
                TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    pub fn eat_punct(&mut self, byte: u8) -> Result<bool, Odd> {
        self.eat(|token, _| token.is_punct(byte))
    }

    pub fn eat_word(&mut self, keyword: &str) -> Result<bool, Odd> {
        self.eat(|token, text| token.is_word(text, keyword))
    }

    fn eat(&mut self, fits: impl Fn(Token, &[u8]) -> bool) -> Result<bool, Odd> {
        let mut ahead = self.clone();
        let token = ahead.next()?;
        let is_it = fits(token, self.text);
        if is_it {
            *self = ahead;
        }
        Ok(is_it)
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn odd(&self, what: &'static str) -> Odd {
        Odd { at: offset(self.at), what }
    }

    /// Reads one token; at the end, and again after it, [`TokenKind::End`].
    #[allow(clippy::should_implement_trait)] // An iterator would hide the errors behind an Option.
    pub fn next(&mut self) -> Result<Token, Odd> {
        let after_dot = std::mem::take(&mut self.after_dot);
        loop {
            let Some(byte) = self.byte(0) else {
                if self.in_code_comment {
                    return Err(self.odd("an unclosed comment"));
                }
                let end = offset(self.at);
                return Ok(Token { kind: TokenKind::End, span: Span { start: end, end } });
            };
            let start = self.at;
            let kind = match class(byte) {
                Class::Blank => {
                    self.at += 1;
                    continue;
                }
                Class::Word => self.word(byte, after_dot && start > 0)?,
                Class::Digit if after_dot => self.name_bytes()?,
                Class::Digit => self.number()?,
                Class::Quote => self.quote(byte)?,
                Class::Punct => match self.punct(byte)? {
                    Some(kind) => kind,
                    None => continue,
                },
                Class::Odd => return Err(self.odd("a control character")),
            };
            return Ok(Token { kind, span: Span { start: offset(start), end: offset(self.at) } });
        }
    }

    fn word(&mut self, first: u8, after_dot: bool) -> Result<TokenKind, Odd> {
        if !after_dot && self.byte(1) == Some(b'\'') {
            match first {
                b'x' | b'X' => return self.quoted_digits(TokenKind::Hex, u8::is_ascii_hexdigit),
                b'b' | b'B' => return self.quoted_digits(TokenKind::Bits, |b| matches!(b, b'0' | b'1')),
                b'n' | b'N' => {
                    self.at += 1;
                    self.string(b'\'')?;
                    return Ok(TokenKind::NationalString);
                }
                _ => {}
            }
        }
        if first == b'$' && self.dialect.server.kind == ServerKind::MySql {
            // $$...$$ is a string in MySQL 9, and names that begin so are deprecated.
            return Err(self.odd("a name that begins with a dollar sign"));
        }
        let start = self.at;
        let kind = self.name_bytes()?;
        if first == b'_' {
            self.refuse_unsafe_introducer(start)?;
        }
        Ok(kind)
    }

    /// An unquoted name's bytes, from wherever it begins.
    fn name_bytes(&mut self) -> Result<TokenKind, Odd> {
        loop {
            self.at += self.rest().iter().take_while(|&&byte| byte < 0x80 && is_name_byte(byte)).count();
            if self.byte(0).is_none_or(|byte| byte < 0x80) {
                return Ok(TokenKind::Word);
            }
            self.at += self.unquoted_char()?;
        }
    }

    /// Outside of quotes a byte from 0x80 on may also be a blank or a sign, as the character set says.
    fn unquoted_char(&self) -> Result<usize, Odd> {
        let len = match self.dialect.charset {
            ClientCharset::Utf8 => char_bytes(ClientCharset::Utf8, self.rest()).filter(|&len| len <= 3),
            other => {
                other.letters().zip(self.byte(0)).and_then(|(letters, byte)| letters.letter(byte)).map(|_| 1)
            }
        };
        len.ok_or_else(|| self.odd("a character of a name"))
    }

    /// `None`: it was a comment.
    fn punct(&mut self, byte: u8) -> Result<Option<TokenKind>, Odd> {
        let next = self.byte(1);
        let kind = match byte {
            b'#' => {
                self.line_comment()?;
                return Ok(None);
            }
            b'-' if next == Some(b'-') && (self.is_unclear_blank(2) || self.is_stripped_end(2)) => {
                return Err(self.odd("the beginning of a comment"));
            }
            b'-' if next == Some(b'-') && self.byte(2).is_none_or(|b| b <= b' ' || b == 0x7F) => {
                self.line_comment()?;
                return Ok(None);
            }
            b'/' if next == Some(b'*') => {
                self.comment()?;
                return Ok(None);
            }
            b'*' if next == Some(b'/') && self.in_code_comment => {
                self.at += 2;
                self.in_code_comment = false;
                return Ok(None);
            }
            b'?' if next.is_some_and(is_name_byte) => return Err(self.odd("a ? directly in front of a name")),
            b'?' => {
                self.params = self.params.saturating_add(1);
                TokenKind::Placeholder
            }
            b':' if next == Some(b'=') => {
                self.at += 1;
                TokenKind::Assign
            }
            b':' if self.dialect.sql_mode.contains(SqlMode::ORACLE) => {
                return Err(self.odd("a named placeholder"));
            }
            b'\\' if next == Some(b'N') && self.dialect.is_mariadb() => {
                self.at += 1;
                TokenKind::BackslashN
            }
            b'\\' => return Err(self.odd("a backslash")),
            b'.' if self.is_dot_dot() => {
                self.at += 1;
                TokenKind::DotDot
            }
            b'.' if next.is_some_and(|b| b.is_ascii_digit()) && !self.follows_name() => {
                return self.fraction().map(Some);
            }
            b'.' => {
                self.after_dot = next.is_some_and(is_name_byte);
                TokenKind::Punct(b'.')
            }
            b'@' if next.is_some_and(|b| b >= 0x80) => return Err(self.odd("the name of a variable")),
            _ => TokenKind::Punct(byte),
        };
        self.at += 1;
        Ok(Some(kind))
    }

    /// True if the byte in front belongs to a name: `t.1a` is a column, `.5` a number.
    fn follows_name(&self) -> bool {
        self.at.checked_sub(1).and_then(|at| self.text.get(at)).is_some_and(|&b| is_name_byte(b))
    }

    /// MariaDB's lexer has a token of two dots, which ends a number in front of it: `1..2` is 1 to 2, `1...2` is 1 to 0.2.
    fn is_dot_dot(&self) -> bool {
        self.dialect.is_mariadb() && self.rest().starts_with(b"..")
    }

    /// The next byte that is no blank, unread.
    pub(super) fn peek_byte(&self) -> Option<u8> {
        self.rest().iter().copied().find(|&byte| !is_blank(byte))
    }

    fn skip_blanks(&mut self) {
        while self.byte(0).is_some_and(is_blank) {
            self.at += 1;
        }
    }

    /// Reads this sign, if it is what follows. A comment in front of it is not looked through.
    pub(super) fn eat_plain(&mut self, sign: u8) -> bool {
        let before = self.at;
        self.skip_blanks();
        let found = self.byte(0) == Some(sign);
        self.at = if found { self.at + 1 } else { before };
        found
    }

    /// The short way through most values of most INSERTs: a plain number, string, `?`, NULL, or a call without arguments
    /// of a function that `is_quiet`, and the `,` or `)` after it.
    /// Returns that sign; `None`, and nothing read, where it is anything else.
    pub(super) fn eat_constant(&mut self, is_quiet: fn(&[u8]) -> bool) -> Option<u8> {
        let start = self.at;
        let sign = self.try_constant(is_quiet);
        if sign.is_none() {
            self.at = start;
        }
        sign
    }

    fn try_constant(&mut self, is_quiet: fn(&[u8]) -> bool) -> Option<u8> {
        self.skip_blanks();
        let mut params = 0;
        match self.byte(0)? {
            b'0'..=b'9' => self.digits(),
            b'\'' if skips_bytewise(self.dialect.charset) => self.string(b'\'').ok()?,
            b'?' => {
                self.at += 1;
                params = 1;
            }
            b'a'..=b'z' | b'A'..=b'Z' => self.plain_call(is_quiet)?,
            _ => return None,
        }
        self.skip_blanks();
        let sign = self.byte(0).filter(|&byte| byte == b',' || byte == b')')?;
        self.at += 1;
        self.params = self.params.saturating_add(params);
        Some(sign)
    }

    /// NULL, or `name()`.
    fn plain_call(&mut self, is_quiet: fn(&[u8]) -> bool) -> Option<()> {
        let rest = self.rest();
        let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let word = rest.get(..len)?;
        self.at += len;
        if word.eq_ignore_ascii_case(b"NULL") {
            return Some(());
        }
        (self.eat_plain(b'(') && self.eat_plain(b')') && is_quiet(word)).then_some(())
    }

    /// Moves after the next `;` that is no part of a token, or to the end; says whether there was one.
    pub fn skip_statement(&mut self) -> Result<bool, Odd> {
        if memchr(b';', self.rest()).is_none() {
            self.at = self.text.len();
            self.in_code_comment = false;
            return Ok(false);
        }
        loop {
            match self.next()?.kind {
                TokenKind::Punct(b';') => return Ok(true),
                TokenKind::End => return Ok(false),
                _ => {}
            }
        }
    }
}

/// The text is shorter than 4 GiB: `Lexer::new` looked.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "lex_tests.rs"]
mod tests;
