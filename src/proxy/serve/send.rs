//! A packet with its ids, on its way to the server.

use crate::mysql::error::Refusal;
use crate::mysql::packet::packets_of;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::need::Need;
use crate::proxy::relay::outstanding::Note;
use crate::proxy::relay::{Arrived, Ready};
use crate::proxy::serve::ask::Question;
use crate::proxy::serve::progress::{Later, Packet, Progress, WithIds};
use crate::proxy::serve::session::{Going, Session};

impl Session {
    /// Sends a packet with its ids, and notes what its answers need. `ready`: as it was made of the client's, where
    /// it was.
    pub(in crate::proxy) fn send_planned(
        &mut self,
        arrived: Arrived,
        packet: WithIds,
        ready: Option<Ready>,
    ) -> Progress {
        let WithIds { plan, ranges, inserts, explicit, text_at } = packet;
        let may_change_session = !plan.effects.leave_session();
        if !plan.has_edits() {
            let note = Note::statements(inserts, explicit, plan.effects);
            return self.pass(arrived, may_change_session, note);
        }
        self.relay.keep(arrived, &inserts);
        let nr_shift = if let Some(ready) = ready {
            Some(self.relay.send_ready(ready, arrived))
        } else {
            self.audit(self.relay.payload(arrived).get(text_at..), &inserts);
            self.relay.send_spliced((&plan, &ranges), text_at, arrived)
        };
        self.audit_drawn();
        let Some(nr_shift) = nr_shift else {
            return self.refuse(arrived, &Refusal::NoId("the ids do not fit the plan".into()));
        };
        // The wrapper sets it again; where the statement fails, what the function shows is
        // undefined anyway.
        if inserts.iter().any(InsertReply::sets_insert_id) {
            self.relay.known.session.owed_insert_id = None;
        }
        self.spend_set_id(&inserts);
        let note = Note::statements(inserts, explicit, plan.effects);
        self.relay.owe(arrived.command.reply(), may_change_session, nr_shift, note);
        Progress::Done
    }

    /// What is sent for a command of several packets: to make it may take longer than the lease of its ids
    /// lasts, so that is looked at after.
    fn made_ready(&self, arrived: Arrived, packet: &mut Packet) -> Option<Ready> {
        match packet {
            Packet::Text(WithIds { plan, ranges, inserts, text_at, .. })
                if arrived.packets > 1 && plan.has_edits() =>
            {
                let payload = self.relay.payload(arrived);
                let (before, text) = payload.split_at_checked(*text_at)?;
                self.audit(Some(text), inserts);
                let mut made = before.to_vec();
                plan.splice_into(text, ranges, &mut made)?;
                Some(Ready::of(&made))
            }
            Packet::Execution { payload, .. } if packets_of(payload.len()) > 1 => {
                self.put_server_id(arrived, payload);
                Some(Ready::of(payload))
            }
            _ => None,
        }
    }

    /// Sets the user variables that a packet reads its ids from. It is sent when that has
    /// succeeded: a variable that was not set would still hold the id that was read from it last.
    pub(in crate::proxy) async fn send_later(&mut self, arrived: Arrived, later: Later) -> Going<Progress> {
        let Later { sets, mut packet, tables } = later;
        if let Some(sets) = sets
            && let Err(error) = self.ask(Question::Query(sets.as_bytes())).await?
        {
            return Ok(self.fail(arrived, &error.payload));
        }
        let ready = self.made_ready(arrived, &mut packet);
        // The ids were taken a while ago: whether they are still this proxy's shows now.
        loop {
            self.until(|relay| relay.up.is_clear()).await?;
            if tables.is_retired() {
                return Ok(Progress::Needs(Need::Rules { retired: tables }));
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
}
