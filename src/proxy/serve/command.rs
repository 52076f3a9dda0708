//! A command that was read whole: decided at once, as far as everything is known that it depends
//! on. What is not known is found out (`supply`), and the command is decided again.

use std::time::Instant;

use crate::mysql::attributes::text_at;
use crate::mysql::command::{Command, sets_multi_statements};
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::prepared::LAST_PREPARED;
use crate::proxy::decide::text;
use crate::proxy::decide::unconcerned::{self, Unconcerned};
use crate::proxy::known::need::Need;
use crate::proxy::known::note::Note;
use crate::proxy::relay::command::Arrived;
use crate::proxy::relay::{Came, Event};
use crate::proxy::serve::progress::{Left, Progress};
use crate::proxy::serve::session::{Going, Session, Stop, basis};
use crate::sessions::Count;

impl Session {
    pub(super) async fn handle(&mut self, event: Event) -> Going<()> {
        match event {
            Event::Command(arrived) => match self.begun(arrived) {
                Progress::Done(_) => Ok(()),
                Progress::Left(arrived, left) => Box::pin(self.step_by_step(arrived, left)).await,
            },
            Event::TooLong(command) => Box::pin(self.too_long(command)).await,
            Event::Collided => {
                Box::pin(self.collided(true)).await;
                Ok(())
            }
            event => self.handle_answer(event).await,
        }
    }

    fn begun(&mut self, arrived: Arrived) -> Progress {
        self.relay.drawn = None;
        self.relay.again.begin();
        self.at_once(arrived)
    }

    /// Goes on with a command that could not be decided at once.
    async fn step_by_step(&mut self, mut arrived: Arrived, mut left: Left) -> Going<()> {
        if let Some(came) = &mut self.relay.came {
            came.has_waited = true;
        }
        loop {
            let progress = match left {
                Left::Stage(task) => Progress::Done(self.stage(arrived, *task).await?),
                Left::ShowWarnings => Progress::Done(self.show_warnings(arrived).await?),
                Left::Show(shown) => self.show(arrived, shown).await?,
                Left::Natively(why) => self.execute_natively(arrived, why).await?,
                Left::Later(later) => self.send_later(arrived, *later).await?,
                Left::Needs(need) => match self.supply(arrived.command, need).await {
                    Ok(()) => self.at_once(arrived),
                    Err(Stop::Over(over)) => return Err(over),
                    Err(Stop::Refused(refusal)) => {
                        let progress = self.refuse(arrived, &refusal);
                        self.relay.known.forget_supplied();
                        progress
                    }
                    Err(Stop::Failed(error)) => {
                        let progress = self.fail(arrived, &error);
                        self.relay.known.forget_supplied();
                        progress
                    }
                },
            };
            (arrived, left) = match progress {
                Progress::Left(arrived, left) => (arrived, left),
                Progress::Done(_) => {
                    self.relay.came = None;
                    return Ok(());
                }
            };
        }
    }

    /// Decides a command by what is known. What it draws may make its text longer.
    fn at_once(&mut self, arrived: Arrived) -> Progress {
        self.relay.looks_at(&arrived);
        let rewritten = self.relay.known.here.counted(Count::Rewritten);
        let begun = Instant::now();
        // A command that was looked at before has waited since.
        let at = self.relay.came.map_or(begun, |came| came.at);
        self.relay.came = Some(Came { at, has_waited: self.relay.came.is_some() });
        let progress = self.dispatch(arrived);
        if !matches!(progress, Progress::Left(_, Left::Needs(_))) {
            self.relay.known.forget_supplied();
        }
        if matches!(progress, Progress::Done(_)) {
            // A command without an answer, too, is over now.
            self.relay.came = None;
        }
        let here = &self.relay.known.here;
        if here.counted(Count::Rewritten) > rewritten {
            here.all().rewriting.note(begun.elapsed());
        }
        progress
    }

    fn dispatch(&mut self, arrived: Arrived) -> Progress {
        match arrived.command {
            _ if arrived.statement.is_some_and(|id| self.relay.known.statements.is_refused(id)) => {
                self.refuse_unprepared(arrived)
            }
            Command::Query if self.relay.known.session.warned.is_some() => {
                Progress::Left(arrived, Left::ShowWarnings)
            }
            Command::Query | Command::StmtPrepare | Command::StmtExecute | Command::StmtBulkExecute => {
                self.dispatch_by_state(arrived)
            }
            _ => self.note_and_pass(arrived),
        }
    }

    /// Commands that mean what the session's state makes of them.
    fn dispatch_by_state(&mut self, mut arrived: Arrived) -> Progress {
        let command = arrived.command;
        if matches!(command, Command::StmtExecute | Command::StmtBulkExecute) {
            arrived = match self.drawn_execution(arrived) {
                Ok(arrived) => arrived,
                Err(progress) => return progress,
            };
        }
        let Some(header) = Header::parse(self.relay.window()) else {
            return self.refuse(arrived, &Refusal::MalformedPacket);
        };
        let is_unread = self.relay.passes_unread(command, header);
        match if is_unread { self.unconcerned(&arrived) } else { Unconcerned::No } {
            Unconcerned::Text(note) => return Progress::Done(self.relay.pass_unconcerned(arrived, note)),
            Unconcerned::ViewsFirst => return Progress::Left(arrived, Left::Needs(Need::Views)),
            Unconcerned::Execution => {}
            Unconcerned::No => {
                if let Some(need) = self.relay.state_first(command, header) {
                    return Progress::Left(arrived, Left::Needs(need));
                }
            }
        }
        match command {
            Command::Query | Command::StmtPrepare => self.statement(arrived),
            // The server refuses each of them.
            _ if self.relay.known.session.locked().is_some() => self.note_and_pass(arrived),
            _ => self.execute(arrived),
        }
    }

    /// Decides by a command's words if a rule may concern it.
    fn unconcerned(&mut self, arrived: &Arrived) -> Unconcerned {
        let tables = self.shared.tables.now();
        let is_text = matches!(arrived.command, Command::Query | Command::StmtPrepare);
        self.with_basis(&tables, arrived, |known, by, payload| match arrived.text_at {
            Some(_) => unconcerned::text(known, by, arrived.text(payload)),
            None if is_text => Unconcerned::No,
            None => unconcerned::execution(known, by),
        })
    }

    /// Commands that pass as they are once the session has noted what they do.
    fn note_and_pass(&mut self, arrived: Arrived) -> Progress {
        if let Some(id) = arrived.statement {
            self.relay.translate_id();
            match arrived.command {
                Command::StmtClose => self.relay.known.statements.close(id),
                Command::StmtReset => {
                    self.forget_long_data(&arrived);
                }
                _ => {}
            }
        }
        if arrived.command == Command::SetOption
            && let Some(is_on) = sets_multi_statements(&self.relay.payload(&arrived))
        {
            self.relay.known.session.multi_statements = is_on;
        }
        self.pass(arrived, false, Note::Nothing)
    }

    /// A statement that was refused when it was prepared, executed before the client knew.
    fn refuse_unprepared(&mut self, arrived: Arrived) -> Progress {
        let taken = self.relay.take_out(arrived);
        Progress::Done(self.relay.answer(&Refusal::UnknownStatement(LAST_PREPARED), taken))
    }

    /// A statement longer than `limits.statement_bytes`: its beginning decides whether a rule concerns it.
    async fn too_long(&mut self, command: Command) -> Going<()> {
        loop {
            let Some(header) = Header::parse(self.relay.window()) else { return Ok(()) };
            let need = match self.relay.state_first(command, header) {
                Some(need) => need,
                None => match self.decide_too_long(command, header) {
                    Err(need) => need,
                    Ok(true) => {
                        self.relay.pass_too_long(command, header);
                        break;
                    }
                    Ok(false) => {
                        self.relay.refuse_too_long(command, header);
                        break;
                    }
                },
            };
            match self.supply(command, need).await {
                Ok(()) => {}
                Err(Stop::Over(over)) => return Err(over),
                Err(_) => {
                    self.relay.refuse_too_long(command, header);
                    break;
                }
            }
        }
        self.relay.known.forget_supplied();
        Ok(())
    }

    /// Decides a statement whose beginning is at the front of the client's window. True if the statement passes.
    fn decide_too_long(&mut self, command: Command, header: Header) -> Result<bool, Need> {
        let tables = self.shared.tables.now();
        let Session { relay, shared, .. } = self;
        let (known, window, is_first) = relay.front();
        let by = basis(&tables, shared, command, None, is_first);
        let payload = window.get(HEADER_BYTES..header.packet_bytes().min(window.len())).unwrap_or_default();
        let has_attributes = command == Command::Query && known.has_attributes();
        let text = text_at(payload, has_attributes).ok().and_then(|at| payload.get(at..)).unwrap_or_default();
        text::too_long(known, by, text)
    }
}
