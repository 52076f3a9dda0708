//! Through one statement: which queries there are, and in which part of which of them a call stands.

use super::items::Items;
use super::{Call, CallPlace, Draws, call};
use crate::sql::insert::{Head, Source, Verb};
use crate::sql::lex::{Lexer, Odd, Token, TokenKind};
use crate::sql::statement::{self, Statement};

/// The kind of a statement, as far as the number of evaluations depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// SELECT, alone or in parentheses.
    Select,
    /// INSERT. `has_rows`: it has VALUES, which may be several rows.
    Insert { has_rows: bool },
    /// SET, DO, CALL: each expression is evaluated once.
    Once,
    /// UPDATE.
    Update,
    /// Any other statement, by what it is. Each call in it is refused.
    Other(&'static str),
}

/// A part of an INSERT or UPDATE, outside of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    /// VALUES of an INSERT, or its SET.
    Rows,
    /// SET of an UPDATE.
    Assigned,
    /// ON DUPLICATE KEY UPDATE.
    OnDuplicate,
    /// WHERE, ORDER BY, RETURNING.
    Tail,
}

/// A SELECT and what belongs to it.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// The number of parentheses that are open around it.
    depth: usize,
    /// The query around it.
    outer: Option<usize>,
    /// The query stands in the select list of the query around it.
    in_outer_list: bool,
    in_list: bool,
    reads_rows: bool,
}

struct Found {
    call: Call,
    query: Option<usize>,
    in_list: bool,
    part: Part,
}

struct Walk {
    kind: Kind,
    is_explained: bool,
    part: Part,
    depth: usize,
    queries: Vec<Query>,
    /// The queries that the present token is in, the innermost last.
    open: Vec<usize>,
    found: Vec<Found>,
    /// The number of rows in an INSERT's VALUES.
    rows: usize,
    /// The UPDATE ends with LIMIT 1.
    is_limited: bool,
    items: Items,
}

/// The words that end a select list, at the depth of its query.
const AFTER_LIST: &[&str] = keywords!(
    FROM INTO WHERE GROUP HAVING WINDOW ORDER LIMIT FETCH PROCEDURE FOR LOCK UNION EXCEPT INTERSECT RETURNING ON
);

/// Reads one statement; and says whether it is the last of its packet.
pub(super) fn statement(lexer: &mut Lexer<'_>) -> Result<(Draws, bool), Odd> {
    let (kind, is_explained, takes_rest) = kind(lexer)?;
    let part = if matches!(kind, Kind::Insert { .. }) { Part::Rows } else { Part::Head };
    let mut walk = Walk {
        kind,
        is_explained,
        part,
        depth: 0,
        queries: Vec::new(),
        open: Vec::new(),
        found: Vec::new(),
        rows: 0,
        is_limited: false,
        items: Items::default(),
    };
    let mut before = None;
    let end = loop {
        let token = lexer.next()?;
        let is_end = token.kind == TokenKind::End || token.is_punct(b';') && !takes_rest;
        if is_end {
            break token;
        }
        let params_before = lexer.params();
        let is_glued = before.is_some_and(|before: Token| before.is_punct(b'.') || before.is_punct(b'@'));
        let found = if is_glued { None } else { call(lexer, token)? };
        let mut last = token;
        if let Some((form, in_words, path, span)) = found {
            walk.call(Call { span, params_before, form, in_words, path, place: CallPlace::Explained });
            last = Token { kind: TokenKind::Punct(b')'), span };
        } else if !is_glued {
            walk.token(lexer, token)?;
        }
        before = Some(last);
        if walk.is_in_named_list() {
            walk.items.token(lexer, last, found.is_some());
        }
    };
    if walk.is_in_named_list() {
        walk.items.end();
    }
    Ok((Draws { params: lexer.params(), ..walk.draws() }, end.kind == TokenKind::End))
}

/// The statement's kind, if EXPLAIN stands before it, and if its end is not known, so that it takes the packet's rest.
fn kind(lexer: &mut Lexer<'_>) -> Result<(Kind, bool, bool), Odd> {
    let mut is_explained = false;
    loop {
        let before = lexer.clone();
        let first = lexer.peek()?;
        let statement = statement::classify(lexer)?;
        let word = |words: &[&str]| before.is_any_word(first, words);
        let kind = match statement {
            Statement::Explain => {
                is_explained = true;
                continue;
            }
            Statement::Analyze | Statement::For(_) => continue,
            Statement::Insert(verb) => {
                return insert(lexer, verb).map(|kind| (kind, is_explained, false));
            }
            Statement::Routine => return Ok((Kind::Other("a routine"), false, true)),
            Statement::Compound => return Ok((Kind::Other("a compound statement"), false, true)),
            Statement::Set(_) => Kind::Once,
            Statement::Ddl(_) => Kind::Other("a DDL statement"),
            _ if word(&["SELECT"]) || first.is_punct(b'(') => Kind::Select,
            _ if word(&["DO", "CALL"]) => Kind::Once,
            _ if word(&["UPDATE"]) => Kind::Update,
            _ if word(&["DELETE"]) => Kind::Other("a DELETE, which evaluates the call for each row"),
            _ if word(&["WITH"]) => Kind::Other("a statement with WITH, whose queries may run several times"),
            _ => Kind::Other("a statement of a kind that cannot draw ids"),
        };
        *lexer = before;
        return Ok((kind, is_explained, false));
    }
}

/// The lexer stands after the verb, and is left where the values begin.
fn insert(lexer: &mut Lexer<'_>, verb: Verb) -> Result<Kind, Odd> {
    let other = Ok(Kind::Other("an INSERT of a form that cannot draw ids"));
    if Head::parse(lexer, verb)?.is_none() {
        return other;
    }
    let mut ahead = lexer.clone();
    let Some((_, source)) = Head::columns(&mut ahead)? else { return other };
    match source {
        // The query is read with its parentheses.
        Source::Query(first) => {
            while lexer.peek()?.span != first.span {
                lexer.next()?;
            }
        }
        Source::Values(_) | Source::Set => *lexer = ahead,
    }
    Ok(Kind::Insert { has_rows: matches!(source, Source::Values(_)) })
}

impl Walk {
    fn call(&mut self, call: Call) {
        let query = self.open.last().copied();
        let in_list = query.and_then(|at| self.queries.get(at)).is_some_and(|query| query.in_list);
        self.found.push(Found { call, query, in_list, part: self.part });
    }

    fn token(&mut self, lexer: &mut Lexer<'_>, token: Token) -> Result<(), Odd> {
        match token.kind {
            TokenKind::Punct(b'(') => {
                self.rows += usize::from(self.depth == 0 && self.part == Part::Rows);
                self.depth += 1;
            }
            TokenKind::Punct(b')') => {
                self.leave();
                self.depth = self.depth.saturating_sub(1);
            }
            TokenKind::Punct(b',') if self.is_at_named_list() => self.items.end(),
            TokenKind::Word => self.word(lexer, token)?,
            _ => {}
        }
        Ok(())
    }

    fn word(&mut self, lexer: &mut Lexer<'_>, token: Token) -> Result<(), Odd> {
        if lexer.is_word(token, "SELECT") {
            self.leave();
            return self.select(lexer);
        }
        if lexer.is_any_word(token, AFTER_LIST) {
            self.after_list(lexer, token)?;
        }
        if self.depth > 0 || !self.open.is_empty() {
            return Ok(());
        }
        match self.kind {
            Kind::Insert { .. } if lexer.is_word(token, "ON") => self.part = Part::OnDuplicate,
            Kind::Insert { .. } if lexer.is_word(token, "RETURNING") && lexer.dialect().is_mariadb() => {
                self.part = Part::Tail;
            }
            Kind::Update if lexer.is_word(token, "SET") => self.part = Part::Assigned,
            Kind::Update if lexer.is_any_word(token, &["WHERE", "ORDER"]) => self.part = Part::Tail,
            Kind::Update if lexer.is_word(token, "LIMIT") => {
                self.part = Part::Tail;
                let mut ahead = lexer.clone();
                let n = ahead.next()?;
                let is_one = n.kind == TokenKind::Integer && n.span.of(lexer.text()) == b"1";
                self.is_limited = is_one && ahead.next()?.ends_statement();
            }
            _ => {}
        }
        Ok(())
    }

    /// The lexer stands after SELECT. Its options are no part of the list.
    fn select(&mut self, lexer: &mut Lexer<'_>) -> Result<(), Odd> {
        const OPTIONS: &[&str] = keywords!(
            ALL DISTINCT DISTINCTROW HIGH_PRIORITY STRAIGHT_JOIN SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT
            SQL_CACHE SQL_NO_CACHE SQL_CALC_FOUND_ROWS
        );
        while lexer.is_any_word(lexer.peek()?, OPTIONS) {
            lexer.next()?;
        }
        let outer = self.open.last().copied();
        let in_outer_list = outer.and_then(|at| self.queries.get(at)).is_some_and(|outer| outer.in_list);
        self.open.push(self.queries.len());
        let depth = self.depth;
        self.queries.push(Query { depth, outer, in_outer_list, in_list: true, reads_rows: false });
        if outer.is_none() {
            self.items.begin();
        }
        Ok(())
    }

    fn after_list(&mut self, lexer: &Lexer<'_>, token: Token) -> Result<(), Odd> {
        let Some(&at) = self.open.last() else { return Ok(()) };
        if self.queries.get(at).is_none_or(|query| query.depth != self.depth) {
            return Ok(());
        }
        let reads_rows = lexer.is_word(token, "FROM") && !is_dual(lexer)?;
        if self.is_at_named_list() {
            self.items.end();
        }
        if let Some(query) = self.queries.get_mut(at) {
            query.in_list = false;
            query.reads_rows |= reads_rows;
        }
        // A word after the query of a union or of an INSERT belongs to no query.
        let ends = match self.kind {
            Kind::Insert { .. } => ["UNION", "EXCEPT", "INTERSECT", "ON", "RETURNING"].as_slice(),
            _ => &["UNION", "EXCEPT", "INTERSECT"],
        };
        if lexer.is_any_word(token, ends) {
            self.open.pop();
        }
        Ok(())
    }

    /// The queries of the present parentheses end.
    fn leave(&mut self) {
        while let Some(query) = self.open.last().and_then(|&open| self.queries.get(open))
            && query.depth == self.depth
        {
            if self.is_at_named_list() {
                self.items.end();
            }
            self.open.pop();
        }
    }

    /// True if the token is in a select list whose columns the client sees.
    fn is_in_named_list(&self) -> bool {
        self.kind == Kind::Select
            && self.open.first().and_then(|&at| self.queries.get(at)).is_some_and(|query| query.in_list)
    }

    /// True if the token is in a select list whose columns the client sees, and in no parentheses of that list.
    fn is_at_named_list(&self) -> bool {
        let is_at = |query: &Query| query.depth == self.depth;
        self.open.len() == 1
            && self.is_in_named_list()
            && self.open.last().and_then(|&at| self.queries.get(at)).is_some_and(is_at)
    }

    fn draws(self) -> Draws {
        let calls = self.found.iter().map(|found| Call { place: self.place(found), ..found.call }).collect();
        Draws { calls, unnamed: self.items.unnamed, params: 0 }
    }

    fn place(&self, found: &Found) -> CallPlace {
        const ROWS: &str = "a query that reads rows, each of which needs an id of its own";
        let place = match (self.kind, found.part) {
            (Kind::Other(what), _) => return CallPlace::Several(what),
            (Kind::Select | Kind::Once, _) | (Kind::Insert { .. }, Part::Rows) => None,
            (Kind::Insert { has_rows }, Part::OnDuplicate)
                if !(has_rows && self.rows > 1) && self.queries.is_empty() =>
            {
                None
            }
            (Kind::Insert { .. }, Part::OnDuplicate) => Some("ON DUPLICATE KEY UPDATE of several rows"),
            (Kind::Insert { .. }, _) => Some("RETURNING, which is evaluated for each row"),
            (Kind::Update, Part::Assigned) if self.is_limited => None,
            (Kind::Update, Part::Assigned) => Some("an UPDATE without LIMIT 1"),
            (Kind::Update, _) => Some("the WHERE or ORDER BY of an UPDATE"),
        };
        if let Some(what) = place {
            return CallPlace::Several(what);
        }
        if found.query.is_some() && !found.in_list {
            return CallPlace::Several("a part of a query other than its select list");
        }
        let mut at = found.query;
        while let Some(query) = at.and_then(|at| self.queries.get(at)) {
            if query.reads_rows || query.outer.is_some() && !query.in_outer_list {
                return CallPlace::Several(ROWS);
            }
            at = query.outer;
        }
        if self.is_explained {
            return CallPlace::Explained;
        }
        let among_columns = matches!(self.kind, Kind::Insert { .. } | Kind::Update) && found.query.is_none();
        CallPlace::Once { in_list: found.query.is_some(), among_columns }
    }
}

/// The lexer stands after FROM. DUAL alone is no table.
fn is_dual(lexer: &Lexer<'_>) -> Result<bool, Odd> {
    let mut ahead = lexer.clone();
    let first = ahead.next()?;
    let next = ahead.next()?;
    Ok(lexer.is_word(first, "DUAL")
        && !(next.is_punct(b'.')
            || next.is_punct(b',')
            || lexer.is_any_word(next, &["JOIN", "CROSS", "INNER"])))
}
