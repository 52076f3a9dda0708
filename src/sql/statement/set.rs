//! SET: the variables that decide how what follows is read.

use crate::sql::dialect::{ClientCharset, SqlMode};
use crate::sql::insert::expression::{self, Ends, Scope};
use crate::sql::lex::{Lexer, Odd, Token, TokenKind};

/// The settings that a SET statement shows.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Settings {
    pub sql_mode: Option<SqlMode>,
    pub charset: Option<ClientCharset>,
    /// A `session_track_...` variable is set.
    pub tracking: bool,
    /// `insert_id` is set: the id that the server generates next.
    pub insert_id: bool,
    /// `sql_mode` or the character set become what the text does not show.
    pub opaque: bool,
}

/// The kind of a variable, as far as it matters to us.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variable {
    SqlMode,
    Charset,
    Tracking,
    InsertId,
    Other,
}

/// The lexer stands after SET.
pub(in crate::sql) fn read(lexer: &mut Lexer<'_>) -> Result<Settings, Odd> {
    let mut settings = Settings::default();
    // A scope holds for what follows it, up to the next one (manual, "SET Syntax for Variable
    // Assignment").
    let mut global_before = false;
    loop {
        let mut token = lexer.next()?;
        let scope = scope_word(lexer, token).filter(|_| !next_is_assignment(lexer).unwrap_or(true));
        if scope.is_some() {
            token = lexer.next()?;
        }
        global_before |= scope == Some(false);
        let Some((variable, own_scope)) = variable(lexer, token, &mut settings)? else { return Ok(settings) };
        let is_session = own_scope.or(scope);
        let end = value(lexer, variable, is_session.unwrap_or(true), &mut settings)?;
        if is_session.is_none() && global_before && variable != Variable::Other {
            settings.opaque = true;
        }
        if !end.is_punct(b',') {
            return Ok(settings);
        }
    }
}

pub(in crate::sql) fn next_is_assignment(lexer: &Lexer<'_>) -> Result<bool, Odd> {
    Ok(lexer.peek()?.is_assignment())
}

/// True if the token is a scope that means this session. `None`: it is no scope.
fn scope_word(lexer: &Lexer<'_>, token: Token) -> Option<bool> {
    if lexer.is_any_word(token, &["SESSION", "LOCAL"]) {
        Some(true)
    } else if lexer.is_any_word(token, &["GLOBAL", "PERSIST", "PERSIST_ONLY"]) {
        Some(false)
    } else {
        None
    }
}

/// The variable that begins with `token`, up to its value, and its own scope (`@@global.x`).
/// `None`: another kind of SET (TRANSACTION, ROLE, PASSWORD) or the end.
fn variable(
    lexer: &mut Lexer<'_>,
    token: Token,
    settings: &mut Settings,
) -> Result<Option<(Variable, Option<bool>)>, Odd> {
    if token.is_punct(b'@') {
        if !lexer.eat_punct(b'@')? {
            // A user's variable; a quoted name is one token, a dotted one several.
            while !next_is_assignment(lexer)? {
                if matches!(lexer.next()?.kind, TokenKind::End | TokenKind::Punct(b';' | b',')) {
                    return Ok(None);
                }
            }
            lexer.next()?;
            return Ok(Some((Variable::Other, Some(true))));
        }
        let first = lexer.next()?;
        return system_variable(lexer, first);
    }
    if lexer.is_any_word(token, &["NAMES", "CHARSET"]) {
        return charset_name(lexer, settings);
    }
    if lexer.is_any_word(token, &["CHARACTER", "CHAR"]) {
        return if lexer.eat_word("SET")? { charset_name(lexer, settings) } else { Ok(None) };
    }
    system_variable(lexer, token)
}

fn system_variable(lexer: &mut Lexer<'_>, first: Token) -> Result<Option<(Variable, Option<bool>)>, Odd> {
    let (mut name, mut scope) = (first, None);
    while lexer.eat_punct(b'.')? {
        scope = scope_word(lexer, name);
        name = lexer.next()?;
    }
    if !next_is_assignment(lexer)? {
        return Ok(None);
    }
    lexer.next()?;
    let variable = match variable_name(lexer, name).as_slice() {
        b"sql_mode" => Variable::SqlMode,
        b"character_set_client" => Variable::Charset,
        name if name.starts_with(b"session_track_") => Variable::Tracking,
        b"insert_id" => Variable::InsertId,
        _ => Variable::Other,
    };
    Ok(Some((variable, scope)))
}

/// A system variable's name in lower case, without quotes.
pub(in crate::sql) fn variable_name(lexer: &Lexer<'_>, name: Token) -> Vec<u8> {
    let bytes = name.span.of(lexer.text());
    let quoted = if name.kind == TokenKind::QuotedName { bytes.get(1..bytes.len() - 1) } else { None };
    quoted.unwrap_or(bytes).to_ascii_lowercase()
}

/// After SET NAMES or SET CHARACTER SET: the set's name takes the value's place, and a collation
/// may follow.
fn charset_name(
    lexer: &mut Lexer<'_>,
    settings: &mut Settings,
) -> Result<Option<(Variable, Option<bool>)>, Odd> {
    let name = lexer.next()?;
    set_charset(lexer, name, true, settings);
    if lexer.eat_word("COLLATE")? {
        lexer.next()?;
    }
    if lexer.peek()?.is_punct(b',') {
        // The list goes on: nothing is left of this one's value.
        return Ok(Some((Variable::Other, Some(true))));
    }
    Ok(None)
}

fn set_charset(lexer: &Lexer<'_>, value: Token, literal: bool, settings: &mut Settings) {
    let parsed = literal
        .then(|| constant(lexer, value))
        .flatten()
        .map_or(ClientCharset::Unknown, |name| ClientCharset::parse(&name));
    settings.opaque |= parsed == ClientCharset::Unknown;
    settings.charset = Some(parsed);
}

/// The value, and what ends it.
fn value(
    lexer: &mut Lexer<'_>,
    variable: Variable,
    is_session: bool,
    settings: &mut Settings,
) -> Result<Token, Odd> {
    let value = expression::read(lexer, Scope { column: "", table: "" }, Ends::InAssignments)?;
    let literal = value.tokens == 1;
    match variable {
        Variable::SqlMode if is_session => match constant(lexer, value.first).filter(|_| literal) {
            Some(modes) => settings.sql_mode = Some(SqlMode::parse(&modes)),
            None => settings.opaque = true,
        },
        Variable::Charset if is_session => set_charset(lexer, value.first, literal, settings),
        Variable::Tracking => settings.tracking |= is_session,
        Variable::InsertId => settings.insert_id |= is_session,
        _ => {}
    }
    Ok(value.end)
}

/// A string or bare word, such as `SET sql_mode = ANSI`; not DEFAULT.
pub(in crate::sql) fn constant(lexer: &Lexer<'_>, token: Token) -> Option<String> {
    let bytes = token.span.of(lexer.text());
    let inner = match token.kind {
        TokenKind::String | TokenKind::QuotedName => bytes.get(1..bytes.len().checked_sub(1)?)?,
        TokenKind::Word if !lexer.is_word(token, "DEFAULT") => bytes,
        _ => return None,
    };
    let plain = inner.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b',' | b' '));
    // Digits alone are a set of bits.
    let is_bits = !inner.is_empty() && inner.iter().all(u8::is_ascii_digit);
    (plain && !is_bits).then(|| String::from_utf8_lossy(inner).into_owned())
}
