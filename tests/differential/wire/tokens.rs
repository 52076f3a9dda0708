//! SQL cut into tokens, by a lexer of the judge's own.
//!
//! How a text is cut depends on sql_mode and character set, which are not followed here: [`READINGS`] are tried one by one,
//! and that one of them fits is enough. All but quotes, comments and words is one byte a token.

/// How a text may have to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Not under NO_BACKSLASH_ESCAPES.
    backslash: bool,
    /// Characters of two bytes, the second of which may look like anything: gbk, sjis and their like.
    pairs: bool,
}

pub(crate) const READINGS: [Reading; 4] = [
    Reading { backslash: true, pairs: false },
    Reading { backslash: false, pairs: false },
    Reading { backslash: true, pairs: true },
    Reading { backslash: false, pairs: true },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Space,
    Comment,
    /// Letters and digits: words and numbers.
    Word,
    /// In quotes or double quotes.
    Text,
    /// In backticks.
    Name,
    Punct,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) bytes: &'a [u8],
}

impl Token<'_> {
    pub(crate) fn is_word(self, word: &str) -> bool {
        self.kind == Kind::Word && self.bytes.eq_ignore_ascii_case(word.as_bytes())
    }

    pub(crate) fn is_punct(self, byte: u8) -> bool {
        self.kind == Kind::Punct && self.bytes == [byte]
    }

    /// A number written in digits.
    pub(crate) fn digits(self) -> Option<u64> {
        std::str::from_utf8(self.bytes).ok().filter(|_| self.kind == Kind::Word)?.parse().ok()
    }
}

impl Reading {
    pub(crate) fn tokens(self, text: &[u8]) -> Vec<Token<'_>> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let (kind, length) = self.first(rest);
            tokens.push(Token { kind, bytes: &rest[..length.clamp(1, rest.len())] });
            at += length.max(1);
        }
        tokens
    }

    fn first(self, text: &[u8]) -> (Kind, usize) {
        let until = |end: &[u8]| {
            let found = text.windows(end.len()).skip(2).position(|window| window == end);
            found.map_or(text.len(), |at| at + 2 + end.len())
        };
        match text {
            [quote @ (b'\'' | b'"'), ..] => (Kind::Text, self.quoted(text, *quote, self.backslash)),
            [b'`', ..] => (Kind::Name, self.quoted(text, b'`', false)),
            // The code in a version comment is code, but for versions that are yet to come.
            [b'/', b'*', b'!', b'9', b'9', b'9', b'9', b'9', b'9', ..] => (Kind::Comment, until(b"*/")),
            [b'/', b'*', b'!', ..] => (Kind::Punct, 3),
            [b'/', b'*', b'M', b'!', ..] => (Kind::Punct, 4),
            [b'/', b'*', ..] => (Kind::Comment, until(b"*/")),
            [b'#', ..] => (Kind::Comment, line(text)),
            [b'-', b'-', next, ..] if next.is_ascii_whitespace() || next.is_ascii_control() => {
                (Kind::Comment, line(text))
            }
            [first, ..] if first.is_ascii_whitespace() => {
                (Kind::Space, text.iter().take_while(|byte| byte.is_ascii_whitespace()).count())
            }
            [first, ..] if is_word_byte(*first) => {
                let mut at = 0;
                while at < text.len() && is_word_byte(text[at]) {
                    at += self.character(&text[at..]);
                }
                (Kind::Word, at)
            }
            _ => (Kind::Punct, 1),
        }
    }

    /// How long the first character is.
    fn character(self, text: &[u8]) -> usize {
        if self.pairs && text[0] > 0x80 && text.get(1).is_some_and(|second| *second >= 0x40) { 2 } else { 1 }
    }

    fn quoted(self, text: &[u8], quote: u8, backslash: bool) -> usize {
        let mut at = 1;
        while at < text.len() {
            match text[at] {
                b'\\' if backslash => at += 2,
                byte if byte == quote && text.get(at + 1) == Some(&quote) => at += 2,
                byte if byte == quote => return at + 1,
                _ => at += self.character(&text[at..]),
            }
        }
        text.len()
    }

    /// The text inside a quoted token.
    pub(crate) fn unquoted(self, token: Token<'_>) -> Vec<u8> {
        let quote = token.bytes[0];
        let inside = token.bytes[1..].strip_suffix(&[quote]).unwrap_or_default();
        let mut out = Vec::new();
        let mut at = 0;
        while at < inside.len() {
            match (inside[at], inside.get(at + 1)) {
                (b'\\', Some(next)) if self.backslash && token.kind == Kind::Text => {
                    out.push(match next {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'0' => 0,
                        b'b' => 8,
                        b'Z' => 26,
                        other => *other,
                    });
                    at += 2;
                }
                (byte, Some(next)) if byte == quote && *next == quote => {
                    out.push(quote);
                    at += 2;
                }
                _ => {
                    let length = self.character(&inside[at..]);
                    out.extend_from_slice(&inside[at..at + length]);
                    at += length;
                }
            }
        }
        out
    }
}

fn line(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[test]
fn texts_are_cut() {
    let cut = |reading: usize, text: &[u8]| {
        let tokens = READINGS[reading].tokens(text);
        tokens.iter().map(|token| String::from_utf8_lossy(token.bytes).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(cut(0, b"a1,'it''s\\''`x``y`"), ["a1", ",", "'it''s\\''", "`x``y`"]);
    assert_eq!(cut(1, b"'\\' b"), ["'\\'", " ", "b"]);
    assert_eq!(cut(2, b"'\xbf\\'x").len(), 2, "the second byte of a character escapes nothing");
    assert_eq!(
        cut(0, b"/*,*/ /*!1,2*/--1-- 1"),
        ["/*,*/", " ", "/*!", "1", ",", "2", "*", "/", "-", "-", "1", "-- 1"]
    );
    let inside = |text: &[u8]| READINGS[0].unquoted(READINGS[0].tokens(text)[0]);
    assert_eq!(inside(b"'a''b\\n\"'"), b"a'b\n\"");
}
