//! Strings and quoted names.

use memchr::{memchr, memchr2};

use super::{Lexer, Odd, SqlMode, TokenKind};
use crate::sql::charset::{char_bytes, skips_bytewise};

impl Lexer<'_> {
    pub(super) fn quoted_digits(
        &mut self,
        kind: TokenKind,
        fits: impl Fn(&u8) -> bool,
    ) -> Result<TokenKind, Odd> {
        let digits = self.text.get(self.at + 2..).unwrap_or_default();
        let len = digits.iter().take_while(|b| fits(b)).count();
        if digits.get(len) != Some(&b'\'') || (kind == TokenKind::Hex && len % 2 != 0) {
            return Err(self.odd("a hexadecimal or binary string"));
        }
        self.at += len + 3;
        Ok(kind)
    }

    /// `_gbk'...'`: which character set cuts the string differs between servers. Digits, as in `_utf16
    /// 0xAC00`, are cut alike by all; and ASCII is by those in which it is never the first byte of two.
    pub(super) fn refuse_unsafe_introducer(&self, start: usize) -> Result<(), Odd> {
        let name = self.text.get(start + 1..self.at).unwrap_or_default();
        let is_of = |sets: &[&[u8]]| sets.iter().any(|set| name.eq_ignore_ascii_case(set));
        let of_two_bytes = is_of(&[b"gbk", b"gb18030", b"big5", b"sjis", b"cp932"]);
        if !of_two_bytes && !is_of(&[b"ucs2", b"utf16", b"utf16le", b"utf32"]) {
            return Ok(());
        }
        let is_cut_alike = match self.rest().trim_ascii_start() {
            [b'0', b'x' | b'b', ..] | [b'x' | b'X' | b'b' | b'B', b'\'', ..] => true,
            [b'\'', string @ ..] if of_two_bytes => {
                let end = string.iter().position(|byte| !byte.is_ascii() || matches!(byte, b'\'' | b'\\'));
                end.is_some_and(|end| string.get(end) == Some(&b'\'') && string.get(end + 1) != Some(&b'\''))
            }
            _ => false,
        };
        if is_cut_alike { Ok(()) } else { Err(self.odd("a string's character set")) }
    }

    pub(super) fn quote(&mut self, quote: u8) -> Result<TokenKind, Odd> {
        let is_name = quote == b'`' || quote == b'"' && self.dialect.sql_mode.contains(SqlMode::ANSI_QUOTES);
        if is_name {
            self.quoted_name(quote)?;
            return Ok(TokenKind::QuotedName);
        }
        self.string(quote)?;
        Ok(TokenKind::String)
    }

    /// From the quote to after its closing one; doubled quotes and escaped bytes are content.
    pub(super) fn string(&mut self, quote: u8) -> Result<(), Odd> {
        let bytewise = skips_bytewise(self.dialect.charset);
        if bytewise && self.dialect.sql_mode.contains(SqlMode::NO_BACKSLASH_ESCAPES) {
            return self.unescaped(quote, "an unclosed string");
        }
        let sign_or_char = |&b: &u8| b == quote || b == b'\\' || b >= 0x80;
        let opened = self.at;
        self.at += 1;
        loop {
            let found = if bytewise {
                memchr2(quote, b'\\', self.rest())
            } else {
                self.rest().iter().position(sign_or_char)
            };
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
                    let len = char_bytes(self.dialect.charset, self.rest());
                    self.at += len.ok_or_else(|| self.odd("a character"))?;
                }
            }
        }
    }

    /// The byte after a backslash. Where it begins a character of several bytes, servers may skip the one or the other.
    pub(super) fn escaped(&mut self) -> Result<(), Odd> {
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

    /// From the quote to after its closing one. A doubled quote is content, and nothing escapes.
    fn unescaped(&mut self, quote: u8, unclosed: &'static str) -> Result<(), Odd> {
        let opened = self.at;
        self.at += 1;
        loop {
            let Some(found) = memchr(quote, self.rest()) else {
                self.at = opened;
                return Err(self.odd(unclosed));
            };
            self.at += found + 1;
            if self.byte(0) != Some(quote) {
                return Ok(());
            }
            self.at += 1;
        }
    }

    pub(super) fn quoted_name(&mut self, quote: u8) -> Result<(), Odd> {
        let opened = self.at;
        self.unescaped(quote, "an unclosed name")?;
        let inner = self.text.get(opened + 1..self.at - 1).unwrap_or_default();
        let unreadable =
            memchr(0, inner).is_some() || !(inner.is_ascii() || skips_bytewise(self.dialect.charset));
        if unreadable {
            return Err(self.odd("a quoted name"));
        }
        Ok(())
    }
}
