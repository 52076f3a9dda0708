//! Cutting a packet: a statement that cannot be planned, or sent, together with those before it
//! or after it goes to the server in a packet of its own.

use super::{Halt, Walk};
use crate::rewrite::plan::PlanRefusal;
use crate::rewrite::plan::Planned;
use crate::sql::lex::{Lexer, Span, TokenKind};
use crate::sql::look::is_stripped;

/// Said of one that comes after another in what is not a packet.
pub(super) const AFTER_OPAQUE: &str = "this statement follows, in the same packet, a statement that can change the table, the database, \
                                       sql_mode or the character set; send this statement separately";

impl Walk<'_> {
    /// Has the statements before the present one answered before this one is planned. `why` is said
    /// where no statement is before it in its packet.
    pub(super) fn cut<T>(&self, why: &str) -> Result<T, Halt> {
        let is_later = self.several && self.start > 0;
        Err(Box::new(if is_later {
            Planned::Cut(self.start as usize)
        } else {
            Planned::Refused(PlanRefusal::new(why))
        }))
    }

    /// The start of the statement that follows one that ends at `end`.
    pub(super) fn after_semicolon(&self, end: u32) -> usize {
        let next = self.rest(end).and_then(|mut rest| rest.next().ok());
        next.filter(|next| next.is_punct(b';')).map_or(end, |next| next.span.end) as usize
    }

    /// The present statement, which ends at `end`, is the only one of its packet.
    pub(super) fn alone(&self, end: u32) -> Result<(), Halt> {
        match self.start {
            0 if !self.several || self.is_last(end) => Ok(()),
            0 => Err(Box::new(Planned::Cut(self.after_semicolon(end)))),
            start => Err(Box::new(Planned::Cut(start as usize))),
        }
    }

    /// True if the server finds no other statement after one that ends at `end`, before or after its semicolon.
    fn is_last(&self, end: u32) -> bool {
        let (before, after) = self.text.split_at_checked(end as usize).unwrap_or_default();
        is_stripped(after)
            || !before.ends_with(b";")
                && self
                    .rest(end)
                    .is_some_and(|rest| rest.peek().is_ok_and(|next| next.kind == TokenKind::End))
    }

    /// The packet from here on.
    pub(super) fn rest(&self, start: u32) -> Option<Lexer<'_>> {
        let rest = Span { start, end: u32::try_from(self.text.len()).unwrap_or(u32::MAX) };
        Some(Lexer::new(self.text, self.dialect)?.over(rest))
    }
}

/// Only `;`, blanks and comments are left.
pub(super) fn is_end(lexer: &mut Lexer<'_>) -> bool {
    loop {
        match lexer.next().map(|token| token.kind) {
            Ok(TokenKind::End) => return true,
            Ok(TokenKind::Punct(b';')) => {}
            _ => return false,
        }
    }
}
