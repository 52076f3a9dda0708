//! Names of schemas, tables and columns: read, compared, quoted.

use std::borrow::Cow;

use super::dialect::{ClientCharset, Dialect};
use super::lex::{Lexer, Odd, Token, TokenKind};

/// The name that a token spells, or `None` where it is no name or its bytes cannot be read in this
/// character set.
pub fn decode(text: &[u8], token: Token, charset: ClientCharset) -> Option<Cow<'_, str>> {
    let bytes = token.span.of(text);
    match token.kind {
        TokenKind::Word => to_str(bytes, charset),
        TokenKind::QuotedName => {
            let (&quote, inner) = bytes.split_first()?;
            let (_, inner) = inner.split_last()?;
            if memchr::memchr(quote, inner).is_none() {
                return to_str(inner, charset);
            }
            let doubled = [char::from(quote), char::from(quote)].iter().collect::<String>();
            let one = char::from(quote).to_string();
            to_str(inner, charset).map(|name| Cow::Owned(name.replace(&doubled, &one)))
        }
        _ => None,
    }
}

fn to_str(bytes: &[u8], charset: ClientCharset) -> Option<Cow<'_, str>> {
    if charset == ClientCharset::Utf8 || bytes.is_ascii() {
        return std::str::from_utf8(bytes).ok().map(Cow::Borrowed);
    }
    if let ClientCharset::OneByte(letters) = charset {
        return letters.decode(bytes);
    }
    // From 0xA0 on, latin1 (the server's is cp1252) is Unicode's own order.
    (charset == ClientCharset::Latin1 && bytes.iter().all(|&b| !(0x80..0xA0).contains(&b)))
        .then(|| Cow::Owned(bytes.iter().map(|&b| char::from(b)).collect()))
}

/// True if two column names are the same to the server: letter case does not count.
pub fn same_column(a: &str, b: &str) -> bool {
    // The same bytes, nearly always.
    a == b
        || if a.is_ascii() && b.is_ascii() {
            a.eq_ignore_ascii_case(b)
        } else {
            a.chars().flat_map(fold).eq(b.chars().flat_map(fold))
        }
}

/// True if a token names this column. `None` if [`decode`] gives `None`.
pub fn names_column(text: &[u8], token: Token, charset: ClientCharset, column: &str) -> Option<bool> {
    let bytes = token.span.of(text);
    if token.kind == TokenKind::Word && bytes.is_ascii() && column.is_ascii() {
        return Some(bytes == column.as_bytes() || bytes.eq_ignore_ascii_case(column.as_bytes()));
    }
    decode(text, token, charset).map(|name| same_column(&name, column))
}

/// The server folds one character to one; Rust makes two of U+0130.
fn fold(c: char) -> impl Iterator<Item = char> {
    let c = if c == '\u{130}' { 'i' } else { c };
    c.to_lowercase()
}

/// `` `name` ``, backticks doubled.
pub fn quoted(name: &str) -> String {
    let mut out = Vec::with_capacity(name.len() + 2);
    put_quoted(&mut out, name);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a name as [`quoted`] writes it.
pub fn put_quoted(out: &mut Vec<u8>, name: &str) {
    put_quoted_bytes(out, name.as_bytes());
}

/// Appends a name as [`put_quoted`] does, in a character set that has no other byte like a backtick.
pub fn put_quoted_bytes(out: &mut Vec<u8>, name: &[u8]) {
    out.push(b'`');
    for &byte in name {
        if byte == b'`' {
            out.push(b'`');
        }
        out.push(byte);
    }
    out.push(b'`');
}

/// A name, and in front of it the names that qualify it: `schema.table.column`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    pub last: Token,
    pub qualifier: Option<Token>,
    /// Three parts or more.
    pub deep: bool,
}

/// Reads `name`, `name.name` or deeper, where `first` has been read.
pub(crate) fn path(lexer: &mut Lexer<'_>, first: Token) -> Result<Option<Path>, super::lex::Odd> {
    if !is_name(first) {
        return Ok(None);
    }
    let mut path = Path { last: first, qualifier: None, deep: false };
    // A comment or its end may stand before the dot; what else follows most names is not read
    // twice.
    if !matches!(lexer.peek_byte(), Some(b'.' | b'/' | b'-' | b'#' | b'*')) {
        return Ok(Some(path));
    }
    while lexer.eat_punct(b'.')? {
        let next = lexer.next()?;
        if !is_name(next) {
            return Ok(None);
        }
        path = Path { last: next, qualifier: Some(path.last), deep: path.qualifier.is_some() };
    }
    Ok(Some(path))
}

/// Reads a table's name as [`path`] does: at most a schema stands before it.
pub(super) fn table(lexer: &mut Lexer<'_>, first: Token) -> Result<Option<Path>, super::lex::Odd> {
    Ok(path(lexer, first)?.filter(|path| !path.deep))
}

/// After an opening parenthesis: names with commas between, to the closing one. `None`: something else.
pub(super) fn list_end(lexer: &mut Lexer<'_>) -> Result<Option<Token>, Odd> {
    loop {
        if !is_name(lexer.next()?) {
            return Ok(None);
        }
        let next = lexer.next()?;
        if !next.is_punct(b',') {
            return Ok(Some(next).filter(|next| next.is_punct(b')')));
        }
    }
}

/// Gives every word and quoted name of a text, each with what stands before its dot. Words of the language are
/// among them.
pub(crate) fn each_name(
    text: &[u8],
    dialect: Dialect,
    mut give: impl FnMut(Option<&str>, &str),
) -> Result<(), Odd> {
    let odd = |what| Odd { at: 0, what };
    let mut lexer = Lexer::new(text, dialect).ok_or(odd("a text of 4 GiB or more"))?;
    // The last name, and whether a dot came after it.
    let mut before: Option<(Cow<'_, str>, bool)> = None;
    loop {
        let token = lexer.next()?;
        if token.kind == TokenKind::End {
            return Ok(());
        }
        before = if is_name(token) {
            let name =
                decode(text, token, dialect.charset).ok_or(odd("a name in an unknown character set"))?;
            let qualifier = before.as_ref().filter(|(_, has_dot)| *has_dot).map(|(name, _)| &**name);
            give(qualifier, &name);
            Some((name, false))
        } else {
            before.filter(|_| token.is_punct(b'.')).map(|(name, _)| (name, true))
        };
    }
}

pub(crate) fn is_name(token: Token) -> bool {
    matches!(token.kind, TokenKind::Word | TokenKind::QuotedName)
}

/// True if a reserved word is a name because of the sign before it: `t.on`, `@on`. With a space between, it is not;
/// and to MySQL a lone `@` is a variable of its own.
pub(super) fn is_glued(before: Token, word: Token) -> bool {
    (before.is_punct(b'.') || before.is_punct(b'@')) && before.span.end == word.span.start
}

#[cfg(test)]
mod tests {
    use super::{Dialect, each_name};
    use crate::sql::dialect::SqlMode;

    #[test]
    fn each_name_of_a_text() {
        let dialect = |mode| Dialect { sql_mode: SqlMode::parse(mode), ..Dialect::MARIADB };
        for (mode, text, expect) in [
            ("", "a.b", "a a.b"),
            ("", "`a` . /* c */ `b c`.d x", "a a.b c b c.d x"),
            ("", "a, b 'c.d' \"e\" -- f\n g", "a b g"),
            ("ANSI_QUOTES", "\"e\".f", "e e.f"),
            ("", "a;b./*!c*/", "a b b.c"),
            ("", "1 .a", "a"),
            ("", "a '", "?"),
        ] {
            let mut names = Vec::new();
            let read = each_name(text.as_bytes(), dialect(mode), |qualifier, name| {
                names.push(qualifier.map_or(name.to_owned(), |qualifier| format!("{qualifier}.{name}")));
            });
            let found = if read.is_ok() { names.join(" ") } else { "?".to_owned() };
            assert_eq!(found, expect, "{text}");
        }
    }
}
