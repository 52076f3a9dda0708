//! The answers that the backend still owes: one entry for each command sent to it, and for each answer that is ours, in the order in which
//! the client expects them. This is the whole model of matching responses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::mysql::error::parse_err;
use crate::mysql::ok::{OkPacket, status};
use crate::mysql::reader::Reader;
use crate::mysql::response::{Control, Follower, Kind};
use crate::proxy::known::answered::{Answer, Answered, ServerError, Table};
use crate::proxy::known::drawn::PreparedDraws;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::known::note::Note;

#[derive(Debug)]
pub(crate) enum Outstanding {
    /// The client's own command: its response goes to the client.
    Forward(Forward),
    /// A command of ours: its response is read and swallowed.
    Own(Own),
    /// Our answer to a command that never reached the backend: whole packets.
    Answer(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) follower: Follower,
    pub(crate) numbers: Numbers,
    /// True if the command may change what ruled statements depend on: sql_mode, character set, default database.
    pub(crate) may_change_session: bool,
    /// Results of this response that have ended.
    pub(crate) results: usize,
    /// Definitions of parameters seen so far, in a COM_STMT_PREPARE response.
    pub(crate) params_seen: u16,
    /// A statement is being prepared that may see the session's tracking.
    pub(crate) sees_tracking: bool,
    /// A statement is being prepared with parameters of ours for its calls.
    pub(crate) draws: Option<Arc<PreparedDraws>>,
    /// The response answers a part of the client's packet that is not the last part.
    pub(crate) more_follows: bool,
    pub(crate) note: Note,
    /// When the command arrived, and when it was sent.
    pub(crate) arrived: Instant,
    pub(crate) sent: Instant,
}

/// The packet numbers of a response, for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// The backend's, and so much added: the rewritten command took more packets than the client's, or packets were dropped.
    Moved(u8),
    /// Counted here, from this one on: a side speaks in frames, whose numbers get into those of the packets.
    From(u8),
    /// Counted here too, before the client's side learns that the answer begins.
    Due(u8),
}

impl Numbers {
    /// The number of a packet that goes to the client; `None`: the start of the answer must be announced first.
    pub(crate) fn take(&mut self, packet_nr: u8) -> Option<u8> {
        match self {
            Numbers::Moved(by) => Some(packet_nr.wrapping_add(*by)),
            Numbers::From(next) => {
                let nr = *next;
                *next = nr.wrapping_add(1);
                Some(nr)
            }
            Numbers::Due(_) => None,
        }
    }

    /// A packet of the backend's is kept from the client.
    pub(crate) fn drop_one(&mut self) {
        if let Numbers::Moved(by) = self {
            *by = by.wrapping_sub(1);
        }
    }

    /// A packet of the client's, which stands between those of the response or before them.
    pub(crate) fn pass_clients(&mut self) {
        if let Numbers::From(next) | Numbers::Due(next) = self {
            *next = next.wrapping_add(1);
        }
    }

    /// The number of the next packet, where it is counted here.
    pub(crate) fn counted(self) -> Option<u8> {
        match self {
            Numbers::Moved(_) => None,
            Numbers::From(next) | Numbers::Due(next) => Some(next),
        }
    }

    pub(crate) fn begin(&mut self) {
        if let Numbers::Due(next) = *self {
            *self = Numbers::From(next);
        }
    }
}

impl Forward {
    /// True if the next definition of a parameter is of one that the client did not write.
    pub(crate) fn next_param_is_ours(&self) -> bool {
        let seen = self.params_seen;
        let param = self.note.prepared().map_or(Some(seen), |prepared| prepared.client_param(seen));
        param.is_none_or(|param| self.draws.as_ref().is_some_and(|draws| draws.is_ours(param)))
    }

    /// The number of the client's parameters, where the server counts more.
    pub(crate) fn client_params(&self) -> Option<u16> {
        if let Some(draws) = &self.draws {
            return Some(draws.client_params);
        }
        let prepared = self.note.prepared().filter(|prepared| !prepared.text.ours.is_empty());
        prepared.map(|prepared| prepared.text.client_params)
    }

    /// True if the text shows all that changes in the session's state.
    pub(crate) fn explains_report(&self) -> bool {
        matches!(&self.note, Note::Statements { effects: Some(effects), .. } if effects.explains_report)
    }

    /// True if all parameters are ours: the client then expects no EOF after their definitions either.
    pub(crate) fn all_params_are_ours(&self) -> bool {
        self.client_params() == Some(0)
    }
}

#[derive(Debug)]
pub(crate) enum Purpose {
    /// `SET last_insert_id`, on behalf of an INSERT whose ids were literals.
    LastInsertId,
    /// `SET insert_id` is the server's again.
    SetId,
    /// The temporary table of an INSERT ... SELECT goes.
    DropStage,
    Track,
    /// The client's own session tracking is put back.
    Untrack,
    /// sql_mode, character set and default database are read.
    ReadState,
    /// Parameters that were sent ahead for an execution that was refused are dropped.
    DropLongData,
    /// A question that the session waits for the answer of (`serve/ask`).
    Asked,
}

#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) follower: Follower,
    pub(crate) purpose: Purpose,
    /// The first packet that was no row and no definition.
    pub(crate) first: Option<Vec<u8>>,
    /// The first row, where there is one.
    pub(crate) row: Option<Vec<u8>>,
    /// The whole result, where the question asks for it.
    pub(crate) table: Option<Table>,
    /// The packet numbers for the client, if the server may ask it for a file.
    pub(crate) file: Option<Numbers>,
}

impl Own {
    /// True if this packet of the response asks for a file that the client has.
    pub(crate) fn asks_client(&self, payload: &[u8]) -> bool {
        let kind = { self.follower }.classify(payload.len(), Reader::new(payload).peek());
        self.file.is_some() && kind == Kind::Control(Control::Infile)
    }

    pub(crate) fn answered(self) -> Answered {
        let first = self.first.unwrap_or_default();
        match parse_err(&first) {
            Some((code, text)) => Err(ServerError { code, text, payload: first }),
            None => Ok(Answer { first, row: self.row, table: self.table }),
        }
    }
}

/// Commands that a client may send ahead of their answers; more wait in its lane, and then in its
/// own socket. An entry takes some hundred bytes, a command no more than four.
const ENTRIES_MAX: usize = 1024;

/// First in, first out.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    entries: VecDeque<Outstanding>,
}

impl Queue {
    /// The ids of the present result that are to be followed before it goes on.
    pub(crate) fn explicit(&mut self) -> Option<&mut ExplicitIds> {
        let Forward { note: Note::Statements { explicit, .. }, results, .. } = self.forward()? else {
            return None;
        };
        explicit.iter_mut().find(|one| one.statement == *results && !one.is_followed)
    }

    /// The ruled INSERT, if any, that the present result belongs to.
    pub(crate) fn insert_reply(&mut self) -> Option<&mut InsertReply> {
        let Forward { note: Note::Statements { inserts, .. }, results, .. } = self.forward()? else {
            return None;
        };
        inserts.iter_mut().find(|reply| reply.statement == *results)
    }

    /// The client's command that is being answered; `None`: the present answer is to another one, or is ours.
    pub(crate) fn forward(&mut self) -> Option<&mut Forward> {
        match self.front_mut()? {
            Outstanding::Forward(forward) => Some(forward),
            Outstanding::Own(_) | Outstanding::Answer(_) => None,
        }
    }

    /// The packet numbers of what is being answered, where packets of it go to the client.
    pub(crate) fn numbers(&mut self) -> Option<&mut Numbers> {
        match self.front_mut()? {
            Outstanding::Forward(forward) => Some(&mut forward.numbers),
            Outstanding::Own(own) => own.file.as_mut(),
            Outstanding::Answer(_) => None,
        }
    }

    pub(crate) fn file_sent(&mut self) {
        match self.front_mut() {
            Some(Outstanding::Forward(forward)) => forward.follower.file_sent(),
            Some(Outstanding::Own(own)) => own.follower.file_sent(),
            Some(Outstanding::Answer(_)) | None => {}
        }
    }

    pub(crate) fn push(&mut self, entry: Outstanding) {
        self.entries.push_back(entry);
    }

    pub(crate) fn front_mut(&mut self) -> Option<&mut Outstanding> {
        self.entries.front_mut()
    }

    /// The command that was sent last.
    pub(crate) fn back_mut(&mut self) -> Option<&mut Outstanding> {
        self.entries.back_mut()
    }

    pub(crate) fn pop(&mut self) -> Option<Outstanding> {
        let entry = self.entries.pop_front();
        if self.entries.is_empty() && self.entries.capacity() > 64 {
            self.entries.shrink_to(8);
        }
        entry
    }

    /// True if the client's next command must wait.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    /// True if nothing is outstanding after `ok`: no command was sent later, and no result or part follows.
    pub(crate) fn ends_here(&mut self, ok: &OkPacket<'_>) -> bool {
        let is_last = self.is_at_last() && ok.status & status::MORE_RESULTS == 0;
        is_last && self.forward().is_some_and(|entry| !entry.more_follows)
    }

    /// Answers the command that was sent last first: the answer to the client's command was taken out of its lane.
    pub(crate) fn answer_last_first(&mut self) {
        if let Some(last) = self.entries.pop_back() {
            self.entries.push_front(last);
        }
    }

    /// True if no command was sent after the one that is being answered.
    pub(crate) fn is_at_last(&self) -> bool {
        self.entries.len() <= 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if the client has sent a COM_STMT_PREPARE that is not answered.
    pub(crate) fn prepares(&self) -> bool {
        self.entries.iter().any(
            |entry| matches!(entry, Outstanding::Forward(forward) if forward.follower.prepares_nothing()),
        )
    }

    /// True if the answer to a command under way may leave an insert id owed.
    pub(crate) fn may_owe_insert_id(&self) -> bool {
        self.entries.iter().any(|entry| {
            matches!(entry, Outstanding::Forward(forward)
                if forward.note.inserts().iter().any(InsertReply::may_owe))
        })
    }

    /// True if a command is under way after which a ruled statement may have to be read differently.
    pub(crate) fn may_change_session(&self) -> bool {
        self.entries.iter().any(|entry| match entry {
            Outstanding::Forward(forward) => forward.may_change_session,
            Outstanding::Own(own) => matches!(own.purpose, Purpose::Track | Purpose::ReadState),
            Outstanding::Answer(_) => false,
        })
    }
}
