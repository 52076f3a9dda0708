//! EXECUTE: the statement that was prepared is planned again, and its ids are bound after USING.

use super::{Halt, StatementPlace, Walk, refused};
use crate::rewrite::packet::inner::{Inner, Order, check_around, prepared, taken_edits, too_many_params};
use crate::rewrite::plan::edit::{Edit, Id, IdForm, Piece};
use crate::rewrite::plan::prepared_names::{NameMeaning, NamedChange, NamedStatement, Value};
use crate::rewrite::plan::{InsertPlan, LastId, PlanRefusal, Planned, PreparedText};
use crate::rules::model::Explicit;
use crate::sql::dialect::{Dialect, SqlMode};
use crate::sql::lex::{Lexer, Span};
use crate::sql::name;
use crate::sql::reads::Reads;
use crate::sql::statement::dynamic::{self, Using};
use crate::sql::statement::for_statement::ModeSetting;
use crate::sql::value::{self, IdValue};

/// A larger statement needs more user's variables for its ids than one SET should have.
const VARIABLES_MAX: usize = 10_000;

impl Walk<'_> {
    fn known(&self, name: &str) -> NameMeaning {
        match self
            .effects
            .prepared_names
            .iter()
            .rev()
            .find(|(_, change)| name::same_column(change.name(), name))
        {
            Some((_, NamedChange::Prepared(_, statement))) if self.effects.routine => {
                NameMeaning::Perhaps(statement.clone())
            }
            Some((_, NamedChange::Prepared(_, statement))) => NameMeaning::Is(statement.clone()),
            Some((_, NamedChange::Dropped(_))) => NameMeaning::Unknown,
            None => match self.context.session.prepared(name) {
                NameMeaning::Is(statement) if self.effects.routine => NameMeaning::Perhaps(statement),
                NameMeaning::Unknown if self.effects.routine => NameMeaning::Unseen,
                known => known,
            },
        }
    }

    pub(super) fn execute(
        &mut self,
        lexer: &Lexer<'_>,
        name: &str,
        using: &Using,
        place: StatementPlace,
    ) -> Result<(), Halt> {
        let changed = "the table, its columns, sql_mode or a temporary table has changed since PREPARE; PREPARE the statement again";
        let (statement, is_certain) = match self.known(name) {
            // The server's own error, 1243, or a routine's statement, whose INSERTs are the
            // routine's.
            known @ (NameMeaning::Unknown | NameMeaning::Unseen) => {
                self.effects.opaque = true;
                if matches!(known, NameMeaning::Unseen) {
                    self.effects.note_routine();
                }
                return Ok(());
            }
            NameMeaning::Lost => {
                return refused(
                    "the statement was prepared in a packet that failed half-way, or before its table had a rule; PREPARE the statement again",
                );
            }
            NameMeaning::Is(statement) => (statement, true),
            NameMeaning::Perhaps(statement) => (statement, false),
        };
        let dialect = self.at_execution(&statement, place)?;
        let inner = match self.inner(&statement.source, dialect, &statement.database, place) {
            Err(halt) if matches!(*halt, Planned::Unreadable(_)) => return refused(changed),
            inner => inner?,
        };
        let mut insert = match inner {
            Inner::Passes(_) if statement.sent.is_some() || statement.is_staged => return refused(changed),
            Inner::Passes(ran) => {
                self.runs(*ran);
                if !is_certain {
                    self.effects.opaque = true;
                    self.effects.note_routine();
                }
                return Ok(());
            }
            Inner::Fills(insert) if !is_certain => {
                return refused(insert.target.at(
                    "a routine has run since PREPARE, and may have prepared another statement of the same name; PREPARE the \
                     statement again",
                ));
            }
            Inner::Fills(insert) => insert,
        };
        check_around(&insert, place)?;
        if insert.stage.is_some() != statement.is_staged {
            return refused(insert.target.at(changed));
        }
        if statement.is_staged {
            return self.execute_staged(lexer, &statement, *insert, using, place);
        }
        let now = prepared(&insert, &statement.source)?;
        if statement.sent.as_ref() != Some(&now) {
            return refused(insert.target.at(changed));
        }
        let client_params = usize::from(now.client_params);
        if using.args.len() != client_params {
            if using.args.len() == client_params + now.ours.len() {
                return refused(insert.target.at(too_many_params(client_params)));
            }
            // The server's own error, 1210.
            return Ok(());
        }
        let taking = self.bind(lexer, &mut insert, using, place)?;
        let order = Order::new(now.ours.iter().map(|ours| ours.row), &taking);
        let mut edits = our_edits(&now, using, &order);
        edits.extend(taken_edits(&taking, &order));
        edits.sort_by_key(|edit| edit.start);
        insert.edits = edits;
        if insert.ids > 0 && !self.dialect.is_mariadb() {
            self.use_variables(&mut insert, Reads::of(&statement.source, dialect))?;
        }
        self.add(*insert, place.start, using.end)
    }

    /// The dialect of an execution: the session's for what values mean, and that of PREPARE for where tokens end.
    fn at_execution(&self, statement: &NamedStatement, place: StatementPlace) -> Result<Dialect, Halt> {
        let zero_is_value = SqlMode::NO_AUTO_VALUE_ON_ZERO;
        let now = match place.around.settings.sql_mode {
            ModeSetting::Known(sql_mode) => sql_mode,
            ModeSetting::Unknown if statement.sent.is_some() || statement.is_staged => {
                return refused(
                    "SET STATEMENT sets a sql_mode that the text does not show; set sql_mode for the session",
                );
            }
            ModeSetting::Session | ModeSetting::Unknown => self.dialect.sql_mode,
        };
        let modes = statement.dialect.sql_mode.without(zero_is_value);
        let sql_mode = if now.contains(zero_is_value) { modes.union(zero_is_value) } else { modes };
        Ok(Dialect { sql_mode, ..statement.dialect })
    }

    /// The client's parameters at the id's place: rows and parameters of those that are NULL or
    /// zero and take an id.
    pub(super) fn bind(
        &self,
        lexer: &Lexer<'_>,
        insert: &mut InsertPlan,
        using: &Using,
        place: StatementPlace,
    ) -> Result<Vec<(u32, Span)>, Halt> {
        let zero_is_value = match place.around.settings.sql_mode {
            ModeSetting::Known(sql_mode) => sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
            _ => self.dialect.sql_mode.contains(SqlMode::NO_AUTO_VALUE_ON_ZERO),
        };
        insert.is_executed = true;
        let mut taking = Vec::new();
        for param in std::mem::take(&mut insert.id_params) {
            let Some(&arg) = using.args.get(usize::from(param.index)) else { continue };
            let value = self.bound(lexer, arg, zero_is_value, place)?;
            let value = value.map_err(|why| {
                let why = format!("parameter {} of EXECUTE is the id, and {why}", param.index + 1);
                Box::new(Planned::Refused(PlanRefusal::new(insert.target.at(why))))
            })?;
            match value {
                Some(_) if insert.target.rule.explicit == Explicit::Reject => {
                    return refused(insert.target.at(format!(
                        "parameter {} of EXECUTE is a value for {}, which the table's rule rejects; bind NULL",
                        param.index + 1,
                        insert.target.id_column()
                    )));
                }
                Some(value) => insert.explicit.push(value),
                None => {
                    taking.push((param.row, arg));
                    insert.ids += 1;
                }
            }
            if insert.last == LastId::Param(param.index) {
                insert.last = value.map_or(LastId::Generated, LastId::Written);
            }
        }
        match insert.too_many_rows(insert.rows, insert.ids) {
            Some(why) => refused(insert.target.at(why)),
            None => Ok(taking),
        }
    }

    /// The value that is bound to the id; `None`: it takes one. Or why that is not known, and what to bind instead.
    fn bound(
        &self,
        lexer: &Lexer<'_>,
        arg: Span,
        zero_is_value: bool,
        place: StatementPlace,
    ) -> Result<Result<Option<i128>, &'static str>, Halt> {
        let doubt = || Ok(Err("neither NULL nor an integer; bind a user's variable that is one of them"));
        let value = if dynamic::is_variable(lexer, arg) {
            match self.value(lexer, arg, place)? {
                Value::Null => return Ok(Ok(None)),
                Value::Text(text) => text.trim().parse().ok(),
                Value::Failed(error) => return Err(Box::new(Planned::Fails(error))),
                Value::NotAsked | Value::Unknown => None,
            }
        } else {
            let Ok(classified) = value::of_span(lexer, arg, "", 0) else { return doubt() };
            match classified.value {
                IdValue::Null => return Ok(Ok(None)),
                IdValue::Default if !zero_is_value => return Ok(Ok(None)),
                IdValue::Zero => Some(0),
                IdValue::Integer => classified.integer,
                _ => None,
            }
        };
        match value {
            None => doubt(),
            Some(0) if !zero_is_value => Ok(Ok(None)),
            Some(value) => Ok(Ok(Some(value))),
        }
    }

    /// MySQL binds user's variables only: they are set before the packet.
    fn use_variables(&mut self, insert: &mut InsertPlan, reads: Reads) -> Result<(), Halt> {
        if reads.last_result() {
            return refused(insert.target.at(
                "Rowstamp cannot EXECUTE an INSERT that reads ROW_COUNT(), FOUND_ROWS() or a count of warnings or errors; read the count into a \
                 variable first",
            ));
        }
        if insert.edits.len() > VARIABLES_MAX {
            let why = "Rowstamp cannot EXECUTE an INSERT of so many rows; insert at most 5,000 at a time";
            return refused(insert.target.at(why));
        }
        for edit in &mut insert.edits {
            if let Piece::Id(id) = &mut edit.piece {
                if id.form == IdForm::Warned {
                    let why = format!("the id of row {} is a text that is no number; write NULL", id.row + 1);
                    return refused(insert.target.at(why));
                }
                id.form = IdForm::Variable;
            }
        }
        insert.first_variable = Some(self.variables);
        self.variables += insert.ids;
        Ok(())
    }
}

/// Our own parameters, among the client's in USING.
fn our_edits(now: &PreparedText, using: &Using, order: &Order) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (before, ours) in now.ours.iter().enumerate() {
        let client_index = usize::from(ours.index) - before;
        let row = ours.row;
        let id = |comma| Piece::Id(Id { nth: order.nth(row), row, comma, form: IdForm::Literal });
        let mut put = |at: u32, piece| edits.push(Edit::at(at, piece));
        match using.args.get(client_index) {
            Some(arg) => {
                put(arg.start, id(false));
                put(arg.start, Piece::Text(b","[..].into()));
            }
            None if before == 0 && using.args.is_empty() => {
                put(using.end, Piece::Text(b" USING "[..].into()));
                put(using.end, id(false));
            }
            None => put(using.end, id(true)),
        }
    }
    edits
}
