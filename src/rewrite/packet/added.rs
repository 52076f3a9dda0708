//! A planned INSERT joins its packet: what the statements before it and after it have to do with its
//! ids.

use super::{Halt, Walk};
use crate::rewrite::plan::{InsertPlan, UpdatedIds};
use crate::sql::lex::TokenKind;
use crate::sql::look::has_whole_word;

impl Walk<'_> {
    /// It lies between `start` and `end`.
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
