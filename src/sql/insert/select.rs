//! The query of an INSERT ... SELECT: where it ends, and what follows it.
//!
//! Only its outline is read. Whether it is right is the server's to say, which is asked before anything is sent.

use super::expression::Scope;
use super::tail::{self, Tail};
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;
use crate::sql::reads::Reads;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// From its first token to its last.
    pub span: Span,
    /// The number of `?` in the query itself.
    pub params: u32,
    /// The facts of the statement before it that the query reads.
    pub reads: Reads,
    /// `SQL_CALC_FOUND_ROWS`: it leaves a count to the statement after it.
    pub counts_rows: bool,
    pub tail: Tail,
    /// Names in ON DUPLICATE KEY UPDATE that may be the query's: every one that is not qualified by
    /// the table.
    pub bare_names: Vec<Token>,
    /// The names of other tables in ON DUPLICATE KEY UPDATE, and the words that begin a query there.
    pub sources: Vec<Span>,
    /// The `?` of the whole statement: those after the query count too.
    pub all_params: u32,
    pub semicolon: bool,
}

impl Query {
    /// After the query's first token, to after the statement. `None`: not understood.
    pub fn read(
        lexer: &mut Lexer<'_>,
        first: Token,
        column: &str,
        table: &str,
    ) -> Result<Option<Query>, Odd> {
        let mut reader = Reader::new(first);
        let mut token = first;
        while !reader.ends_at(lexer, token)? {
            reader.take(lexer, token)?;
            token = lexer.next()?;
        }
        let Reader { start, end, counts_rows, .. } = reader;
        let params = lexer.params();
        let scope = Scope { column, table };
        let updates_from = token.span.start;
        let Some((tail, semicolon)) = tail::read(lexer, scope, token)? else { return Ok(None) };
        let span = Span { start, end };
        let reads = Reads::of(span.of(lexer.text()), lexer.dialect());
        let all_params = lexer.params();
        let (bare_names, sources) = (Vec::new(), Vec::new());
        let mut query =
            Query { span, params, reads, counts_rows, tail, bare_names, sources, all_params, semicolon };
        if let Some(odku) = tail.odku {
            read_updates(lexer, Span { start: updates_from, end: odku.end }, table, &mut query)?;
        }
        Ok(Some(query))
    }
}

struct Reader {
    start: u32,
    end: u32,
    /// The number of open parentheses.
    depth: u32,
    before: Option<Token>,
    counts_rows: bool,
}

impl Reader {
    fn new(first: Token) -> Self {
        let at = first.span.start;
        Reader { start: at, end: at, depth: 0, before: None, counts_rows: false }
    }

    fn ends_at(&self, lexer: &Lexer<'_>, token: Token) -> Result<bool, Odd> {
        match token.kind {
            TokenKind::End | TokenKind::Punct(b';') if self.depth == 0 => Ok(true),
            TokenKind::End | TokenKind::Punct(b';') => {
                Err(Odd { at: token.span.start, what: "an unclosed parenthesis" })
            }
            TokenKind::Word if self.depth == 0 && !self.is_glued(token) => {
                if lexer.is_word(token, "RETURNING") {
                    return Ok(lexer.dialect().is_mariadb());
                }
                let mut ahead = lexer.clone();
                Ok(lexer.is_word(token, "ON") && ahead.eat_word("DUPLICATE")? && ahead.eat_word("KEY")?)
            }
            _ => Ok(false),
        }
    }

    fn is_glued(&self, token: Token) -> bool {
        self.before.is_some_and(|before| name::is_glued(before, token))
    }

    fn take(&mut self, lexer: &Lexer<'_>, token: Token) -> Result<(), Odd> {
        self.end = token.span.end;
        match token.kind {
            TokenKind::Punct(b'(') => self.depth += 1,
            TokenKind::Punct(b')') => {
                let closing = Odd { at: token.span.start, what: "a closing parenthesis" };
                self.depth = self.depth.checked_sub(1).ok_or(closing)?;
            }
            TokenKind::Word => self.counts_rows |= lexer.is_word(token, "SQL_CALC_FOUND_ROWS"),
            _ => {}
        }
        self.before = Some(token);
        Ok(())
    }
}

/// Notes the names in ON DUPLICATE KEY UPDATE.
fn read_updates(lexer: &Lexer<'_>, span: Span, table: &str, query: &mut Query) -> Result<(), Odd> {
    let mut ahead = lexer.over(span);
    // ON DUPLICATE KEY UPDATE
    for _ in 0..4 {
        ahead.next()?;
    }
    let charset = lexer.dialect().charset;
    let mut before: Option<Token> = None;
    loop {
        let token = ahead.next()?;
        if token.kind == TokenKind::End {
            return Ok(());
        }
        let is_variable = before.is_some_and(|before| before.is_punct(b'@'));
        let is_collation = before.is_some_and(|before| before.is_word(lexer.text(), "COLLATE"));
        if name::is_name(token) && !is_variable && !is_collation {
            let Some(path) = name::path(&mut ahead, token)? else {
                query.sources.push(token.span);
                return Ok(());
            };
            let next = ahead.peek()?;
            let word = token.span.of(lexer.text());
            let is_word = token.kind == TokenKind::Word;
            let begins_query = || ["SELECT", "TABLE", "WITH"].iter().any(|w| token.is_word(lexer.text(), w));
            if let Some(qualifier) = path.qualifier {
                if next.is_punct(b'(')
                    || name::decode(lexer.text(), qualifier, charset).is_none_or(|name| name != table)
                {
                    query.sources.push(Span { start: token.span.start, end: path.last.span.end });
                }
            } else if next.is_punct(b'(') {
                query.sources.extend(begins_query().then_some(token.span));
            } else if is_word && begins_query() {
                query.sources.push(token.span);
            } else if !(is_word && (is_expression_word(word) || word.eq_ignore_ascii_case(b"COLLATE"))) {
                query.bare_names.push(path.last);
            }
        }
        before = Some(token);
    }
}

/// Words that may stand in an assignment of ON DUPLICATE KEY UPDATE without naming a column.
fn is_expression_word(word: &[u8]) -> bool {
    const WORDS: &[&str] = keywords!(
        AND AS BETWEEN BINARY CASE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DAY DEFAULT DIV ELSE
        END ESCAPE FALSE HOUR IN INTERVAL IS LIKE LOCALTIME LOCALTIMESTAMP MICROSECOND MINUTE MOD
        MONTH NOT NULL OR QUARTER REGEXP RLIKE SECOND SIGNED THEN TRUE UNSIGNED WEEK WHEN XOR YEAR
    );
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests;
