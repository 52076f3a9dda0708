//! An INSERT ... SELECT or a LOAD, by way of a stage (`rewrite/plan/stage`): made, filled by the
//! client's query or file, and stored with ids. The client's commands after it wait until it is
//! sent. `prepared` has what the client has prepared, `made` makes the stage, `told` has the server's words
//! and ours.

mod around;
mod made;
mod named;
mod prepared;
mod told;
mod warnings;

use std::sync::Arc;

use crate::ids::range::block::IdBlock;
use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::ok::{self, Form, Loaded, OkPacket, status};
use crate::proxy::decide::refusals::trace_forwarded;
use crate::proxy::decide::set_id::{expect, take_ids};
use crate::proxy::decide::staged::lost;
use crate::proxy::decide::verdict::{Task, refused};
use crate::proxy::known::answered::text_of;
use crate::proxy::known::inserts::{Ids, InsertReply};
use crate::proxy::known::need::{Need, Unsent};
use crate::proxy::known::note::Note;
use crate::proxy::known::warned::Warned;
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::{Arrived, Violation};
use crate::proxy::serve::progress::Progress;
use crate::proxy::serve::session::{Going, Over, Session, Stop};
use crate::proxy::serve::stage::prepared::Part;
use crate::proxy::serve::stage::told::{not_answered, too_many, with_table_name};
use crate::rewrite::plan::effects::Effects;
use crate::rewrite::plan::stage::{Brought, Kind, Numbering, Stage, Takes};
use crate::rewrite::plan::target::Target;
use crate::rewrite::plan::{InsertPlan, LastId, NewRows, UpdatedIds};
use crate::rules::model;
use crate::tables::Tables;

/// A statement on its way.
struct Job<'a> {
    task: &'a Task,
    /// The client's.
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

/// The stage with its rows.
struct Filled {
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

/// The ids that the rows of a stage get.
enum StageIds {
    Taken(IdBlock),
    /// There are none to be had, and the server numbers the rows.
    Without,
    /// Something was waited for, so all is to be looked at again.
    LookAgain,
}

impl Session {
    pub(super) async fn stage(&mut self, arrived: Arrived, task: Task) -> Going<Progress> {
        let payload = self.relay.payload(arrived).into_owned();
        self.relay.up.skip(arrived.window_bytes);
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
        // With those of a file that it has sent meanwhile.
        let packets = self.relay.command_packets.into();
        match went {
            Ok(()) => {}
            Err(Stop::Over(over)) => return Err(over),
            Err(Stop::Refused(refusal)) => {
                self.trace(arrived, &payload, &refusal);
                self.relay.answer(&refusal, packets);
            }
            Err(Stop::Failed(error)) => self.relay.answer_with(&error, packets),
        }
        self.give_set_id_back();
        self.relay.known.forget_supplied();
        Ok(Progress::Done)
    }

    async fn by_steps(&mut self, job: &Job<'_>) -> Result<(), Stop> {
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
    async fn fill_stage(&mut self, job: &Job<'_>, facts: &Facts) -> Result<Filled, Stop> {
        let Job { task, text, stage, insert, .. } = *job;
        let fill = stage.fill(text);
        let answered = match task {
            Task::Text(_) if let Some(named) = task.named() => self.run_named(&fill, named).await?,
            Task::Text(_) => {
                let sent = [job.before, &fill].concat();
                self.ask(if stage.is_load() { Question::Load(&sent) } else { Question::Command(&sent) })
                    .await?
            }
            // It has no parameters.
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
                // Its warnings have been read already.
                Err(error) if task.around().is_some() => {
                    return Err(Stop::Failed(with_table_name(&error.payload, &insert.target)));
                }
                Err(error) => Err(error),
            },
        };
        let answer = match answered {
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
        let takes = match brought.takes {
            0 => Takes::None,
            all if all == rows => Takes::All,
            _ => Takes::Some,
        };
        if takes != Takes::All && rows > 0 && insert.target.rule.explicit == model::Explicit::Reject {
            return Err(refused(insert.target.at(
                "the values, the query or the file bring ids, which the table's rule rejects; leave the id out, or write NULL for the id",
            ))
            .into());
        }
        let (base, ids) = (brought.base, brought.takes);
        let numbering = Numbering { base, increment: facts.increment, takes, first: Some(0), ids };
        let warnings = i32::from(warnings) - i32::from(repeated);
        Ok(Filled { rows, warnings, warned, told, numbering, brought })
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
    async fn store_stage(&mut self, job: &Job<'_>, facts: &Facts, filled: Filled) -> Result<(), Stop> {
        let Job { task, insert, stage, .. } = *job;
        let Filled { rows, warnings, warned, told, mut numbering, brought } = filled;
        let found_rows = self.relay.known.found_rows();
        let is_told = self.tells_last(job, rows, &brought).await?;
        let last = brought.last.filter(|_| is_told).map_or(insert.last, LastId::Written);
        let (ours, payload, inserts, explicit, effects) = loop {
            let (tables, target) = self.target_now(&insert.target).await?;
            let ids = u32::try_from(numbering.ids).map_err(|_| too_many())?;
            let written = brought.highest.as_slice();
            let explicit = expect(&self.relay.known, &tables, (insert, &target), (ids, written), true)?;
            let (range, natively) = match ids {
                0 => (None, false),
                ids => match self.ids_for_stage(&tables, (insert, &target), ids).await? {
                    StageIds::Taken(range) => (Some(range), false),
                    StageIds::Without => (None, true),
                    StageIds::LookAgain => continue,
                },
            };
            numbering.first = (!natively).then(|| range.as_ref().map_or(0, IdBlock::first));
            let spacing = range.as_ref().map_or(target.spacing, IdBlock::spacing);
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
            let ids = range.as_ref().map(Ids::from);
            let facts = (found_rows, self.relay.known.session.set_id);
            let reply = InsertReply::new((insert, last), ids, facts, tables.clone());
            let reply = reply.staged(target, (rows, warnings, told));
            self.until(|relay| relay.up.is_clear()).await?;
            // Asked when all is ready to be sent, as of every statement.
            let drawn = self.drawn_unguarded();
            if matches!(drawn, Ok(None)) && !tables.is_retired() && !reply.is_late() {
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
        let nr_shift = self.relay.send_later(&payload, self.relay.command_packets.into());
        let note = Note::Statements { inserts, explicit: explicit.into_iter().collect(), effects };
        self.relay.owe(Command::Query.reply(), note.moves_ids(), nr_shift, note);
        self.relay.known.session.warned = warned.map(|warned| Box::new(warned.stored()));
        if let Some(id) = ours {
            self.relay.close(id);
        }
        Ok(())
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
        self.until(|relay| relay.up.is_clear()).await?;
        match take_ids(&mut self.relay.known, tables, (insert, target), ids) {
            Ok(range) => Ok(StageIds::Taken(range)),
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

    async fn forward_staged(&mut self, job: &Job<'_>, why: &str) -> Result<(), Stop> {
        trace_forwarded(&self.relay.known, job.text, why);
        self.until(|relay| relay.up.is_clear()).await?;
        let nr_shift = self.relay.send_later(job.payload, self.relay.command_packets.into());
        let effects = Effects::forwarded(vec![job.insert.target.clone()]);
        let note = Note::statements(Vec::new(), Vec::new(), effects);
        self.relay.owe(Command::Query.reply(), true, nr_shift, note);
        Ok(())
    }
}
