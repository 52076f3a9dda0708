//! Statements, as texts and as executions of prepared ones: decided by what is known, and what was decided carried out.

use std::sync::Arc;

use crate::mysql::command::{Command, command_payload};
use crate::mysql::error::Refusal;
use crate::mysql::packet::packets_of;
use crate::mysql::prepared::put_statement_id;
use crate::mysql::response::PrepareOk;
use crate::proxy::decide::natively::native_execution;
use crate::proxy::decide::verdict::Verdict;
use crate::proxy::decide::{execution, staged, text};
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::{Need, Shown, Unsent};
use crate::proxy::known::note::Note;
use crate::proxy::known::statements::Kept;
use crate::proxy::relay::command::Arrived;
use crate::proxy::relay::own::Question;
use crate::proxy::relay::{Relay, Violation};
use crate::proxy::serve::progress::{Later, Left, Packet, Progress};
use crate::proxy::serve::send::is_late;
use crate::proxy::serve::session::{Going, Session};
use crate::rewrite::plan::effects::Effects;
use crate::tables::Tables;

/// ER_UNSUPPORTED_PS
const CANNOT_BE_PREPARED: u16 = 1295;

impl Session {
    /// COM_QUERY or COM_STMT_PREPARE with its whole text.
    pub(super) fn statement(&mut self, mut arrived: Arrived) -> Progress {
        if arrived.text_at.is_none() {
            return self.refuse(arrived, &Refusal::MalformedPacket);
        }
        let tables = self.shared.tables.now();
        let drawn = self.draw(&tables, &mut arrived);
        let decided = match drawn {
            Ok(None) => self.with_basis(&tables, &arrived, |known, by, payload| {
                text::decide(known, by, arrived.text(payload))
            }),
            Ok(Some(at)) => Ok(Verdict::Cut(at)),
            Err(_) if tables.is_retired() => Err(Need::Rules { retired: tables.clone() }.into()),
            Err(unsent) => Err(unsent),
        };
        self.carry_out(arrived, decided, tables)
    }

    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE. `Ok`: it goes on, with its ids if it has calls.
    pub(super) fn drawn_execution(&mut self, mut arrived: Arrived) -> Result<Arrived, Progress> {
        let Some(id) = arrived.statement.filter(|id| self.relay.known.statements.draws(*id)) else {
            return Ok(arrived);
        };
        let tables = self.shared.tables.now();
        let drawn = self.draw_execution(&tables, &mut arrived, id);
        if tables.is_retired() {
            return Err(Progress::Left(arrived, Left::Needs(Need::Rules { retired: tables })));
        }
        if let Err(unsent) = drawn {
            return Err(self.carry_out(arrived, Err(unsent), tables));
        }
        // An INSERT that is kept is looked at for its own ids next.
        let is_kept = self.relay.known.statements.get(id).is_some();
        let effects = self.relay.known.statements.effects(id);
        if is_kept || effects.as_ref().is_some_and(|effects| effects.hidden_insert.is_some()) {
            return Ok(arrived);
        }
        self.relay.translate_id();
        Err(self.pass(arrived, true, effects.map_or(Note::Nothing, Note::effects)))
    }

    /// COM_STMT_EXECUTE or COM_STMT_BULK_EXECUTE of an INSERT that is kept.
    pub(super) fn execute(&mut self, arrived: Arrived) -> Progress {
        let tables = self.shared.tables.now();
        let decided = self.with_basis(&tables, &arrived, execution::decide);
        self.carry_out(arrived, decided, tables)
    }

    /// Sends or answers a command, or says what is left to do for it.
    fn carry_out(
        &mut self,
        arrived: Arrived,
        decided: Result<Verdict, Unsent>,
        tables: Arc<Tables>,
    ) -> Progress {
        let any_late = |inserts: &[InsertReply]| inserts.iter().any(is_late);
        match decided {
            Err(Unsent::Needs(need)) => Progress::Left(arrived, Left::Needs(need)),
            Err(Unsent::Unreadable(shown)) => Progress::Left(arrived, Left::Show(shown)),
            Err(Unsent::Refused(refusal)) => self.refuse(arrived, &refusal),
            Err(Unsent::WithoutIds(why)) => Progress::Left(arrived, Left::Natively(why)),
            Err(Unsent::Failed(error)) => self.fail(arrived, &error),
            Ok(Verdict::Pass { note, may_change_session }) => {
                if arrived.statement.is_some() {
                    self.forget_long_data(&arrived);
                    self.relay.translate_id();
                }
                self.pass(arrived, may_change_session, note)
            }
            Ok(Verdict::PassActing(effects)) => {
                let effects = Arc::new(effects);
                let progress = self.pass(arrived, false, Note::PrepareActing(effects.clone()));
                self.relay.known.statements.prepare_acting(effects);
                progress
            }
            Ok(Verdict::Forward { natively, why }) => {
                self.trace_forwarded(arrived.text(&self.relay.payload(&arrived)), &why);
                let effects = Effects::forwarded(natively);
                let is_prepare = arrived.command == Command::StmtPrepare;
                let passes = if is_prepare { Verdict::PassActing(effects) } else { Verdict::pass(effects) };
                self.carry_out(arrived, Ok(passes), tables)
            }
            Ok(Verdict::Prepare(kept)) => self.prepare(arrived, kept),
            Ok(Verdict::Cut(at)) => Progress::Done(self.relay.cut(arrived, at)),
            Ok(Verdict::Stage(task)) => Progress::Left(arrived, Left::Stage(task)),
            Ok(Verdict::StageExecution(kept)) => {
                let task = self.with_basis(&tables, &arrived, |known, by, payload| {
                    staged::execution(known, by, kept, payload)
                });
                match task {
                    Ok(task) => Progress::Left(arrived, Left::Stage(Box::new(task))),
                    Err(refusal) => self.refuse(arrived, &refusal),
                }
            }
            Ok(Verdict::Send(packet)) => {
                let sets = packet.plan.variables(&packet.blocks);
                if sets.is_none() && arrived.packets == 1 && !any_late(&packet.inserts) {
                    return self.send_planned(arrived, packet, None);
                }
                let later = Later { sets, packet: Packet::Text(packet), tables };
                Progress::Left(arrived, Left::Later(Box::new(later)))
            }
            Ok(Verdict::SendExecution(payload, note)) => {
                if packets_of(payload.len()) == 1 && !any_late(note.inserts()) {
                    return self.send_execution(arrived, (payload, None), note);
                }
                let packet = Packet::Execution { payload, note };
                Progress::Left(arrived, Left::Later(Box::new(Later { sets: None, packet, tables })))
            }
        }
    }

    /// COM_STMT_PREPARE of an INSERT: with parameters of ours, or as it came where no rule concerns it.
    fn prepare(&mut self, arrived: Arrived, kept: Arc<Kept>) -> Progress {
        let note = Note::Prepare(kept.clone());
        let progress = match &kept.prepared {
            None => self.pass(arrived, false, note),
            Some(prepared) => {
                let payload = command_payload(Command::StmtPrepare, &prepared.text.text);
                let sent = self.relay.send_instead(&payload, arrived);
                Progress::Done(self.relay.owe(Command::StmtPrepare.reply(), false, sent, note))
            }
        };
        self.relay.known.statements.prepare(kept);
        progress
    }

    /// A statement that our scanner cannot read: the server says what is wrong with it, or it is refused.
    pub(super) async fn show(&mut self, arrived: Arrived, shown: Shown) -> Going<Progress> {
        let is_to_be = shown.is_inner || arrived.command != Command::Query;
        Ok(match self.ask(Question::Prepare(&shown.text)).await? {
            // EXECUTE, say, cannot be prepared, so this error says nothing of the statement.
            Err(error) if error.code == CANNOT_BE_PREPARED && !is_to_be => {
                self.refuse(arrived, &shown.refusal)
            }
            Err(error) => self.fail(arrived, &error.payload),
            Ok(_) => self.refuse(arrived, &shown.refusal),
        })
    }

    /// A command that there are no ids for, and whose table's rule has the server number the rows. What the
    /// server has of a prepared statement counts up from an id of ours: the client's text is prepared
    /// for this execution.
    pub(super) async fn execute_natively(&mut self, arrived: Arrived, why: String) -> Going<Progress> {
        let tables = self.shared.tables.now();
        let native =
            self.with_basis(&tables, &arrived, |known, by, payload| native_execution(known, by, payload));
        let Some((text, mut execution, note)) = native else {
            return Ok(self.refuse(arrived, &Refusal::NoId(why)));
        };
        let answer = match self.ask(Question::PrepareAndKeep(&text)).await? {
            Ok(answer) => answer,
            Err(error) => return Ok(self.fail(arrived, &error.payload)),
        };
        let ok = PrepareOk::parse(&answer.first, self.relay.forms).map_err(Violation::Backend)?;
        put_statement_id(&mut execution, ok.statement_id);
        self.until(Relay::has_sent_all).await?;
        let reply = arrived.command.reply_to(&execution);
        let sent = self.relay.send_instead(&execution, arrived);
        let handled = self.relay.owe(reply, false, sent, note);
        self.relay.close(ok.statement_id);
        Ok(Progress::Done(handled))
    }
}
