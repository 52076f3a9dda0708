//! The facts that a command needs are found out one after the other. After each the command is decided again.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::verdict::{refused, state_unknown};
use crate::proxy::known::need::{IdRight, Need};
use crate::proxy::known::statements::Kept;
use crate::proxy::known::temporary::{answer, question};
use crate::proxy::relay::own::Question;
use crate::proxy::relay::{Relay, Violation};
use crate::proxy::serve::session::{Over, Session, Stop};
use crate::rewrite::plan::target::Target;
use crate::sessions::Count;
use crate::sql::name::quoted;
use crate::table_name::TableName;
use crate::tables::Tables;

/// `ER_QUERY_INTERRUPTED`, `ER_QUERY_TIMEOUT`
const INTERRUPTED: [u16; 2] = [1317, 3024];

impl Session {
    /// Finds out what is needed. The client's lane is clear then.
    pub(super) async fn supply(&mut self, command: Command, need: Need) -> Result<(), Stop> {
        let is_first = self.relay.has_answered_all();
        self.relay.known.supplied.note(&need, &self.shared.tables.now(), is_first, Instant::now());
        let supplied = self.find_out(command, need).await;
        self.until(Relay::has_sent_all).await?;
        supplied
    }

    async fn find_out(&mut self, command: Command, need: Need) -> Result<(), Stop> {
        match need {
            Need::State { must_ask } => {
                if must_ask && self.relay.known.session.ask() {
                    self.until(Relay::has_sent_all).await?;
                    self.relay.ask_state();
                }
                let is_known =
                    |relay: &Relay| relay.known.session.is_settled() && !relay.may_change_session();
                self.until(is_known).await?;
            }
            Need::Views => {
                let tables = self.shared.tables.now();
                self.meanwhile(tables.know_views()).await?;
            }
            Need::Table { name, again } => {
                let tables = self.shared.tables.now();
                let read = self.read_locked(command, &tables, &name).await?;
                self.meanwhile(tables.fetch(&name.schema, &name.table, again, read.as_deref())).await?;
            }
            Need::Temporary(name) => self.ask_temporary(command, &name).await?,
            Need::Value { question } => {
                let answer = self.ask(Question::Query(&question)).await?;
                self.relay.known.session.sql_prepared.answered(question, answer);
            }
            Need::Sequences(tables) => self.ask_sequences(&tables).await?,
            Need::Users => self.wait_for_users().await?,
            Need::Function(name) => self.ask_function(name).await?,
            Need::SetId { taken_for } => self.find_set_id(taken_for).await?,
            Need::Right(right, target) => self.ask_right(right, &target).await?,
            Need::Look(target) => self.must_see_ids(command, &target).await?,
            Need::Ids { tables, target, n } => self.wait_for_ids(command, (tables, target, n)).await?,
            Need::Guard { tables, target } => {
                let guarded = self.meanwhile(tables.guarded(&target, self.shared.id_deadline)).await?;
                match guarded {
                    Err(error) if error.is_outage() && target.may_go_without() => {
                        self.relay.known.supplied.without_ids = Some(error.for_client());
                    }
                    guarded => guarded.map_err(|error| Refusal::NoId(error.for_client()))?,
                }
            }
            Need::Rules { retired } => {
                self.relay.known.supplied.begin_again();
                let active = self.shared.tables.clone();
                let next = self.meanwhile(active.after(&retired, self.shared.id_deadline)).await?;
                next.ok_or_else(|| Refusal::NoId("the rules are being changed; try again".into()))?;
            }
            Need::Prepared { id, kept } => self.prepare_again(id, kept).await?,
        }
        Ok(())
    }

    /// Has the server prepare an INSERT of an id into the table: it says then whether the account may.
    async fn ask_right(&mut self, right: IdRight, target: &Target) -> Result<(), Stop> {
        let (schema, name) = target.named();
        let (schema, name, column) = (quoted(schema), quoted(name), quoted(target.id_column()));
        let update = match right {
            IdRight::Insert => String::new(),
            IdRight::Update => format!(" ON DUPLICATE KEY UPDATE {column}=LAST_INSERT_ID({column})"),
        };
        let sql = format!("INSERT INTO {schema}.{name} ({column}) VALUES (NULL){update}");
        match self.relay.known.session.written(&sql) {
            Some(sql) => {
                let answered = self.ask(Question::Prepare(&sql)).await?;
                self.relay.known.rights.answered(right, target, answered);
            }
            None => self.relay.known.rights.unsure(right, target),
        }
        Ok(())
    }

    async fn wait_for_ids(
        &mut self,
        command: Command,
        (tables, target, n): (Arc<Tables>, Arc<Target>, NonZeroU64),
    ) -> Result<(), Stop> {
        let asked = Instant::now();
        if tables.is_to_be_looked_at(&target) {
            // A look that failed does not refuse the statement: the server reports a collision.
            let _ = self.look(command, &target, false).await?;
        }
        let taken = self.meanwhile(tables.take_or_none(&target, n, self.shared.id_deadline)).await?;
        let waited = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.relay.known.here.count(Count::WaitedNanos, waited);
        match taken {
            Ok(ids) => self.relay.known.supplied.put(&tables, target, ids),
            // The rules that are active by now say whether there are ids.
            Err(_) if tables.is_retired() => {}
            Err(error) if error.is_outage() && target.may_go_without() => {
                self.relay.known.supplied.without_ids = Some(error.for_client());
            }
            Err(error) => return Err(Refusal::NoId(error.for_client()).into()),
        }
        Ok(())
    }

    /// Prepares the statement under the active rules, in place of the one that the server has.
    async fn prepare_again(&mut self, id: u32, kept: Arc<Kept>) -> Result<(), Stop> {
        let text = kept.server_text().unwrap_or_default();
        let answered = self.ask(Question::PrepareAndKeep(text)).await?;
        let answer = answered.map_err(|error| Stop::Failed(error.payload))?;
        let ok = PrepareOk::parse(&answer.first, self.relay.forms).map_err(Violation::Backend);
        let server_id = ok.map_err(Over::from)?.statement_id;
        let Some(before) = self.relay.known.statements.replace(id, server_id, kept) else {
            return Ok(());
        };
        if let Some(old) = before.server_id {
            self.relay.close(old);
        }
        if before.had_long_data {
            let why =
                "the rules changed after a parameter was sent ahead; send the parameter and execute again";
            return Err(refused(why).into());
        }
        Ok(())
    }

    /// Has the server say whether a temporary table hides the name.
    async fn ask_temporary(&mut self, command: Command, name: &TableName) -> Result<(), Stop> {
        let state = self.relay.known.session.state().ok_or_else(state_unknown)?;
        let cannot_ask = |why: &str| {
            Err(refused(format_args!(
                "{name}: a temporary table may hide this table, and Rowstamp cannot ask the server {why}"
            ))
            .into())
        };
        let sql = question(name);
        let Some(sql) = state.written(&sql) else {
            return cannot_ask("about this name in the client's character set; connect with utf8mb4");
        };
        if self.reads_counts(command) {
            let why =
                "between a statement and one that reads its counts; read the counts into variables first";
            return cannot_ask(why);
        }
        match self.ask(Question::Query(&sql)).await? {
            // The question is put again after these; with any other error the name is no temporary table.
            Err(error) if INTERRUPTED.contains(&error.code) => {}
            answered => {
                let row = answered.ok().and_then(|answered| answered.row);
                self.relay.known.session.temporary.note(&name.schema, &name.table, answer(row.as_deref()));
            }
        }
        Ok(())
    }
}
