//! The last step for a decided command: it is passed on, sent with its ids, or answered in the server's place.

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{packets_of, payload_of};
use crate::mysql::prepared::put_statement_id;
use crate::proxy::decide::params::Params;
use crate::proxy::decide::verdict::FilledPacket;
use crate::proxy::known::explicit::set_id::SetId;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::Need;
use crate::proxy::known::note::Note;
use crate::proxy::relay::Relay;
use crate::proxy::relay::command::{Arrived, Ready, TakenOut};
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::relay::own::Question;
use crate::proxy::serve::progress::{Later, Left, Packet, Progress};
use crate::proxy::serve::session::{Going, Session};
use crate::tables::locks::SendBy;

/// True if the lease that a statement's ids were taken in ends too soon to send it: writing a long statement took long.
pub(super) fn is_late(insert: &InsertReply) -> bool {
    insert.lease().is_some_and(SendBy::is_near)
}

impl Session {
    /// Lets a command through that was read whole.
    pub(super) fn pass(&mut self, arrived: Arrived, may_change_session: bool, note: Note) -> Progress {
        if matches!(self.relay.known.session.set_id, SetId::Taken(_)) {
            // The id's table has lost its rule meanwhile, and the server has the id no longer.
            return self.refuse(arrived, &Refusal::NoId("the rules are being changed; try again".into()));
        }
        if arrived.command == Command::StmtPrepare {
            self.relay.known.statements.forget_last();
        }
        self.audit_drawn();
        let reply = self.relay.reply_to(arrived.command);
        let sent = self.relay.send_as_it_came(arrived);
        Progress::Done(self.relay.owe(reply, may_change_session, sent, note))
    }

    /// Answers a command in place of the backend; nothing of it is sent.
    pub(super) fn refuse(&mut self, arrived: Arrived, refusal: &Refusal) -> Progress {
        self.trace(&arrived, &self.relay.payload(&arrived), refusal);
        let (taken, sent_ahead) = self.drop_unsent(arrived);
        let handled = self.relay.answer(refusal, taken);
        self.reset_long_data(sent_ahead);
        Progress::Done(handled)
    }

    /// Answers a command with an error of the server's, which it gave to a question of ours.
    pub(super) fn fail(&mut self, arrived: Arrived, error: &[u8]) -> Progress {
        let (taken, sent_ahead) = self.drop_unsent(arrived);
        let handled = self.relay.answer_with(error, taken);
        self.reset_long_data(sent_ahead);
        Progress::Done(handled)
    }

    /// The server does not see the command. Returns the statement, too, that data was sent ahead for.
    fn drop_unsent(&mut self, arrived: Arrived) -> (TakenOut, Option<u32>) {
        self.relay.drawn = None;
        let sent_ahead = match arrived.command {
            Command::StmtPrepare => {
                self.relay.known.statements.refuse_last();
                None
            }
            Command::StmtExecute | Command::StmtBulkExecute => {
                self.note_types(&arrived);
                self.forget_long_data(&arrived)
            }
            _ => None,
        };
        let taken = self.relay.take_out(arrived);
        self.give_set_id_back();
        (taken, sent_ahead)
    }

    /// Sends a packet with its ids, and notes what its answers need. `ready`: as it was made of the client's, where it was.
    pub(super) fn send_planned(
        &mut self,
        arrived: Arrived,
        packet: FilledPacket,
        ready: Option<Ready>,
    ) -> Progress {
        let FilledPacket { plan, blocks, inserts, explicit } = packet;
        let may_change_session = !plan.effects.leave_session();
        if !plan.has_edits() {
            let note = Note::statements(inserts, explicit, plan.effects);
            return self.pass(arrived, may_change_session, note);
        }
        self.relay.keep(&arrived, &inserts);
        let reply = arrived.command.reply();
        let sent = if let Some(ready) = ready {
            Ok(self.relay.send_ready(ready, arrived))
        } else {
            self.audit(Some(arrived.text(&self.relay.payload(&arrived))), &inserts);
            self.relay.send_spliced((&plan, &blocks), arrived)
        };
        self.audit_drawn();
        let sent = match sent {
            Ok(sent) => sent,
            Err(arrived) => {
                let why = "the ids do not fit the plan; please report this fault of Rowstamp";
                let why = inserts.first().map_or_else(|| why.to_owned(), |insert| insert.target.at(why));
                return self.refuse(arrived, &Refusal::NoId(why));
            }
        };
        // The wrapper sets it again; where the statement fails, what the function shows is undefined anyway.
        if inserts.iter().any(InsertReply::sets_insert_id) {
            self.relay.known.session.owed_insert_id = None;
        }
        self.spend_set_id(&inserts);
        let note = Note::statements(inserts, explicit, plan.effects);
        Progress::Done(self.relay.owe(reply, may_change_session, sent, note))
    }

    pub(super) fn send_execution(
        &mut self,
        arrived: Arrived,
        (mut payload, ready): (Vec<u8>, Option<Ready>),
        note: Note,
    ) -> Progress {
        // Parameters that were sent ahead (COM_STMT_SEND_LONG_DATA) cannot be sent again.
        let has_all = self.forget_long_data(&arrived).is_none();
        self.relay.keep(&arrived, if has_all { note.inserts() } else { &[] });
        if note.inserts().iter().any(InsertReply::sets_insert_id) {
            self.relay.known.session.owed_insert_id = None;
        }
        self.spend_set_id(note.inserts());
        let statement = arrived.statement.and_then(|id| self.relay.known.statements.get(id));
        self.audit_source(statement.map(|statement| &*statement.kept.source), note.inserts());
        self.audit_drawn();
        self.put_server_id(&arrived, &mut payload);
        let reply = arrived.command.reply_to(&payload);
        let sent = match ready {
            Some(ready) => self.relay.send_ready(ready, arrived),
            None => self.relay.send_instead(&payload, arrived),
        };
        Progress::Done(self.relay.owe(reply, note.moves_ids(), sent, note))
    }

    /// Sets the user variables that a packet reads its ids from. It is sent when that has
    /// succeeded: a variable that was not set would still hold the id that was read from it last.
    pub(super) async fn send_later(&mut self, arrived: Arrived, later: Later) -> Going<Progress> {
        let Later { sets, mut packet, tables } = later;
        if let Some(sets) = sets
            && let Err(error) = self.ask(Question::Query(sets.as_bytes())).await?
        {
            return Ok(self.fail(arrived, &error.payload));
        }
        let ready = self.made_ready(&arrived, &mut packet);
        // The ids were taken a while ago: whether they are still this proxy's shows now.
        loop {
            self.until(Relay::has_sent_all).await?;
            if tables.is_retired() {
                return Ok(Progress::Left(arrived, Left::Needs(Need::Rules { retired: tables })));
            }
            let drawn = self.relay.drawn.iter().flat_map(|drawn| &drawn.taken).map(|taken| &taken.target);
            let mut targets = packet.inserts().iter().map(|insert| &insert.target).chain(drawn);
            let Some(target) = targets.find(|target| !tables.is_guarded(target)).cloned() else { break };
            let limit = self.shared.id_deadline;
            let guarded = self.meanwhile(tables.guarded(&target, limit)).await?;
            if let Err(error) = guarded
                && !tables.is_retired()
            {
                return Ok(self.refuse(arrived, &Refusal::NoId(error.for_client())));
            }
        }
        Ok(match packet {
            Packet::Text(text) => self.send_planned(arrived, text, ready),
            Packet::Execution { payload, note } => self.send_execution(arrived, (payload, ready), note),
        })
    }

    /// The packets of a command that takes several. Making them may take longer than the lease of its ids lasts, so
    /// the lease is looked at afterwards.
    fn made_ready(&self, arrived: &Arrived, packet: &mut Packet) -> Option<Ready> {
        match packet {
            Packet::Text(FilledPacket { plan, blocks, inserts, .. })
                if arrived.packets > 1 && plan.has_edits() =>
            {
                let payload = self.relay.payload(arrived);
                let (before, text) = arrived.split(&payload);
                self.audit(Some(text), inserts);
                let mut made = before.to_vec();
                plan.splice_into(text, blocks, &mut made)?;
                Some(Ready::of(&made))
            }
            Packet::Execution { payload, .. } if packets_of(payload.len()) > 1 => {
                self.put_server_id(arrived, payload);
                Some(Ready::of(payload))
            }
            _ => None,
        }
    }

    /// Writes the server's statement id over the client's, where they differ.
    pub(super) fn put_server_id(&self, arrived: &Arrived, payload: &mut [u8]) {
        if let Some(id) = arrived.statement.and_then(|id| self.relay.known.statements.translated(id)) {
            put_statement_id(payload, id);
        }
    }

    /// Has the server drop the data that was sent ahead for this statement, if there is any.
    pub(super) fn reset_long_data(&mut self, id: Option<u32>) {
        let Some(id) = id else { return };
        let server_id = self.relay.known.statements.translated(id).unwrap_or(id);
        let reset = [&[Command::StmtReset as u8][..], &server_id.to_le_bytes()].concat();
        self.relay.send_own(Purpose::DropLongData, Command::StmtReset.reply(), &reset);
    }

    /// The client sends the types of parameters once, also with an execution that the server never sees.
    pub(super) fn note_types(&mut self, arrived: &Arrived) {
        let with_attributes = self.relay.known.has_attributes();
        let (known, window, _) = self.relay.front();
        let payload = payload_of(window, arrived.window_bytes);
        let Some(statement) = arrived.statement.and_then(|id| known.statements.get_mut(id)) else {
            return;
        };
        let expected = statement.expected(with_attributes);
        let types =
            Params::parse(arrived.command, &payload, expected).map(|params| params.new_types(expected));
        if let Ok(Some(types)) = types {
            statement.types = Some(types);
        }
    }

    /// An execution uses up what was sent ahead for it, also where it fails. The statement, where that was something.
    pub(super) fn forget_long_data(&mut self, arrived: &Arrived) -> Option<u32> {
        let id = arrived.statement?;
        let statement = self.relay.known.statements.get_mut(id)?;
        statement.forget_long_data().then_some(id)
    }
}
