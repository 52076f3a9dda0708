//! MariaDB's SET STATEMENT ... FOR: variables for one statement.

use crate::sql::dialect::SqlMode;
use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::name;
use crate::sql::statement::set;

/// The variables that it sets, as far as ids depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForStatement {
    pub sql_mode: ModeSetting,
    /// A variable that says which id the server generates: `insert_id`, `last_insert_id`,
    /// `auto_increment_...`.
    pub ids: bool,
}

/// `sql_mode` of one statement. It does not change how the statement itself is cut into tokens
/// (measured on 10.11: the whole text is read before anything is set), but what its values mean,
/// and how a text within it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModeSetting {
    /// The session's own.
    #[default]
    Session,
    Known(SqlMode),
    /// A mode that the text does not show.
    Unknown,
}

/// After SET; the lexer ends up after FOR. `None`: it is another kind of SET, and the lexer stands
/// where it stood.
pub(in crate::sql) fn read(lexer: &mut Lexer<'_>) -> Result<Option<ForStatement>, Odd> {
    let mut ahead = lexer.clone();
    let is_mariadb = lexer.dialect().is_mariadb();
    if !is_mariadb || !ahead.eat_word("STATEMENT")? || set::next_is_assignment(&ahead)? {
        return Ok(None);
    }
    let mut settings = ForStatement::default();
    loop {
        let name = ahead.next()?;
        if !ahead.next()?.is_assignment() || !name::is_name(name) {
            // The server's own error.
            return Ok(None);
        }
        let (value, end) = value(&mut ahead)?;
        take(&ahead, name, value, &mut settings);
        if ahead.is_word(end, "FOR") {
            *lexer = ahead;
            return Ok(Some(settings));
        }
        if !end.is_punct(b',') {
            return Ok(None);
        }
    }
}

/// The value where it is one token, and what ended it: FOR, a comma, or the statement's end.
fn value(lexer: &mut Lexer<'_>) -> Result<(Option<Token>, Token), Odd> {
    let (mut depth, mut first, mut last, mut tokens) = (0u32, None, None, 0u32);
    loop {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
            TokenKind::End | TokenKind::Punct(b';') => return Ok((None, token)),
            _ => {}
        }
        let is_for = || lexer.is_word(token, "FOR") && !last.is_some_and(|last| name::is_glued(last, token));
        if depth == 0 && (token.is_punct(b',') || is_for()) {
            return Ok((first.filter(|_| tokens == 1), token));
        }
        first.get_or_insert(token);
        last = Some(token);
        tokens += 1;
    }
}

fn take(lexer: &Lexer<'_>, name: Token, value: Option<Token>, settings: &mut ForStatement) {
    match set::variable_name(lexer, name).as_slice() {
        b"sql_mode" => {
            let known = value.and_then(|value| set::constant(lexer, value));
            settings.sql_mode = match (settings.sql_mode, known) {
                (ModeSetting::Session, Some(modes)) => ModeSetting::Known(SqlMode::parse(&modes)),
                _ => ModeSetting::Unknown,
            };
        }
        b"insert_id" | b"last_insert_id" | b"identity" => settings.ids = true,
        other => settings.ids |= other.starts_with(b"auto_increment_"),
    }
}
