//! An INSERT ... SELECT or a LOAD, by way of a stage (`rewrite/plan/stage`): made, filled by the
//! client's query or file, and stored with ids. The client's commands after it wait until it is
//! sent. `made` makes the stage; `around` asks as the session was when the client prepared.
//! `prepare_named` and `run_named` are for SQL's PREPARE, `prepare_ours` and `prepare_kept` for the protocol's.

mod around;
mod made;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ids::block::IdBlock;
use crate::mysql::attributes;
use crate::mysql::bulk::Bulk;
use crate::mysql::command::{Command, command_payload};
use crate::mysql::error::Refusal;
use crate::mysql::ok::{self, Form, Loaded, OkPacket, status};
use crate::mysql::prepared::{Execute, Expected};
use crate::mysql::reader::put_lenenc_bytes;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::set_id::{expect, take_ids};
use crate::proxy::decide::staged::lost;
use crate::proxy::decide::verdict::{Task, malformed, refused, state_unknown};
use crate::proxy::known::answered::{Answered, ServerError, Table, text_of};
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::note::Note;
use crate::proxy::known::warned::{Warned, replaced};
use crate::proxy::relay::command::{Arrived, Handled};
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::{Relay, Violation};
use crate::proxy::serve::send::is_late;
use crate::proxy::serve::session::{Going, Over, Session, Stop, basis};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::stage::{Brought, Kind, Named, Numbering, Stage, Takes};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, LastId, NewRows, Plan, UpdatedIds};
use crate::rules::model;
use crate::sql::look::shows_warnings;
use crate::sql::statement::dynamic::escape;
use crate::tables::Tables;

/// A statement that goes by way of a stage, in its parts.
struct Job<'a> {
    task: &'a Task,
    /// The payload of the client's command.
    payload: &'a [u8],
    /// The part of the payload before the text.
    before: &'a [u8],
    text: &'a [u8],
    insert: &'a InsertPlan,
    stage: &'a Stage,
}

/// The facts that the session and the server tell before the stage is filled.
struct Facts {
    /// sql_mode has NO_ZERO_DATE.
    warns_of_zero_dates: bool,
    increment: u64,
    last_insert_id: u64,
    /// Why the rows may not be those of the table where the server warns of what fills the stage.
    unwarned: Option<String>,
}

struct StageRows {
    rows: u64,
    /// Warnings of filling the stage. Those that the server gives again when the rows are stored are not counted.
    warnings: i32,
    warned: Option<Warned>,
    /// The statement that filled the stage, as the answer to the client describes it.
    told: ok::Filled,
    numbering: Numbering,
    /// Ids that the query or the file brought.
    brought: Brought,
}

/// The command that the server gets last. Its answer is the client's.
struct Last {
    payload: Vec<u8>,
    may_change_session: bool,
    note: Note,
    /// A statement of ours that it executes, to be closed after it.
    closes: Option<u32>,
}

enum StageIds {
    Taken(IdBlock),
    /// There are none to be had, and the server numbers the rows.
    Without,
    /// Something was waited for, so all is to be looked at again.
    LookAgain,
}

impl Session {
    pub(super) async fn stage(&mut self, arrived: Arrived, task: Task) -> Going<Handled> {
        let payload = self.relay.payload(&arrived).into_owned();
        let mut taken = self.relay.take_out(arrived);
        let arrived = taken.as_it_came();
        let went = match task {
            Task::Text(plan) if plan.inserts.iter().any(|insert| insert.is_named) => {
                self.prepare_named(arrived.split(&payload), *plan).await
            }
            task => match task.insert().and_then(|insert| Some((insert, insert.stage.as_deref()?))) {
                None => Err(lost().into()),
                Some((insert, stage)) => {
                    let (before, text) = arrived.split(&payload);
                    let text = task.text(text);
                    let job = Job { task: &task, payload: &payload, before, text, insert, stage };
                    self.by_steps(&job).await
                }
            },
        };
        taken.count_file(&self.relay);
        let handled = match went {
            Ok(Last { payload, may_change_session, note, closes }) => {
                let sent = self.relay.send_for_client(&payload, taken);
                let handled = self.relay.owe(Command::Query.reply(), may_change_session, sent, note);
                if let Some(id) = closes {
                    self.relay.close(id);
                }
                handled
            }
            Err(Stop::Over(over)) => return Err(over),
            Err(Stop::Refused(refusal)) => {
                self.trace(taken.as_it_came(), &payload, &refusal);
                self.relay.answer(&refusal, taken)
            }
            Err(Stop::Failed(error)) => self.relay.answer_with(&error, taken),
        };
        self.give_set_id_back();
        self.relay.known.forget_supplied();
        Ok(handled)
    }

    async fn by_steps(&mut self, job: &Job<'_>) -> Result<Last, Stop> {
        let facts = match self.make_stage(job).await {
            Err(Stop::Refused(Refusal::Statement(why))) if self.may_forward(job) => {
                return self.forward_staged(job, &why).await;
            }
            made => made?,
        };
        let went = match self.fill_stage(job, &facts).await {
            Ok(filled) => self.store_stage(job, &facts, filled).await,
            Err(stop) => Err(stop),
        };
        if went.is_err() {
            // The stage may have counted its rows there.
            self.relay.known.session.owe_insert_id(Some(facts.last_insert_id));
        }
        went
    }

    /// The client's query or file goes into the stage, as the client wrote it.
    async fn send_fill(&mut self, job: &Job<'_>) -> Result<Answered, Stop> {
        let Job { task, text, stage, insert, .. } = *job;
        let fill = stage.fill(text);
        Ok(match task {
            Task::Text(_) if let Some(named) = task.named() => self.run_named(&fill, named).await?,
            Task::Text(_) => {
                let sent = [job.before, &fill].concat();
                self.ask(if stage.is_load() { Question::Load(&sent) } else { Question::Command(&sent) })
                    .await?
            }
            // A LOAD has no parameters.
            Task::Execute { .. } if stage.is_load() => {
                let sent = self.query(&fill);
                self.ask(Question::Load(&sent)).await?
            }
            Task::Execute { .. } => match self.prepare_ours(job, &fill, Part::Query).await? {
                Ok((id, execution)) => {
                    let answered = self.ask(Question::Command(&execution)).await?;
                    self.relay.close(id);
                    answered
                }
                // The warnings of the statement have been read already.
                Err(error) if task.around().is_some() => {
                    return Err(Stop::Failed(with_table_name(&error.payload, &insert.target)));
                }
                Err(error) => Err(error),
            },
        })
    }

    /// Fills the stage. Returns the number of its rows, the warnings, and the ids that came with the rows.
    async fn fill_stage(&mut self, job: &Job<'_>, facts: &Facts) -> Result<StageRows, Stop> {
        let Job { task, stage, insert, .. } = *job;
        let answer = match self.send_fill(job).await? {
            Ok(answer) => answer,
            Err(error) => {
                self.relay.known.session.warned = self.warned(&insert.target).await?.map(Box::new);
                self.forget_named(task).await?;
                return Err(Stop::Failed(with_table_name(&error.payload, &insert.target)));
            }
        };
        let ok = OkPacket::parse(&answer.first, self.relay.known.capabilities).map_err(Violation::Backend);
        let ok = ok.map_err(Over::from)?;
        let (rows, warnings) = (ok.affected_rows, ok.warnings);
        let warned = if warnings > 0 { self.warned(&insert.target).await? } else { None };
        let repeated =
            if warnings > 0 && facts.warns_of_zero_dates { self.zero_dates(job).await? } else { 0 };
        let warned = warned.map(|warned| warned.repeated(repeated, stage.dates()));
        self.forget_named(task).await?;
        let form = match stage.kind {
            Kind::Load { replaces, .. } => {
                Form::Load(Loaded::parse(ok.info, rows, replaces).ok_or_else(lost)?)
            }
            Kind::Values if ok.info.is_empty() => Form::OneRow,
            Kind::Query | Kind::Values => Form::Rows,
        };
        let told = ok::Filled { no_index_used: ok.status & status::NO_INDEX_USED != 0, form };
        if let Some(why) = facts.unwarned.as_deref().filter(|_| warnings > 0) {
            return Err(refused(insert.target.at(format_args!(
                "the server warns of the values (warnings: {warnings}), and {why}; nothing was stored; correct the values"
            )))
            .into());
        }
        let mut brought = Brought { base: ok.insert_id, takes: rows, highest: None, last: None };
        if stage.is_counted() && rows > 0 {
            brought = self.ask_brought(job).await?;
        }
        let numbering = numbering(&brought, rows, facts.increment, &insert.target)?;
        let warnings = i32::from(warnings) - i32::from(repeated);
        Ok(StageRows { rows, warnings, warned, told, numbering, brought })
    }

    /// Asks how the rows are numbered, and what they bring for the id.
    async fn ask_brought(&mut self, job: &Job<'_>) -> Result<Brought, Stop> {
        let (counting, last) = (job.stage.counting(), job.stage.last_id());
        let questions = [Some(&counting), last.as_ref()].into_iter().flatten();
        let questions: Vec<_> = questions.map(|sql| Question::Query(sql)).collect();
        let mut answers = self.ask_all_as_then(job, &[], &questions).await?.into_iter().map(|answered| {
            let answered = answered.map_err(|error| not_answered(&error))?;
            answered.row.as_deref().and_then(text_of).ok_or_else(lost)
        });
        let counted = answers.next().ok_or_else(lost)??;
        let last = answers.next().transpose()?.and_then(|id| id.parse().ok());
        let mut numbers = counted.split(',').map(|number| number.parse().ok());
        let mut count = || numbers.next().flatten().and_then(|count: i128| u64::try_from(count).ok());
        let (base, takes) = (count().ok_or_else(lost)?, count().ok_or_else(lost)?);
        Ok(Brought { base, takes, highest: numbers.next().flatten(), last })
    }

    /// The stage's rows go into the table, with ids. What the server answers is the client's answer.
    async fn store_stage(&mut self, job: &Job<'_>, facts: &Facts, filled: StageRows) -> Result<Last, Stop> {
        let Job { task, insert, stage, .. } = *job;
        let StageRows { rows, warnings, warned, told, mut numbering, brought } = filled;
        let found_rows = self.relay.known.found_rows();
        let is_told = self.tells_last(job, rows, &brought).await?;
        let last = brought.last.filter(|_| is_told).map_or(insert.last, LastId::Written);
        let (ours, payload, inserts, explicit, effects) = loop {
            let (tables, target) = self.target_now(&insert.target).await?;
            let ids = u32::try_from(numbering.ids).map_err(|_| too_many())?;
            let written = brought.highest.as_slice();
            let explicit = expect(&self.relay.known, &tables, (insert, &target), (ids, written), true)?;
            let (block, natively) = match ids {
                0 => (None, false),
                ids => match self.ids_for_stage(&tables, (insert, &target), ids).await? {
                    StageIds::Taken(block) => (Some(block), false),
                    StageIds::Without => (None, true),
                    StageIds::LookAgain => continue,
                },
            };
            numbering.first = (!natively).then(|| block.as_ref().map_or(0, IdBlock::first));
            let spacing = block.as_ref().map_or(target.spacing, IdBlock::spacing);
            let text = stage.store(job.text, &numbering, &spacing);
            // The answer may have rows, which are those of an execution. MySQL warns of VALUES() only when it is prepared.
            let differs = insert.returning
                || stage.has_later_params
                || insert.new_rows == NewRows::SomeUpdated
                || task.around().is_some();
            let is_execution = differs && matches!(task, Task::Execute { .. });
            let (ours, payload) = if is_execution {
                let prepared = self.prepare_ours(job, &text, Part::Tail).await?;
                let (id, payload) = prepared.map_err(|error| Stop::Failed(error.payload))?;
                (Some(id), payload)
            } else {
                (None, self.query(&text))
            };
            let ids = block.as_ref().map(Ids::from);
            let facts = (found_rows, self.relay.known.session.set_id);
            let reply = InsertReply::new((insert, last), ids, facts, tables.clone());
            let reply = reply.staged(target, (rows, warnings, told));
            self.until(Relay::has_sent_all).await?;
            // Asked when all is ready to be sent, as of every statement.
            let drawn = self.drawn_unguarded();
            if matches!(drawn, Ok(None)) && !tables.is_retired() && !is_late(&reply) {
                // The proxy follows only the highest of the ids that the rows bring.
                let moves_ids = insert.updated_ids == UpdatedIds::Move || brought.highest.is_some();
                let natively = if natively { vec![reply.target.clone()] } else { Vec::new() };
                let effects = Effects { moves_ids, natively, ..Effects::default() };
                let effects = (!effects.is_nothing()).then(|| Arc::new(effects));
                break (ours, payload, vec![reply], explicit, effects);
            }
            if let Some(id) = ours {
                self.relay.close(id);
            }
            if !tables.is_retired() {
                let target = drawn?.unwrap_or_else(|| reply.target.clone());
                self.supply(Command::Query, Need::Guard { tables, target }).await?;
            }
        };
        match task {
            Task::Execute { kept, .. } => self.audit_source(Some(&kept.source), &inserts),
            Task::Text(_) => self.audit(Some(job.text), &inserts),
        }
        self.audit_drawn();
        self.spend_set_id(&inserts);
        if rows > 0 {
            // The stage has counted its rows there.
            let sql = format!("SET last_insert_id={}", facts.last_insert_id);
            self.relay.query_own(Purpose::LastInsertId, sql);
        }
        self.relay.known.session.warned = warned.map(|warned| Box::new(warned.stored()));
        let note = Note::Statements { inserts, explicit: explicit.into_iter().collect(), effects };
        Ok(Last { payload, may_change_session: note.moves_ids(), note, closes: ours })
    }

    /// True if the proxy tells the id that the last row brought, as servers do. Measured on both, for a query:
    /// servers do not tell it with ON DUPLICATE KEY UPDATE, and not where a trigger is fired. With IGNORE they tell
    /// the id of the last row that is stored, which is not known.
    async fn tells_last(&mut self, job: &Job<'_>, rows: u64, brought: &Brought) -> Going<bool> {
        let Job { insert, stage, .. } = *job;
        if stage.kind != Kind::Query || brought.last.is_none() {
            return Ok(true);
        }
        // The server tells it itself.
        let is_told_anyway = insert.target.keeps_auto_increment();
        let is_known = match insert.new_rows {
            NewRows::All => true,
            NewRows::SomeIgnored => rows == 1,
            NewRows::SomeUpdated => false,
        };
        if is_told_anyway || !is_known {
            return Ok(false);
        }
        Ok(!self.fired(&insert.target).await?.is_some_and(|fired| fired.any))
    }

    /// The table by the active rules, which may be others than when the statement was planned.
    async fn target_now(&mut self, target: &Arc<Target>) -> Result<(Arc<Tables>, Arc<Target>), Stop> {
        loop {
            let tables = self.shared.tables.now();
            if tables.is_retired() {
                self.supply(Command::Query, Need::Rules { retired: tables }).await?;
                continue;
            }
            return match self.meanwhile(tables.serves_now(target)).await? {
                Some(now) => Ok((tables, now)),
                None if tables.is_retired() => continue,
                None => Err(refused(target.at(
                    "the table's rule or columns have changed while the statement ran; nothing was stored; send the statement again",
                ))
                .into()),
            };
        }
    }

    /// Ids to be used at once.
    async fn ids_for_stage(
        &mut self,
        tables: &Arc<Tables>,
        (insert, target): (&InsertPlan, &Arc<Target>),
        ids: u32,
    ) -> Result<StageIds, Stop> {
        self.until(Relay::has_sent_all).await?;
        let by = basis(tables, &self.shared, Command::Query, None, true);
        match take_ids(&mut self.relay.known, by, (insert, target), ids) {
            Ok(block) => Ok(StageIds::Taken(block)),
            Err(Unsent::Needs(need)) => {
                self.supply(Command::Query, need).await?;
                Ok(StageIds::LookAgain)
            }
            Err(Unsent::Refused(refusal)) => Err(refusal.into()),
            Err(Unsent::WithoutIds(_)) if target.may_go_without() => Ok(StageIds::Without),
            Err(Unsent::WithoutIds(why)) => Err(Refusal::NoId(why).into()),
            Err(Unsent::Failed(_) | Unsent::Unreadable(_)) => Err(lost().into()),
        }
    }

    /// The number of zero dates in the stage that the server will warn of again.
    async fn zero_dates(&mut self, job: &Job<'_>) -> Result<u16, Stop> {
        let Some(sql) = job.stage.zero_dates() else { return Ok(0) };
        let counted = self.ask_as_then(job, Question::Query(&sql)).await?.ok().and_then(|answer| answer.row);
        let counted = counted.as_deref().and_then(text_of).and_then(|count| count.parse::<u64>().ok());
        Ok(counted.map_or(0, |count| u16::try_from(count).unwrap_or(u16::MAX)))
    }

    /// True if a statement that cannot go by way of a stage may go on as it came: `rewrite.on_doubt` is "forward", its
    /// table keeps its AUTO_INCREMENT, and nothing of it has run yet. The server has another text of what is prepared,
    /// and a file would have to be asked for twice.
    fn may_forward(&self, job: &Job<'_>) -> bool {
        let is_plain = matches!(job.task, Task::Text(_)) && job.task.named().is_none();
        self.shared.forwards && is_plain && !job.stage.is_load() && job.insert.target.may_be_forwarded()
    }

    async fn forward_staged(&mut self, job: &Job<'_>, why: &str) -> Result<Last, Stop> {
        self.trace_forwarded(job.text, why);
        self.until(Relay::has_sent_all).await?;
        let effects = Effects::forwarded(vec![job.insert.target.clone()]);
        let note = Note::statements(Vec::new(), Vec::new(), effects);
        Ok(Last { payload: job.payload.to_vec(), may_change_session: true, note, closes: None })
    }

    /// PREPARE: the server judges the client's text, and then has another one by that name.
    async fn prepare_named(&mut self, (before, text): (&[u8], &[u8]), plan: Plan) -> Result<Last, Stop> {
        let (_, stage) = plan.staged().ok_or_else(lost)?;
        let named = stage.named.as_ref().ok_or_else(lost)?;
        let judged = self.ask(Question::Prepare(&named.text)).await?;
        let sent = match judged {
            Ok(_) => plan.splice(text, &[]).ok_or_else(lost)?,
            // The server says what is wrong with it, and forgets what had this name.
            Err(_) => text.to_vec(),
        };
        self.until(Relay::has_sent_all).await?;
        let note = Note::statements(Vec::new(), Vec::new(), plan.effects);
        Ok(Last { payload: [before, &sent].concat(), may_change_session: false, note, closes: None })
    }

    /// Runs a text of ours with what USING binds.
    async fn run_named(&mut self, text: &[u8], named: &Named) -> Result<Answered, Stop> {
        let sql_mode = self.relay.known.session.state().ok_or_else(state_unknown)?.dialect.sql_mode;
        let prepare = [b"PREPARE `rowstamp fill` FROM '", &*escape(text, b'\'', sql_mode), b"'"].concat();
        if let Err(error) = self.ask(Question::Query(&prepare)).await? {
            return Ok(Err(error));
        }
        let using: &[u8] = if named.args.is_empty() { b"" } else { b" USING " };
        let execute = [b"EXECUTE `rowstamp fill`", using, &*named.args.join(&b',')].concat();
        Ok(self.ask(Question::Query(&execute)).await?)
    }

    /// Drops what [`Session::run_named`] has prepared.
    async fn forget_named(&mut self, task: &Task) -> Going<()> {
        if task.named().is_some() {
            let _ = self.ask(Question::Query(b"DEALLOCATE PREPARE `rowstamp fill`")).await?;
        }
        Ok(())
    }

    /// COM_QUERY of a text of ours.
    fn query(&self, text: &[u8]) -> Vec<u8> {
        let attributes: &[u8] = if self.relay.known.has_attributes() { &attributes::NONE } else { &[] };
        command_payload(Command::Query, &[attributes, text].concat())
    }

    /// Prepares a text of ours, to be run once with a part of the client's parameters: its id, and the payload of its execution.
    async fn prepare_ours(
        &mut self,
        job: &Job<'_>,
        text: &[u8],
        part: Part,
    ) -> Result<Result<(u32, Vec<u8>), ServerError>, Stop> {
        let Task::Execute { kept, types, long_data, is_bulk, .. } = job.task else {
            return Err(lost().into());
        };
        let prepared = kept.prepared.as_ref().ok_or_else(lost)?;
        let client_params = prepared.text.client_params;
        let sent_ahead: BTreeSet<u16> = long_data.keys().copied().collect();
        let with_attributes = self.relay.known.has_attributes();
        let expected = Expected {
            params: client_params,
            types: types.as_deref(),
            long_data: &sent_ahead,
            with_attributes,
        };
        if *is_bulk && matches!(part, Part::Query) {
            let bulk = Bulk::parse(job.payload, client_params, types.as_deref()).map_err(|_| lost())?;
            return Ok(self.prepare_kept(job, text).await?.map(|id| (id, bulk.whole_of(id))));
        }
        let execute =
            if *is_bulk { None } else { Some(Execute::parse(job.payload, expected).map_err(malformed)?) };
        let values: BTreeMap<u16, Vec<u8>> = long_data.iter().map(|(&at, data)| (at, lenenc(data))).collect();
        let in_query = usize::try_from(job.stage.query_params).unwrap_or_default();
        let own = usize::from(client_params);
        // A bulk execution has none but those of its rows.
        let params =
            execute.iter().flat_map(|execute| &execute.params).enumerate().filter(|(at, _)| match part {
                // Attributes follow the statement's own.
                Part::Query => !(in_query..own).contains(at),
                Part::Tail => (in_query..own).contains(at),
            });
        let params = params.map(|(at, param)| {
            let value = u16::try_from(at).ok().and_then(|at| values.get(&at));
            value.map_or(*param, |value| param.with_text(value))
        });
        let params: Vec<_> = params.collect();
        Ok(self.prepare_kept(job, text).await?.map(|id| {
            let head = Execute::head(id, with_attributes && !params.is_empty());
            (id, Execute::new(&head, params, with_attributes).build())
        }))
    }

    /// The server's id of what it has prepared.
    async fn prepare_kept(&mut self, job: &Job<'_>, text: &[u8]) -> Result<Result<u32, ServerError>, Stop> {
        let answered = match self.ask_as_then(job, Question::PrepareAndKeep(text)).await? {
            Ok(answered) => answered,
            Err(error) => return Ok(Err(error)),
        };
        let ok = PrepareOk::parse(&answered.first, self.relay.forms).map_err(Violation::Backend);
        Ok(Ok(ok.map_err(Over::from)?.statement_id))
    }

    /// The warnings that the server shows right after the stage was filled, or could not be filled.
    async fn warned(&mut self, target: &Target) -> Going<Option<Warned>> {
        let table = target.named().1.as_bytes();
        Ok(self.ask_table().await?.map(|filling| Warned::new(filling, STAGE, table)))
    }

    async fn ask_table(&mut self) -> Going<Option<Table>> {
        let answered = self.ask(Question::Table(b"SHOW WARNINGS")).await?;
        Ok(answered.ok().and_then(|answer| answer.table))
    }

    /// The client's SHOW WARNINGS, which the server could answer in part only.
    pub(super) async fn show_warnings(&mut self, arrived: Arrived) -> Going<Handled> {
        let payload = self.relay.payload(&arrived).into_owned();
        let taken = self.relay.take_out(arrived);
        let handled = match self.shown_warnings(taken.as_it_came().text(&payload)).await {
            Ok(packets) => self.relay.answer_with_table(&packets, taken),
            Err(Stop::Over(over)) => return Err(over),
            Err(Stop::Refused(refusal)) => self.relay.answer(&refusal, taken),
            Err(Stop::Failed(error)) => self.relay.answer_with(&error, taken),
        };
        self.relay.known.forget_supplied();
        Ok(handled)
    }

    async fn shown_warnings(&mut self, text: &[u8]) -> Result<Vec<Vec<u8>>, Stop> {
        let dialect = self.relay.known.session.dialect();
        let shown = shows_warnings(text, dialect).ok_or_else(lost)?;
        let is_stored = self.relay.known.session.warned.as_ref().is_some_and(|warned| warned.is_stored);
        let storing = if is_stored { self.ask_table().await? } else { None };
        let warned = self.relay.known.session.warned.as_ref().ok_or_else(lost)?;
        Ok(warned.shown(storing.as_ref(), shown))
    }
}

/// Which of the client's parameters.
#[derive(Clone, Copy)]
enum Part {
    Query,
    /// The parameters after the query.
    Tail,
}

fn lenenc(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 9);
    put_lenenc_bytes(&mut out, bytes);
    out
}

/// How the rows of a stage get their ids, where the rule allows the ids that they bring.
fn numbering(brought: &Brought, rows: u64, increment: u64, target: &Target) -> Result<Numbering, Refusal> {
    let takes = match brought.takes {
        0 => Takes::None,
        all if all == rows => Takes::All,
        _ => Takes::Some,
    };
    if takes != Takes::All && rows > 0 && target.rule.explicit == model::Explicit::Reject {
        return Err(refused(target.at(
            "the values, the query or the file bring ids, which the table's rule rejects; leave the id out, or write NULL for the id",
        )));
    }
    Ok(Numbering { base: brought.base, increment, takes, first: Some(0), ids: brought.takes })
}

/// The facts that are asked for beforehand, if the server's way of logging allows that rows are numbered in the order of a query.
fn facts_of(answered: Answered, target: &Target) -> Result<Facts, Refusal> {
    let facts = answered.map_err(|error| not_answered(&error))?;
    let unreadable = || refused(target.at("Rowstamp cannot read the server's binlog_format; try again"));
    let facts = facts.row.as_deref().and_then(text_of).ok_or_else(unreadable)?;
    let mut facts = facts.split(',');
    let mut is_on = || matches!(facts.next(), Some("1" | "ON"));
    let is_logged = is_on() & is_on();
    if is_logged && facts.next().is_none_or(|format| format.eq_ignore_ascii_case("STATEMENT")) {
        return Err(refused(target.at(
            "with binlog_format = STATEMENT a replica may number the rows of INSERT ... SELECT, LOAD and expressions as ids \
             differently; SET binlog_format to ROW or MIXED",
        )));
    }
    let last_insert_id = facts.next_back().and_then(|id| id.parse().ok()).ok_or_else(unreadable)?;
    let increment = facts.next_back().and_then(|step| step.parse().ok()).ok_or_else(unreadable)?;
    let warns_of_zero_dates = facts.next_back() == Some("1");
    Ok(Facts { warns_of_zero_dates, increment, last_insert_id, unwarned: None })
}

fn not_made(error: ServerError, target: &Target) -> Stop {
    /// Access to the database, to the table, to a column is denied; XA.
    const DENIED: u16 = 1044;
    const DENIED_READING: [u16; 2] = [1142, 1143];
    const IN_XA: u16 = 4091;
    let (schema, table) = target.named();
    let by_way = "INSERT ... SELECT, LOAD and expressions as ids need a temporary table, ";
    let why = match error.code {
        DENIED => {
            format!("which the account may not create; GRANT CREATE TEMPORARY TABLES ON `{schema}`.* TO the account")
        }
        code if DENIED_READING.contains(&code) => {
            format!(
                "with columns that the account may not read; GRANT SELECT ON `{schema}`.`{table}` TO the account"
            )
        }
        IN_XA => "which MySQL does not allow in an XA transaction while xa_detach_on_prepare is ON; SET xa_detach_on_prepare = OFF, or \
                  insert outside of the transaction"
            .to_owned(),
        _ => return Stop::Failed(error.payload),
    };
    refused(target.at(format_args!("{by_way}{why}"))).into()
}

const STAGE: &[u8] = b"rowstamp stage";

/// The server's error, with the table's name where it has the stage's.
fn with_table_name(error: &[u8], target: &Target) -> Vec<u8> {
    replaced(error, STAGE, target.named().1.as_bytes())
}

fn not_answered(ServerError { code, text, .. }: &ServerError) -> Refusal {
    refused(format_args!("the server answered {code}, {text}; try again"))
}

fn too_many() -> Refusal {
    Refusal::NoId("more than 4294967295 rows; insert fewer at a time".into())
}
