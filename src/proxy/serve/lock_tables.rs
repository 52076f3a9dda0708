//! Tables that the session itself has locked (LOCK TABLES), as a dump does for each table while it is loaded. The control account would
//! wait for that lock in vain, so the session reads the table's highest id itself.

use crate::mysql::command::Command;
use crate::proxy::known::answered::{digits, says_locked};
use crate::proxy::session::{Going, Question, Session};
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
        let (schema, table) = (&*name.schema, &*name.table);
        if !tables.looks_at_ids(schema, table) || self.reads_counts(command) {
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
