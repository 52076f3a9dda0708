//! A reader of packets that shares only the lexer with the proxy's own: statements as runs of tokens, and of an INSERT its
//! columns, rows and what follows them.

use std::ops::Range;

use rowstamp::sql::dialect::{ClientCharset, Dialect};
use rowstamp::sql::lex::{Lexer, Token, TokenKind};
use rowstamp::sql::name;
use rowstamp::sql::statement::{self, Statement};

/// A packet's tokens up to `end`.
pub struct Packet<'a> {
    pub text: &'a [u8],
    pub tokens: Vec<Token>,
    /// Where RETURNING is reserved.
    is_mariadb: bool,
    pub statements: Vec<Run>,
    /// Where reading stopped: the text's end, or behind the first statement where only one is read.
    pub end: usize,
    /// What followed the last of `statements` could not be read.
    pub is_odd: bool,
}

/// One statement: its tokens, a `;` or the end among them.
pub struct Run {
    pub tokens: Range<usize>,
    /// The verb of an INSERT or REPLACE, behind what may stand in front of it.
    pub verb: Option<usize>,
    charset: ClientCharset,
}

/// Tokens of one value, assignment or name, by their numbers.
pub type Piece = Range<usize>;

pub struct Insert {
    /// Verb, modifiers, table, PARTITION.
    pub head: Piece,
    /// The numbers of its parentheses, and the names between them.
    pub columns: Option<(usize, Vec<Piece>, usize)>,
    pub body: Body,
    /// Behind the rows, up to the `;` or the end.
    pub tail: Piece,
}

pub enum Body {
    /// VALUES and the rows.
    Rows(usize, Vec<Row>),
    /// SET and the assignments.
    Set(usize, Vec<Piece>),
    /// The query's first token.
    Query(usize),
}

pub struct Row {
    /// ROW or the parenthesis.
    pub start: usize,
    pub open: usize,
    pub close: usize,
    pub values: Vec<Piece>,
}

impl<'a> Packet<'a> {
    pub fn read(text: &'a [u8], dialect: Dialect, several: bool) -> Packet<'a> {
        let is_mariadb = dialect.is_mariadb();
        let mut packet =
            Packet { text, tokens: Vec::new(), is_mariadb, statements: Vec::new(), end: 0, is_odd: false };
        packet.is_odd = packet.read_all(dialect, several).is_none();
        packet
    }

    fn read_all(&mut self, mut dialect: Dialect, several: bool) -> Option<()> {
        let mut lexer = Lexer::new(self.text, dialect)?;
        loop {
            lexer.set_dialect(dialect);
            let (verb_end, body_end) = kind(&lexer, &mut dialect)?;
            let first = self.tokens.len();
            let last = loop {
                let token = lexer.next().ok()?;
                self.tokens.push(token);
                let ends = match token.kind {
                    TokenKind::End => true,
                    TokenKind::Punct(b';') => token.span.end >= body_end,
                    _ => false,
                };
                if ends {
                    break token;
                }
            };
            let tokens = first..self.tokens.len();
            let verb = verb_end.and_then(|end| tokens.clone().find(|&at| self.tokens[at].span.end == end));
            self.statements.push(Run { tokens, verb, charset: lexer.dialect().charset });
            self.end = lexer.position() as usize;
            if last.kind == TokenKind::End || !several {
                return Some(());
            }
        }
    }

    pub fn bytes(&self, token: usize) -> &'a [u8] {
        self.tokens[token].span.of(self.text)
    }

    /// Its tokens' bytes.
    pub fn piece(&self, piece: &Piece) -> Vec<&'a [u8]> {
        piece.clone().map(|at| self.bytes(at)).collect()
    }

    pub fn is_word(&self, token: usize, word: &str) -> bool {
        self.tokens.get(token).is_some_and(|token| token.is_word(self.text, word))
    }

    pub fn is_sign(&self, token: usize, sign: u8) -> bool {
        self.tokens.get(token).is_some_and(|token| token.is_punct(sign))
    }

    pub fn is_any(&self, token: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(token, word))
    }

    pub fn is_placeholder(&self, token: usize) -> bool {
        self.tokens[token].kind == TokenKind::Placeholder
    }

    /// Whether it is a name, and this column's.
    pub fn names(&self, token: usize, column: &str) -> bool {
        let run =
            self.statements.iter().find(|run| run.tokens.contains(&token)).expect("a statement's token");
        name::decode(self.text, self.tokens[token], run.charset)
            .is_some_and(|name| name::same_column(&name, column))
    }

    pub fn is_equals(&self, token: usize) -> bool {
        self.is_sign(token, b'=') || self.tokens[token].kind == TokenKind::Assign
    }

    /// The number of an assignment's `=`.
    pub fn equals_of(&self, piece: &Piece) -> usize {
        piece.clone().find(|&at| self.is_equals(at)).expect("an assignment")
    }

    /// How many `?` the piece has.
    pub fn params(&self, piece: Piece) -> usize {
        piece.filter(|&at| self.is_placeholder(at)).count()
    }

    fn is_name(&self, token: usize) -> bool {
        let kind = self.tokens.get(token).map(|token| token.kind);
        matches!(kind, Some(TokenKind::Word | TokenKind::QuotedName))
    }

    fn ends(&self, token: usize) -> bool {
        let kind = self.tokens.get(token).map(|token| token.kind);
        matches!(kind, None | Some(TokenKind::End | TokenKind::Punct(b';')))
    }

    /// `None`: it is no INSERT that can be read.
    pub fn insert(&self, run: &Run) -> Option<Insert> {
        let start = run.verb?;
        let mut at = start + 1;
        // Each once, in this order; what else follows is the table's name, or wrong.
        for word in ["LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"] {
            at += usize::from(self.is_word(at, word));
        }
        at = self.behind_name(at)?;
        if self.is_word(at, "PARTITION") {
            at = self.behind_parentheses(at + 1)?;
        }
        let mut insert =
            Insert { head: start..at, columns: None, body: Body::Query(at), tail: at..run.tokens.end - 1 };
        let queries = ["SELECT", "WITH", "TABLE"];
        if self.is_sign(at, b'(') {
            if self.is_any(at + 1, &queries) || self.is_sign(at + 1, b'(') {
                return Some(insert);
            }
            let close = self.behind_parentheses(at)? - 1;
            insert.columns = Some((at, self.split(at + 1, close), close));
            at = close + 1;
        }
        if self.is_any(at, &["VALUES", "VALUE"]) {
            let (rows, behind) = self.rows(at + 1)?;
            insert.body = Body::Rows(at, rows);
            insert.tail.start = behind;
        } else if self.is_word(at, "SET") && insert.columns.is_none() {
            let (assignments, behind) = self.assignments(at + 1);
            insert.body = Body::Set(at, assignments);
            insert.tail.start = behind;
        } else {
            insert.body = Body::Query(at);
        }
        Some(insert)
    }

    fn behind_name(&self, mut at: usize) -> Option<usize> {
        loop {
            if !self.is_name(at) {
                return None;
            }
            at += 1;
            if !self.is_sign(at, b'.') {
                return Some(at);
            }
            at += 1;
        }
    }

    fn behind_parentheses(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for at in open.. {
            if self.ends(at) {
                return None;
            }
            depth += usize::from(self.is_sign(at, b'('));
            depth = depth.checked_sub(usize::from(self.is_sign(at, b')')))?;
            if depth == 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// At the commas that are in no parentheses; nothing for nothing.
    pub fn split(&self, start: usize, end: usize) -> Vec<Piece> {
        let (mut pieces, mut from, mut depth) = (Vec::new(), start, 0i32);
        for at in start..end {
            depth += i32::from(self.is_sign(at, b'(')) - i32::from(self.is_sign(at, b')'));
            if depth == 0 && self.is_sign(at, b',') {
                pieces.push(from..at);
                from = at + 1;
            }
        }
        if start < end {
            pieces.push(from..end);
        }
        pieces
    }

    fn rows(&self, mut at: usize) -> Option<(Vec<Row>, usize)> {
        let mut rows = Vec::new();
        loop {
            let start = at;
            at += usize::from(self.is_word(at, "ROW"));
            if !self.is_sign(at, b'(') {
                return None;
            }
            let close = self.behind_parentheses(at)? - 1;
            rows.push(Row { start, open: at, close, values: self.split(at + 1, close) });
            at = close + 1;
            if !self.is_sign(at, b',') {
                return Some((rows, at));
            }
            at += 1;
        }
    }

    /// A reserved word, unless it stands right behind a dot or an `@`.
    fn ends_assignments(&self, word: usize) -> bool {
        let is_reserved =
            self.is_any(word, &["ON", "AS"]) || self.is_mariadb && self.is_word(word, "RETURNING");
        let before = self.tokens[word].span.start.checked_sub(1).and_then(|at| self.text.get(at as usize));
        let follows_sign = self.is_sign(word - 1, b'.') || self.is_sign(word - 1, b'@');
        is_reserved && !(follows_sign && matches!(before, Some(b'.' | b'@')))
    }

    /// Up to what ends such a list; behind the last one.
    pub fn assignments(&self, start: usize) -> (Vec<Piece>, usize) {
        let (mut end, mut depth) = (start, 0i32);
        // Of the present value; `None` in front of its `=`.
        let mut value_tokens: Option<usize> = None;
        while !self.ends(end) {
            if depth == 0 && value_tokens > Some(0) && self.ends_assignments(end) {
                break;
            }
            value_tokens = match value_tokens {
                Some(_) if depth == 0 && self.is_sign(end, b',') => None,
                Some(tokens) => Some(tokens + 1),
                None => self.is_equals(end).then_some(0),
            };
            depth += i32::from(self.is_sign(end, b'(')) - i32::from(self.is_sign(end, b')'));
            end += 1;
        }
        (self.split(start, end), end)
    }
}

/// Where the verb of an INSERT ends, and where a routine's body does.
fn kind(lexer: &Lexer<'_>, dialect: &mut Dialect) -> Option<(Option<u32>, u32)> {
    let mut ahead = lexer.clone();
    loop {
        match statement::classify(&mut ahead).ok()? {
            Statement::Insert(_) => return Some((Some(ahead.position()), 0)),
            Statement::Analyze | Statement::For(_) => {}
            Statement::Routine => {
                let mut body = lexer.clone();
                statement::skip_routine(&mut body).ok()??;
                return Some((None, body.position()));
            }
            Statement::Set(settings) => {
                dialect.sql_mode = settings.sql_mode.unwrap_or(dialect.sql_mode);
                dialect.charset = settings.charset.unwrap_or(dialect.charset);
                return Some((None, 0));
            }
            _ => return Some((None, 0)),
        }
    }
}
