//! Ruled statements whose table a temporary one may mask: the server is asked before they are
//! planned or executed.

use std::borrow::Cow;

use crate::mysql::attributes::text_at;
use crate::mysql::command::Command;
use crate::mysql::packet::{Whole, payload_of, whole_payload};
use crate::proxy::decide::verdict::{refused, state_unknown};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::temporary::{Masked, answer, question};
use crate::proxy::relay::Arrived;
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::session::{Session, Stop};
use crate::table_name::TableName;

impl Session {
    /// Has the server say whether a temporary table masks the name.
    pub(in crate::proxy) async fn ask_temporary(
        &mut self,
        command: Command,
        name: &TableName,
    ) -> Result<(), Stop> {
        let state = self.relay.known.session.state().ok_or_else(state_unknown)?;
        let cannot_ask = |why: &str| {
            Err(refused(format_args!(
                "{name}: a temporary table may hide this table, and Rowstamp cannot ask the server {why}"
            ))
            .into())
        };
        let sql = question(name);
        let Some(sql) = state.dialect.charset.written(&sql).map(Cow::into_owned) else {
            return cannot_ask("about this name in the client's character set; connect with utf8mb4");
        };
        if self.reads_counts(command) {
            let why =
                "between a statement and one that reads its counts; read the counts into variables first";
            return cannot_ask(why);
        }
        match self.ask(Question::Query(&sql)).await? {
            // Killed, or out of time: it is asked again. Whatever else is said of the name, it is
            // no temporary table.
            Err(error) if matches!(error.code, 1317 | 3024) => {}
            answered => {
                let row = answered.ok().and_then(|answered| answered.row);
                self.relay.known.session.temporary.note(&name.schema, &name.table, answer(row.as_deref()));
            }
        }
        Ok(())
    }

    /// True if the client's present text, or what it executes, reads what the statement before it has left.
    pub(in crate::proxy) fn reads_counts(&self, command: Command) -> bool {
        if !matches!(command, Command::Query | Command::StmtPrepare) {
            return false;
        }
        let window = self.relay.up.window();
        let Whole::Is { window_bytes, .. } = whole_payload(window) else { return false };
        let payload = payload_of(window, window_bytes);
        let has_attributes = command == Command::Query && self.relay.known.has_attributes();
        let text = text_at(&payload, has_attributes).ok().and_then(|at| payload.get(at..));
        let session = &self.relay.known.session;
        let back = session.sql_prepared.looks_back(text.unwrap_or_default(), session.dialect());
        !back.may_read_insert_id()
    }

    /// Whether an execution passes: its statement was prepared for a temporary table, which still
    /// masks the ruled one.
    pub(in crate::proxy) fn is_masked(&self, arrived: Arrived) -> Result<bool, Unsent> {
        let Some(id) = arrived.statement else { return Ok(false) };
        let session = &self.relay.known.session;
        let (name, was_masked) = match self.relay.known.statements.get(id) {
            Some(statement) => {
                let (kept, name) = (&statement.kept, &statement.kept.source.table);
                let masked = session.temporary.masked(&name.schema, &name.table);
                // Where a rule has come for it, it is planned again, by what masks the name then.
                let has_new_rule =
                    || !kept.is_current(&self.shared.tables.now().lookup(&name.schema, &name.table));
                let must_ask = kept.prepared.is_some() || masked == Masked::Unsure && has_new_rule();
                if masked == Masked::No || !must_ask {
                    return Ok(false);
                }
                (name.clone(), false)
            }
            None => match self.relay.known.statements.effects(id).and_then(|e| e.hidden_insert.clone()) {
                Some(name) => (*name, true),
                None => return Ok(false),
            },
        };
        if session.is_untouched() {
            return Err(Need::State { must_ask: true }.into());
        }
        match (session.temporary.masked(&name.schema, &name.table), was_masked) {
            (Masked::Unsure, _) => Err(Need::Temporary(name).into()),
            (Masked::No, false) => Ok(false),
            (Masked::Yes, true) => Ok(true),
            (Masked::Yes, false) | (Masked::No, true) => Err(refused(format_args!(
                "{name}: a temporary table of this name was created or dropped since the statement was prepared; prepare the \
                 statement again"
            ))
            .into()),
        }
    }
}
