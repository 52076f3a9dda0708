//! What an INSERT ... SELECT needs, step by step: questions to the backend, a block of ids, the statement itself, and where
//! the block was too small, another one.

use std::sync::Arc;

use super::execute::malformed;
use super::inserts::{Ids, InsertReply};
use super::outstanding::{Note, Purpose};
use super::ruled::command_payload;
use super::select::{Job, Question, Stage, Task};
use super::session::Session;
use super::statements::Kept;
use crate::ids::range::block::IdBlock;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::prepared::{Execute, Expected, Param, id_bytes, statement_id};
use crate::rewrite::plan::{InsertPlan, Numbers, Style};

/// In hexadecimal digits, so that the answers do not depend on character_set_results.
const FACTS_SQL: &str = "SELECT HEX(CONCAT_WS(',',@@log_bin,@@sql_log_bin,@@binlog_format,LAST_INSERT_ID()))";
const COUNTER_SQL: &str = "SELECT HEX(CONCAT(LAST_INSERT_ID(),''))";
/// Rows may come while a query is counted; a table that grows so fast is not chased.
const TRIES_MAX: u32 = 4;

type Going<T> = Result<T, Refusal>;

impl Session {
    /// Takes the next step. Nothing that was asked is unanswered.
    pub(super) async fn go_on_with_select(&mut self) {
        let Some(mut job) = self.relay.select.take() else { return };
        let went = match job.stage {
            Stage::Start => self.ask_for_select(&mut job),
            Stage::Asked if job.error.is_some() => {
                let error = job.error.take().unwrap_or_default();
                return self.relay.fail_select(&job, &error);
            }
            Stage::Asked | Stage::Counted => self.selected_once_known(&mut job).await,
            Stage::Overran => {
                self.ask(Question::Counter, COUNTER_SQL);
                job.awaits(1, Stage::Measured);
                Ok(())
            }
            Stage::Measured => match self.selected_again(&mut job).await {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let error = job.error.take().unwrap_or_default();
                    self.relay.view.owe_insert_id(job.before_first);
                    return self.relay.fail_select(&job, &error);
                }
                Err(refusal) => {
                    self.relay.view.owe_insert_id(job.before_first);
                    Err(refusal)
                }
            },
            Stage::Sent => Ok(()),
        };
        match went {
            Ok(()) => self.relay.select = Some(job),
            Err(refusal) => {
                self.drop_long_data(&job);
                self.relay.refuse_select(&job, &refusal);
            }
        }
    }

    fn ask(&mut self, question: Question, sql: impl AsRef<[u8]>) {
        self.relay.query_own(Purpose::Select(question), sql);
    }

    fn ask_to_prepare(&mut self, question: Question, text: &[u8]) {
        let payload = command_payload(Command::StmtPrepare, text);
        self.relay.send_own(Purpose::Select(question), Command::StmtPrepare.reply(), &payload);
    }

    fn ask_for_select(&mut self, job: &mut Job) -> Going<()> {
        let (Some(insert), Some(select)) = (job.insert(), job.select()) else { return Err(lost()) };
        let numbers = Numbers { before_first: 0, last: 1, sets: 0, first: 1 };
        let mut asked = 0;
        if job.command() != Command::StmtPrepare {
            self.ask(Question::Facts, FACTS_SQL);
            asked += 1;
        }
        if job.command() != Command::StmtExecute {
            let ours = if let Task::Prepare { kept, .. } = &job.task {
                kept.server_text().unwrap_or_default().to_vec()
            } else {
                let mut ours = Vec::new();
                select.write(job.text(), &numbers, &insert.target.spacing, &mut ours);
                ours
            };
            self.ask_to_prepare(Question::Columns, select.query(job.text()));
            self.ask_to_prepare(Question::OurText, &ours);
            // Last: SHOW WARNINGS shows its error.
            self.ask_to_prepare(Question::ClientText, job.text());
            asked += 3;
        }
        job.awaits(asked, Stage::Asked);
        Ok(())
    }

    /// Everything is known but the number of rows.
    async fn selected_once_known(&mut self, job: &mut Job) -> Going<()> {
        let (Some(insert), Some(select)) = (job.insert(), job.select()) else { return Err(lost()) };
        let columns = job.columns.as_deref().filter(|_| job.command() != Command::StmtExecute);
        if let Some(columns) = columns
            && select.fails_by_count(columns)
            && let Task::Text { payload, .. } = &job.task
        {
            // MariaDB notices when it runs (1136). The list is the text's own, so it is sure to.
            let nr_shift = self.relay.send_later(payload, job.packets);
            self.relay.owe(Command::Query.reply(), false, nr_shift, Note::Nothing);
            job.awaits(0, Stage::Sent);
            return Ok(());
        }
        if let Some(refusal) = job.refusal.clone() {
            return Err(refusal);
        }
        if job.command() != Command::StmtExecute {
            let columns = columns.unwrap_or_default();
            let said = select.check_columns(columns, insert.target.rule.explicit);
            said.map_err(|refusal| Refusal::Statement(refusal.to_string()))?;
            if job.views.is_none() && select.may_hide_digits_in_views(columns) {
                let views = select.views_named();
                self.ask(Question::Views, views);
                job.awaits(1, job.stage);
                return Ok(());
            }
            if job.views.is_some_and(|views| views > 0) {
                return Err(Refusal::Statement(
                    "rowstamp: the query computes decimals from a view, which may have more digits than they show; write \
                     CAST(... AS DECIMAL(m,n)) or ROUND(..., n) around them, or name the view's tables"
                        .into(),
                ));
            }
        }
        if let Task::Prepare { kept, .. } = &job.task {
            let payload = command_payload(Command::StmtPrepare, kept.server_text().unwrap_or_default());
            let nr_shift = self.relay.send_later(&payload, job.packets);
            self.relay.statements.prepare(kept.clone());
            self.relay.owe(Command::StmtPrepare.reply(), false, nr_shift, Note::Prepare(kept.clone()));
            job.awaits(0, Stage::Sent);
            return Ok(());
        }
        let mut block = select.block;
        if select.returns_rows && select.may_overrun {
            let Some(rows) = job.rows.filter(|_| job.stage == Stage::Counted) else {
                if !select.is_repeatable || job.command() != Command::Query {
                    return Err(Refusal::Statement(
                        "rowstamp: RETURNING of an INSERT ... SELECT whose rows cannot be counted beforehand; write a LIMIT of \
                         up to 10000, or send it as text"
                            .into(),
                    ));
                }
                let counting = select.counting(job.text());
                self.ask(Question::Rows, counting);
                job.awaits(1, Stage::Counted);
                return Ok(());
            };
            block = u32::try_from(rows.max(1)).map_err(|_| too_many())?;
        }
        self.send_select(job, block).await
    }

    /// After an overrun. `false`: it was none, and the error is the client's.
    async fn selected_again(&mut self, job: &mut Job) -> Going<bool> {
        if let Some(refusal) = job.refusal.take() {
            return Err(refusal);
        }
        let (Some(counter), Some(before_first), Some(select)) = (job.rows, job.before_first, job.select())
        else {
            return Err(lost());
        };
        let Some(rows) = counter.checked_sub(before_first).filter(|&rows| rows > u64::from(job.block)) else {
            return Ok(false);
        };
        let has_long_data = matches!(&job.task, Task::Execute { long_data, .. } if !long_data.is_empty());
        if !select.is_repeatable || has_long_data {
            return Err(Refusal::Statement(format!(
                "rowstamp: the query has {rows} rows, more than its text shows, and cannot be run again (it sets variables, \
                 calls stored functions, or was sent data in pieces); nothing was stored; write a LIMIT of up to 10000"
            )));
        }
        if job.tries >= TRIES_MAX {
            return Err(too_many());
        }
        // What was counted once is most likely right; a table that grows is given room.
        let room = if job.tries > 1 { rows / 8 + 16 } else { 0 };
        let block = u32::try_from(rows.saturating_add(room)).map_err(|_| too_many())?;
        let put_back = format!("SET last_insert_id={before_first}");
        self.ask(Question::PutBack, put_back);
        self.send_select(job, block).await.map(|()| true)
    }

    async fn send_select(&mut self, job: &mut Job, block: u32) -> Going<()> {
        let (Some(insert), Some(before_first)) = (job.insert(), job.before_first) else { return Err(lost()) };
        let mut tables = self.relay.view.tables.now();
        let range = loop {
            if !tables.still_serves(&insert.target).await {
                return Err(Refusal::Statement(
                    "rowstamp: the rules or the columns of its table have changed while the INSERT ... SELECT was on its way; \
                     nothing was stored; send it again"
                        .into(),
                ));
            }
            let range = self.take(&tables, &insert.target, block).await?;
            match self.superseding(&tables).await? {
                None => break range,
                Some(next) => tables = next,
            }
        };
        let numbers = numbers(insert, &range, before_first);
        let payload = self.payload_of_select(job, &numbers)?;
        let select = insert.select.as_deref().ok_or_else(lost)?;
        let (ids, found_rows) = (Ids::from(&range), self.relay.found_rows());
        let reply = InsertReply::selected(insert, select, ids, found_rows, before_first, tables);
        let inserts = vec![reply];
        match job.source() {
            Some(source) => self.audit_source(Some(source), &inserts),
            None => self.audit(Some(job.text()), &inserts),
        }
        let nr_shift = self.relay.send_later(&payload, job.packets);
        let note = Note::Statements { inserts, explicit: Vec::new(), effects: None };
        self.relay.owe(job.command().reply(), false, nr_shift, note);
        job.block = block;
        job.tries += 1;
        job.awaits(0, Stage::Sent);
        Ok(())
    }

    fn payload_of_select(&self, job: &Job, numbers: &Numbers) -> Going<Vec<u8>> {
        match &job.task {
            Task::Text { payload, text_at, .. } => {
                let insert = job.insert().ok_or_else(lost)?;
                let select = insert.select.as_deref().ok_or_else(lost)?;
                let mut out = payload.get(..*text_at).unwrap_or_default().to_vec();
                select.write(job.text(), numbers, &insert.target.spacing, &mut out);
                Ok(out)
            }
            Task::Execute { kept, payload, types, long_data } => {
                let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
                let expected = Expected {
                    params: prepared.text.client_params,
                    types: types.as_deref(),
                    long_data,
                    with_attributes: self.relay.has_attributes(),
                };
                let mut execute = Execute::parse(payload, expected).map_err(malformed)?;
                let hidden: Vec<_> =
                    prepared.text.hidden.iter().map(|h| id_bytes(numbers.of_param(h.row))).collect();
                let ours = prepared.text.hidden.iter().zip(&hidden);
                execute.put_among(ours.map(|(param, bytes)| (usize::from(param.index), Param::id(bytes))));
                let mut out = execute.build();
                let server_id =
                    statement_id(payload).ok().and_then(|id| self.relay.statements.translated(id));
                if let Some((id, place)) = server_id.zip(out.get_mut(1..5)) {
                    place.copy_from_slice(&id.to_le_bytes());
                }
                Ok(out)
            }
            Task::Prepare { .. } => Err(lost()),
        }
    }

    /// COM_STMT_EXECUTE of a prepared INSERT ... SELECT.
    pub(super) fn execute_select(
        &mut self,
        kept: Arc<Kept>,
        payload: &[u8],
        window_bytes: usize,
        packets: usize,
    ) {
        match self.execution(kept, payload) {
            Ok(task) => {
                self.relay.up.skip(window_bytes);
                self.relay.select = Some(Box::new(Job::new(task, packets)));
            }
            Err(refusal) => self.refuse_execution(payload, &refusal, window_bytes, packets),
        }
    }

    fn execution(&mut self, kept: Arc<Kept>, payload: &[u8]) -> Result<Task, Refusal> {
        let id = statement_id(payload).map_err(malformed)?;
        let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
        self.meaning(prepared)?;
        let params = prepared.text.client_params;
        let with_attributes = self.relay.has_attributes();
        let statement = self.relay.statements.get_mut(id).ok_or(Refusal::UnknownStatement(id))?;
        let (types, long_data) = (statement.types.clone(), statement.long_data.clone());
        let expected = Expected { params, types: types.as_deref(), long_data: &long_data, with_attributes };
        let sent = Execute::parse(payload, expected).map_err(malformed)?.types(params);
        if params > 0 {
            statement.types = Some(sent);
        }
        statement.long_data.clear();
        Ok(Task::Execute { kept, payload: payload.to_vec(), types, long_data })
    }

    /// The server does not see an execution that is refused before it is sent: what came ahead for it is dropped.
    fn drop_long_data(&mut self, job: &Job) {
        if let Task::Execute { payload, long_data, .. } = &job.task
            && !long_data.is_empty()
            && job.tries == 0
        {
            self.reset_long_data(statement_id(payload).ok());
        }
    }

    /// Ids that the query brought are stored: later ones of the generator are above them.
    pub(super) async fn follow_selected_ids(&mut self) {
        let Some(mut job) = self.relay.select.take() else { return };
        if let Some(insert) = job.insert() {
            let target = insert.target.clone();
            let followed = match self.relay.view.tables.schema() {
                Some(schema) => {
                    let rule = &target.rule;
                    schema
                        .highest_stored(&rule.schema, &target.table, &rule.column)
                        .await
                        .map_err(|e| e.to_string())
                }
                None => Err("there is no [backend.control]".to_owned()),
            };
            match followed {
                Ok(highest) => self.follow(&target, &[highest]).await,
                Err(error) => tracing::warn!(
                    error,
                    table = format!("{}.{}", target.rule.schema, target.table),
                    "ids that an INSERT ... SELECT brought are stored, and not followed"
                ),
            }
        }
        job.followed = true;
        self.relay.select = Some(job);
    }
}

fn numbers(insert: &InsertPlan, range: &IdBlock, before_first: u64) -> Numbers {
    Numbers {
        before_first,
        last: before_first.saturating_add(range.count()),
        sets: if insert.style == Style::Wrapped { range.first() } else { before_first },
        first: range.first(),
    }
}

fn too_many() -> Refusal {
    Refusal::NoId("the query has more rows at each try, or more than 4294967295; write a LIMIT".into())
}

fn lost() -> Refusal {
    Refusal::NoId("an INSERT ... SELECT lost its plan".into())
}
