//! A session's protocol state, without its sockets: two lanes, what is outstanding, and what the session knows of itself.
//!
//! [`Relay::up_step`] (in `upstream`) understands the client's bytes, [`Relay::down_step`] (in
//! `downstream`) the backend's. Both only move lanes and the queue; whatever needs waiting comes
//! out as an [`Event`].

pub(super) mod again;
mod answers;
pub(super) mod command;
mod downstream;
mod glances;
pub(super) mod lane;
mod long_data;
pub(super) mod outstanding;
pub(super) mod own;
mod parts;
pub(super) mod pump;
mod too_long;
mod upstream;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::mysql::attributes;
use crate::mysql::command::{Command, Reply};
use crate::mysql::error::Refusal;
use crate::mysql::ok::{OkPacket, status};
use crate::mysql::packet::{HEADER_BYTES, Header, as_packets, packets_of, payload_of, put_packets};
use crate::mysql::prepared::{put_statement_id, statement_id};
use crate::mysql::reader::Malformed;
use crate::mysql::response::{Follower, Forms, PrepareOk};
use crate::proxy::known::Known;
use crate::proxy::known::answered::Answered;
use crate::proxy::known::drawn::Drawn;
use crate::proxy::known::explicit::ExplicitIds;
use crate::proxy::known::inserts::{InsertReply, SmallestId};
use crate::proxy::known::note::Note;
use crate::proxy::relay::again::Again;
use crate::proxy::relay::command::{Arrived, Handled, Sent, TakenOut};
use crate::proxy::relay::lane::Lane;
use crate::proxy::relay::outstanding::{Forward, Numbers, Outstanding, Own, Purpose, Queue};
use crate::proxy::relay::parts::Parts;
use crate::sessions::Count;
use crate::tables::InForce;

/// The longest packet that steers a response (OK with session state, ERR, LOCAL INFILE request): far above what servers send.
pub(super) const CONTROL_BYTES_MAX: usize = 2 << 20;

/// The client's present command, for the timings. A command that is decided at once was also sent when it arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) at: Instant,
    /// Something was waited for since.
    pub(super) has_waited: bool,
}

#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
pub(super) struct Relay {
    up: Lane,
    down: Lane,
    up_state: UpState,
    down_state: DownState,
    outstanding: Queue,
    pub(super) known: Known,
    tables: Arc<InForce>,
    pub(super) forms: Forms,
    framed: Framed,
    /// Packets of the client's present command, so far.
    command_packets: u8,
    /// The client's present command, while it is looked at.
    pub(super) came: Option<Came>,
    /// The ids that the calls of that command have drawn.
    pub(super) drawn: Option<Box<Drawn>>,
    /// True if the server answers that command.
    owes_last: bool,
    /// The client did not ask for session tracking: its OK packets go without.
    pub(super) strips_tracking: bool,
    /// A longer payload is not read whole.
    statement_bytes_max: usize,
    /// The session waits for something: the client's next command stays where it is.
    pub(super) holds_client: bool,
    /// The rest of a packet that goes to the server in parts.
    parts: Option<Box<Parts>>,
    /// Answers to what the session has asked.
    pub(super) answers: Vec<Answered>,
    /// The COM_STMT_PREPARE in the window is of a statement that may see the session's tracking.
    prepares_what_sees_tracking: bool,
    /// A packet of ours for the backend, as soon as the client's lane is between two commands.
    injection: Vec<u8>,
    /// The client's last INSERT, which may be sent again.
    pub(super) again: Again,
    /// The client's end was read while the client's lane was held: nothing comes after what is in the window.
    client_has_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpState {
    /// Between two commands.
    Boundary,
    /// Inside a packet that passes as it is; `continues`: another packet of the same payload follows.
    Passing { left: usize, continues: bool },
    /// Before a packet that continues a passing payload.
    Continued,
    /// Inside a payload that is too long to be read and may not pass.
    Discarding { command: Command, left: usize, continues: bool, packets: usize },
    /// The backend has asked for a file for LOAD DATA LOCAL, in a packet of this number.
    Asked { packet_nr: u8 },
    /// The client sends it: `left` bytes of the present packet; the next one has this number for the backend.
    File { left: usize, continues: bool, packet_nr: u8 },
}

/// Which sides speak the compressed protocol. Packet numbers are not counted there, so those of a
/// session with such a side are ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Framed {
    pub(super) client: bool,
    pub(super) backend: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DownState {
    /// Between two packets.
    Boundary,
    /// Between two packets, before an answer that was announced to the client's side.
    Announced,
    /// Inside a packet that passes as it is: nobody looks at the `left` bytes.
    Passing { left: usize },
}

#[derive(Debug)]
pub(super) enum Step {
    /// Something was understood; ask again.
    Moved,
    /// Bytes that were accepted, or are ours, must be sent first.
    SendFirst,
    /// So many bytes of window are needed.
    More(usize),
    /// Waits for the other lane.
    Hold,
    /// The bytes sent from here on answer the client's next command. The lane is clear.
    BeginAnswer,
    /// The client's next packets are a file's content.
    BeginFile,
    Event(Event),
}

/// An event that a lane cannot handle by itself.
#[derive(Debug)]
pub(super) enum Event {
    /// Ids that a client wrote are stored: the generator is to be raised above them, then the result is looked at again.
    FollowExplicit,
    /// A command is there whole. The client's lane is clear.
    Command(Arrived),
    /// A statement that is too long to be read; its beginning lies at the start of the client's window, which is clear.
    TooLong(Command),
    /// The backend must be asked which of our ids is the smallest in the table, before the OK packet goes on.
    SmallestId(SmallestId),
    /// The backend must be asked for the session's `LAST_INSERT_ID()`, before the OK packet continues. Nothing was sent
    /// after the command that is answered; the server's lane is clear.
    UpdatedId,
    /// An INSERT's id may have been in the table already. The server's lane is clear.
    Collided,
    Violation(Violation),
}

pub(super) enum Fate {
    Pass,
    Drop,
    /// Another payload goes in its place.
    Replace(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Backend,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Client => Side::Backend,
            Side::Backend => Side::Client,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    #[error("the client's command begins with packet number {0} instead of 0")]
    ClientPacketNr(u8),
    #[error("the client sent more packets before the answer to its COM_CHANGE_USER")]
    BehindChangeUser,
    #[error(
        "a command of the client's came up while the session waited; this is a fault of Rowstamp, please report it"
    )]
    OutOfTurn,
    #[error("the backend sent a packet, but no command waits for an answer")]
    Unasked,
    #[error("the backend's packet: {0}")]
    Backend(Malformed),
    #[error("the backend asks for a file while the client is in the middle of another command")]
    FileOutOfTurn,
    #[error("a packet of {0} bytes came instead of a short one")]
    TooLong(usize),
}

/// The first packet of an answer, which the client gets later.
#[must_use = "the client waits for it"]
pub(super) struct HeldAnswer(Vec<u8>);

impl HeldAnswer {
    pub(super) fn payload(&self) -> &[u8] {
        self.0.get(HEADER_BYTES..).unwrap_or_default()
    }
}

impl Relay {
    /// `client_buffered`: what the client has sent after its login.
    pub(super) fn new(
        known: Known,
        tables: Arc<InForce>,
        (forms, framed): (Forms, Framed),
        strips_tracking: bool,
        statement_bytes_max: usize,
        client_buffered: &[u8],
    ) -> Self {
        Relay {
            up: Lane::holding(client_buffered),
            down: Lane::default(),
            up_state: UpState::Boundary,
            down_state: DownState::Boundary,
            outstanding: Queue::default(),
            known,
            tables,
            forms,
            framed,
            command_packets: 1,
            came: None,
            drawn: None,
            owes_last: false,
            strips_tracking,
            statement_bytes_max,
            holds_client: false,
            parts: None,
            answers: Vec::new(),
            prepares_what_sees_tracking: false,
            injection: Vec::new(),
            again: Again::default(),
            client_has_ended: false,
        }
    }

    /// True if all that goes to the server before the client's next command is sent.
    pub(super) fn has_sent_all(&self) -> bool {
        self.up.is_clear()
    }

    /// True if a question may be sent: it begins a lane that is clear.
    pub(super) fn may_ask(&self) -> bool {
        self.up.is_clear() && self.injection.is_empty()
    }

    /// True if nothing is owed to the client.
    pub(super) fn has_answered_all(&self) -> bool {
        self.outstanding.is_empty()
    }

    pub(super) fn may_change_session(&self) -> bool {
        self.outstanding.may_change_session()
    }

    /// The bytes that the client has sent and nobody has understood yet.
    pub(super) fn window(&self) -> &[u8] {
        self.up.window()
    }

    /// The bytes that the server has sent and nobody has understood yet.
    pub(super) fn answer_window(&self) -> &[u8] {
        self.down.window()
    }

    /// The facts for deciding the command at the front, and the client's bytes. True: all that the session sent before it is answered.
    pub(super) fn front(&mut self) -> (&mut Known, &[u8], bool) {
        (&mut self.known, self.up.window(), self.outstanding.is_empty())
    }

    /// The INSERT that the answer at the front is for.
    pub(super) fn insert_reply(&mut self) -> Option<&mut InsertReply> {
        self.outstanding.insert_reply()
    }

    /// The ids that the client wrote, of the result at the front.
    pub(super) fn explicit(&mut self) -> Option<&mut ExplicitIds> {
        self.outstanding.explicit()
    }

    /// True if the OK packet at the front ends the response to the client's command.
    pub(super) fn is_last_answer(&mut self) -> bool {
        let answer = self.down.window().get(HEADER_BYTES..).unwrap_or_default();
        let ok = OkPacket::parse(answer, self.known.capabilities);
        ok.is_ok_and(|ok| self.outstanding.ends_here(&ok))
    }

    /// Takes the answer's packet at the front out of its lane.
    pub(super) fn hold_answer(&mut self) -> HeldAnswer {
        let window = self.down.window();
        let bytes = Header::parse(window).map_or(0, Header::packet_bytes);
        let answer = window.get(..bytes).unwrap_or_default().to_vec();
        self.down.skip(bytes);
        HeldAnswer(answer)
    }

    pub(super) fn put_answer_back(&mut self, HeldAnswer(answer): HeldAnswer) {
        self.down.put_back(0, answer);
    }

    /// These packets take the place of the command's, which are returned.
    pub(super) fn replace(&mut self, arrived: &mut Arrived, packets: Vec<u8>) -> Vec<u8> {
        let came = self.up.window().get(..arrived.window_bytes).unwrap_or_default().to_vec();
        let bytes = std::mem::replace(&mut arrived.window_bytes, packets.len());
        self.up.put_back(bytes, packets);
        came
    }

    /// The client's present command: its answer is numbered after its packets.
    pub(super) fn looks_at(&mut self, arrived: &Arrived) {
        self.command_packets = number_after(arrived.packets);
    }

    /// The server has answered this COM_CHANGE_USER, on sockets that the relay did not see.
    pub(super) fn begins_again(&mut self, change_user: TakenOut, client_buffered: &[u8]) -> Handled {
        self.starts_over();
        self.up = Lane::holding(client_buffered);
        let TakenOut(_answered) = change_user;
        Handled(())
    }

    /// True if the client has got all that was sent to it.
    pub(super) fn has_told_all(&self) -> bool {
        self.down.is_clear()
    }

    /// Sends a command of ours to the backend before the client's next one.
    pub(super) fn send_own(&mut self, purpose: Purpose, reply: Reply, payload: &[u8]) {
        put_packets(self.up.out(), 0, payload);
        if let Some(follower) = Follower::new(reply, self.forms) {
            let own = Own { follower, purpose, first: None, row: None, table: None, file: None };
            self.outstanding.push(Outstanding::Own(own));
        }
    }

    /// [`Relay::send_own`] for a COM_QUERY.
    pub(super) fn query_own(&mut self, purpose: Purpose, sql: impl AsRef<[u8]>) {
        let mut payload = vec![Command::Query as u8];
        if self.known.has_attributes() {
            payload.extend_from_slice(&attributes::NONE);
        }
        payload.extend_from_slice(sql.as_ref());
        self.send_own(purpose, Reply::Query, &payload);
    }

    /// Closes what a COM_STMT_PREPARE of ours has left on the server, by the packet that answered it.
    pub(super) fn close_own(&mut self, answer: &[u8]) {
        if let Ok(ok) = PrepareOk::parse(answer, self.forms) {
            self.close(ok.statement_id);
        }
    }

    /// Closes a statement by the server's id, as soon as something else is sent.
    pub(super) fn close(&mut self, server_id: u32) {
        let close = [&[Command::StmtClose as u8][..], &server_id.to_le_bytes()].concat();
        put_packets(&mut self.injection, 0, &close);
    }

    pub(super) fn payload(&self, arrived: &Arrived) -> Cow<'_, [u8]> {
        payload_of(self.up.window(), arrived.window_bytes)
    }

    /// Notes that the backend owes the response of a client's command.
    pub(super) fn owe(&mut self, reply: Reply, may_change_session: bool, sent: Sent, note: Note) -> Handled {
        self.known.session.forget_failure();
        let drawn = self.drawn.take();
        let has_drawn = drawn.is_some();
        let limits = note.inserts().iter().filter_map(InsertReply::send_by);
        if let Some(limit) = limits.chain(drawn.iter().filter_map(|drawn| drawn.send_by())).min() {
            self.up.send_by(limit);
        }
        if let Some(drawn) = &drawn {
            self.known.session.drawn.note(drawn);
        }
        let prepares = drawn.and_then(|drawn| drawn.prepares);
        if reply == Reply::Prepare {
            self.known.statements.prepare_drawing(prepares.clone());
        }
        if matches!(reply, Reply::Query | Reply::Prepare) {
            let is_new = self.count_statement();
            self.known.here.count(Count::Rewritten, u64::from(is_new && (note.has_inserts() || has_drawn)));
        }
        let follower = Follower::new(reply, self.forms);
        self.owes_last = follower.is_some();
        if let Some(follower) = follower {
            let numbers = self.numbers(sent);
            let sees_tracking =
                reply == Reply::Prepare && std::mem::take(&mut self.prepares_what_sees_tracking);
            let (arrived, sent_at) = self.times();
            self.known.here.changes_at(sent_at);
            let forward = Forward {
                arrived,
                sent: sent_at,
                follower,
                numbers,
                may_change_session,
                results: 0,
                params_seen: 0,
                sees_tracking,
                draws: prepares,
                more_follows: self.more_follows(),
                note,
            };
            self.outstanding.push(Outstanding::Forward(forward));
        }
        Handled(())
    }

    /// When the command that is sent now arrived, and this moment, near enough.
    fn times(&mut self) -> (Instant, Instant) {
        match self.came.take() {
            Some(Came { at, has_waited: false }) => (at, at),
            Some(Came { at, has_waited: true }) => (at, Instant::now()),
            None => {
                let now = Instant::now();
                (now, now)
            }
        }
    }

    /// The packet numbers of a response that begins.
    fn numbers(&self, Sent(nr_shift): Sent) -> Numbers {
        match self.framed {
            Framed { client: true, .. } => Numbers::Due(self.command_packets),
            Framed { backend: true, .. } => Numbers::From(self.command_packets),
            Framed { .. } => Numbers::Moved(nr_shift),
        }
    }

    /// Sends a LOAD of ours in place of the client's. If the server asks for a file, the client is
    /// asked for it; the end of the response is ours.
    pub(super) fn send_load(&mut self, payload: &[u8]) {
        self.send_own(Purpose::Asked, Reply::Query, payload);
        let numbers = self.numbers(Sent::of(self.command_packets.into(), packets_of(payload.len())));
        if let Some(Outstanding::Own(own)) = self.outstanding.back_mut() {
            own.file = Some(numbers);
        }
    }

    /// Answers a command in place of the backend, in its turn, if it is one that has an answer.
    pub(super) fn answer(&mut self, refusal: &Refusal, taken: TakenOut) -> Handled {
        if taken.as_it_came().command.is_answered() {
            self.answer_after(refusal, taken.into_packets());
        }
        Handled(())
    }

    /// Answers in place of the backend, in its turn, after so many packets of the client's.
    fn answer_after(&mut self, refusal: &Refusal, packets: usize) {
        self.known.session.forget_failure();
        self.count_refused(refusal);
        self.part_failed();
        self.outstanding.push(Outstanding::Answer(err_packet(refusal, packets)));
    }

    /// Unless it is sent again: the client has sent it once.
    fn count_statement(&mut self) -> bool {
        let is_new = self.again.is_new();
        self.known.here.count(Count::Statements, u64::from(is_new));
        is_new
    }

    fn count_refused(&mut self, refusal: &Refusal) {
        self.count_statement();
        let why = match refusal {
            Refusal::Statement(_) => Count::Unsupported,
            Refusal::NoId(_) => Count::NoId,
            Refusal::PacketTooBig { .. } => Count::TooLong,
            Refusal::UnknownCommand(_) => Count::UnknownCommand,
            Refusal::UnknownStatement(_) => Count::UnknownStatement,
            _ => Count::Malformed,
        };
        self.known.here.count(why, 1);
    }

    /// [`Relay::answer`] with the server's error, of an earlier command of ours.
    pub(super) fn answer_with(&mut self, payload: &[u8], taken: TakenOut) -> Handled {
        self.known.session.forget_failure();
        self.count_statement();
        self.part_failed();
        self.outstanding.push(Outstanding::Answer(as_packets(number_after(taken.into_packets()), payload)));
        Handled(())
    }

    /// [`Relay::answer`] with a result, whose payloads are short.
    pub(super) fn answer_with_table(&mut self, payloads: &[Vec<u8>], taken: TakenOut) -> Handled {
        self.count_statement();
        let mut all = Vec::new();
        for (nr, payload) in
            (number_after(taken.into_packets())..=u8::MAX).chain((0..=u8::MAX).cycle()).zip(payloads)
        {
            put_packets(&mut all, nr, payload);
        }
        self.outstanding.push(Outstanding::Answer(all));
        Handled(())
    }

    /// True if the session could end here without breaking anything that the client has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.up_state == UpState::Boundary
            && self.down_state == DownState::Boundary
            && self.outstanding.is_empty()
            && !self.holds_client
            && self.parts.is_none()
            && self.up.window().is_empty()
            && self.up.is_clear()
            && self.down.is_clear()
            && !self.known.session.has_status(status::IN_TRANS)
    }

    /// The statement that the command at the front of the window names, by the client's id.
    pub(super) fn named_statement(&self) -> Option<u32> {
        statement_id(self.up.window().get(HEADER_BYTES..)?).ok()
    }

    /// Writes the server's id of a statement in place of the client's, at the front of the window.
    pub(super) fn translate_id(&mut self) {
        if let Some(server_id) = self.named_statement().and_then(|id| self.known.statements.translated(id))
            && let Some(payload) = self.up.window_mut().get_mut(HEADER_BYTES..)
        {
            put_statement_id(payload, server_id);
        }
    }

    /// The packet at the front of the window passes as it is.
    pub(super) fn pass_packet(&mut self, header: Header) -> Step {
        self.up_state = UpState::Passing { left: header.packet_bytes(), continues: header.continues() };
        Step::Moved
    }

    /// The backend has asked for a file, in a packet of this number: the client's packets up to an empty one are its content.
    pub(super) fn expect_file(&mut self, packet_nr: u8) -> Step {
        if self.up_state != UpState::Boundary {
            return Step::Event(Event::Violation(Violation::FileOutOfTurn));
        }
        self.up_state = UpState::Asked { packet_nr };
        Step::Moved
    }
}

/// A refusal as a packet that answers a command of so many packets.
pub(super) fn err_packet(refusal: &Refusal, packets: usize) -> Vec<u8> {
    as_packets(number_after(packets), &refusal.payload())
}

/// The number of the packet that answers a command of so many packets. They wrap.
pub(super) fn number_after(packets: usize) -> u8 {
    let [low, ..] = packets.to_le_bytes();
    low
}
