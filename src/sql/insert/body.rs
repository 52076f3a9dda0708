//! Rows or assignments after the head, with the id's place known.

use super::expression::{self, Ends, Scope, Traits};
use super::quiet::is_quiet_call;
use super::tail::{self, Tail};
use crate::sql::lex::{Lexer, Odd, Span, Token};
use crate::sql::value::{Classified, IdValue};

pub use super::tail::{Alias, AssignsId, Odku};

/// The facts that the reader of a body must know beforehand.
#[derive(Debug, Clone, Copy)]
pub struct Wants<'a> {
    /// The id's place in each row, counted from 0; `None`: it is not among the columns.
    pub id_place: Option<u32>,
    pub column: &'a str,
    /// The table's name as the statement spells it, without its schema.
    pub table: &'a str,
}

/// One row of VALUES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Offsets of its parentheses.
    pub open: u32,
    pub close: u32,
    pub values: u32,
    /// The id's value; empty where the row has none.
    pub id: Span,
    pub class: IdValue,
    /// The statement's `?` in front of the id's value, or of the closing parenthesis where there is
    /// none.
    pub params_before: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetForm {
    /// The offset after the last assignment.
    pub end: u32,
    /// The id's value, and the `?` in front of it; of the end, where it is not assigned.
    pub id: Span,
    pub class: IdValue,
    pub params_before: u32,
    /// The number of assignments to the id.
    pub times: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// Never empty.
    Values(Vec<Row>),
    Set(SetForm),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    pub form: Form,
    /// The integers of [`IdValue::Integer`] and [`IdValue::Converted`], in the order of the rows.
    pub integers: Vec<i128>,
    /// The traits of all values except the id's.
    pub traits: Traits,
    /// The traits of the values after the id's in their row.
    pub later: Traits,
    pub tail: Tail,
    /// The statement's `?`, all of them.
    pub params: u32,
    /// A `;` ended it, rather than the end of the text.
    pub semicolon: bool,
}

impl Body {
    /// After VALUES or SET, to after the `;` or to the end. `None`: not understood.
    pub fn values(lexer: &mut Lexer<'_>, wants: Wants<'_>) -> Result<Option<Body>, Odd> {
        let mut reader = Reader::new(wants);
        let Some(next) = reader.rows(lexer)? else { return Ok(None) };
        let Some((tail, semicolon)) = tail::read(lexer, reader.scope, next)? else { return Ok(None) };
        let Reader { rows, integers, traits, later, .. } = reader;
        Ok(Some(Body {
            form: Form::Values(rows),
            integers,
            traits,
            later,
            tail,
            params: lexer.params(),
            semicolon,
        }))
    }

    /// The lexer stands after SET. `None`: not understood.
    pub fn set(lexer: &mut Lexer<'_>, wants: Wants<'_>) -> Result<Option<Body>, Odd> {
        let scope = Scope { column: wants.column, table: wants.table };
        let Some(assigned) = tail::assignments(lexer, scope)? else { return Ok(None) };
        let after_params = lexer.params();
        let Some((tail, semicolon)) = tail::read(lexer, scope, assigned.next)? else { return Ok(None) };
        let (id, classified, params_before) = assigned.id.unwrap_or((
            Span { start: assigned.end, end: assigned.end },
            Classified { value: IdValue::Omitted, integer: None },
            after_params,
        ));
        let form =
            SetForm { end: assigned.end, id, class: classified.value, params_before, times: assigned.times };
        Ok(Some(Body {
            form: Form::Set(form),
            integers: classified.integer.into_iter().collect(),
            traits: assigned.traits,
            later: assigned.later,
            tail,
            params: lexer.params(),
            semicolon,
        }))
    }
}

struct Reader<'a> {
    scope: Scope<'a>,
    /// `u32::MAX`: not among the columns.
    id_place: u32,
    rows: Vec<Row>,
    integers: Vec<i128>,
    traits: Traits,
    later: Traits,
}

impl<'a> Reader<'a> {
    fn new(wants: Wants<'a>) -> Self {
        Reader {
            scope: Scope { column: wants.column, table: wants.table },
            id_place: wants.id_place.unwrap_or(u32::MAX),
            rows: Vec::with_capacity(1),
            integers: Vec::new(),
            traits: Traits::default(),
            later: Traits::default(),
        }
    }

    /// All rows; returns the token after them.
    fn rows(&mut self, lexer: &mut Lexer<'_>) -> Result<Option<Token>, Odd> {
        loop {
            if lexer.eat_plain(b'(') {
                if !self.row(lexer, lexer.position() - 1)? {
                    return Ok(None);
                }
                if lexer.eat_plain(b',') {
                    continue;
                }
                let next = lexer.next()?;
                if !next.is_punct(b',') {
                    return Ok(Some(next));
                }
                continue;
            }
            let mut token = lexer.next()?;
            if lexer.is_word(token, "ROW") {
                token = lexer.next()?;
            }
            if !token.is_punct(b'(') || !self.row(lexer, token.span.start)? {
                return Ok(None);
            }
            let next = lexer.next()?;
            if !next.is_punct(b',') {
                return Ok(Some(next));
            }
        }
    }

    /// After the opening parenthesis, to after the closing one.
    fn row(&mut self, lexer: &mut Lexer<'_>, open: u32) -> Result<bool, Odd> {
        let mut row = Row {
            open,
            close: open,
            values: 0,
            id: Span::default(),
            class: IdValue::Omitted,
            params_before: 0,
        };
        loop {
            if row.values != self.id_place
                && let Some(sign) = lexer.eat_constant(is_quiet_call)
            {
                row.values += 1;
                if sign == b')' {
                    self.close(lexer, row, lexer.position() - 1);
                    return Ok(true);
                }
                continue;
            }
            let value = expression::read(lexer, self.scope, Ends::InRow)?;
            let closes = value.end.is_punct(b')');
            if value.tokens == 0 {
                // Only a row without any values may hold none.
                if !closes || row.values > 0 {
                    return Ok(false);
                }
            } else if row.values == self.id_place {
                let classified = tail::classify(lexer, &value, self.scope.column)?;
                row.id = value.span;
                row.class = classified.value;
                row.params_before = value.params_before;
                self.integers.extend(classified.integer);
                row.values += 1;
            } else {
                self.traits.add(value.traits);
                if row.values > self.id_place {
                    self.later.add(value.traits);
                }
                row.values += 1;
            }
            if closes {
                self.close(lexer, row, value.end.span.start);
                return Ok(true);
            }
        }
    }

    fn close(&mut self, lexer: &Lexer<'_>, mut row: Row, close: u32) {
        row.close = close;
        if row.id == Span::default() {
            row.params_before = lexer.params();
        }
        self.rows.push(row);
    }
}
