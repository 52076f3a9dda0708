//! A packet with its ids, on its way to the server.

use std::sync::Arc;

use super::explicit::Explicit;
use super::inserts::InsertReply;
use super::need::Need;
use super::outstanding::Note;
use super::relay::Arrived;
use super::session::{Going, Progress, Question, Session};
use super::tables::Tables;
use crate::ids::range::block::IdBlock;
use crate::mysql::error::Refusal;
use crate::rewrite::plan::Plan;

pub(super) struct WithIds {
    pub(super) plan: Plan,
    pub(super) ranges: Vec<IdBlock>,
    pub(super) inserts: Vec<InsertReply>,
    pub(super) explicit: Vec<Explicit>,
    /// Where its text begins in the payload.
    pub(super) text_at: usize,
}

/// One that reads its ids from user's variables.
pub(super) struct WithVariables {
    /// The statement that sets them.
    pub(super) sets: String,
    pub(super) packet: WithIds,
    /// The rules that it was planned by.
    pub(super) tables: Arc<Tables>,
}

impl Session {
    /// Sends a packet with its ids, and notes what its answers are to be told by.
    pub(super) fn send_planned(&mut self, arrived: Arrived, packet: WithIds) {
        let WithIds { plan, ranges, inserts, explicit, text_at } = packet;
        let may_change_session = !plan.effects.leave_session();
        if !plan.has_edits() {
            let note = Note::statements(inserts, explicit, plan.effects);
            return self.pass(arrived, may_change_session, note);
        }
        if self.shared.audit.is_on() {
            self.audit(self.relay.payload(arrived).get(text_at..), &inserts);
        }
        let Some(nr_shift) = self.relay.send_spliced((&plan, &ranges), text_at, arrived) else {
            return self.refuse(arrived, &Refusal::NoId("the ids do not fit the plan".into()));
        };
        // The wrapper sets it again; where the statement fails, what the function shows is undefined anyway.
        if inserts.iter().any(InsertReply::sets_insert_id) {
            self.relay.view.take_owed_insert_id();
        }
        let note = Note::statements(inserts, explicit, plan.effects);
        self.relay.owe(arrived.command.reply(), may_change_session, nr_shift, note);
    }

    /// Sets the user's variables that a packet reads its ids from. It is sent when that has succeeded: a variable that was not set
    /// would still hold the id that was read from it last.
    pub(super) async fn set_variables(&mut self, arrived: Arrived, set: WithVariables) -> Going<Progress> {
        let WithVariables { sets, packet, tables } = set;
        if let Err(error) = self.ask(Question::Query(sets.as_bytes())).await? {
            self.fail(arrived, &error.payload);
            return Ok(Progress::Done);
        }
        self.until(|relay| relay.up.is_clear()).await?;
        if tables.is_retired() {
            return Ok(Need::Rules { retired: tables }.into());
        }
        // The ids were taken before the question: whether they are still this proxy's shows now.
        if packet.inserts.iter().any(|insert| !tables.is_guarded(insert.target())) {
            return Ok(self.at_once(arrived));
        }
        self.send_planned(arrived, packet);
        Ok(Progress::Done)
    }
}
