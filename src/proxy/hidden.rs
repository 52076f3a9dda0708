//! Ruled statements whose table a temporary one may hide: the server is asked before they are planned or executed.

use super::glances::may_read_insert_id;
use super::outstanding::{Note, Purpose};
use super::ruled::state_unknown;
use super::session::Session;
use super::temporary::{Hides, question};
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::statement_id;

/// What becomes of an execution.
pub(super) enum Execution {
    /// Of a ruled statement.
    Ruled,
    /// Of a statement that its temporary table still hides.
    Passes,
    /// The server was asked; the command waits.
    Asked,
    Refused(Refusal),
}

impl Session {
    /// Has the server say whether a temporary table hides the name; the client's command stays where it is until then.
    pub(super) fn ask_temporary(&mut self, schema: &str, table: &str, text: &[u8]) -> Result<(), Refusal> {
        let state = self.relay.view.state().ok_or_else(state_unknown)?;
        let refused = |why: &str| {
            Err(Refusal::Statement(format!(
                "rowstamp: a temporary table may hide {schema}.{table}, and the server cannot be asked {why}"
            )))
        };
        let sql = question(schema, table);
        let Some(sql) = state.dialect.charset.written(&sql).map(std::borrow::Cow::into_owned) else {
            return refused("about this name in this character set; connect with utf8mb4");
        };
        if !may_read_insert_id(text) {
            return refused(
                "between a statement and one that reads its counts; read them into variables first",
            );
        }
        let (schema, table) = (schema.to_owned(), table.to_owned());
        self.relay.query_own(Purpose::IsTemporary { schema, table }, &sql);
        Ok(())
    }

    /// A statement was prepared for a table, or for what hid it; whether that is so still.
    pub(super) fn hides_prepared(&mut self, payload: &[u8]) -> Execution {
        let Ok(id) = statement_id(payload) else { return Execution::Ruled };
        let (name, was_hidden) = match self.relay.statements.get(id) {
            Some(statement) => {
                let (kept, name) = (&statement.kept, &statement.kept.source.named);
                if self.relay.view.hides(&name.0, &name.1) == Hides::No {
                    return Execution::Ruled;
                }
                if kept.prepared.is_none() {
                    // Planned again where a rule has come, by what hides the name then.
                    let is_ruled = !kept.is_current(&self.relay.view.tables.now().lookup(&name.0, &name.1));
                    if !is_ruled || self.relay.view.hides(&name.0, &name.1) != Hides::Unsure {
                        return Execution::Ruled;
                    }
                }
                (name.clone(), false)
            }
            None => match self.relay.statements.effects(id).and_then(|e| e.hidden_insert.clone()) {
                Some(name) => (*name, true),
                None => return Execution::Ruled,
            },
        };
        if self.relay.view.is_untouched() {
            self.relay.view.forget_state();
            return Execution::Asked;
        }
        match (self.relay.view.hides(&name.0, &name.1), was_hidden) {
            (Hides::Unsure, _) => match self.ask_temporary(&name.0, &name.1, b"") {
                Ok(()) => Execution::Asked,
                Err(refusal) => Execution::Refused(refusal),
            },
            (Hides::No, false) => Execution::Ruled,
            (Hides::Yes, true) => Execution::Passes,
            (Hides::Yes, false) | (Hides::No, true) => Execution::Refused(Refusal::Statement(format!(
                "rowstamp: {}.{} is not the table any more that this was prepared for: a temporary table has come or gone; \
                 prepare it again",
                name.0, name.1
            ))),
        }
    }

    pub(super) fn pass_execution(&mut self, payload: &[u8], window_bytes: usize) {
        let effects = statement_id(payload).ok().and_then(|id| self.relay.statements.effects(id));
        let note = effects.map_or(Note::Nothing, Note::effects);
        self.pass(Command::StmtExecute, window_bytes, true, note);
    }
}
