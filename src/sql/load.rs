//! LOAD DATA and LOAD XML, read whole: what the file fills, and where the text names the table.
//!
//! The grammar is MariaDB's and MySQL's at once (sql_yacc.yy, `load` and `load_stmt`). Which
//! clauses each takes, and in which order, was tried on MariaDB 10.11 and MySQL 9.7. MySQL's bulk
//! load (URL, COUNT, COMPRESSION, ALGORITHM=BULK, ...) goes past the tables of a session: it is not
//! understood.

use super::insert::expression::{self, Ends, Scope, Traits};
use super::lex::{Lexer, Odd, Span, Token, TokenKind};
use super::name::{self, Path};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// LOAD DATA
    Lines,
    /// LOAD XML
    Xml,
}

impl Format {
    pub fn verb(self) -> &'static str {
        match self {
            Format::Lines => "LOAD DATA",
            Format::Xml => "LOAD XML",
        }
    }
}

/// The fate of a row whose key is taken, as the statement says it. From a client's file (LOCAL), both servers leave
/// such a row out unless REPLACE is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    Unsaid,
    Ignore,
    Replace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub format: Format,
    /// The client sends the file.
    pub local: bool,
    pub on_duplicate: OnDuplicate,
    /// The table's name, with its schema where one is written. No comment begins or ends in it, nor
    /// in the other spans but that of a list which names something.
    pub table: Span,
    /// `PARTITION (p0, p1)`
    pub partition: Option<Span>,
    /// The list, with its parentheses. Where there is none, the empty span where it would stand.
    pub list: Span,
    /// The columns of the list in its order, `@variables` left out, each the last part of what may
    /// be qualified. One may stand there twice. `None`: no list or an empty one, which mean all
    /// columns.
    pub listed: Option<Vec<Token>>,
    /// The columns that SET gives values to, in its order. Each may be in the list, too, and may
    /// stand here twice: the last value counts.
    pub assigned: Vec<Token>,
    /// The qualifiers of columns by the table's name, with their dots: `t.`, `db.t.`. In the order of the text.
    pub qualifiers: Vec<Span>,
    /// A value in SET holds a query and names the table: as a qualifier, which a name within the query may stand
    /// after, or as a table that the query reads (on both servers error 1093).
    pub query_names_table: bool,
    /// The traits of all values in SET.
    pub traits: Traits,
    /// The statement's `?`.
    pub params: u32,
    /// The offset of its `;` or of the end of the text. Comments that follow its last token are before it.
    pub end: u32,
    /// A `;` ended it, rather than the end of the text.
    pub semicolon: bool,
}

impl Load {
    /// After LOAD, to after the `;` or to the end. `column` is the id's, `table` the table's name
    /// as the statement spells it, without its schema. `None`: not understood.
    pub fn read(lexer: &mut Lexer<'_>, column: &str, table: &str) -> Result<Option<Load>, Odd> {
        let begin = lexer.clone();
        let Some(mut load) = Load::head(lexer)? else { return Ok(None) };
        if !partition(lexer, &mut load)? || !format(lexer)? {
            return Ok(None);
        }
        let scope = Scope { column, table };
        load.list = Span { start: lexer.position(), end: lexer.position() };
        if !load.list(lexer, scope)? {
            return Ok(None);
        }
        let mut last = lexer.next()?;
        if lexer.is_word(last, "SET") {
            let Some(next) = load.assignments(lexer, scope)? else { return Ok(None) };
            last = next;
        }
        load.params = lexer.params();
        load.end = last.span.start;
        load.semicolon = last.is_punct(b';');
        // A `;` within a comment that is code would leave that comment open.
        let mut whole = begin.over(Span { start: begin.position(), end: load.end });
        while whole.next()?.kind != TokenKind::End {}
        Ok(last.ends_statement().then_some(load))
    }

    /// From DATA or XML to the table's name.
    fn head(lexer: &mut Lexer<'_>) -> Result<Option<Load>, Odd> {
        let format = if lexer.eat_word("DATA")? {
            Format::Lines
        } else if lexer.eat_word("XML")? {
            Format::Xml
        } else {
            return Ok(None);
        };
        let _ = lexer.eat_word("LOW_PRIORITY")? || lexer.eat_word("CONCURRENT")?;
        if !lexer.dialect().is_mariadb() {
            lexer.eat_word("FROM")?;
        }
        let local = lexer.eat_word("LOCAL")?;
        if !lexer.eat_word("INFILE")? || lexer.next()?.kind != TokenKind::String {
            return Ok(None);
        }
        let on_duplicate = if lexer.eat_word("REPLACE")? {
            OnDuplicate::Replace
        } else if lexer.eat_word("IGNORE")? {
            OnDuplicate::Ignore
        } else {
            OnDuplicate::Unsaid
        };
        if !(lexer.eat_word("INTO")? && lexer.eat_word("TABLE")?) {
            return Ok(None);
        }
        let first = lexer.next()?;
        let Some(path) = name::table(lexer, first)? else { return Ok(None) };
        let table = Span { start: first.span.start, end: path.last.span.end };
        Ok(is_whole(lexer.text(), table).then(|| Load {
            format,
            local,
            on_duplicate,
            table,
            partition: None,
            list: table,
            listed: None,
            assigned: Vec::new(),
            qualifiers: Vec::new(),
            query_names_table: false,
            traits: Traits::default(),
            params: 0,
            end: table.end,
            semicolon: false,
        }))
    }

    /// `(a, @b, t.c)`, or nothing.
    fn list(&mut self, lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<bool, Odd> {
        let open = lexer.peek()?;
        if !open.is_punct(b'(') {
            return Ok(true);
        }
        lexer.next()?;
        self.list = Span { start: open.span.start, end: lexer.peek()?.span.end };
        if lexer.eat_punct(b')')? {
            return Ok(is_whole(lexer.text(), self.list));
        }
        let mut columns = Vec::with_capacity(8);
        loop {
            let first = lexer.next()?;
            if first.is_punct(b'@') {
                if !variable(lexer, first)? {
                    return Ok(false);
                }
            } else {
                let Some(column) = self.column(lexer, scope, first)? else { return Ok(false) };
                columns.push(column);
            }
            let next = lexer.next()?;
            if next.is_punct(b')') {
                self.list.end = next.span.end;
                self.listed = Some(columns);
                return Ok(true);
            }
            if !next.is_punct(b',') {
                return Ok(false);
            }
        }
    }

    /// After SET; returns what ended it. `None`: not understood.
    fn assignments(&mut self, lexer: &mut Lexer<'_>, scope: Scope<'_>) -> Result<Option<Token>, Odd> {
        loop {
            let first = lexer.next()?;
            let Some(column) = self.column(lexer, scope, first)? else { return Ok(None) };
            if !lexer.next()?.is_assignment() {
                return Ok(None);
            }
            let before = lexer.clone();
            let value = expression::read(lexer, scope, Ends::InAssignments)?;
            if value.tokens == 0 || !self.value(before, value.span.end, scope)? {
                return Ok(None);
            }
            self.assigned.push(column);
            self.traits.add(value.traits);
            if !value.end.is_punct(b',') {
                return Ok(Some(value.end));
            }
        }
    }

    /// A column that is filled, whose first name has been read. `None`: it cannot be read.
    fn column(
        &mut self,
        lexer: &mut Lexer<'_>,
        scope: Scope<'_>,
        first: Token,
    ) -> Result<Option<Token>, Odd> {
        let Some(path) = name::path(lexer, first)? else { return Ok(None) };
        let charset = lexer.dialect().charset;
        let is_name = name::names_column(lexer.text(), path.last, charset, scope.column).is_some();
        let is_read = self.qualifier(lexer, scope, first, path);
        Ok((is_name && is_read).then_some(path.last))
    }

    /// Notes what qualifies a column; whether it can be read.
    fn qualifier(&mut self, lexer: &Lexer<'_>, scope: Scope<'_>, first: Token, path: Path) -> bool {
        let Some(qualifier) = path.qualifier else { return true };
        let span = Span { start: first.span.start, end: path.last.span.start };
        match spells(lexer, qualifier, scope.table) {
            Some(true) if is_whole(lexer.text(), span) => self.qualifiers.push(span),
            Some(false) => {}
            _ => return false,
        }
        true
    }

    /// Looks for names in a value, which ends at `end`; whether all of them can be read.
    fn value(&mut self, mut lexer: Lexer<'_>, end: u32, scope: Scope<'_>) -> Result<bool, Odd> {
        let (mut holds_query, mut names_table) = (false, false);
        let mut before: Option<Token> = None;
        while lexer.position() < end {
            let token = lexer.next()?;
            let is_glued = before.is_some_and(|before| name::is_glued(before, token));
            before = Some(token);
            if is_glued || !name::is_name(token) {
                continue;
            }
            holds_query |= lexer.is_any_word(token, &["SELECT", "TABLE"]);
            names_table |= spells(&lexer, token, scope.table) != Some(false);
            let Some(path) = name::path(&mut lexer, token)? else { continue };
            before = Some(path.last);
            if path.qualifier.is_none() {
                continue;
            }
            for part in path.qualifier.into_iter().chain([path.last]) {
                names_table |= spells(&lexer, part, scope.table) != Some(false);
            }
            // `db.f(x)` is a stored function.
            let is_column = !lexer.peek()?.is_punct(b'(');
            if is_column && !self.qualifier(&lexer, scope, token, path) {
                return Ok(false);
            }
        }
        self.query_names_table |= holds_query && names_table;
        Ok(true)
    }
}

/// PARTITION (...), or nothing. Whether it is understood.
fn partition(lexer: &mut Lexer<'_>, load: &mut Load) -> Result<bool, Odd> {
    let start = lexer.peek()?.span.start;
    if !lexer.eat_word("PARTITION")? {
        return Ok(true);
    }
    if !lexer.eat_punct(b'(')? {
        return Ok(false);
    }
    let Some(close) = name::list_end(lexer)? else { return Ok(false) };
    let span = Span { start, end: close.span.end };
    load.partition = Some(span);
    Ok(is_whole(lexer.text(), span))
}

/// Reads the clauses on how the file is read, from CHARACTER SET to IGNORE n LINES. True if they are understood.
fn format(lexer: &mut Lexer<'_>) -> Result<bool, Odd> {
    let names_charset = lexer.eat_word("CHARSET")?
        || (lexer.eat_word("CHARACTER")? || lexer.eat_word("CHAR")?) && lexer.eat_word("SET")?;
    if names_charset {
        let name = lexer.next()?;
        if name.kind != TokenKind::String && !name::is_name(name) {
            return Ok(false);
        }
    }
    if lexer.eat_word("ROWS")? && !(lexer.eat_word("IDENTIFIED")? && by_text(lexer)?) {
        return Ok(false);
    }
    let has_fields = lexer.eat_word("FIELDS")? || lexer.eat_word("COLUMNS")?;
    if has_fields && !terms(lexer, &["TERMINATED", "OPTIONALLY", "ENCLOSED", "ESCAPED"])? {
        return Ok(false);
    }
    if lexer.eat_word("LINES")? && !terms(lexer, &["TERMINATED", "STARTING"])? {
        return Ok(false);
    }
    if !lexer.eat_word("IGNORE")? {
        return Ok(true);
    }
    Ok(lexer.next()?.kind == TokenKind::Integer && (lexer.eat_word("LINES")? || lexer.eat_word("ROWS")?))
}

/// `TERMINATED BY ',' ESCAPED BY ''`: at least one, in any order.
fn terms(lexer: &mut Lexer<'_>, words: &[&str]) -> Result<bool, Odd> {
    let mut count = 0;
    loop {
        let word = lexer.peek()?;
        if !lexer.is_any_word(word, words) {
            return Ok(count > 0);
        }
        lexer.next()?;
        if lexer.is_word(word, "OPTIONALLY") && !lexer.eat_word("ENCLOSED")? || !by_text(lexer)? {
            return Ok(false);
        }
        count += 1;
    }
}

fn by_text(lexer: &mut Lexer<'_>) -> Result<bool, Odd> {
    let is_by = lexer.eat_word("BY")?;
    let text = lexer.next()?.kind;
    Ok(is_by && matches!(text, TokenKind::String | TokenKind::Hex | TokenKind::Bits))
}

/// After the `@` of a user's variable; whether its name is understood.
fn variable(lexer: &mut Lexer<'_>, at: Token) -> Result<bool, Odd> {
    let mut end = at.span.end;
    loop {
        let token = lexer.peek()?;
        let is_glued = token.span.start == end;
        let is_first = end == at.span.end;
        match token.kind {
            TokenKind::String | TokenKind::QuotedName if is_glued && is_first => {
                lexer.next()?;
                return Ok(true);
            }
            TokenKind::End | TokenKind::Punct(b',' | b')') => return Ok(!is_first),
            // `@a.b1` is one name, and `@1e5` too.
            TokenKind::Word
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Float
            | TokenKind::Punct(b'.')
                if is_glued =>
            {
                end = lexer.next()?.span.end;
            }
            _ => return Ok(false),
        }
    }
}

/// True if the token is this table's name, however its letters are written. `None`: it cannot be read.
fn spells(lexer: &Lexer<'_>, token: Token, table: &str) -> Option<bool> {
    name::names_column(lexer.text(), token, lexer.dialect().charset, table)
}

/// True if no comment begins or ends within the span, so that it can be taken out as a whole.
fn is_whole(text: &[u8], span: Span) -> bool {
    let bytes = span.of(text);
    [b"/*", b"*/"].iter().all(|mark| memchr::memmem::find(bytes, *mark).is_none())
}

#[cfg(test)]
mod tests;
