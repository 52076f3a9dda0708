//! Statements that insert without being an INSERT (LOAD, compound statements, and what is not known), or that give rows other ids.

use super::cut::is_end;
use super::{Halt, Resolved, StatementPlace, Walk, refused};
use crate::rewrite::insert::loaded;
use crate::sql::insert::{Head, Verb};
use crate::sql::lex::{Lexer, Span, TokenKind};
use crate::sql::look::may_insert;
use crate::sql::name::{self, Path};
use crate::sql::statement::Statement;
use crate::sql::statement::moves::moves_ids;

/// The effects of a statement that holds others on what follows it.
#[derive(Clone, Copy)]
struct Inside {
    /// Nothing in it can change how later statements are read.
    keeps_session: bool,
    /// The statement's end is not known: all of the packet was judged as part of it.
    takes_rest: bool,
}

impl Walk<'_> {
    /// A statement that may run an INSERT without being one. Returns whether the rest of the packet
    /// is its own.
    pub(super) fn indirect_insert(
        &mut self,
        lexer: &Lexer<'_>,
        kind: &Statement,
        before: &Lexer<'_>,
        place: StatementPlace,
    ) -> Result<bool, Halt> {
        if *kind == Statement::Compound {
            self.effects.note_routine();
        }
        let inside = self.look_inside(lexer, kind, before, place)?;
        self.effects.opaque |= !inside.keeps_session;
        Ok(inside.takes_rest)
    }

    /// True if a statement that inserts nothing by its text may give rows other ids, or bring rows with ids.
    pub(super) fn moves_ids(&self, before: &Lexer<'_>) -> bool {
        let mut lexer = before.clone();
        match lexer.peek() {
            Ok(first) if lexer.is_word(first, "BINLOG") => true,
            Ok(first) if lexer.is_any_word(first, &["UPDATE", "DELETE", "WITH"]) => {
                !matches!(moves_ids(&mut lexer, self.context.id_names), Ok(None | Some(false)))
            }
            _ => false,
        }
    }

    fn look_inside(
        &mut self,
        lexer: &Lexer<'_>,
        kind: &Statement,
        before: &Lexer<'_>,
        place: StatementPlace,
    ) -> Result<Inside, Halt> {
        if !self.context.any_rules {
            let takes_rest = *kind == Statement::Compound;
            return Ok(Inside { keeps_session: false, takes_rest });
        }
        match kind {
            Statement::Load(None) => {
                refused("cannot read the table's name in LOAD; write only the name after INTO TABLE")
            }
            &Statement::Load(Some(path)) => {
                self.load(lexer, path, before.position(), place)?;
                Ok(Inside { keeps_session: true, takes_rest: false })
            }
            Statement::Compound => self.compound(before),
            _ => {
                let rest = self.text.get(before.position() as usize..).unwrap_or_default();
                if may_insert(rest) {
                    let what = "a beginning that Rowstamp does not know";
                    return Err(Box::new(self.unreadable(before.position(), what)));
                }
                Ok(Inside { keeps_session: false, takes_rest: false })
            }
        }
    }

    /// The lexer stands after LOAD, which begins after `start`.
    fn load(&mut self, lexer: &Lexer<'_>, path: Path, start: u32, place: StatementPlace) -> Result<(), Halt> {
        let target = match self.lookup(lexer.text(), path)? {
            Resolved::Ruled(target) => target,
            Resolved::ServerFirst(why) => return refused(why),
            Resolved::NotRuled | Resolved::Hidden | Resolved::Missing => return Ok(()),
        };
        let Some(table) = name::decode(self.text, path.last, self.dialect.charset) else {
            return refused(target.at("cannot read the table's name in LOAD; connect with utf8mb4"));
        };
        let head = Head { verb: Verb::Insert, ignore: false, table: path };
        let context = self.insert_context(place.nth, &target, head, &table);
        let mut ahead = lexer.clone();
        match loaded::plan_load(&mut ahead, &context) {
            Ok((mut plan, semicolon)) => {
                Self::check_stage(&plan, place)?;
                if let Some(stage) = plan.stage.as_deref_mut().filter(|_| place.depth > 0) {
                    stage.put_before(Span { start: place.start, end: start }.of(self.text));
                }
                if semicolon && !self.several && !is_end(&mut ahead) {
                    let what = "text after the semicolon";
                    return Err(Box::new(self.unreadable_into(&target, place.start, what)));
                }
                self.alone(ahead.position())?;
                self.add(plan, place.start, ahead.position())
            }
            Err(stop) => Err(Box::new(self.stopped(stop, &target, path, place.start))),
        }
    }

    /// Refuses an INSERT into a ruled table in a compound statement.
    fn refuse_ruled(&self, text: &[u8], table: Path) -> Result<(), Halt> {
        match self.lookup(text, table)? {
            Resolved::Ruled(target) => refused(target.at(
                "a compound statement inserts into this table, and Rowstamp does not know how often; send its statements one by one",
            )),
            Resolved::ServerFirst(why) => refused(why),
            _ => Ok(()),
        }
    }

    /// A compound statement: every INSERT and its like in the rest of the packet counts as its own.
    fn compound(&self, before: &Lexer<'_>) -> Result<Inside, Halt> {
        let what = "a compound statement has an INSERT, LOAD, PREPARE or EXECUTE, and Rowstamp does not know into which tables or how \
                    often; send its statements one by one";
        let mut lexer = before.clone();
        loop {
            let Ok(token) = lexer.next() else { return refused(what) };
            if token.kind == TokenKind::End {
                return Ok(Inside { keeps_session: false, takes_rest: true });
            }
            if lexer.is_any_word(token, &["LOAD", "PREPARE", "EXECUTE"]) {
                return refused(what);
            }
            let verb = if lexer.is_word(token, "INSERT") {
                Verb::Insert
            } else if lexer.is_word(token, "REPLACE") {
                Verb::Replace
            } else {
                continue;
            };
            let mut ahead = lexer.clone();
            if ahead.peek().is_ok_and(|next| next.is_punct(b'(')) {
                continue;
            }
            match Head::parse(&mut ahead, verb) {
                Ok(Some(head)) => self.refuse_ruled(lexer.text(), head.table)?,
                _ => return refused(what),
            }
        }
    }
}
