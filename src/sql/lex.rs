//! Bytes to tokens, as the server's lexer cuts them (MySQL's sql/sql_lex.cc, `lex_one_token`; MariaDB's is its sibling).
//!
//! The lexer stands on bytes and never recurses. Where the servers' lexers do something surprising, or what they do
//! hangs on more than the text, it answers [`Odd`]: the statement is then nobody's to rewrite.

use memchr::{memchr, memchr2, memmem};

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
    /// A keyword or an unquoted name; which of both, the place tells.
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

    /// Whether it is this keyword (upper case), unquoted.
    pub fn is_word(self, text: &[u8], keyword: &str) -> bool {
        self.kind == TokenKind::Word && self.span.of(text).eq_ignore_ascii_case(keyword.as_bytes())
    }
}

/// What cannot be read for certain, at which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What a byte may begin.
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
        table[i] = match byte {
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
    pub(super) fn over(&self, span: Span) -> Lexer<'a> {
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

    /// The next token, unread.
    pub fn peek(&self) -> Result<Token, Odd> {
        self.clone().next()
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

    /// `_gbk'...'`: which character set cuts the string differs between servers.
    fn refuse_unsafe_introducer(&self, start: usize) -> Result<(), Odd> {
        let name = self.text.get(start + 1..self.at).unwrap_or_default();
        let is_unsafe =
            [&b"gbk"[..], b"gb18030", b"big5", b"sjis", b"cp932", b"ucs2", b"utf16", b"utf16le", b"utf32"];
        if is_unsafe.iter().any(|set| name.eq_ignore_ascii_case(set)) {
            return Err(self.odd("a string's character set"));
        }
        Ok(())
    }

    /// An unquoted name's bytes, from wherever it begins.
    fn name_bytes(&mut self) -> Result<TokenKind, Odd> {
        while let Some(byte) = self.byte(0) {
            match class(byte) {
                Class::Word if byte >= 0x80 => self.at += self.unquoted_char()?,
                Class::Word | Class::Digit => self.at += 1,
                _ => break,
            }
        }
        Ok(TokenKind::Word)
    }

    /// Outside of quotes a byte from 0x80 on may also be a blank or a sign, as the character set says.
    fn unquoted_char(&self) -> Result<usize, Odd> {
        let latin1_letter = |b: u8| b >= 0xC0 && b != 0xD7 && b != 0xF7;
        let len = match self.dialect.charset {
            ClientCharset::Utf8 => char_bytes(ClientCharset::Utf8, self.rest()).filter(|&len| len <= 3),
            ClientCharset::Latin1 => self.byte(0).filter(|&b| latin1_letter(b)).map(|_| 1),
            _ => None,
        };
        len.ok_or_else(|| self.odd("a name's character"))
    }

    fn quoted_digits(&mut self, kind: TokenKind, fits: impl Fn(&u8) -> bool) -> Result<TokenKind, Odd> {
        let digits = self.text.get(self.at + 2..).unwrap_or_default();
        let len = digits.iter().take_while(|b| fits(b)).count();
        if digits.get(len) != Some(&b'\'') || (kind == TokenKind::Hex && len % 2 != 0) {
            return Err(self.odd("a hexadecimal or binary string"));
        }
        self.at += len + 3;
        Ok(kind)
    }

    fn digits(&mut self) {
        while self.byte(0).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// A number, or a name that begins with digits. A number that runs into a name without a blank is odd: where the
    /// servers cut it is nobody's business here.
    fn number(&mut self) -> Result<TokenKind, Odd> {
        if self.byte(0) == Some(b'0') {
            let prefixed = match self.byte(1) {
                Some(b'x') => Some((TokenKind::Hex, u8::is_ascii_hexdigit as fn(&u8) -> bool)),
                Some(b'b') => Some((TokenKind::Bits, (|b| matches!(b, b'0' | b'1')) as fn(&u8) -> bool)),
                _ => None,
            };
            if let Some((kind, fits)) = prefixed {
                let digits = self.text.get(self.at + 2..).unwrap_or_default();
                let len = digits.iter().take_while(|b| fits(b)).count();
                if len > 0 && !digits.get(len).is_some_and(|&b| is_name_byte(b)) {
                    self.at += len + 2;
                    return Ok(kind);
                }
                return self.name_bytes();
            }
        }
        self.digits();
        match self.byte(0) {
            Some(b'.') => self.fraction(),
            Some(b'e' | b'E') => self.integer_with_exponent(),
            Some(byte) if is_name_byte(byte) => self.name_bytes(),
            _ => Ok(TokenKind::Integer),
        }
    }

    /// `1e5`, `1e+5`, or the name `1e`.
    fn integer_with_exponent(&mut self) -> Result<TokenKind, Odd> {
        let signed = matches!(self.byte(1), Some(b'+' | b'-'));
        if !self.byte(1 + usize::from(signed)).is_some_and(|b| b.is_ascii_digit()) {
            if signed {
                return Err(self.odd("a number's exponent"));
            }
            return self.name_bytes();
        }
        self.at += 2 + usize::from(signed);
        self.digits();
        self.number_ends(TokenKind::Float)
    }

    /// From the dot of `1.5`, `1.`, `.5`, `1.e5`.
    fn fraction(&mut self) -> Result<TokenKind, Odd> {
        self.at += 1;
        self.digits();
        if !matches!(self.byte(0), Some(b'e' | b'E')) {
            return self.number_ends(TokenKind::Decimal);
        }
        let signed = matches!(self.byte(1), Some(b'+' | b'-'));
        if !self.byte(1 + usize::from(signed)).is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.odd("a number's exponent"));
        }
        self.at += 2 + usize::from(signed);
        self.digits();
        self.number_ends(TokenKind::Float)
    }

    fn number_ends(&self, kind: TokenKind) -> Result<TokenKind, Odd> {
        match self.byte(0) {
            Some(b) if is_name_byte(b) || b == b'.' => Err(self.odd("a number that runs into a name")),
            _ => Ok(kind),
        }
    }

    fn quote(&mut self, quote: u8) -> Result<TokenKind, Odd> {
        let is_name = quote == b'`' || quote == b'"' && self.dialect.sql_mode.contains(SqlMode::ANSI_QUOTES);
        if is_name {
            self.quoted_name(quote)?;
            return Ok(TokenKind::QuotedName);
        }
        self.string(quote)?;
        Ok(TokenKind::String)
    }

    /// From the quote to behind its closing one; doubled quotes and escaped bytes are content.
    pub(super) fn string(&mut self, quote: u8) -> Result<(), Odd> {
        let opened = self.at;
        self.at += 1;
        if self.dialect.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES)
            && skips_bytewise(self.dialect.charset)
        {
            return self.string_without_escapes(quote, opened);
        }
        let bytewise = skips_bytewise(self.dialect.charset);
        loop {
            let found = if bytewise { memchr2(quote, b'\\', self.rest()) } else { self.sign_or_char(quote) };
            let Some(found) = found else {
                self.at = opened;
                return Err(self.odd("an unclosed string"));
            };
            self.at += found;
            match self.byte(0) {
                Some(byte) if byte == quote => {
                    self.at += 1;
                    if self.byte(0) != Some(quote) {
                        return Ok(());
                    }
                    self.at += 1;
                }
                Some(b'\\') if self.dialect.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES) => self.at += 1,
                Some(b'\\') => {
                    self.at += 1;
                    self.escaped()?;
                }
                _ => {
                    self.at += char_bytes(self.dialect.charset, self.rest())
                        .ok_or_else(|| self.odd("a character"))?
                }
            }
        }
    }

    /// The byte behind a backslash. Where it begins a character of several bytes, servers may skip the one or the other.
    fn escaped(&mut self) -> Result<(), Odd> {
        match self.byte(0) {
            Some(byte) if byte >= 0x80 && !skips_bytewise(self.dialect.charset) => {
                Err(self.odd("an escaped character"))
            }
            Some(_) => {
                self.at += 1;
                Ok(())
            }
            None => Err(self.odd("an unclosed string")),
        }
    }

    fn sign_or_char(&self, quote: u8) -> Option<usize> {
        self.rest().iter().position(|&b| b == quote || b == b'\\' || b >= 0x80)
    }

    fn string_without_escapes(&mut self, quote: u8, opened: usize) -> Result<(), Odd> {
        loop {
            let Some(found) = memchr(quote, self.rest()) else {
                self.at = opened;
                return Err(self.odd("an unclosed string"));
            };
            self.at += found + 1;
            if self.byte(0) != Some(quote) {
                return Ok(());
            }
            self.at += 1;
        }
    }

    fn quoted_name(&mut self, quote: u8) -> Result<(), Odd> {
        let opened = self.at;
        self.at += 1;
        loop {
            let Some(found) = memchr(quote, self.rest()) else {
                self.at = opened;
                return Err(self.odd("an unclosed name"));
            };
            self.at += found + 1;
            if self.byte(0) != Some(quote) {
                break;
            }
            self.at += 1;
        }
        let inner = self.text.get(opened + 1..self.at - 1).unwrap_or_default();
        let unreadable = inner.is_empty()
            || memchr(0, inner).is_some()
            || !(inner.is_ascii() || skips_bytewise(self.dialect.charset));
        if unreadable {
            return Err(self.odd("a quoted name"));
        }
        Ok(())
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
                return Err(self.odd("a comment's beginning"));
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
            b'?' if next.is_some_and(is_name_byte) => return Err(self.odd("a placeholder")),
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
            b'.' if next.is_some_and(|b| b.is_ascii_digit()) && !self.follows_name() => {
                return self.fraction().map(Some);
            }
            b'.' => {
                self.after_dot = next.is_some_and(is_name_byte);
                TokenKind::Punct(b'.')
            }
            b'@' if next.is_some_and(|b| b >= 0x80) => return Err(self.odd("a variable's name")),
            _ => TokenKind::Punct(byte),
        };
        self.at += 1;
        Ok(Some(kind))
    }

    /// Whether the byte in front belongs to a name: `t.1a` is a column, `.5` a number.
    fn follows_name(&self) -> bool {
        self.at.checked_sub(1).and_then(|at| self.text.get(at)).is_some_and(|&b| is_name_byte(b))
    }

    /// The server strips semicolons and blanks off a packet's end before it reads it: `1--;` ends in a comment.
    fn is_stripped_end(&self, ahead: usize) -> bool {
        let rest = self.rest().get(ahead..).unwrap_or_default();
        rest.first() == Some(&b';') && rest.iter().all(|&b| b == b';' || is_blank(b))
    }

    fn line_comment(&mut self) -> Result<(), Odd> {
        // The server's line comments end at a NUL byte too.
        match memchr2(b'\n', 0, self.rest()) {
            Some(found) if self.byte(found) == Some(0) => Err(self.odd("a NUL byte in a comment")),
            Some(found) => {
                self.at += found + 1;
                Ok(())
            }
            None => {
                self.at = self.text.len();
                Ok(())
            }
        }
    }

    fn comment(&mut self) -> Result<(), Odd> {
        let is_mariadb = self.dialect.is_mariadb();
        let (version_at, is_maria_only) = match (self.byte(2), self.byte(3)) {
            (Some(b'!'), _) => (3, false),
            (Some(b'M'), Some(b'!')) if is_mariadb => (4, true),
            _ => return self.plain_comment(),
        };
        if self.in_code_comment {
            return Err(self.odd("a version comment within another"));
        }
        let digits =
            |from: usize| self.rest().iter().skip(from).take(6).take_while(|b| b.is_ascii_digit()).count();
        let len = digits(version_at);
        if len < 5 {
            self.at += version_at;
            self.in_code_comment = true;
            return Ok(());
        }
        let number = self.rest().get(version_at..version_at + len).unwrap_or_default();
        let version = number.iter().fold(0u32, |sum, b| sum * 10 + u32::from(b - b'0'));
        if version == 99_997 && is_mariadb {
            return Err(self.odd("a comment for Galera"));
        }
        let known = version <= self.dialect.server.version;
        // MySQL takes six digits or five, as its release and the byte behind them say.
        if len == 6 && !is_mariadb && (known || version / 10 <= self.dialect.server.version) {
            return Err(self.odd("a version of six digits"));
        }
        if known && (!is_mariadb || is_maria_only || !(50_700..=99_999).contains(&version)) {
            self.at += version_at + len;
            self.in_code_comment = true;
            return Ok(());
        }
        self.skipped_code_comment()
    }

    fn plain_comment(&mut self) -> Result<(), Odd> {
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
    fn skipped_code_comment(&mut self) -> Result<(), Odd> {
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

    /// Moves behind the next `;` that is no part of a token, or to the end; says whether there was one.
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

    /// In single-byte character sets some bytes from 0x80 on are blanks or control characters.
    fn is_unclear_blank(&self, ahead: usize) -> bool {
        self.dialect.charset != ClientCharset::Utf8 && self.byte(ahead).is_some_and(|b| b >= 0x80)
    }
}

/// The text is shorter than 4 GiB: `Lexer::new` looked.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "lex_tests.rs"]
mod tests;
