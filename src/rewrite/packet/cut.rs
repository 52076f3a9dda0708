//! Cutting a packet: a statement that cannot be planned, or sent, together with those before it
//! or after it goes to the server in a packet of its own.

use super::{Halt, Walk};
use crate::rewrite::plan::{InsertPlan, PlanRefusal, Planned, UpdatedIds};
use crate::sql::lex::{Lexer, Span, TokenKind};
use crate::sql::look::{has_whole_word, is_stripped};

/// The refusal of a statement that follows a change of state in a text which cannot be cut.
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

    /// Adds an INSERT that lies between `start` and `end`.
    pub(super) fn add(&mut self, insert: InsertPlan, start: u32, end: u32) -> Result<(), Halt> {
        // Only one of a packet's statements uses `insert_id` up.
        if (self.effects.insert_id || self.context.insert_id_is_set) && insert.may_take_ids() {
            self.alone(end)?;
        }
        self.note_owed(&insert, start, end);
        self.effects.moves_ids |= insert.updated_ids == UpdatedIds::Move;
        self.inserts.push(insert);
        Ok(())
    }

    /// True if a statement before `end` may read the id of an earlier INSERT whose
    /// `LAST_INSERT_ID()` is not known yet: its text names the function or its variable, or runs what may
    /// do so.
    pub(super) fn reads_owed_id(&self, end: u32) -> bool {
        const READERS: [&str; 4] = ["last_insert_id", "identity", "call", "execute"];
        let Some(from) = self.owes_from else { return false };
        let between = self.text.get(from as usize..end as usize).unwrap_or_default();
        if !READERS.iter().any(|word| has_whole_word(between, word.as_bytes())) {
            return false;
        }
        // In a comment they read nothing.
        let is_read_so =
            !(self.effects.opaque || self.effects.sql_mode.is_some() || self.effects.charset.is_some());
        let Some(mut rest) = self.rest(from).filter(|_| is_read_so) else { return true };
        loop {
            let Ok(token) = rest.next() else { return true };
            if token.kind == TokenKind::End || token.span.start >= end {
                return false;
            }
            if matches!(token.kind, TokenKind::Word | TokenKind::QuotedName)
                && READERS.iter().any(|word| has_whole_word(token.span.of(self.text), word.as_bytes()))
            {
                return true;
            }
        }
    }

    /// Notes whether the packet's next statements may read the id of this one, which lies between
    /// `start` and `end`.
    fn note_owed(&mut self, insert: &InsertPlan, start: u32, end: u32) {
        let owes = insert.owes_insert_id();
        if insert.ids > 0 && !owes && !self.reads_owed_id(start) {
            self.owes_from = None;
        } else if owes {
            self.owes_from.get_or_insert(end);
        }
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
