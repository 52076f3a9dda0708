//! One value or assigned expression: where it ends, and what in it an id could disturb.

use super::quiet::is_quiet;
use crate::sql::lex::{Lexer, Odd, Span, Token, TokenKind};
use crate::sql::name;

/// The findings about an expression, as far as ids could show in it.
#[allow(clippy::struct_excessive_bools)] // Independent findings, added up over a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traits {
    /// The expression may run code that we do not see (a stored function, a view), which may read
    /// LAST_INSERT_ID().
    pub loud: bool,
    /// The expression reads LAST_INSERT_ID() or @@identity.
    pub reads_last_id: bool,
    /// The expression calls LAST_INSERT_ID(x).
    pub sets_last_id: bool,
    /// The expression names the id's column.
    pub names_id: bool,
}

impl Traits {
    pub(crate) fn add(&mut self, other: Traits) {
        self.loud |= other.loud;
        self.reads_last_id |= other.reads_last_id;
        self.sets_last_id |= other.sets_last_id;
        self.names_id |= other.names_id;
    }
}

/// The tokens at which an expression may end at depth 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// At `,` or `)`.
    InRow,
    /// At `,` or what follows a list of assignments: AS, ON, RETURNING, `;`, the end.
    InAssignments,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Expression {
    /// From its first to its last token; empty where there was none.
    pub(crate) span: Span,
    pub(crate) first: Token,
    pub(crate) tokens: u32,
    pub(crate) params_before: u32,
    pub(crate) traits: Traits,
    /// The token that ended it, which has been read.
    pub(crate) end: Token,
}

/// The names that have a meaning in expressions: the id's column, and the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) column: &'a str,
    pub(crate) table: &'a str,
}

pub(crate) fn read(lexer: &mut Lexer<'_>, scope: Scope<'_>, ends: Ends) -> Result<Expression, Odd> {
    let first = lexer.next()?;
    read_from(lexer, scope, ends, first)
}

/// Reads an expression as [`read`] does. Its first token has been read.
#[inline]
pub(crate) fn read_from(
    lexer: &mut Lexer<'_>,
    scope: Scope<'_>,
    ends: Ends,
    first: Token,
) -> Result<Expression, Odd> {
    let params_before = lexer.params() - u32::from(first.kind == TokenKind::Placeholder);
    let mut expression = Expression {
        span: Span { start: first.span.start, end: first.span.start },
        first,
        tokens: 0,
        params_before,
        traits: Traits::default(),
        end: first,
    };
    let mut before = Before::default();
    let mut depth = 0u32;
    let mut token = first;
    loop {
        if depth == 0 && ends_here(lexer, ends, token, &before) {
            expression.end = token;
            return Ok(expression);
        }
        match token.kind {
            TokenKind::Punct(b'(') => {
                before.call(lexer, &mut expression.traits)?;
                depth += 1;
            }
            TokenKind::Punct(b')') => {
                depth = depth
                    .checked_sub(1)
                    .ok_or(Odd { at: token.span.start, what: "a closing parenthesis" })?;
            }
            TokenKind::Punct(b';') | TokenKind::End => {
                return Err(Odd { at: token.span.start, what: "an unclosed parenthesis" });
            }
            TokenKind::Word | TokenKind::QuotedName => {
                before.name(lexer, scope, token, &mut expression.traits);
            }
            _ => {}
        }
        before.step(token);
        expression.tokens += 1;
        expression.span.end = token.span.end;
        token = lexer.next()?;
    }
}

fn ends_here(lexer: &Lexer<'_>, ends: Ends, token: Token, before: &Before) -> bool {
    match (ends, token.kind) {
        (_, TokenKind::Punct(b','))
        | (Ends::InRow, TokenKind::Punct(b')'))
        | (Ends::InAssignments, TokenKind::Punct(b';') | TokenKind::End) => true,
        // AS and ON are reserved, RETURNING on MariaDB.
        (Ends::InAssignments, TokenKind::Word) => {
            before.last.is_some_and(|last| !name::is_glued(last, token))
                && (["ON", "AS"].iter().any(|word| lexer.is_word(token, word))
                    || lexer.is_word(token, "RETURNING") && lexer.dialect().is_mariadb())
        }
        _ => false,
    }
}

/// The tokens that stood in front of a token.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    last: Option<Token>,
    /// The name in front of the last dot.
    qualifier: Option<Token>,
    /// `@` signs that the present run of names began with: 1 a user's variable, 2 the system's.
    ats: u8,
}

impl Before {
    fn name(&self, lexer: &Lexer<'_>, scope: Scope<'_>, token: Token, traits: &mut Traits) {
        let text = lexer.text();
        let word = token.span.of(text);
        let is = |token: Token, name: &str| {
            let bytes = token.span.of(text);
            if token.kind == TokenKind::Word && bytes.len() == name.len() {
                return bytes.eq_ignore_ascii_case(name.as_bytes())
                    || !bytes.is_ascii() && alike(lexer, token, name);
            }
            // Unquoted ASCII of another length is another name.
            (token.kind != TokenKind::Word || !bytes.is_ascii()) && alike(lexer, token, name)
        };
        let (ats, qualifier) = if self.is_glued() { (self.ats, self.qualifier) } else { (0, None) };
        match ats {
            0 => {
                let of_table = qualifier.is_none_or(|qualifier| is(qualifier, scope.table));
                traits.names_id |= is(token, scope.column) && of_table;
                traits.loud |= matches!(word.len(), 4..=7)
                    && [&b"SELECT"[..], b"TABLE", b"WITH", b"NEXTVAL", b"NEXT"]
                        .iter()
                        .any(|keyword| word.eq_ignore_ascii_case(keyword));
            }
            1 => {}
            _ => {
                traits.reads_last_id |= token.kind == TokenKind::QuotedName
                    || word.eq_ignore_ascii_case(b"identity")
                    || word.eq_ignore_ascii_case(b"last_insert_id");
            }
        }
    }

    /// At an opening parenthesis: a call, where a name precedes it.
    fn call(&self, lexer: &Lexer<'_>, traits: &mut Traits) -> Result<(), Odd> {
        let Some(name) = self.last.filter(|&token| name::is_name(token)) else { return Ok(()) };
        let name = name::decode(lexer.text(), name, lexer.dialect().charset);
        let Some(name) = name.filter(|_| self.qualifier.is_none()) else {
            traits.loud = true;
            return Ok(());
        };
        if name.eq_ignore_ascii_case("LAST_INSERT_ID") {
            if lexer.peek()?.is_punct(b')') {
                traits.reads_last_id = true;
            } else {
                traits.sets_last_id = true;
            }
        }
        traits.loud |= !is_quiet(name.as_bytes());
        Ok(())
    }

    fn step(&mut self, token: Token) {
        let glued = self.is_glued();
        match token.kind {
            TokenKind::Punct(b'.') => self.qualifier = self.last,
            TokenKind::Punct(b'@') => self.ats = self.ats.saturating_add(1),
            _ if name::is_name(token) && glued => {}
            _ => {
                self.qualifier = None;
                self.ats = 0;
            }
        }
        self.last = Some(token);
    }

    /// True if a name here belongs to what precedes it: `t.` or `@`.
    fn is_glued(&self) -> bool {
        self.last.is_some_and(|token| token.is_punct(b'.') || token.is_punct(b'@'))
    }
}

/// True if the token spells this name. A name that cannot be read might, and counts.
fn alike(lexer: &Lexer<'_>, token: Token, name: &str) -> bool {
    name::decode(lexer.text(), token, lexer.dialect().charset).is_none_or(|n| name::same_column(&n, name))
}
