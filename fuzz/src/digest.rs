//! Digests: what they may hold, and that they hold no literal, since the same statement with other literals has the same one.

use rowstamp::sql::dialect::Dialect;
use rowstamp::sql::digest::{CUT, TEXT_BYTES_MAX, digest};
use rowstamp::sql::lex::{Lexer, Token, TokenKind};

use crate::input::{self, Input};

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let dialect = input::dialect(&mut input);
    let text = input.rest();
    let found = digest(text, &dialect);
    assert!(found.text.len() <= TEXT_BYTES_MAX + CUT.len(), "{}", found.text.len());
    assert!(!found.text.chars().any(char::is_control), "{:?}", found.text);
    if found.is_unreadable() {
        assert_eq!(found.text, "");
        return;
    }
    assert!(found.hash.len() == 16 && found.hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if let Some(other) = with_other_literals(text, dialect) {
        assert_eq!(digest(&other, &dialect), found, "{}", other.escape_ascii());
    }
}

/// `None`: there are several statements, and how the second is read hangs on the literals of the first.
fn with_other_literals(text: &[u8], dialect: Dialect) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(text, dialect)?;
    let (mut other, mut end) = (Vec::new(), 0);
    loop {
        let token = lexer.next().ok()?;
        let span = token.span.range();
        other.extend_from_slice(&text[end..span.start]);
        end = span.end;
        match token.kind {
            TokenKind::End => return Some(other),
            TokenKind::Punct(b';') => return None,
            _ => other.extend(literal(token, token.span.of(text))),
        }
    }
}

/// Another literal of its kind, of the same length where it is a number: `/*!` followed by five digits is a version.
fn literal(token: Token, bytes: &[u8]) -> Vec<u8> {
    let digits = |from: usize, other: fn(u8) -> u8| {
        let (kept, rest) = bytes.split_at(from.min(bytes.len()));
        kept.iter().copied().chain(rest.iter().map(|&byte| other(byte))).collect()
    };
    match token.kind {
        TokenKind::String => [&bytes[..1], b"other", &bytes[..1]].concat(),
        TokenKind::NationalString => [&bytes[..2], b"other'"].concat(),
        TokenKind::Integer | TokenKind::Decimal | TokenKind::Float => {
            digits(0, |byte| if byte.is_ascii_digit() { b'1' + (byte - b'0' + 1) % 9 } else { byte })
        }
        TokenKind::Hex => digits(2, |byte| if byte == b'\'' || byte == b'7' { byte } else { b'7' }),
        TokenKind::Bits => digits(2, |byte| if byte == b'0' || byte == b'1' { byte ^ 1 } else { byte }),
        _ => bytes.to_vec(),
    }
}
