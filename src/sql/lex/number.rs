//! Numbers, and names that begin with digits.

use super::{Lexer, Odd, TokenKind, is_name_byte};

impl Lexer<'_> {
    pub(super) fn digits(&mut self) {
        while self.byte(0).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// A number, or a name that begins with digits. A number that runs into a name without a blank is odd: where the
    /// servers cut it is nobody's business here.
    pub(super) fn number(&mut self) -> Result<TokenKind, Odd> {
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
            Some(b'.') if self.is_dot_dot() => Ok(TokenKind::Integer),
            Some(b'.') => self.fraction(),
            Some(b'e' | b'E') => self.exponent(true),
            Some(byte) if is_name_byte(byte) => self.name_bytes(),
            _ => Ok(TokenKind::Integer),
        }
    }

    /// From the `e` of `1e5`, `1.5e+5`. `may_be_name`: `1e` without digits after it is one.
    fn exponent(&mut self, may_be_name: bool) -> Result<TokenKind, Odd> {
        let signed = matches!(self.byte(1), Some(b'+' | b'-'));
        if !self.byte(1 + usize::from(signed)).is_some_and(|b| b.is_ascii_digit()) {
            if signed || !may_be_name {
                return Err(self.odd("a number's exponent"));
            }
            return self.name_bytes();
        }
        self.at += 2 + usize::from(signed);
        self.digits();
        self.number_ends(TokenKind::Float)
    }

    /// From the dot of `1.5`, `1.`, `.5`, `1.e5`.
    pub(super) fn fraction(&mut self) -> Result<TokenKind, Odd> {
        self.at += 1;
        self.digits();
        match self.byte(0) {
            Some(b'e' | b'E') => self.exponent(false),
            _ => self.number_ends(TokenKind::Decimal),
        }
    }

    pub(super) fn number_ends(&self, kind: TokenKind) -> Result<TokenKind, Odd> {
        match self.byte(0) {
            Some(b) if is_name_byte(b) || b == b'.' && !self.is_dot_dot() => {
                Err(self.odd("a number that runs into a name"))
            }
            _ => Ok(kind),
        }
    }
}
