//! Tables that the session itself has locked (LOCK TABLES), as a dump does for each table while it is loaded. The control account would
//! wait for that lock in vain, so the session reads the table's highest id itself.

use std::sync::Arc;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::ok::status;
use crate::proxy::known::answered::{ServerError, digits, lock_probe, says_locked};
use crate::proxy::relay::own::Question;
use crate::proxy::serve::session::{Going, Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::sql::look::LooksBack;
use crate::table_name::TableName;
use crate::table_use::Unseen;
use crate::tables::Tables;

/// The server says so without a wait: ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR.
const DENIED: [u16; 2] = [1142, 1143];
/// Another client may lock the table again, as often.
const LOCKS_WAITED_MAX: usize = 100;

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
        self.read_if_locked(command, tables, name, None).await
    }

    /// Looks at the table's highest id before a statement that hides collisions. The statement does not continue with
    /// ids that may be in the table.
    pub(super) async fn must_see_ids(&mut self, command: Command, target: &Arc<Target>) -> Result<(), Stop> {
        let mut seen = self.look(command, target, true).await?;
        let name = TableName::new(&target.rule.schema, &target.table);
        let in_force = self.shared.tables.clone();
        for _ in 0..LOCKS_WAITED_MAX {
            if !seen.as_ref().is_err_and(|unseen| unseen.is_locked) {
                break;
            }
            // The session waits for the lock, as its statement would. It may be its own, which it took in a packet of several statements.
            self.relay.known.may_have_locked = true;
            let tables = in_force.now();
            let read = match self.asked_highest(command, &tables, &name, tables.reach(target)).await? {
                Some(Ok(read)) => read,
                Some(Err(error)) if !DENIED.contains(&error.code) => return Err(Stop::Failed(error.payload)),
                _ => break,
            };
            // After the lock. What the session itself sees can be old in a transaction.
            seen = self.look(command, target, true).await?;
            let is_locked = seen.as_ref().is_err_and(|unseen| unseen.is_locked);
            let session = &self.relay.known.session;
            let is_in_transaction =
                session.has_status(status::IN_TRANS) || !session.has_status(status::AUTOCOMMIT);
            if is_locked && is_in_transaction {
                // DDL waits for the session's own transaction, and all others for the DDL.
                let limit = self.shared.id_deadline;
                seen = self.meanwhile(in_force.look(target, true, Some(&read), limit)).await?;
                break;
            }
        }
        let Err(unseen) = seen else { return Ok(()) };
        let why = format!(
            "Rowstamp must read the highest id of {}.{} before a REPLACE, or an INSERT with IGNORE or ON DUPLICATE KEY UPDATE, and {}; try again",
            target.rule.schema, target.table, unseen.why
        );
        if target.may_go_without() {
            self.relay.known.supplied.without_ids = Some(why);
            return Ok(());
        }
        Err(Refusal::NoId(why).into())
    }

    /// Looks at the table's highest id before its next id is taken. `hides`: for a statement that hides collisions.
    pub(super) async fn look(
        &mut self,
        command: Command,
        target: &Arc<Target>,
        hides: bool,
    ) -> Result<Result<(), Unseen>, Stop> {
        let in_force = self.shared.tables.clone();
        let read = if self.relay.known.may_have_locked {
            let (tables, name) = (in_force.now(), TableName::new(&target.rule.schema, &target.table));
            self.read_if_locked(command, &tables, &name, tables.reach(target)).await?
        } else {
            None
        };
        let limit = self.shared.id_deadline;
        Ok(self.meanwhile(in_force.look(target, hides, read.as_deref(), limit)).await?)
    }

    /// The highest id of a table, as digits, if the session has locked the table.
    async fn read_if_locked(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
        id_max: Option<u64>,
    ) -> Going<Option<String>> {
        if self.may_read_counts(command) {
            return Ok(None);
        }
        let Some(probe) = self.relay.known.session.written(&lock_probe(&name.schema, &name.table)) else {
            return Ok(None);
        };
        if !says_locked(&self.ask(Question::Prepare(&probe)).await?) {
            return Ok(None);
        }
        Ok(self.asked_highest(command, tables, name, id_max).await?.and_then(Result::ok))
    }

    /// The highest id of a table, as digits and as the session sees it. `id_max`: higher ones do not count. `None`: it must not ask.
    async fn asked_highest(
        &mut self,
        command: Command,
        tables: &Tables,
        name: &TableName,
        id_max: Option<u64>,
    ) -> Going<Option<Result<String, ServerError>>> {
        if self.may_read_counts(command) {
            return Ok(None);
        }
        let query = self.meanwhile(tables.highest_query(&name.schema, &name.table, id_max)).await?;
        let Some(query) = query.and_then(|query| self.relay.known.session.written(&query)) else {
            return Ok(None);
        };
        let answer = self.ask(Question::Query(&query)).await?;
        Ok(answer.map(|answer| answer.row.map(|row| digits(&row))).transpose())
    }

    /// True if the command reads what the command before it has left, or may execute a statement that does.
    fn may_read_counts(&self, command: Command) -> bool {
        let relay = &self.relay;
        if matches!(command, Command::Query | Command::StmtPrepare) {
            return self.reads_counts(command);
        }
        let statement = relay.named_statement().and_then(|id| relay.known.statements.get(id));
        let source = statement.map(|statement| &statement.kept.source);
        source.is_some_and(|source| {
            let text = source.text.as_deref();
            text.is_some_and(|text| !LooksBack::of(text, source.dialect).may_read_insert_id())
        })
    }
}
