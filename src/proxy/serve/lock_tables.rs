//! Tables that the session itself has locked (LOCK TABLES), as a dump does for each table while it is loaded. The control account would
//! wait for that lock in vain, so the session reads the table's highest id itself.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::proxy::known::answered::{digits, says_locked};
use crate::proxy::session::{Going, Question, Session, Stop};
use crate::rewrite::plan::target::{Target, Unseen};
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

    /// Looks at the table's highest id, before its next id is taken. `hides`: for a statement that hides collisions. It does not go
    /// on with ids that may be in the table.
    pub(super) async fn look_at_ids(
        &mut self,
        command: Command,
        target: &Arc<Target>,
        hides: bool,
    ) -> Result<(), Stop> {
        let in_force = self.relay.session.tables.clone();
        let name = TableName::new(&target.rule.schema, &target.table);
        let read = if self.relay.may_have_locked {
            self.read_if_locked(command, &in_force.now(), &name).await?
        } else {
            None
        };
        let limit = self.shared.id_deadline;
        let mut seen = self.meanwhile(in_force.look(target, hides, read.as_deref(), limit)).await?;
        if hides && seen.as_ref().is_err_and(|unseen| unseen.is_locked) {
            // The session waits for the lock, as its statement would.
            let Some(read) = self.read_highest(command, &in_force.now(), &name).await? else {
                return self.unseen(target, seen);
            };
            seen = self.meanwhile(in_force.look(target, hides, None, limit)).await?;
            if seen.as_ref().is_err_and(|unseen| unseen.is_locked) {
                // DDL waits for the session's own transaction, and all others for the DDL.
                seen = self.meanwhile(in_force.look(target, hides, Some(&read), limit)).await?;
            }
        }
        if hides { self.unseen(target, seen) } else { Ok(()) }
    }

    /// What a table that could not be looked at means for a statement that hides collisions.
    fn unseen(&mut self, target: &Target, seen: Result<(), Unseen>) -> Result<(), Stop> {
        let Err(unseen) = seen else { return Ok(()) };
        if target.may_go_without() {
            self.supplied.without_ids = Some(unseen.why);
            return Ok(());
        }
        let why = format!(
            "Rowstamp must read the highest id of {}.{} before a REPLACE, or an INSERT with IGNORE or ON DUPLICATE KEY UPDATE, and {}; try again",
            target.rule.schema, target.table, unseen.why
        );
        Err(Refusal::NoId(why).into())
    }

    /// The highest id of a table, as digits, if the session has locked the table.
    async fn read_if_locked(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
    ) -> Going<Option<String>> {
        if self.may_read_counts(command) {
            return Ok(None);
        }
        let Some(probe) = self.lock_probe(&name.schema, &name.table) else { return Ok(None) };
        if !says_locked(&self.ask(Question::Prepare(&probe)).await?) {
            return Ok(None);
        }
        self.read_highest(command, tables, name).await
    }

    /// The highest id of a table, as digits and as the session sees it.
    async fn read_highest(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
    ) -> Going<Option<String>> {
        if self.may_read_counts(command) {
            return Ok(None);
        }
        let query = self.meanwhile(tables.highest_query(&name.schema, &name.table)).await?;
        let Some(query) = query.and_then(|query| self.written(&query)) else { return Ok(None) };
        Ok(self
            .ask(Question::Query(&query))
            .await?
            .ok()
            .and_then(|answer| answer.row)
            .map(|row| digits(&row)))
    }

    /// Whether the command reads what the one before it has left, or may execute a statement that does.
    fn may_read_counts(&self, command: Command) -> bool {
        let relay = &self.relay;
        if self.reads_counts(command) {
            return true;
        }
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
