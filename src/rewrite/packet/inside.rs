//! Statements that hold others: PREPARE, EXECUTE IMMEDIATE, ANALYZE, SET STATEMENT ... FOR, compound statements, LOAD.

use super::{Halt, Named, Walk, mentions_insert};
use crate::rewrite::plan::{Planned, Refusal};
use crate::rules::model::Mode;
use crate::sql::insert::{Head, Verb};
use crate::sql::lex::{Lexer, TokenKind};
use crate::sql::name::Path;
use crate::sql::statement::{self, InnerText, Statement};

/// How deep statements within statements are followed.
pub(super) const INSIDE_MAX: usize = 4;

/// What a statement that holds others does to what follows it.
#[derive(Clone, Copy)]
struct Inside {
    /// Nothing in it can change how later statements are read.
    keeps_session: bool,
    /// Where it ends is not known: all of the packet was judged as part of it.
    takes_rest: bool,
}

impl Walk<'_> {
    /// Statements that may run an INSERT which is not the statement itself. Whether the packet ends with it.
    pub(super) fn hidden(
        &mut self,
        lexer: &mut Lexer<'_>,
        kind: Statement,
        before: &Lexer<'_>,
    ) -> Result<bool, Halt> {
        let harmless_inside = self.look_inside(lexer, kind, before, 0)?;
        self.effects.opaque |= !harmless_inside.keeps_session;
        Ok(harmless_inside.takes_rest)
    }

    fn look_inside(
        &self,
        lexer: &mut Lexer<'_>,
        kind: Statement,
        before: &Lexer<'_>,
        depth: usize,
    ) -> Result<Inside, Halt> {
        let keeps = Inside { keeps_session: true, takes_rest: false };
        if !self.view.any_rules {
            let takes_rest = kind == Statement::Compound;
            return Ok(Inside { keeps_session: false, takes_rest });
        }
        let refuse = |why: &str| Err(Box::new(Planned::Refused(Refusal::new(why))));
        if depth > INSIDE_MAX {
            return refuse("a statement within a statement within others; send it by itself");
        }
        match kind {
            Statement::Insert(verb) => {
                let what =
                    "an INSERT inside of another statement is not supported yet; send the INSERT by itself";
                match Head::parse(lexer, verb) {
                    Ok(Some(head)) => self.refuse_ruled(lexer.text(), head.table, what).map(|()| keeps),
                    _ => refuse(what),
                }
            }
            Statement::Load(None) => refuse("LOAD into a table whose name cannot be read; name it plainly"),
            Statement::Load(Some(path)) => {
                let what = "LOAD into a ruled table is not supported yet; send INSERTs";
                self.refuse_ruled(lexer.text(), path, what).map(|()| keeps)
            }
            Statement::Analyze | Statement::For(_) => {
                let before = lexer.clone();
                let Ok(kind) = statement::classify(lexer) else {
                    return refuse("a statement inside of another cannot be read; send it by itself");
                };
                self.look_inside(lexer, kind, &before, depth + 1)
            }
            Statement::Inner { text: InnerText::Unseen, .. } => refuse(
                "cannot see the text that PREPARE or EXECUTE IMMEDIATE would run; write it as a literal or prepare it in the \
                 driver",
            ),
            Statement::Inner { text: InnerText::Literal(text), runs } => {
                let inside = self.look_inside_text(&text, depth)?;
                Ok(Inside { keeps_session: inside.keeps_session || !runs, takes_rest: false })
            }
            Statement::Compound => self.compound(before),
            Statement::Unknown => {
                let rest = self.text.get(before.position() as usize..).unwrap_or_default();
                if mentions_insert(rest) {
                    return Err(Box::new(
                        self.unreadable(before.position(), "how its statement begins is not known"),
                    ));
                }
                Ok(Inside { keeps_session: false, takes_rest: false })
            }
            Statement::Empty | Statement::Harmless => Ok(keeps),
            // Whatever it makes or drops, temporary tables among it.
            Statement::Ddl(_) | Statement::Routine => Ok(Inside { keeps_session: false, takes_rest: false }),
            Statement::Use(_) | Statement::Set(_) | Statement::Opaque => {
                Ok(Inside { keeps_session: false, takes_rest: false })
            }
        }
    }

    /// A statement within a string.
    fn look_inside_text(&self, text: &[u8], depth: usize) -> Result<Inside, Halt> {
        let unread = || {
            Box::new(Planned::Refused(Refusal::new(
                "the text of a PREPARE or EXECUTE IMMEDIATE cannot be read; send it by itself",
            )))
        };
        let mut lexer = Lexer::new(text, self.dialect).ok_or_else(unread)?;
        let before = lexer.clone();
        let kind = statement::classify(&mut lexer).map_err(|_| unread())?;
        // `self.text` is the packet's: what an unknown text holds is judged here.
        if kind == Statement::Unknown && mentions_insert(text) {
            return Err(unread());
        }
        if kind == Statement::Unknown {
            return Ok(Inside { keeps_session: false, takes_rest: false });
        }
        self.look_inside(&mut lexer, kind, &before, depth + 1)
    }

    fn refuse_ruled(&self, text: &[u8], table: Path, what: &str) -> Result<(), Halt> {
        match self.lookup(text, table)? {
            Named::Ruled(target) if target.rule.mode == Mode::On => {
                Err(Box::new(Planned::Refused(Refusal::new(what))))
            }
            Named::ServerFirst(why) => Err(Box::new(Planned::Refused(Refusal::new(why)))),
            _ => Ok(()),
        }
    }

    /// A compound statement: every INSERT and its like in the rest of the packet counts as its own.
    fn compound(&self, before: &Lexer<'_>) -> Result<Inside, Halt> {
        let what = "a compound statement with an INSERT into a ruled table is not supported yet; send the INSERT by itself";
        let refuse = || Box::new(Planned::Refused(Refusal::new(what)));
        let mut lexer = before.clone();
        loop {
            let token = lexer.next().map_err(|_| refuse())?;
            let is = |words: &[&str]| words.iter().any(|word| token.is_word(lexer.text(), word));
            if token.kind == TokenKind::End {
                return Ok(Inside { keeps_session: false, takes_rest: true });
            }
            if is(&["LOAD", "PREPARE", "EXECUTE"]) {
                return Err(refuse());
            }
            let verb = if is(&["INSERT"]) {
                Verb::Insert
            } else if is(&["REPLACE"]) {
                Verb::Replace
            } else {
                continue;
            };
            let mut ahead = lexer.clone();
            if ahead.peek().is_ok_and(|next| next.is_punct(b'(')) {
                continue;
            }
            match Head::parse(&mut ahead, verb) {
                Ok(Some(head)) => self.refuse_ruled(lexer.text(), head.table, what)?,
                _ => return Err(refuse()),
            }
        }
    }
}
