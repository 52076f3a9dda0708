//! The parts around an INSERT that change what it stores or answers: ANALYZE, SET STATEMENT ...
//! FOR, optimizer hints.

use super::{Halt, Resolved, StatementPlace, Walk, refused};
use crate::rewrite::insert::{self, Context, Unplanned};
use crate::rewrite::plan::edit::Style;
use crate::rewrite::plan::stage::Kind;
use crate::rewrite::plan::{InsertPlan, Protocol};
use crate::sql::dialect::{ServerKind, SqlMode};
use crate::sql::hint::{self, HintedVariables};
use crate::sql::insert::Head;
use crate::sql::lex::{Lexer, Span};
use crate::sql::name;
use crate::sql::statement::for_statement::{ForStatement, ModeSetting};
use crate::sql::statement::{self, Statement};

/// The most prefixes that are followed.
const PREFIXES_MAX: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// The statement answers with its plan in place of an OK packet.
    is_analyzed: bool,
    pub(super) settings: ForStatement,
}

impl Around {
    pub(super) fn analyzed(self) -> Around {
        Around { is_analyzed: true, ..self }
    }

    /// The last of several prefixes counts (measured on 10.11).
    pub(super) fn with(self, settings: ForStatement) -> Around {
        let sql_mode = match settings.sql_mode {
            ModeSetting::Session => self.settings.sql_mode,
            set => set,
        };
        let ids = self.settings.ids || settings.ids;
        Around { settings: ForStatement { sql_mode, ids }, ..self }
    }

    /// Like [`insert::plan`], under what is around the statement that begins at `start`.
    pub(super) fn plan_insert(
        mut self,
        lexer: &mut Lexer<'_>,
        mut context: Context<'_>,
        start: u32,
    ) -> Result<(InsertPlan, bool), Unplanned> {
        if self.settings.sql_mode != ModeSetting::Session && context.protocol == Protocol::Prepare {
            // The session's state would have to be read again after each execution.
            return insert::refused(
                "SET STATEMENT sets sql_mode for a prepared statement; set sql_mode for the session, or send the statement as text",
            );
        }
        self.read_hints(lexer, &context, start)?;
        let zero_is_value = SqlMode::NO_AUTO_VALUE_ON_ZERO;
        let session = context.dialect.sql_mode;
        let (one, other) = match self.settings.sql_mode {
            ModeSetting::Session => (session, None),
            ModeSetting::Known(modes) if modes.contains(zero_is_value) => {
                (session.union(zero_is_value), None)
            }
            ModeSetting::Known(_) => (session.without(zero_is_value), None),
            ModeSetting::Unknown => (session.without(zero_is_value), Some(session.union(zero_is_value))),
        };
        let before = lexer.clone();
        context.dialect.sql_mode = one;
        let (mut plan, semicolon) = insert::plan(lexer, &context)?;
        if let Some(other) = other {
            context.dialect.sql_mode = other;
            match insert::plan(&mut before.clone(), &context) {
                Ok((under_other, _)) if under_other.writes_as(&plan) => {}
                _ => {
                    return Err(Unplanned::Refused(
                        "the statement sets a sql_mode that Rowstamp cannot read from its text, and this sql_mode decides whether zero or DEFAULT is \
                         an id; write NULL for the id, or set sql_mode for the session"
                            .to_owned(),
                    ));
                }
            }
        }
        if plan.may_take_ids() {
            self.check_ids(&plan)?;
        }
        plan.returning |= self.is_analyzed;
        Ok((plan, semicolon))
    }

    /// Refuses an INSERT that takes ids, where what stands around it decides the ids, or leaves no way to tell the client the id.
    fn check_ids(self, plan: &InsertPlan) -> Result<(), Unplanned> {
        if self.settings.ids {
            return Err(Unplanned::Refused(
                "the statement sets a variable that decides which ids the server generates (insert_id, auto_increment_increment, \
                 ...); write the id itself, or leave the variable out"
                    .to_owned(),
            ));
        }
        if let Some(stage) = plan.stage.as_ref().filter(|_| self.is_analyzed) {
            return insert::refused(format!(
                "Rowstamp runs {} as several statements, which ANALYZE cannot measure; run the statement without ANALYZE",
                stage.kind.name()
            ));
        }
        if self.is_analyzed && !matches!(plan.style, Style::Wrapped | Style::OdkuOne) {
            // The answer has no OK packet, so nothing would tell the client the id.
            return Err(Unplanned::Refused(
                "Rowstamp cannot run ANALYZE of an INSERT with IGNORE, ON DUPLICATE KEY UPDATE, LAST_INSERT_ID() or a placeholder for the id; \
                 leave these out, or write EXPLAIN in place of ANALYZE"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn read_hints(&mut self, lexer: &Lexer<'_>, context: &Context<'_>, start: u32) -> Result<(), Unplanned> {
        if lexer.hint().is_none() || context.dialect.server.kind != ServerKind::MySql {
            return Ok(());
        }
        let head = Span { start, end: context.head.table.last.span.start };
        match hint::variables(head.of(lexer.text())) {
            HintedVariables::None => {}
            HintedVariables::SqlMode => self.settings.sql_mode = ModeSetting::Unknown,
            HintedVariables::Ids => self.settings.ids = true,
            HintedVariables::Unclear => {
                return Err(Unplanned::Refused(
                    "the optimizer hint has a quote that is not closed, and Rowstamp cannot see where the hint ends; write the \
                     hint without the quote"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}

impl Walk<'_> {
    /// Checks an INSERT that goes by way of a stage, after SET STATEMENT ... FOR. Each of its statements has the prefix.
    pub(super) fn check_stage(plan: &InsertPlan, place: StatementPlace) -> Result<(), Halt> {
        let Around { settings, .. } = place.around;
        // Only what converts a query's values does not depend on what the session's mode is.
        let is_query = plan.stage.as_ref().is_some_and(|stage| stage.kind == Kind::Query);
        if settings.sql_mode != ModeSetting::Session && !is_query {
            let what = plan.stage.as_ref().map_or("this statement", |stage| stage.kind.name());
            let why = format!("SET STATEMENT sets sql_mode for {what}; set sql_mode for the session");
            return refused(plan.target.at(why));
        }
        match place.around.check_ids(plan) {
            Err(Unplanned::Refused(why)) => refused(plan.target.at(why)),
            _ => Ok(()),
        }
    }

    /// An explained INSERT is not run, so no id is filled in. Without AUTO_INCREMENT the server may
    /// then miss the id's value (error 1364).
    pub(super) fn explained(&self, lexer: &mut Lexer<'_>, place: StatementPlace) -> Result<(), Halt> {
        if !self.context.any_rules {
            return Ok(());
        }
        let Ok(Statement::Insert(verb)) = statement::classify(lexer) else { return Ok(()) };
        let Ok(Some(head)) = Head::parse(lexer, verb) else { return Ok(()) };
        let Resolved::Ruled(target) = self.lookup(self.text, head.table)? else { return Ok(()) };
        let Some(table) = name::decode(self.text, head.table.last, self.dialect.charset) else {
            return Ok(());
        };
        let context = self.insert_context(place.nth, &target, head, &table);
        let Ok(Some(why)) = insert::not_explained(lexer, &context) else { return Ok(()) };
        refused(target.at(format!("without AUTO_INCREMENT the server cannot explain {why}")))
    }

    /// The statement after ANALYZE or SET STATEMENT ... FOR.
    pub(super) fn behind_prefix(
        &mut self,
        lexer: &mut Lexer<'_>,
        place: StatementPlace,
        around: impl Fn(Around) -> Around,
    ) -> Result<bool, Halt> {
        let depth = place.depth + 1;
        if depth > PREFIXES_MAX && !self.context.any_rules {
            self.effects.opaque = true;
            return self.skip(lexer, place.start);
        }
        if depth > PREFIXES_MAX {
            return refused(format!(
                "more than {PREFIXES_MAX} prefixes SET STATEMENT and ANALYZE; send the statement without them"
            ));
        }
        self.at(lexer, StatementPlace { around: around(place.around), depth, ..place })
    }
}
