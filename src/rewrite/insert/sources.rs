//! Columns of an INSERT ... SELECT's query that its ON DUPLICATE KEY UPDATE names: `SELECT q.a, q.b FROM q ON DUPLICATE KEY UPDATE b = q.b`.
//!
//! When the rows are stored the query's tables are gone, and the stage has what it has selected, as the table's columns have it. So a name of
//! the query's is known where it is all that is assigned, to the column that the same name was selected for: there it is the same
//! value. In a larger expression, or for another column, it could be another one (cut, rounded, of another type).

use crate::rewrite::insert::Context;
use crate::rewrite::plan::stage::column_name;
use crate::sql::dialect::SqlMode;
use crate::sql::insert::Query;
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;

type Edits = Vec<(Span, Box<[u8]>)>;

/// A name as it is written, perhaps with a table's.
struct Named {
    qualifier: Option<String>,
    column: String,
    /// The offset after its last token.
    end: u32,
}

/// The columns that a query selects, in the order of the INSERT's columns.
struct Selected {
    /// `None`: something else than a name.
    items: Vec<Option<Named>>,
    /// The name or alias of the only table, whose columns need no qualifier. `None`: there are several, or it is not certain.
    table: Option<String>,
}

/// Places in ON DUPLICATE KEY UPDATE, and what stands there for the stage. Empty where nothing is known for certain.
pub(super) fn edits(
    lexer: &Lexer<'_>,
    context: &Context<'_>,
    query: &Query,
    names: &[impl AsRef<str>],
) -> Result<Edits, Odd> {
    // In Oracle's mode a name may be a function.
    let is_read = !context.dialect.sql_mode.contains(SqlMode::ORACLE);
    let Some(odku) = query.tail.odku.filter(|_| is_read) else { return Ok(Vec::new()) };
    let Some(selected) = Selected::read(lexer, query.span)? else { return Ok(Vec::new()) };
    if selected.items.len() != names.len() {
        return Ok(Vec::new());
    }
    let mut ahead = lexer.over(Span { start: query.span.end, end: odku.end });
    // ON DUPLICATE KEY UPDATE
    for _ in 0..4 {
        ahead.next()?;
    }
    let mut edits = Vec::new();
    loop {
        let first = ahead.next()?;
        if first.kind == TokenKind::End {
            return Ok(edits);
        }
        let assigned = Named::read(&mut ahead, first)?;
        let is_assignment = ahead.next()?.is_assignment();
        let start = ahead.peek()?.span.start;
        let first = ahead.next()?;
        let value = Named::read(&mut ahead, first)?;
        let end = ahead.peek()?;
        if let (Some(assigned), true, Some(value)) = (assigned, is_assignment, value)
            && (end.is_punct(b',') || end.kind == TokenKind::End)
            && is_of_query(context, &value)
            && let Some(place) = selected.place(&value, |place| {
                names.get(place).is_some_and(|name| name::same_column(name.as_ref(), &assigned.column))
            })
        {
            edits.push((Span { start, end: value.end }, column_name(place).into()));
        }
        if ahead.skip_to(|_, token| token.is_punct(b','))?.kind == TokenKind::End {
            return Ok(edits);
        }
    }
}

/// True if the value cannot be a column of the INSERT's table.
fn is_of_query(context: &Context<'_>, value: &Named) -> bool {
    match &value.qualifier {
        Some(qualifier) => qualifier != context.table,
        None => !context.has_column(&value.column),
    }
}

impl Named {
    /// `None`: it is no name, or not one or two words.
    fn read(ahead: &mut Lexer<'_>, first: Token) -> Result<Option<Named>, Odd> {
        if !name::is_name(first) {
            return Ok(None);
        }
        let charset = ahead.dialect().charset;
        let Some(path) = name::path(ahead, first)? else { return Ok(None) };
        let decoded = |token| name::decode(ahead.text(), token, charset).map(String::from);
        let qualifier = match path.qualifier {
            Some(_) if path.deep => return Ok(None),
            Some(qualifier) => match decoded(qualifier) {
                Some(qualifier) => Some(qualifier),
                None => return Ok(None),
            },
            None => None,
        };
        Ok(decoded(path.last).map(|column| Named { qualifier, column, end: path.last.span.end }))
    }
}

/// The name or alias of the table after FROM, if nothing but a condition, an order or a limit follows it.
fn only_table(ahead: &mut Lexer<'_>) -> Result<Option<String>, Odd> {
    const AFTER: &[&str] = &["WHERE", "ORDER", "LIMIT"];
    let first = ahead.peek()?;
    if !name::is_name(first) {
        return Ok(None);
    }
    ahead.next()?;
    let Some(path) = name::path(ahead, first)? else { return Ok(None) };
    let is_end = |ahead: &mut Lexer<'_>| -> Result<bool, Odd> {
        let next = ahead.peek()?;
        Ok(next.kind == TokenKind::End || next.kind == TokenKind::Word && ahead.is_any_word(next, AFTER))
    };
    let mut named = path.last;
    if !is_end(ahead)? {
        ahead.eat_word("AS")?;
        let alias = ahead.peek()?;
        if !name::is_name(alias) {
            return Ok(None);
        }
        ahead.next()?;
        named = alias;
    }
    let is_only = is_end(ahead)?;
    let named = name::decode(ahead.text(), named, ahead.dialect().charset).map(String::from);
    Ok(named.filter(|_| is_only))
}

impl Selected {
    /// Reads `SELECT a, q.b AS x FROM ...`, which neither groups nor joins the rows of several queries. `None`: another one.
    fn read(lexer: &Lexer<'_>, span: Span) -> Result<Option<Selected>, Odd> {
        const OTHERS: &[&str] = &[
            "DISTINCT",
            "DISTINCTROW",
            "GROUP",
            "HAVING",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "WINDOW",
            "PROCEDURE",
            "VALUES",
        ];
        let mut ahead = lexer.over(span);
        if !ahead.eat_word("SELECT")? {
            return Ok(None);
        }
        let (mut items, mut from) = (Vec::new(), None);
        while from.is_none() {
            let first = ahead.next()?;
            if first.kind == TokenKind::Word && ahead.is_any_word(first, OTHERS) {
                return Ok(None);
            }
            let named = Named::read(&mut ahead, first)?;
            // `*` and `q.*` stand for several columns.
            if named.is_none() && (name::is_name(first) || first.is_punct(b'*')) {
                return Ok(None);
            }
            // Tokens after a name, but for an alias, make an expression of it.
            let (mut after, mut depth) = (0, u32::from(first.is_punct(b'(')));
            loop {
                let token = ahead.next()?;
                match token.kind {
                    TokenKind::End => return Ok(None),
                    TokenKind::Punct(b',') if depth == 0 => break,
                    TokenKind::Word if depth == 0 && ahead.is_any_word(token, OTHERS) => return Ok(None),
                    TokenKind::Word if depth == 0 && ahead.is_word(token, "FROM") => {
                        from = Some(token);
                        break;
                    }
                    TokenKind::Word if depth == 0 && ahead.is_word(token, "AS") => continue,
                    TokenKind::Punct(b'(') => depth += 1,
                    TokenKind::Punct(b')') => depth = depth.saturating_sub(1),
                    _ => {}
                }
                after += 1 + u32::from(!name::is_name(token));
            }
            items.push(named.filter(|_| after <= 1));
        }
        let table = only_table(&mut ahead)?;
        let other = ahead.skip_to(|lexer, token| lexer.is_any_word(token, OTHERS))?;
        Ok((other.kind == TokenKind::End).then_some(Selected { items, table }))
    }

    /// The place of a name that was selected for a column that `fits`.
    fn place(&self, value: &Named, fits: impl Fn(usize) -> bool) -> Option<usize> {
        self.items.iter().enumerate().find_map(|(place, item)| {
            let item = item.as_ref().filter(|item| name::same_column(&item.column, &value.column))?;
            let is_it = match (&item.qualifier, &value.qualifier) {
                (Some(item), Some(value)) => item == value,
                (None, None) => true,
                (Some(named), None) | (None, Some(named)) => self.table.as_ref() == Some(named),
            };
            (is_it && fits(place)).then_some(place)
        })
    }
}
