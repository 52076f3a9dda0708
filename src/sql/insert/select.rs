//! The query of an INSERT ... SELECT: where it ends, where a LIMIT fits in, and what in it matters
//! to numbering its rows.
//!
//! Only its outline is read: parentheses, the keywords of its outermost part, calls. Whether it is
//! right is the server's to say, which is asked before anything is sent.

use self::keywords::{fixes_scale, is_built_in, is_expression_word};
use super::expression::Scope;
use super::tail::{self, Tail};
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;

mod keywords;

/// How many rows the query can have, as far as its text shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsMax {
    One,
    /// `LIMIT n`
    AtMost(u64),
    Unknown,
}

/// A division or an AVG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inexact {
    pub is_average: bool,
    /// In which of the query's columns, counted from 0; `None`: elsewhere, in a table that it
    /// selects from.
    pub column: Option<u32>,
}

#[allow(clippy::struct_excessive_bools)] // Independent findings, not states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// From its first token to its last.
    pub span: Span,
    /// Where a LIMIT can be put; `None`: it has one.
    pub limit_at: Option<u32>,
    pub rows_max: RowsMax,
    /// Its own `?`.
    pub params: u32,
    /// Nothing in its text shows that it was evaluated twice.
    pub is_repeatable: bool,
    /// Divisions and AVG whose results are not rounded at once: servers compute more digits than
    /// the result's type has.
    pub inexact: Vec<Inexact>,
    /// `*` in its outermost list of columns.
    pub selects_star: bool,
    /// Every name in it, a table's among them.
    pub names: Vec<Token>,
    /// INTO behind its columns.
    pub has_into: bool,
    /// It calls LAST_INSERT_ID(x).
    pub sets_last_id: bool,
    /// What cannot be kept inside of another query, and the remedy.
    pub unfit: Option<&'static str>,
    pub tail: Tail,
    /// Names in ON DUPLICATE KEY UPDATE that may be the query's: every one that is not qualified by
    /// the table.
    pub bare_names: Vec<Token>,
    /// ON DUPLICATE KEY UPDATE names another table, or holds a query.
    pub names_source: bool,
    /// The statement's `?`.
    pub all_params: u32,
    pub semicolon: bool,
}

impl Query {
    /// Behind the query's first token, to behind the statement. `None`: not understood.
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
        let params = lexer.params();
        let scope = Scope { column, table };
        let updates_from = token.span.start;
        let Some((tail, semicolon)) = tail::read(lexer, scope, token)? else { return Ok(None) };
        let Some(mut query) = reader.finish(lexer.text(), params) else { return Ok(None) };
        query.tail = tail;
        query.semicolon = semicolon;
        query.all_params = lexer.params();
        if let Some(odku) = tail.odku {
            read_updates(lexer, Span { start: updates_from, end: odku.end }, table, &mut query)?;
        }
        Ok(Some(query))
    }
}

/// One level of the parentheses that the query begins with.
#[allow(clippy::struct_excessive_bools)] // Independent findings, not states.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    has_limit: bool,
    /// Where FOR UPDATE or its like begins.
    lock_at: Option<u32>,
    end: u32,
    combines: bool,
    has_from: bool,
    /// ORDER BY or LIMIT behind the closed parenthesis that it begins with.
    trails: bool,
}

/// A parenthesis that is open.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// A rounding call is around.
    fixes_scale: bool,
    /// The body of a common table expression.
    is_cte: bool,
}

struct Reader {
    start: u32,
    end: u32,
    levels: Vec<Level>,
    opens: Vec<Open>,
    /// Parentheses that the query begins with and that are still open.
    leading: usize,
    /// A body (SELECT, a parenthesis, WITH) is what comes next at the present level.
    expects_body: bool,
    /// Among the common table expressions of the level of that depth.
    with_at: Option<usize>,
    /// A common table expression has just ended.
    after_cte: bool,
    /// In WHERE, GROUP BY, ORDER BY, ...: what is computed there is not stored.
    in_filter: bool,
    /// Which column of the outermost list is being read.
    in_column: Option<u32>,
    before: Option<Token>,
    at_most: Option<u64>,
    query: Query,
}

impl Reader {
    fn new(first: Token) -> Self {
        let query = Query {
            span: first.span,
            limit_at: None,
            rows_max: RowsMax::Unknown,
            params: 0,
            is_repeatable: true,
            inexact: Vec::new(),
            selects_star: false,
            names: Vec::new(),
            has_into: false,
            sets_last_id: false,
            unfit: None,
            tail: Tail::default(),
            bare_names: Vec::new(),
            names_source: false,
            all_params: 0,
            semicolon: false,
        };
        Reader {
            start: first.span.start,
            end: first.span.start,
            levels: vec![Level::default()],
            opens: Vec::new(),
            leading: 0,
            expects_body: true,
            with_at: None,
            after_cte: false,
            in_filter: false,
            in_column: None,
            before: None,
            at_most: None,
            query,
        }
    }

    fn ends_at(&self, lexer: &Lexer<'_>, token: Token) -> Result<bool, Odd> {
        match token.kind {
            TokenKind::End | TokenKind::Punct(b';') if self.opens.is_empty() => Ok(true),
            TokenKind::End | TokenKind::Punct(b';') => {
                Err(Odd { at: token.span.start, what: "a parenthesis that is not closed" })
            }
            TokenKind::Word if self.opens.is_empty() && !self.is_glued(token) => {
                if lexer.is_word(token, "RETURNING") {
                    return Ok(lexer.dialect().is_mariadb());
                }
                let mut ahead = lexer.clone();
                Ok(lexer.is_word(token, "ON") && ahead.eat_word("DUPLICATE")? && ahead.eat_word("KEY")?)
            }
            _ => Ok(false),
        }
    }

    fn take(&mut self, lexer: &Lexer<'_>, token: Token) -> Result<(), Odd> {
        let depth = self.opens.len();
        self.end = token.span.end;
        if depth == self.leading
            && !token.is_punct(b')')
            && let Some(level) = self.levels.get_mut(depth)
        {
            level.end = token.span.end;
        }
        match token.kind {
            TokenKind::Punct(b'(') => self.open(lexer)?,
            TokenKind::Punct(b')') => self.close(token)?,
            TokenKind::Punct(b'/') => self.inexact(false),
            TokenKind::Punct(b',') if depth == self.leading => {
                self.in_column = self.in_column.map(|column| column + 1);
            }
            TokenKind::Punct(b'*') if depth == self.leading && self.in_column.is_some() => {
                let is_first = self.before.is_none_or(|before| {
                    before.is_punct(b',')
                        || before.is_punct(b'.')
                        || ["SELECT", "ALL", "DISTINCT", "DISTINCTROW", "STRAIGHT_JOIN", "HIGH_PRIORITY"]
                            .iter()
                            .any(|word| lexer.is_word(before, word))
                });
                self.query.selects_star |= is_first;
            }
            TokenKind::Assign => self.query.is_repeatable = false,
            TokenKind::Word if depth == self.leading && !self.is_glued(token) => {
                self.expression_word(lexer, token);
                self.outer_word(lexer, token)?;
            }
            TokenKind::Word => self.expression_word(lexer, token),
            _ => {}
        }
        if name::is_name(token) {
            self.query.names.push(token);
        }
        if !matches!(token.kind, TokenKind::Punct(b'(')) {
            self.after_cte &= token.is_punct(b')');
        }
        self.before = Some(token);
        Ok(())
    }

    fn is_glued(&self, token: Token) -> bool {
        self.before.is_some_and(|before| name::is_glued(before, token))
    }

    fn inexact(&mut self, is_average: bool) {
        if !self.in_filter && !self.opens.last().is_some_and(|open| open.fixes_scale) {
            self.query.inexact.push(Inexact { is_average, column: self.in_column });
        }
    }

    fn open(&mut self, lexer: &Lexer<'_>) -> Result<(), Odd> {
        let depth = self.opens.len();
        if std::mem::take(&mut self.after_cte) && self.with_at == Some(depth) {
            // Behind `AS (...)` without a comma: the body.
            self.with_at = None;
            self.expects_body = true;
        }
        let around = self.opens.last().is_some_and(|open| open.fixes_scale);
        let mut open = Open { fixes_scale: around, is_cte: false };
        if depth == self.leading && self.expects_body && self.with_at != Some(depth) {
            self.leading += 1;
            self.levels.push(Level::default());
        } else if let Some(name) = self.before.filter(|&token| name::is_name(token)) {
            open.is_cte = self.with_at == Some(depth) && lexer.is_word(name, "AS");
            let is_cte_name = self.with_at == Some(depth) && !open.is_cte;
            if !is_cte_name {
                open.fixes_scale |= self.call(lexer, name)?;
            }
        }
        self.opens.push(open);
        Ok(())
    }

    /// A parenthesis behind a name; whether what is in it is rounded.
    fn call(&mut self, lexer: &Lexer<'_>, name: Token) -> Result<bool, Odd> {
        let decoded = name::decode(lexer.text(), name, lexer.dialect().charset);
        // A stored function is what can be qualified.
        let dot_at = name.span.start.checked_sub(1).and_then(|at| lexer.text().get(at as usize));
        let Some(decoded) = decoded.filter(|_| dot_at != Some(&b'.')) else {
            self.query.is_repeatable = false;
            return Ok(false);
        };
        if decoded.eq_ignore_ascii_case("LAST_INSERT_ID") {
            self.query.sets_last_id |= !lexer.peek()?.is_punct(b')');
        }
        if ["ROW_COUNT", "FOUND_ROWS"].iter().any(|name| decoded.eq_ignore_ascii_case(name)) {
            self.query.unfit = Some("ROW_COUNT() or FOUND_ROWS() in the query; put it into a variable first");
        }
        if decoded.eq_ignore_ascii_case("AVG") {
            self.inexact(true);
        }
        self.query.is_repeatable &= is_built_in(&decoded);
        Ok(fixes_scale(&decoded))
    }

    fn close(&mut self, token: Token) -> Result<(), Odd> {
        let open = self.opens.pop().ok_or(Odd { at: token.span.start, what: "a closing parenthesis" })?;
        self.after_cte = open.is_cte;
        let depth = self.opens.len();
        if self.leading > depth {
            self.leading = depth;
            self.with_at = None;
            self.expects_body = false;
            self.in_column = None;
        }
        if depth == self.leading
            && let Some(level) = self.levels.get_mut(depth)
        {
            level.end = token.span.end;
        }
        Ok(())
    }

    /// A word anywhere that cannot be kept.
    fn expression_word(&mut self, lexer: &Lexer<'_>, token: Token) {
        let is = |words: &[&str]| lexer.is_any_word(token, words);
        let is_variable = self.before.is_some_and(|before| before.is_punct(b'@'));
        if is_variable {
            if is(&["WARNING_COUNT", "ERROR_COUNT"]) {
                self.query.unfit =
                    Some("@@warning_count or @@error_count in the query; put it into a variable first");
            }
        } else if is(&["SQL_CALC_FOUND_ROWS"]) {
            self.query.unfit = Some("SQL_CALC_FOUND_ROWS in the query; count in a statement of its own");
        } else if is(&["EXAMINED"]) {
            self.query.unfit = Some("LIMIT ROWS EXAMINED in the query; leave it out");
        }
    }

    /// A word of the outermost part, at the level of the parentheses that the query begins with.
    fn outer_word(&mut self, lexer: &Lexer<'_>, token: Token) -> Result<(), Odd> {
        let depth = self.opens.len();
        let is = |words: &[&str]| lexer.is_any_word(token, words);
        if self.after_cte && self.with_at == Some(depth) {
            // Behind `AS (...)` without a comma: the body.
            self.with_at = None;
            self.expects_body = true;
        }
        if self.with_at == Some(depth) {
            return Ok(());
        }
        if std::mem::take(&mut self.expects_body) {
            if is(&["WITH"]) {
                self.with_at = Some(depth);
                self.expects_body = true;
                return Ok(());
            }
            if is(&["TABLE", "VALUES"]) {
                self.level(depth).has_from = true;
            }
        }
        let is_closed = self.levels.len() > depth + 1;
        if is(&["UNION", "EXCEPT", "INTERSECT", "MINUS"]) {
            let level = self.level(depth);
            level.combines = true;
            level.lock_at = None;
            self.in_filter = false;
            self.in_column = None;
        } else if is(&["SELECT"]) {
            self.in_filter = false;
            self.in_column = Some(0);
        } else if is(&["FROM"]) {
            self.in_column = None;
            self.level(depth).has_from |= !lexer.peek()?.is_word(lexer.text(), "DUAL");
            self.in_filter = false;
        } else if is(&["WHERE", "GROUP", "HAVING"]) {
            self.in_filter = true;
        } else if is(&["ORDER"]) {
            self.in_filter = true;
            self.level(depth).trails |= is_closed;
        } else if is(&["LIMIT", "FETCH"]) || is(&["OFFSET"]) && lexer.dialect().is_mariadb() {
            let at_most = if is(&["LIMIT"]) { limit(lexer)? } else { self.at_most };
            self.at_most = at_most;
            let level = self.level(depth);
            level.has_limit = true;
            level.trails |= is_closed;
        } else if is(&["FOR", "LOCK"]) {
            let next = lexer.peek()?;
            let locks = ["UPDATE", "SHARE", "IN"].iter().any(|word| next.is_word(lexer.text(), word));
            let start = self.before.map_or(token.span.start, |before| before.span.end);
            let level = self.level(depth);
            if locks && level.lock_at.is_none() {
                level.lock_at = Some(start);
            }
        } else if is(&["INTO"]) {
            self.query.has_into = true;
        } else if is(&["PROCEDURE"]) {
            self.query.unfit = Some("PROCEDURE in the query; leave it out");
        }
        Ok(())
    }

    fn level(&mut self, depth: usize) -> &mut Level {
        if self.levels.len() <= depth {
            self.levels.resize(depth + 1, Level::default());
        }
        // Just made long enough; there is always the first.
        self.levels.get_mut(depth).unwrap_or_else(|| unreachable!("resized above"))
    }

    /// `None`: there is no query within its parentheses, or none that is whole.
    fn finish(self, text: &[u8], params: u32) -> Option<Query> {
        let Reader { start, end, levels, mut query, at_most, .. } = self;
        query.span = Span { start, end };
        query.params = params;
        // The outermost level that combines queries, else the one inside of all parentheses.
        let at = levels.iter().position(|level| level.combines).unwrap_or(levels.len() - 1);
        let level = levels.get(at).copied().unwrap_or_default();
        if level.end == 0 {
            return None;
        }
        let outside = levels.get(..at).unwrap_or_default();
        if outside.iter().any(|level| level.trails) {
            query.unfit = Some(
                "ORDER BY or LIMIT after the parentheses around the whole query; write it without the parentheses",
            );
        }
        query.limit_at = (!level.has_limit).then(|| level.lock_at.unwrap_or(level.end));
        // What is written behind a minus could be a comment.
        let before = |at: u32| text.get(..at as usize).unwrap_or_default();
        if before(end).ends_with(b"-") || query.limit_at.is_some_and(|at| before(at).ends_with(b"-")) {
            return None;
        }
        query.rows_max = match at_most {
            _ if !level.combines && !level.has_from => RowsMax::One,
            Some(n) if level.has_limit => RowsMax::AtMost(n),
            _ => RowsMax::Unknown,
        };
        Some(query)
    }
}

/// Behind LIMIT: how many rows, where that is a number.
fn limit(lexer: &Lexer<'_>) -> Result<Option<u64>, Odd> {
    let mut ahead = lexer.clone();
    let number = |token: Token| match token.kind {
        TokenKind::Integer => str::from_utf8(token.span.of(lexer.text())).ok()?.parse().ok(),
        _ => None,
    };
    let first = ahead.next()?;
    if ahead.eat_punct(b',')? {
        return Ok(number(ahead.next()?));
    }
    Ok(number(first))
}

/// What ON DUPLICATE KEY UPDATE names.
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
                query.names_source = true;
                return Ok(());
            };
            let next = ahead.peek()?;
            let word = token.span.of(lexer.text());
            let is_word = token.kind == TokenKind::Word;
            if let Some(qualifier) = path.qualifier {
                query.names_source |= next.is_punct(b'(')
                    || name::decode(lexer.text(), qualifier, charset).is_none_or(|name| name != table);
            } else if next.is_punct(b'(') {
                query.names_source |=
                    ["SELECT", "TABLE", "WITH"].iter().any(|w| token.is_word(lexer.text(), w));
            } else if is_word && ["SELECT", "TABLE", "WITH"].iter().any(|w| token.is_word(lexer.text(), w)) {
                query.names_source = true;
            } else if !(is_word && (is_expression_word(word) || word.eq_ignore_ascii_case(b"COLLATE"))) {
                query.bare_names.push(path.last);
            }
        }
        before = Some(token);
    }
}

#[cfg(test)]
mod tests;
