//! From INSERT or REPLACE to where its values begin.

use crate::sql::lex::{Lexer, Odd, Span, Token};
use crate::sql::name::{self, Path};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Insert,
    Replace,
}

/// Verb, modifiers and table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub verb: Verb,
    pub ignore: bool,
    pub table: Path,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Columns {
    /// None is written; the table's own order counts.
    Unlisted,
    /// Offsets of its parentheses, and the names, each the last part of what may be qualified. May
    /// be empty.
    Listed { open: u32, close: u32, names: Vec<Token> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// VALUES or VALUE; the span is the keyword's.
    Values(Span),
    Set,
    /// SELECT, TABLE, WITH, or parentheses around one; with its first token.
    Query(Token),
}

impl Head {
    /// After the verb; `None`: what follows is no table's name.
    pub fn parse(lexer: &mut Lexer<'_>, verb: Verb) -> Result<Option<Head>, Odd> {
        let mut ignore = false;
        let mut token = lexer.next()?;
        // In the server's order, each at most once: priority, IGNORE, INTO. They are reserved
        // words, so that what is accepted here beyond it is a syntax error there.
        for word in ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"] {
            if lexer.is_word(token, word) {
                ignore |= word == "IGNORE";
                token = lexer.next()?;
            }
        }
        Ok(name::table(lexer, token)?.map(|table| Head { verb, ignore, table }))
    }

    /// PARTITION, column list and the keyword of the source. `None`: it is no INSERT that we know.
    pub fn columns(lexer: &mut Lexer<'_>) -> Result<Option<(Columns, Source)>, Odd> {
        let mut token = lexer.next()?;
        if lexer.is_word(token, "PARTITION") {
            if !(lexer.eat_punct(b'(')? && name::list_end(lexer)?.is_some()) {
                return Ok(None);
            }
            token = lexer.next()?;
        }
        let mut columns = Columns::Unlisted;
        if token.is_punct(b'(') {
            let first = lexer.peek()?;
            if is_query(lexer, first) || first.is_punct(b'(') {
                return Ok(Some((columns, Source::Query(token))));
            }
            let Some(listed) = list(lexer, token.span.start)? else { return Ok(None) };
            columns = listed;
            token = lexer.next()?;
        }
        let source = if lexer.is_word(token, "VALUES") || lexer.is_word(token, "VALUE") {
            Source::Values(token.span)
        } else if lexer.is_word(token, "SET") && columns == Columns::Unlisted {
            Source::Set
        } else if is_query(lexer, token) || token.is_punct(b'(') {
            Source::Query(token)
        } else {
            return Ok(None);
        };
        Ok(Some((columns, source)))
    }
}

fn is_query(lexer: &Lexer<'_>, token: Token) -> bool {
    lexer.is_any_word(token, &["SELECT", "WITH", "TABLE"])
}

/// The lexer stands after the opening parenthesis, whose offset is `open`.
fn list(lexer: &mut Lexer<'_>, open: u32) -> Result<Option<Columns>, Odd> {
    let mut names = Vec::with_capacity(8);
    let mut token = lexer.next()?;
    if token.is_punct(b')') {
        return Ok(Some(Columns::Listed { open, close: token.span.start, names }));
    }
    loop {
        let Some(path) = name::path(lexer, token)? else { return Ok(None) };
        names.push(path.last);
        let next = lexer.next()?;
        if next.is_punct(b')') {
            return Ok(Some(Columns::Listed { open, close: next.span.start, names }));
        }
        if !next.is_punct(b',') {
            return Ok(None);
        }
        token = lexer.next()?;
    }
}
