//! Tables that the session itself has locked (LOCK TABLES), as a dump that is read in does for each table. The control account would
//! wait for that lock in vain, so the session reads the table's highest id itself.

use crate::mysql::command::Command;
use crate::proxy::known::answered::digits;
use crate::proxy::session::{Going, Question, Session};
use crate::sql::name::quoted;
use crate::table_name::TableName;
use crate::tables::Tables;

/// ER_TABLE_NOT_LOCKED: the session has locked tables, and this name is none of them.
const NOT_LOCKED: u16 = 1100;

/// No client locks a table under this alias.
const ALIAS: &str = "`rowstamp lock`";

impl Session {
    /// The highest id of a table, where it is to be read and the session has locked the table: digits.
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
        // Under LOCK TABLES a table has no other names than it was locked by. Nothing is run, and no lock is waited for.
        let probe = format!("SELECT 1 FROM {}.{} AS {ALIAS}", quoted(schema), quoted(table));
        let Some(probe) = self.written(&probe) else { return Ok(None) };
        match self.ask(Question::Prepare(&probe)).await? {
            Err(error) if error.code == NOT_LOCKED => {}
            _ => return Ok(None),
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

    /// A text of ours, as the session's character set has it.
    pub(in crate::proxy) fn written(&self, text: &str) -> Option<Vec<u8>> {
        let charset = self.relay.session.state()?.dialect.charset;
        Some(charset.written(text)?.into_owned())
    }
}
