//! What the backend still owes: one entry for each command sent to it, and for each answer that is ours, in the order in
//! which the client expects them. This is the whole model of matching responses.

use std::collections::VecDeque;
use std::sync::Arc;

use super::explicit::Explicit;
use super::inserts::InsertReply;
use super::statements::Kept;
use crate::mysql::error::parse_err;
use crate::mysql::response::Follower;
use crate::rewrite::effects::Effects;

/// An answer that is on its way.
#[derive(Debug)]
pub(super) enum Outstanding {
    /// The client's own command: its response goes to the client.
    Forward(Forward),
    /// A command of ours: its response is read and swallowed.
    Own(Own),
    /// Our answer to a command that never reached the backend: a whole packet.
    Answer(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Forward {
    pub(super) follower: Follower,
    pub(super) numbers: Numbers,
    /// Whether the command may change what ruled statements depend on: sql_mode, character set, default database.
    pub(super) may_change_session: bool,
    /// Results of this response that have ended.
    pub(super) results: usize,
    /// Definitions of parameters seen so far, in a COM_STMT_PREPARE response.
    pub(super) params_seen: u16,
    /// A statement is being prepared that may see the session's tracking.
    pub(super) sees_tracking: bool,
    pub(super) note: Note,
}

/// The packet numbers of a response, for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// The backend's, and so much added: the rewritten command took more packets than the client's, or packets were dropped.
    Moved(u8),
    /// Counted here, from this one on: a side speaks in frames, whose numbers get into those of the packets.
    From(u8),
    /// The same, before the client's side learns that the answer begins.
    Due(u8),
}

impl Numbers {
    /// The number of a packet that goes to the client; `None`: the start of the answer must be announced first.
    pub(super) fn take(&mut self, packet_nr: u8) -> Option<u8> {
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
    pub(super) fn drop_one(&mut self) {
        if let Numbers::Moved(by) = self {
            *by = by.wrapping_sub(1);
        }
    }

    /// A packet of the client's, which stands between those of the response or before them.
    pub(super) fn pass_clients(&mut self) {
        if let Numbers::From(next) | Numbers::Due(next) = self {
            *next = next.wrapping_add(1);
        }
    }

    pub(super) fn begin(&mut self) {
        if let Numbers::Due(next) = *self {
            *self = Numbers::From(next);
        }
    }
}

/// What the response of a client's command means to the session.
#[derive(Debug)]
pub(super) enum Note {
    Nothing,
    /// Statements of a packet: the ruled INSERTs among them, whose OK packets may need their insert id, and what they do
    /// to the session.
    Statements {
        inserts: Vec<InsertReply>,
        /// Ids among them that the client wrote.
        explicit: Vec<Explicit>,
        /// `None`: nothing.
        effects: Option<Arc<Effects>>,
    },
    /// A statement is being prepared that reads what the one before it left behind (ROW_COUNT and its like), and perhaps the
    /// insert id too.
    PrepareNextToLast {
        names_insert_id: bool,
    },
    /// A statement is being prepared whose executions do something to the session.
    PrepareActing(Arc<Effects>),
    /// An INSERT that is being prepared, with hidden parameters where a rule concerns it.
    Prepare(Arc<Kept>),
}

impl Note {
    /// Whether ids were put in.
    pub(super) fn has_inserts(&self) -> bool {
        !self.inserts().is_empty()
    }

    /// The ruled INSERTs that ids were put into.
    pub(super) fn inserts(&self) -> &[InsertReply] {
        if let Note::Statements { inserts, .. } = self { inserts } else { &[] }
    }

    /// Of a packet without ruled INSERTs.
    pub(super) fn effects(effects: Arc<Effects>) -> Note {
        Note::Statements { inserts: Vec::new(), explicit: Vec::new(), effects: Some(effects) }
    }

    /// Allocates nothing where nothing is done to the session.
    pub(super) fn statements(inserts: Vec<InsertReply>, explicit: Vec<Explicit>, effects: Effects) -> Note {
        let effects = (!effects.is_nothing()).then(|| Arc::new(effects));
        if inserts.is_empty() && explicit.is_empty() && effects.is_none() {
            return Note::Nothing;
        }
        Note::Statements { inserts, explicit, effects }
    }
}

impl Forward {
    /// Whether the next definition of a parameter is of one that the client did not write.
    pub(super) fn hides_param(&self) -> bool {
        matches!(&self.note, Note::Prepare(kept)
            if kept.prepared.as_ref().is_some_and(|prepared| prepared.hides(self.params_seen)))
    }

    /// Whether the text shows all that changes in the session's state.
    pub(super) fn explains_report(&self) -> bool {
        matches!(&self.note, Note::Statements { effects: Some(effects), .. } if effects.explains_report)
    }

    /// Whether the client wrote no parameter at all, so that it expects no end of them either.
    pub(super) fn hides_all_params(&self) -> bool {
        matches!(&self.note, Note::Prepare(kept) if kept.prepared.as_ref().is_some_and(|prepared| {
            prepared.text.client_params == 0 && !prepared.text.hidden.is_empty()
        }))
    }
}

/// What a command of ours is for.
#[derive(Debug)]
pub(super) enum Purpose {
    /// `SET last_insert_id`, on behalf of an INSERT whose ids were literals.
    LastInsertId,
    /// Session tracking is switched on.
    Track,
    /// The client's own session tracking is put back.
    Untrack,
    /// sql_mode, character set and default database are read.
    ReadState,
    /// What was sent ahead for an execution that was refused is dropped.
    DropLongData,
    /// A question that the session waits for the answer of ([`ask`](super::session)).
    Asked { keeps_definitions: bool },
}

/// What the server has answered to a question.
#[derive(Debug)]
pub(super) struct Answer {
    /// The first packet that was no row and no definition.
    pub(super) first: Vec<u8>,
    /// The first row, where there is one.
    pub(super) row: Option<Vec<u8>>,
    /// Definitions of parameters and columns, where they are asked for.
    pub(super) definitions: Vec<Vec<u8>>,
}

/// The server's error in place of an answer.
#[derive(Debug)]
pub(super) struct ServerError {
    pub(super) code: u16,
    pub(super) text: String,
    /// Its whole payload.
    pub(super) payload: Vec<u8>,
}

/// How a question came out.
pub(super) type Answered = Result<Answer, ServerError>;

#[derive(Debug)]
pub(super) struct Own {
    pub(super) follower: Follower,
    pub(super) purpose: Purpose,
    /// The first packet that was no row and no definition.
    pub(super) first: Option<Vec<u8>>,
    /// The first row, where there is one.
    pub(super) row: Option<Vec<u8>>,
    /// Definitions of parameters and columns, where they are asked for.
    pub(super) definitions: Vec<Vec<u8>>,
}

impl Own {
    pub(super) fn answered(self) -> Answered {
        let first = self.first.unwrap_or_default();
        match parse_err(&first) {
            Some((code, text)) => Err(ServerError { code, text, payload: first }),
            None => Ok(Answer { first, row: self.row, definitions: self.definitions }),
        }
    }
}

/// Commands that a client may send ahead of their answers; more wait in its lane, and then in its own socket. An entry takes some
/// hundred bytes, a command no more than four.
const ENTRIES_MAX: usize = 1024;

/// First in, first out.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: VecDeque<Outstanding>,
}

impl Queue {
    pub(super) fn push(&mut self, entry: Outstanding) {
        self.entries.push_back(entry);
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Outstanding> {
        self.entries.front_mut()
    }

    /// The command that was sent last.
    pub(super) fn back_mut(&mut self) -> Option<&mut Outstanding> {
        self.entries.back_mut()
    }

    pub(super) fn pop(&mut self) -> Option<Outstanding> {
        let entry = self.entries.pop_front();
        if self.entries.is_empty() && self.entries.capacity() > 64 {
            self.entries.shrink_to(8);
        }
        entry
    }

    /// Whether the client's next command must wait.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }

    /// Whether no command was sent behind the one that is being answered.
    pub(super) fn is_at_last(&self) -> bool {
        self.entries.len() <= 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the client has sent a COM_STMT_PREPARE that is not answered.
    pub(super) fn prepares(&self) -> bool {
        self.entries.iter().any(
            |entry| matches!(entry, Outstanding::Forward(forward) if forward.follower.prepares_nothing()),
        )
    }

    /// Whether the answer to something under way may leave an insert id owed.
    pub(super) fn may_owe_insert_id(&self) -> bool {
        self.entries.iter().any(|entry| {
            matches!(entry, Outstanding::Forward(forward)
                if forward.note.inserts().iter().any(|reply| !reply.sets_insert_id()))
        })
    }

    /// Whether something is under way after which a ruled statement may have to be read differently.
    pub(super) fn may_change_session(&self) -> bool {
        self.entries.iter().any(|entry| match entry {
            Outstanding::Forward(forward) => forward.may_change_session,
            Outstanding::Own(own) => matches!(own.purpose, Purpose::Track | Purpose::ReadState),
            Outstanding::Answer(_) => false,
        })
    }
}
