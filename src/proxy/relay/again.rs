//! The client's last INSERT, kept while it is under way: where its id was in the table already, it is sent once more
//! (`ruled/statement/again`).

use crate::mysql::error::parse_err;
use crate::mysql::packet::Header;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::relay::{Arrived, DownState, Relay, UpState};

/// ER_DUP_ENTRY
pub(in crate::proxy) const DUPLICATE: u16 = 1062;
/// A longer statement is not kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Room that is not given back between statements.
const ROOM_BYTES: usize = 512;
/// A statement is sent again so often. Another writer may be at the same ids, or another key is the duplicate.
const TIMES_MAX: u8 = 3;

#[derive(Debug, Default)]
pub(in crate::proxy) struct Again {
    /// Its packets, as they came from the client.
    bytes: Vec<u8>,
    times: u8,
    /// What arrives next is such a statement.
    is_due: bool,
}

impl Relay {
    /// Keeps the command at the front of the client's window, if it may be sent again.
    pub(in crate::proxy) fn keep(&mut self, arrived: Arrived, inserts: &[InsertReply]) {
        let again = &mut self.again;
        again.times = if std::mem::take(&mut again.is_due) { again.times } else { 0 };
        again.bytes.clear();
        let may_be = matches!(inserts, [insert, ..] if insert.may_be_sent_again());
        if may_be && arrived.packets == 1 && arrived.window_bytes <= KEPT_BYTES_MAX {
            again.bytes.extend_from_slice(self.up.window().get(..arrived.window_bytes).unwrap_or_default());
        }
    }

    pub(in crate::proxy) fn kept(&self) -> Option<&[u8]> {
        Some(&*self.again.bytes).filter(|bytes| !bytes.is_empty())
    }

    /// The last command is answered.
    pub(in crate::proxy) fn forget_kept(&mut self) {
        if self.again.bytes.capacity() > ROOM_BYTES {
            self.again.bytes = Vec::new();
        }
    }

    /// Whether this error of the server's is about an id of the generator's, in a statement that may be sent again.
    pub(in crate::proxy) fn is_to_be_sent_again(&mut self, error: &[u8]) -> bool {
        if self.again.bytes.is_empty()
            || self.again.times >= TIMES_MAX
            || self.up_state != UpState::Boundary
            || self.parts.is_some()
            || !self.outstanding.is_at_last()
        {
            return false;
        }
        let Some((DUPLICATE, text)) = parse_err(error) else { return false };
        self.outstanding
            .insert_reply()
            .is_some_and(|reply| reply.may_be_sent_again() && reply.collided(&text).is_some())
    }

    /// The client gets the error at the front of the server's lane.
    pub(in crate::proxy) fn pass_collision(&mut self) {
        self.again.times = TIMES_MAX;
    }

    /// Drops that error, and puts the statement in front of what the client has sent since: it arrives once more.
    pub(in crate::proxy) fn take_back(&mut self) {
        let bytes = Header::parse(self.down.window()).map_or(0, Header::packet_bytes);
        self.down.skip(bytes);
        self.outstanding.pop();
        self.up.put_back(0, std::mem::take(&mut self.again.bytes));
        self.again.times += 1;
        self.again.is_due = true;
        // The client's side knows of the answer, which is still to come.
        self.down_state = if self.framed.client { DownState::Announced } else { DownState::Boundary };
    }
}
