//! Ruled statements whose table a temporary one may hide: the server is asked before they are planned or executed.

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{Whole, payload_of, whole_payload};
use crate::proxy::known::need::Need;
use crate::proxy::known::temporary::{Hides, answer, question};
use crate::proxy::relay::Arrived;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::ruled::verdict::state_unknown;
use crate::proxy::session::{Question, Session, Stop};
use crate::sql::last_result::may_read_insert_id;
use crate::table_name::TableName;

/// What becomes of an execution.
pub(in crate::proxy) enum Execution {
    /// Of a ruled statement.
    Ruled,
    /// Of a statement that its temporary table still hides.
    Passes,
    Needs(Need),
    Refused(Refusal),
}

impl Session {
    /// Has the server say whether a temporary table hides the name.
    pub(in crate::proxy) async fn ask_temporary(
        &mut self,
        command: Command,
        name: &TableName,
    ) -> Result<(), Stop> {
        let state = self.relay.session.state().ok_or_else(state_unknown)?;
        let refused = |why: &str| {
            let why = format!("a temporary table may hide {name}, and the server cannot be asked {why}");
            Err(Refusal::Statement(why).into())
        };
        let sql = question(name);
        let Some(sql) = state.dialect.charset.written(&sql).map(std::borrow::Cow::into_owned) else {
            return refused("about this name in this character set; connect with utf8mb4");
        };
        if self.reads_counts(command) {
            return refused(
                "between a statement and one that reads its counts; read them into variables first",
            );
        }
        match self.ask(Question::Query(&sql)).await? {
            // Killed, or out of time: it is asked again. Whatever else is said of the name, it is no temporary table.
            Err(error) if matches!(error.code, 1317 | 3024) => {}
            answered => {
                let row = answered.ok().and_then(|answered| answered.row);
                self.relay.session.take_temporary(&name.schema, &name.table, answer(row.as_deref()));
            }
        }
        Ok(())
    }

    /// Whether the client's present text reads what the statement before it left behind.
    fn reads_counts(&self, command: Command) -> bool {
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            return false;
        }
        let window = self.relay.up.window();
        let Whole::Is { window_bytes, .. } = whole_payload(window) else { return false };
        let payload = payload_of(window, window_bytes);
        let has_attributes = command == Command::Query && self.relay.has_attributes();
        let text = text_at(&payload, has_attributes).ok().and_then(|at| payload.get(at..));
        !may_read_insert_id(text.unwrap_or_default())
    }

    /// A statement was prepared for a table, or for what hid it; whether that is so still.
    pub(in crate::proxy) fn hides_prepared(&mut self, arrived: Arrived) -> Execution {
        let Some(id) = arrived.statement else { return Execution::Ruled };
        let (name, was_hidden) = match self.relay.statements.get(id) {
            Some(statement) => {
                let (kept, name) = (&statement.kept, &statement.kept.source.table);
                if self.relay.session.hides(&name.schema, &name.table) == Hides::No {
                    return Execution::Ruled;
                }
                if kept.prepared.is_none() {
                    // Planned again where a rule has come, by what hides the name then.
                    let is_ruled =
                        !kept.is_current(&self.relay.session.tables.now().lookup(&name.schema, &name.table));
                    if !is_ruled || self.relay.session.hides(&name.schema, &name.table) != Hides::Unsure {
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
        if self.relay.session.is_untouched() {
            return Execution::Needs(Need::State { must_ask: true });
        }
        match (self.relay.session.hides(&name.schema, &name.table), was_hidden) {
            (Hides::Unsure, _) => Execution::Needs(Need::Temporary(name)),
            (Hides::No, false) => Execution::Ruled,
            (Hides::Yes, true) => Execution::Passes,
            (Hides::Yes, false) | (Hides::No, true) => Execution::Refused(Refusal::Statement(format!(
                "{name} is not the table any more that this was prepared for: a temporary table has come or gone; \
                 prepare it again"
            ))),
        }
    }

    pub(in crate::proxy) fn pass_execution(&mut self, arrived: Arrived) {
        let effects = arrived.statement.and_then(|id| self.relay.statements.effects(id));
        self.pass(arrived, true, effects.map_or(Note::Nothing, Note::effects));
    }
}
