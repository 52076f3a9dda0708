//! An INSERT ... SELECT, step by step: questions to the server, a block of ids, the statement
//! itself, and where the block was too small, another one. The client's commands after it wait
//! until it is answered.

use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::column::ColumnDefinition;
use crate::mysql::command::{Command, command_payload};
use crate::mysql::error::{Refusal, parse_err};
use crate::mysql::packet::{HEADER_BYTES, Header, put_packets};
use crate::mysql::prepared::{Execute, Expected, Param, id_bytes};
use crate::mysql::reader::Reader;
use crate::mysql::response::PrepareOk;
use crate::proxy::known::answered::{Answered, ServerError};
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::outstanding::{Note, Outstanding, Purpose};
use crate::proxy::relay::{Arrived, Relay, Step};
use crate::proxy::ruled::params::Params;
use crate::proxy::ruled::progress::{Progress, Task};
use crate::proxy::ruled::verdict::{malformed, refused};
use crate::proxy::session::{Going, Question, Session, Stop};
use crate::rewrite::plan::InsertPlan;
use crate::rewrite::plan::edit::{Numbers, Style};
use crate::rewrite::plan::select::SelectPlan;
use crate::rewrite::plan::target::Target;
use crate::tables::Tables;

/// In hexadecimal digits, so that the answers do not depend on character_set_results.
const FACTS_SQL: &[u8] =
    b"SELECT HEX(CONCAT_WS(',',@@log_bin,@@sql_log_bin,@@binlog_format,LAST_INSERT_ID()))";
const COUNTER_SQL: &[u8] = b"SELECT HEX(CONCAT(LAST_INSERT_ID(),''))";
/// Rows may come while a query is counted; a table that grows so fast is not chased.
const TRIES_MAX: u32 = 4;

/// ER_DATA_OUT_OF_RANGE, and what stands in its text where a block of ids was too small.
const OUT_OF_RANGE: u16 = 1690;
const OVERRUN_MARK: &str = "18446744073709551615 + ";
const OVERRUN_OPERANDS: [&str; 2] = ["`rowstamp k`", "last_insert_id()"];

/// Where an INSERT ... SELECT stands.
struct Job<'a> {
    arrived: Arrived,
    task: &'a Task,
    /// The client's.
    payload: &'a [u8],
    text: &'a [u8],
    insert: &'a InsertPlan,
    select: &'a SelectPlan,
    /// What LAST_INSERT_ID() said, from which its rows are counted.
    before_first: u64,
    /// How often it was sent.
    tries: u32,
}

impl Session {
    pub(in crate::proxy) async fn select(&mut self, arrived: Arrived, task: Task) -> Going<Progress> {
        let payload = self.relay.payload(arrived).into_owned();
        self.relay.up.skip(arrived.window_bytes);
        let (Some(insert), mut tries) = (task.insert(), 0) else { return Ok(Progress::Done) };
        let stop = match insert.select.as_deref() {
            None => Err(lost().into()),
            Some(select) => {
                let (task, payload, text) = (&task, &*payload, task.text(&payload));
                let mut job = Job { arrived, task, payload, text, insert, select, before_first: 0, tries };
                let went = self.select_by_steps(&mut job).await;
                tries = job.tries;
                went
            }
        };
        let Err(stop) = stop else { return Ok(Progress::Done) };
        if arrived.command == Command::StmtPrepare {
            self.relay.statements.refuse_last();
        }
        // The server does not see this execution, so what was sent ahead for it is dropped.
        if task.had_long_data() && tries == 0 && !matches!(stop, Stop::Over(_)) {
            self.reset_long_data(arrived.statement);
        }
        match stop {
            Stop::Over(over) => return Err(over),
            Stop::Refused(refusal) => self.relay.answer(&refusal, arrived.packets),
            Stop::Failed(error) => self.relay.answer_with(&error, arrived.packets),
        }
        Ok(Progress::Done)
    }

    async fn select_by_steps(&mut self, job: &mut Job<'_>) -> Result<(), Stop> {
        let Job { arrived, task, insert, select, .. } = *job;
        let Some((columns, before_first)) = self.ask_for_select(job).await? else { return Ok(()) };
        job.before_first = before_first;
        if let Some(columns) = &columns {
            let said = select.check_columns(columns, insert.target.rule.explicit);
            said.map_err(Refusal::from)?;
            if select.may_hide_digits_in_views(columns)
                && self.ask_number(select.views_named().as_ref()).await?.is_none_or(|views| views > 0)
            {
                return Err(refused(
                    "the query computes decimals from a view, which may have more digits than they show; write \
                     CAST(... AS DECIMAL(m,n)) or ROUND(..., n) around them, or name the view's tables",
                )
                .into());
            }
        }
        if let Task::Prepare(kept) = task {
            let payload = command_payload(Command::StmtPrepare, kept.server_text().unwrap_or_default());
            self.until(|relay| relay.up.is_clear()).await?;
            let nr_shift = self.relay.send_later(&payload, arrived.packets);
            self.relay.statements.prepare(kept.clone());
            self.relay.owe(Command::StmtPrepare.reply(), false, nr_shift, Note::Prepare(kept.clone()));
            return Ok(());
        }
        let mut block = self.first_block(job).await?;
        loop {
            self.send_select(job, block).await?;
            self.until(|relay| relay.overrun.is_some() || relay.outstanding.is_empty()).await?;
            let Some(error) = self.relay.overrun.take() else { return Ok(()) };
            let longer = self.longer_block(job, block).await;
            block = match longer.and_then(|block| block.ok_or(Stop::Failed(error))) {
                Ok(block) => block,
                Err(stop) => {
                    self.relay.session.owe_insert_id(Some(before_first));
                    return Err(stop);
                }
            };
            self.relay.query_own(Purpose::LastInsertId, format!("SET last_insert_id={before_first}"));
        }
    }

    /// The columns of its query, where it is not prepared already, and LAST_INSERT_ID(). `None`:
    /// the client's own text was sent.
    async fn ask_for_select(
        &mut self,
        job: &Job<'_>,
    ) -> Result<Option<(Option<Vec<ColumnDefinition>>, u64)>, Stop> {
        let Job { arrived, task, payload, text, insert, select, .. } = *job;
        let (is_prepare, is_execution) =
            (arrived.command == Command::StmtPrepare, arrived.command == Command::StmtExecute);
        let numbers = Numbers { before_first: 0, last: 1, sets: 0, first: 1 };
        let mut ours = Vec::new();
        match task {
            Task::Prepare(kept) => ours.extend_from_slice(kept.server_text().unwrap_or_default()),
            Task::Text { .. } => select.write(text, &numbers, &insert.target.spacing, &mut ours),
            Task::Execute { .. } => {}
        }
        let facts = [Question::Query(FACTS_SQL)];
        // The client's text is the last: SHOW WARNINGS shows its error.
        let texts =
            [Question::Describe(select.query(text)), Question::Prepare(&ours), Question::Prepare(text)];
        let questions = facts.iter().filter(|_| !is_prepare).chain(texts.iter().filter(|_| !is_execution));
        let questions: Vec<_> = questions.copied().collect();
        let mut answers = self.ask_all(&questions).await?;
        self.until(|relay| relay.up.is_clear()).await?;
        if !is_execution && let Some(Err(error)) = answers.pop() {
            return Err(Stop::Failed(error.payload));
        }
        let mut answers = answers.into_iter();
        let facts = if is_prepare { None } else { answers.next().map(facts_of) };
        let (columns, ours) = (answers.next(), answers.next());
        let columns = columns.map(|described| self.columns_of(described));
        if let (Some(Ok(columns)), Task::Text { .. }) = (&columns, task)
            && select.fails_by_count(columns)
        {
            // MariaDB notices when it runs (1136). The list is the text's own, so it is sure to.
            let nr_shift = self.relay.send_later(payload, arrived.packets);
            self.relay.owe(Command::Query.reply(), false, nr_shift, Note::Nothing);
            return Ok(None);
        }
        let before_first = facts.transpose()?.unwrap_or_default();
        let columns = columns.transpose()?;
        if let Some(Err(error)) = ours {
            return Err(not_within(&error).into());
        }
        Ok(Some((columns, before_first)))
    }

    fn columns_of(&self, described: Answered) -> Result<Vec<ColumnDefinition>, Refusal> {
        let described = described.map_err(|error| not_within(&error))?;
        let cannot = || refused("the columns of its query cannot be read; try again");
        let ok = PrepareOk::parse(&described.first, self.relay.forms).map_err(|_| cannot())?;
        if !ok.definitions {
            return Err(refused(
                "an INSERT ... SELECT needs the definitions of its columns; SET resultset_metadata=FULL",
            ));
        }
        let columns = described.definitions.iter().skip(usize::from(ok.params));
        columns.map(|definition| ColumnDefinition::parse(definition).map_err(|_| cannot())).collect()
    }

    /// The number in the only row of a query's answer, which comes as hexadecimal digits of its
    /// text.
    async fn ask_number(&mut self, sql: &[u8]) -> Result<Option<u64>, Stop> {
        let answered = self.ask(Question::Query(sql)).await?.map_err(|error| not_answered(&error))?;
        self.until(|relay| relay.up.is_clear()).await?;
        Ok(answered.row.as_deref().and_then(text_of).and_then(|digits| digits.parse().ok()))
    }

    /// How many ids it is sent with at first.
    async fn first_block(&mut self, job: &Job<'_>) -> Result<u32, Stop> {
        let Job { arrived, text, select, .. } = *job;
        if !(select.returns_rows && select.may_overrun) {
            return Ok(select.block);
        }
        if !select.is_repeatable || arrived.command != Command::Query {
            return Err(refused(
                "RETURNING of an INSERT ... SELECT whose rows cannot be counted beforehand; write a LIMIT of up to 10000, or \
                 send it as text",
            )
            .into());
        }
        let rows = self.ask_number(select.counting(text).as_ref()).await?.unwrap_or_default();
        Ok(u32::try_from(rows.max(1)).map_err(|_| too_many())?)
    }

    /// After an overrun, by what the server has counted. `None`: it was none, and the error is the
    /// client's.
    async fn longer_block(&mut self, job: &Job<'_>, block: u32) -> Result<Option<u32>, Stop> {
        let counter = self.ask_number(COUNTER_SQL).await?.ok_or_else(lost)?;
        let Some(rows) = counter.checked_sub(job.before_first).filter(|&rows| rows > u64::from(block)) else {
            return Ok(None);
        };
        if !job.select.is_repeatable || job.task.had_long_data() {
            return Err(refused(format_args!(
                "the query has {rows} rows, more than its text shows, and cannot be run again (it sets variables, calls stored \
                 functions, or was sent data in pieces); nothing was stored; write a LIMIT of up to 10000"
            ))
            .into());
        }
        if job.tries >= TRIES_MAX {
            return Err(too_many().into());
        }
        // What was counted once is most likely right; a table that grows is given room.
        let room = if job.tries > 1 { rows / 8 + 16 } else { 0 };
        Ok(Some(u32::try_from(rows.saturating_add(room)).map_err(|_| too_many())?))
    }

    async fn send_select(&mut self, job: &mut Job<'_>, block: u32) -> Result<(), Stop> {
        let Job { arrived, task, text, insert, select, before_first, .. } = *job;
        let found_rows = self.relay.found_rows();
        let (payload, inserts) = loop {
            let (tables, range) = self.ids_for_select(&insert.target, block).await?;
            let payload = self.payload_of_select(job, &numbers(insert, &range, before_first))?;
            let (ids, under) = (Ids::from(&range), tables.clone());
            let reply = InsertReply::selected(insert, select, ids, found_rows, before_first, under);
            // Asked when all is ready to be sent, as of every statement.
            if !tables.is_retired() {
                break (payload, vec![reply]);
            }
            self.supply(Command::Query, Need::Rules { retired: tables }).await?;
        };
        match task {
            Task::Execute { kept, .. } => self.audit_source(Some(&kept.source), &inserts),
            Task::Text { .. } | Task::Prepare(_) => self.audit(Some(text), &inserts),
        }
        let nr_shift = self.relay.send_later(&payload, arrived.packets);
        let note = Note::Statements { inserts, explicit: Vec::new(), effects: None };
        self.relay.owe(arrived.command.reply(), false, nr_shift, note);
        job.tries += 1;
        Ok(())
    }

    /// Ids of the active rules, to be used at once.
    async fn ids_for_select(
        &mut self,
        target: &Arc<Target>,
        block: u32,
    ) -> Result<(Arc<Tables>, IdBlock), Stop> {
        if block == 0 {
            return Err(lost().into());
        }
        loop {
            let tables = self.relay.session.tables.now();
            if !self.meanwhile(tables.still_serves(target)).await? {
                return Err(refused(
                    "the rules or the columns of its table have changed while the INSERT ... SELECT was on its way; nothing was \
                     stored; send it again",
                )
                .into());
            }
            self.until(|relay| relay.up.is_clear()).await?;
            let need = if tables.is_retired() {
                Need::Rules { retired: tables.clone() }
            } else {
                let mut supplied = std::mem::take(&mut self.supplied);
                let taken = self.take(&tables, target, block, &mut supplied);
                self.supplied = supplied;
                match taken {
                    Ok(range) => return Ok((tables, range)),
                    Err(Unsent::Needs(need)) => need,
                    Err(Unsent::Refused(refusal)) => return Err(refusal.into()),
                    Err(Unsent::Failed(_) | Unsent::Unreadable(_)) => return Err(lost().into()),
                }
            };
            self.supply(Command::Query, need).await?;
        }
    }

    fn payload_of_select(&self, job: &Job<'_>, numbers: &Numbers) -> Result<Vec<u8>, Refusal> {
        match job.task {
            Task::Text { text_at, .. } => {
                let mut out = job.payload.get(..*text_at).unwrap_or_default().to_vec();
                job.select.write(job.text, numbers, &job.insert.target.spacing, &mut out);
                Ok(out)
            }
            Task::Execute { kept, types, long_data } => {
                let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
                let expected = Expected {
                    params: prepared.text.client_params,
                    types: types.as_deref(),
                    long_data,
                    with_attributes: self.relay.has_attributes(),
                };
                let mut execute = Execute::parse(job.payload, expected).map_err(malformed)?;
                let hidden: Vec<_> =
                    prepared.text.hidden.iter().map(|h| id_bytes(numbers.of_param(h.row))).collect();
                let ours = prepared.text.hidden.iter().zip(&hidden);
                execute.put_among(ours.map(|(param, bytes)| (usize::from(param.index), Param::id(bytes))));
                let mut out = execute.build();
                self.put_server_id(job.arrived, &mut out);
                Ok(out)
            }
            Task::Prepare(_) => Err(lost()),
        }
    }

    /// COM_STMT_EXECUTE of a prepared INSERT ... SELECT.
    pub(in crate::proxy) fn execution_of_select(
        &mut self,
        arrived: Arrived,
        kept: Arc<Kept>,
        payload: &[u8],
    ) -> Result<Task, Refusal> {
        self.meaning(kept.prepared.as_ref().ok_or_else(lost)?)?;
        let with_attributes = self.relay.has_attributes();
        let statement =
            arrived.statement.and_then(|id| self.relay.statements.get_mut(id)).ok_or_else(lost)?;
        let expected = statement.expected(with_attributes);
        let sent = Params::parse(Command::StmtExecute, payload, expected)?.new_types(expected);
        let types = statement.types.clone();
        if sent.is_some() {
            statement.types = sent;
        }
        Ok(Task::Execute { kept, types, long_data: std::mem::take(&mut statement.long_data) })
    }

    /// Ids that the query brought are stored: later ones of the generator are above them.
    pub(in crate::proxy) async fn follow_selected_ids(&mut self) {
        let Some(reply) = self.relay.outstanding.insert_reply() else { return };
        reply.is_followed();
        let target = reply.target.clone();
        let rule = &target.rule;
        let highest = match self.relay.session.tables.schema() {
            Some(schema) => {
                let highest = schema.highest_stored(&rule.schema, &target.table, &rule.column).await;
                highest.map_err(|error| error.to_string())
            }
            None => Err("there is no [backend.control]".to_owned()),
        };
        match highest {
            Ok(highest) => self.follow(&target, &[highest]).await,
            Err(error) => tracing::warn!(
                error,
                table = format!("{}.{}", rule.schema, target.table),
                "ids that an INSERT ... SELECT brought are stored, and not followed"
            ),
        }
    }
}

impl Relay {
    /// What to do with the error of an INSERT ... SELECT whose block was too small. `None`: it has
    /// another cause.
    pub(in crate::proxy) fn block_overran(&mut self, header: Header, whole: usize) -> Option<Step> {
        let returns_rows = self.outstanding.insert_reply()?.selects_with_rows()?;
        let payload = self.down.window().get(HEADER_BYTES..whole)?;
        let (code, text) = parse_err(payload)?;
        let is_ours =
            text.contains(OVERRUN_MARK) && OVERRUN_OPERANDS.iter().any(|operand| text.contains(operand));
        if code != OUT_OF_RANGE || !is_ours {
            return None;
        }
        if !self.down.is_clear() {
            return Some(Step::SendFirst);
        }
        if !returns_rows {
            self.overrun = Some(payload.to_vec());
            self.down.skip(whole);
            self.outstanding.pop();
            return Some(Step::Moved);
        }
        // Its columns have been sent already.
        let Some(Outstanding::Forward(entry)) = self.outstanding.front_mut() else { return None };
        let nr = entry.numbers.take(header.packet_nr)?;
        let refusal = Refusal::NoId("the query had more rows than when they were counted; try again".into());
        self.down.skip(whole);
        put_packets(self.down.out(), nr, &refusal.payload());
        self.complete(false);
        Some(Step::Moved)
    }
}

/// LAST_INSERT_ID(), where the server's way of logging allows that rows are numbered in the order
/// of a query.
fn facts_of(answered: Answered) -> Result<u64, Refusal> {
    let facts = answered.map_err(|error| not_answered(&error))?;
    let Some(facts) = facts.row.as_deref().and_then(text_of) else {
        return Err(refused("the server's way of logging cannot be read; try again"));
    };
    let mut facts = facts.split(',');
    let mut is_on = || matches!(facts.next(), Some("1" | "ON"));
    let is_logged = is_on() & is_on();
    if is_logged && facts.next().is_none_or(|format| format.eq_ignore_ascii_case("STATEMENT")) {
        return Err(refused(
            "INSERT ... SELECT is logged as a statement here, and a replica may number its rows differently; SET binlog_format \
             to ROW or MIXED",
        ));
    }
    // Counting up from there must not end.
    let before_first = facts.next_back().and_then(|id| id.parse().ok());
    before_first
        .filter(|&id| id < i64::MAX.unsigned_abs() / 2)
        .ok_or_else(|| refused("LAST_INSERT_ID() is no id; SET last_insert_id=0"))
}

/// The text in a row's only column, which came as hexadecimal digits; zero bytes of UTF-16 are
/// passed over.
fn text_of(row: &[u8]) -> Option<String> {
    let digits = Reader::new(row).lenenc_bytes("an answer of ours").ok()?;
    crate::text_query::unhex(digits)
}

fn numbers(insert: &InsertPlan, range: &IdBlock, before_first: u64) -> Numbers {
    Numbers {
        before_first,
        last: before_first.saturating_add(range.count()),
        sets: if insert.style == Style::Wrapped { range.first() } else { before_first },
        first: range.first(),
    }
}

fn not_answered(ServerError { code, text, .. }: &ServerError) -> Refusal {
    refused(format_args!("the server answered {code}, {text}; try again"))
}

fn not_within(ServerError { code, text, .. }: &ServerError) -> Refusal {
    refused(format_args!(
        "the query cannot be kept inside of another ({code}, {text}); write it more plainly"
    ))
}

fn too_many() -> Refusal {
    Refusal::NoId("the query has more rows at each try, or more than 4294967295; write a LIMIT".into())
}

fn lost() -> Refusal {
    Refusal::NoId("an INSERT ... SELECT lost its plan".into())
}
