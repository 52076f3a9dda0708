//! Tables that the session itself has locked (LOCK TABLES), as a dump does for each table while it is loaded. The control account would
//! wait for that lock in vain, so the session reads the table's highest id itself.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::proxy::known::answered::{digits, says_locked};
use crate::proxy::session::{Going, Question, Session};
use crate::rewrite::plan::target::Target;
use crate::sql::last_result::may_read_insert_id;
use crate::sql::name::quoted;
use crate::table_name::TableName;
use crate::tables::Tables;

/// No client locks a table under this alias.
const ALIAS: &str = "`rowstamp lock`";

impl Session {
    /// The highest id of a table, as digits, if it must be read and the session has locked the table.
    pub(super) async fn read_locked(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
    ) -> Going<Option<String>> {
        if !tables.looks_at_ids(&name.schema, &name.table) {
            return Ok(None);
        }
        self.read_if_locked(command, tables, name).await
    }

    /// Looks at the table's highest id, before its next id is taken.
    pub(super) async fn look_at_ids(&mut self, command: Command, target: &Arc<Target>) -> Going<()> {
        let in_force = self.relay.session.tables.clone();
        let name = TableName::new(&target.rule.schema, &target.table);
        let read = if self.relay.may_have_locked {
            self.read_if_locked(command, &in_force.now(), &name).await?
        } else {
            None
        };
        let limit = self.shared.id_deadline;
        self.meanwhile(in_force.look(target, read.as_deref(), limit)).await
    }

    /// The highest id of a table, as digits, if the session has locked the table.
    async fn read_if_locked(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
    ) -> Going<Option<String>> {
        let (schema, table) = (&*name.schema, &*name.table);
        if self.reads_counts(command) || self.executes_what_reads_counts(command) {
            return Ok(None);
        }
        let Some(probe) = self.lock_probe(schema, table) else { return Ok(None) };
        if !says_locked(&self.ask(Question::Prepare(&probe)).await?) {
            return Ok(None);
        }
        let query = self.meanwhile(tables.highest_query(schema, table)).await?;
        let Some(query) = query.and_then(|query| self.written(&query)) else { return Ok(None) };
        Ok(self
            .ask(Question::Query(&query))
            .await?
            .ok()
            .and_then(|answer| answer.row)
            .map(|row| digits(&row)))
    }

    /// Whether the command may execute a statement that reads what the one before it has left.
    fn executes_what_reads_counts(&self, command: Command) -> bool {
        let relay = &self.relay;
        if command == Command::Query {
            return relay.session.sql_prepared.any_reads_counts();
        }
        let statement = relay.named_statement().and_then(|id| relay.statements.get(id));
        let text = statement.and_then(|statement| statement.kept.source.text.as_deref());
        !text.is_none_or(may_read_insert_id)
    }

    /// A statement whose preparation tells whether the session has locked tables: then it can use only the names and aliases
    /// that it has locked. The server runs nothing, and waits for no other session's LOCK TABLES.
    pub(in crate::proxy) fn lock_probe(&self, schema: &str, table: &str) -> Option<Vec<u8>> {
        self.written(&format!("SELECT 1 FROM {}.{} AS {ALIAS} LIMIT 1", quoted(schema), quoted(table)))
    }

    /// A text of ours in the session's character set.
    pub(in crate::proxy) fn written(&self, text: &str) -> Option<Vec<u8>> {
        let charset = self.relay.session.state()?.dialect.charset;
        Some(charset.written(text)?.into_owned())
    }
}
