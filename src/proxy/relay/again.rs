//! The client's last INSERT, kept while it is under way: if its id was in the table already, it is sent again (`serve/again`).

use crate::mysql::error::{err_code, parse_err};
use crate::mysql::packet::Header;
use crate::proxy::known::inserts::InsertReply;
use crate::proxy::relay::command::Arrived;
use crate::proxy::relay::{DownState, Relay, UpState};

/// ER_DUP_ENTRY
const DUPLICATE: u16 = 1062;
/// A longer statement is not kept, and so not sent again: each session would hold a copy.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// A buffer of up to this size is kept between statements.
const ROOM_BYTES: usize = 512;
/// The most times that a statement is sent again. Another writer may be at the same ids, or another key is the duplicate.
const TIMES_MAX: u8 = 3;

#[derive(Debug, Default)]
pub(crate) struct Again {
    /// The statement's packet, as it came from the client.
    bytes: Vec<u8>,
    times: u8,
    /// The statement that arrives next is one that is sent again.
    is_due: bool,
    /// The present statement is one that is sent again.
    is_repeated: bool,
}

impl Again {
    /// Called when a command of the client's is there: marks the one that is sent again, and forgets the count for any other.
    pub(crate) fn begin(&mut self) {
        self.is_repeated = std::mem::take(&mut self.is_due);
        self.times = if self.is_repeated { self.times } else { 0 };
    }

    /// Clears the mark of a statement that is sent again. True if there was none: the statement is new.
    pub(crate) fn is_new(&mut self) -> bool {
        !std::mem::take(&mut self.is_repeated)
    }
}

impl Relay {
    /// Keeps the command at the front of the client's window, if it may be sent again. What it draws by calls is in its text already,
    /// and good for this time only.
    pub(crate) fn keep(&mut self, arrived: &Arrived, inserts: &[InsertReply]) {
        let has_drawn = self.drawn.is_some();
        let again = &mut self.again;
        again.bytes.clear();
        let may_be = !has_drawn && matches!(inserts, [insert, ..] if insert.may_be_sent_again());
        if may_be && arrived.packets == 1 && arrived.window_bytes <= KEPT_BYTES_MAX {
            again.bytes.extend_from_slice(self.up.window().get(..arrived.window_bytes).unwrap_or_default());
        }
    }

    pub(crate) fn kept(&self) -> Option<&[u8]> {
        Some(&*self.again.bytes).filter(|bytes| !bytes.is_empty())
    }

    /// Forgets the kept command: it is answered, or another one is looked at. Nothing is put in front of that one.
    pub(crate) fn forget_kept(&mut self) {
        self.again.bytes.clear();
        if self.again.bytes.capacity() > ROOM_BYTES {
            self.again.bytes = Vec::new();
        }
    }

    /// True if the last command may be sent again, as far as the relay is concerned.
    pub(crate) fn may_send_again(&self) -> bool {
        !self.again.bytes.is_empty()
            && self.again.times < TIMES_MAX
            && self.up_state == UpState::Boundary
            && self.parts.is_none()
            && self.outstanding.is_at_last()
    }

    /// True if an error of the server's may be about an id of the generator's, and nobody has looked at the error yet.
    pub(crate) fn may_collide(&mut self, error: &[u8]) -> bool {
        if err_code(error) != Some(DUPLICATE) {
            return false;
        }
        let Some((_, text)) = parse_err(error) else { return false };
        let reply = self.outstanding.insert_reply();
        reply.is_some_and(|reply| !reply.was_looked_at && reply.collided(&text).is_some())
    }

    /// Drops that error, and puts the statement in front of what the client has sent since: it arrives a second time.
    pub(crate) fn take_back(&mut self) {
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
