//! The columns of a result: where each one's text lies, and whether it has a name of its own.

use crate::sql::lex::{Lexer, Span, Token, TokenKind};
use crate::sql::name::is_name;

/// Words that stand before an operand: a word after one of them is an operand, not the name of the column.
const BEFORE_OPERAND: &[&str] = keywords!(
    ALL AND ANY BETWEEN BINARY CASE COLLATE DATE DISTINCT DIV ELSE ESCAPE EXISTS IN INTERVAL IS LIKE MOD NOT OF OR
    REGEXP RLIKE SOME SOUNDS THEN TIME TIMESTAMP WHEN XOR
);

/// The select list that the client sees the columns of, as far as it was read.
#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// The tokens of the present column so far.
    span: Option<Span>,
    has_call: bool,
    /// AS stands in it, outside of parentheses, or its last word is its name.
    is_named: bool,
    /// The last token ends an operand, after which a word is a name.
    is_after_operand: bool,
    depth: usize,
    /// CASE without its END.
    cases: usize,
    /// INTERVAL, whose unit is not there yet.
    has_interval: bool,
    pub(super) unnamed: Vec<Span>,
}

impl Items {
    pub(super) fn begin(&mut self) {
        *self = Items { unnamed: std::mem::take(&mut self.unnamed), ..Items::default() };
    }

    /// The column ends before the present token.
    pub(super) fn end(&mut self) {
        if let Some(span) = self.span.filter(|_| self.has_call && !self.is_named) {
            self.unnamed.push(span);
        }
        self.begin();
    }

    pub(super) fn token(&mut self, lexer: &Lexer<'_>, token: Token, is_call: bool) {
        if self.span.is_none() && (token.is_punct(b',') || lexer.is_word(token, "SELECT")) {
            return;
        }
        let start = self.span.map_or(token.span.start, |span| span.start);
        self.span = Some(Span { start, end: token.span.end });
        self.has_call |= is_call;
        if !is_call && token.is_punct(b'(') {
            self.depth += 1;
        } else if !is_call && token.is_punct(b')') {
            self.depth = self.depth.saturating_sub(1);
        }
        let ends_operand = is_call || ends_operand(lexer, token);
        if self.depth == 0 && !is_call {
            self.is_named = self.names(lexer, token);
        } else {
            self.is_named = false;
        }
        self.is_after_operand = ends_operand;
    }

    /// Notes CASE, END and INTERVAL. True if the token names the column, provided that it is the column's last token.
    fn names(&mut self, lexer: &Lexer<'_>, token: Token) -> bool {
        if lexer.is_word(token, "CASE") {
            self.cases += 1;
            return false;
        }
        if lexer.is_word(token, "END") && self.cases > 0 {
            self.cases -= 1;
            return false;
        }
        if lexer.is_word(token, "INTERVAL") {
            self.has_interval = true;
            return false;
        }
        let is_name = is_name(token) || token.kind == TokenKind::String;
        if self.has_interval && is_name && self.is_after_operand {
            self.has_interval = false;
            return false;
        }
        is_name && self.is_after_operand
    }
}

fn ends_operand(lexer: &Lexer<'_>, token: Token) -> bool {
    match token.kind {
        TokenKind::Punct(byte) => byte == b')',
        // The word after AS is a name.
        TokenKind::Word => lexer.is_word(token, "AS") || !lexer.is_any_word(token, BEFORE_OPERAND),
        TokenKind::Assign | TokenKind::DotDot | TokenKind::End => false,
        _ => true,
    }
}
