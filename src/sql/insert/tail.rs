//! Assignments (the SET form's, ON DUPLICATE KEY UPDATE's) and what may follow the rows.

use super::expression::{self, Ends, Expression, Scope, Traits};
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;
use crate::sql::value::{self, Classified, IdValue};

/// Assignments to the id's column. `id = id` leaves it as it is, and so is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AssignsId {
    #[default]
    No,
    /// `id = LAST_INSERT_ID(id)`
    Idiom,
    Otherwise,
}

/// ON DUPLICATE KEY UPDATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odku {
    /// The offset after its last token.
    pub end: u32,
    pub assigns_id: AssignsId,
    /// An assignment whose value is a `LAST_INSERT_ID(x)` and nothing else, so that it is evaluated
    /// whenever a row is updated.
    pub calls_last_id: bool,
    /// The traits of the assignments. The call of an assignment that is nothing but LAST_INSERT_ID(x) is not among them.
    pub traits: Traits,
}

/// `AS new`, `AS new(m,n)`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// The offset after its name.
    pub end: u32,
    /// Offset of the closing parenthesis of its list of columns.
    pub list_close: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tail {
    pub alias: Option<Alias>,
    pub odku: Option<Odku>,
    /// RETURNING, and what its list holds.
    pub returning: Option<Traits>,
}

/// The SET form's assignments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assigned {
    /// Value, span and `?` in front of the assignment to the id; the last one's.
    pub(super) id: Option<(Span, Classified, u32)>,
    pub(super) times: u32,
    pub(super) end: u32,
    pub(super) traits: Traits,
    /// The traits of the values after the id's.
    pub(super) later: Traits,
    pub(super) next: Token,
}

/// Reads assignments to what ends them. `None`: they are none.
pub(super) fn assignments(lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<Option<Assigned>, Odd> {
    let mut all = Assigned {
        id: None,
        times: 0,
        end: 0,
        traits: Traits::default(),
        later: Traits::default(),
        next: lexer.peek()?,
    };
    loop {
        let Some((is_id, value)) = assignment(lexer, scope)? else { return Ok(None) };
        all.end = value.span.end;
        all.next = value.end;
        if is_id {
            let classified = classify(lexer, &value, scope.column)?;
            all.id = Some((value.span, classified, value.params_before));
            all.times += 1;
        } else {
            all.traits.add(value.traits);
            if all.id.is_some() {
                all.later.add(value.traits);
            }
        }
        if !value.end.is_punct(b',') {
            return Ok(Some(all));
        }
    }
}

/// `name = value`; whether the name is the id's.
fn assignment(lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<Option<(bool, Expression)>, Odd> {
    let first = lexer.next()?;
    let Some(path) = name::path(lexer, first)? else { return Ok(None) };
    if !lexer.next()?.is_assignment() {
        return Ok(None);
    }
    let charset = lexer.dialect().charset;
    let Some(is_id) = name::names_column(lexer.text(), path.last, charset, scope.column) else {
        return Ok(None);
    };
    let value = expression::read(lexer, scope, Ends::InAssignments)?;
    if value.tokens == 0 {
        return Ok(None);
    }
    Ok(Some((is_id, value)))
}

pub(super) fn classify(lexer: &Lexer<'_>, value: &Expression, column: &str) -> Result<Classified, Odd> {
    match value.tokens {
        0 => Ok(Classified::plain(IdValue::Omitted)),
        1 => Ok(value::of_token(lexer, value.first, value.params_before)),
        _ => value::of_span(lexer, value.span, column, value.params_before),
    }
}

/// From `token`, which follows the rows or assignments, to the statement's end, and whether that
/// was a `;`. `None`: not understood.
pub(super) fn read(
    lexer: &mut Lexer<'_>,
    scope: Scope<'_>,
    mut token: Token,
) -> Result<Option<(Tail, bool)>, Odd> {
    let mut tail = Tail::default();
    if lexer.is_word(token, "AS") {
        let name = lexer.next()?;
        if !name::is_name(name) {
            return Ok(None);
        }
        token = lexer.next()?;
        let mut list_close = None;
        if token.is_punct(b'(') {
            let Some(close) = name::list_end(lexer)? else { return Ok(None) };
            list_close = Some(close.span.start);
            token = lexer.next()?;
        }
        tail.alias = Some(Alias { end: name.span.end, list_close });
    }
    if lexer.is_word(token, "ON") {
        if !(lexer.eat_word("DUPLICATE")? && lexer.eat_word("KEY")? && lexer.eat_word("UPDATE")?) {
            return Ok(None);
        }
        let Some((odku, next)) = odku(lexer, scope)? else { return Ok(None) };
        tail.odku = Some(odku);
        token = next;
    }
    if lexer.is_word(token, "RETURNING") && lexer.dialect().is_mariadb() {
        let Some((traits, next)) = returning(lexer, scope)? else { return Ok(None) };
        tail.returning = Some(traits);
        token = next;
    }
    Ok(match token.kind {
        TokenKind::End => Some((tail, false)),
        TokenKind::Punct(b';') => Some((tail, true)),
        _ => None,
    })
}

fn odku(lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<Option<(Odku, Token)>, Odd> {
    let mut odku =
        Odku { end: 0, assigns_id: AssignsId::No, calls_last_id: false, traits: Traits::default() };
    loop {
        let Some((is_id, value)) = assignment(lexer, scope)? else { return Ok(None) };
        odku.end = value.span.end;
        let mut traits = value.traits;
        let assigns = is_id && !is_itself(lexer, &value, scope)?;
        let is_idiom = value.traits.sets_last_id && is_idiom(lexer, &value, scope)?;
        if value.traits.sets_last_id && last_id_call(lexer, &value)? {
            odku.calls_last_id = true;
            traits.sets_last_id = false;
        }
        odku.traits.add(traits);
        odku.assigns_id = match odku.assigns_id {
            before if !assigns => before,
            AssignsId::No if is_idiom => AssignsId::Idiom,
            _ => AssignsId::Otherwise,
        };
        if !value.end.is_punct(b',') {
            return Ok(Some((odku, value.end)));
        }
    }
}

/// True if the whole value is one call, `LAST_INSERT_ID(x)`, with no other such call within.
fn last_id_call(lexer: &Lexer<'_>, value: &Expression) -> Result<bool, Odd> {
    let mut lexer = lexer.over(value.span);
    if !(lexer.eat_word("LAST_INSERT_ID")? && lexer.eat_punct(b'(')?) {
        return Ok(false);
    }
    let mut depth = 1u32;
    while depth > 0 {
        let token = lexer.next()?;
        match token.kind {
            TokenKind::Punct(b'(') => depth += 1,
            TokenKind::Punct(b')') => depth -= 1,
            TokenKind::End => return Ok(false),
            _ if lexer.is_word(token, "LAST_INSERT_ID") => return Ok(false),
            _ => {}
        }
    }
    Ok(lexer.next()?.kind == TokenKind::End)
}

/// `LAST_INSERT_ID(id)`, the column perhaps qualified.
fn is_idiom(lexer: &Lexer<'_>, value: &Expression, scope: Scope<'_>) -> Result<bool, Odd> {
    let mut lexer = lexer.over(value.span);
    Ok(lexer.eat_word("LAST_INSERT_ID")?
        && lexer.eat_punct(b'(')?
        && is_id(&mut lexer, scope)?
        && lexer.eat_punct(b')')?
        && lexer.next()?.kind == TokenKind::End)
}

/// The id's column and nothing else.
fn is_itself(lexer: &Lexer<'_>, value: &Expression, scope: Scope<'_>) -> Result<bool, Odd> {
    let mut lexer = lexer.over(value.span);
    Ok(is_id(&mut lexer, scope)? && lexer.next()?.kind == TokenKind::End)
}

/// The id's column, perhaps qualified.
fn is_id(lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<bool, Odd> {
    let first = lexer.next()?;
    let Some(path) = name::path(lexer, first)? else { return Ok(false) };
    let names = |token, name: &str| {
        name::decode(lexer.text(), token, lexer.dialect().charset)
            .is_some_and(|n| name::same_column(&n, name))
    };
    Ok(names(path.last, scope.column) && path.qualifier.is_none_or(|qualifier| names(qualifier, scope.table)))
}

fn returning(lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<Option<(Traits, Token)>, Odd> {
    let mut traits = Traits::default();
    loop {
        // An alias (`AS x`) ends an expression as it would end assignments: its name is read as the
        // next one.
        let value = expression::read(lexer, scope, Ends::InAssignments)?;
        if value.tokens == 0 {
            return Ok(None);
        }
        traits.add(value.traits);
        match value.end.kind {
            TokenKind::Punct(b',') => {}
            TokenKind::Word if lexer.is_word(value.end, "AS") => {}
            TokenKind::End | TokenKind::Punct(b';') => return Ok(Some((traits, value.end))),
            _ => return Ok(None),
        }
    }
}
