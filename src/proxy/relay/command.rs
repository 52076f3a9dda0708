//! A command of the client's, from when it is there whole to when it is handled. Each step consumes the value of the step before it:
//! [`Arrived`] is sent, cut or taken out of the window; [`Sent`] is owed; what was [`TakenOut`] is answered or sent for; all end in
//! [`Handled`].

use crate::ids::block::IdBlock;
use crate::mysql::command::{Command, Reply};
use crate::mysql::packet::{
    HEADER_BYTES, PAYLOAD_BYTES_MAX, as_packets, packets_of, payload_of, put_packets,
};
use crate::proxy::known::note::Note;
use crate::proxy::relay::{Relay, number_after};
use crate::rewrite::plan::Plan;

/// A command of the client's whose payload lies whole at the start of its window. There is one of it: what sends, cuts or takes out
/// the command consumes it, so that it is answered once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the client waits for its answer"]
pub(in crate::proxy) struct Arrived {
    pub(in crate::proxy) command: Command,
    /// The bytes that the payload takes of the window, with its headers.
    pub(in crate::proxy) window_bytes: usize,
    pub(in crate::proxy) packets: usize,
    /// The statement that it names, by the client's id.
    pub(in crate::proxy) statement: Option<u32>,
    /// The offset of the text of a COM_QUERY or COM_STMT_PREPARE in its payload. `None`: the attributes before it are malformed.
    pub(in crate::proxy) text_at: Option<usize>,
}

impl Arrived {
    /// The payload in two: what stands before the text, and the text.
    pub(in crate::proxy) fn split<'a>(&self, payload: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        self.text_at.and_then(|at| payload.split_at_checked(at)).unwrap_or((payload, &[]))
    }

    pub(in crate::proxy) fn text<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        self.split(payload).1
    }

    /// The bytes of the window that it took, and its packets.
    pub(super) fn into_size(self) -> (usize, usize) {
        (self.window_bytes, self.packets)
    }
}

/// Packets of a payload of ours, numbered from 0, before they are sent.
pub(in crate::proxy) struct Ready {
    bytes: Vec<u8>,
    packets: usize,
}

impl Ready {
    pub(in crate::proxy) fn of(payload: &[u8]) -> Self {
        Ready { bytes: as_packets(0, payload), packets: packets_of(payload.len()) }
    }
}

/// A command is on its way, and its answer is owed. The shift makes the answer's packet numbers continue from the client's own
/// packets; numbers wrap, and so does the shift.
#[must_use = "the answer is owed: give it to `Relay::owe`"]
pub(in crate::proxy) struct Sent(pub(super) u8);

impl Sent {
    pub(super) fn of(client_packets: usize, sent_packets: usize) -> Self {
        Sent(number_after(client_packets.wrapping_sub(sent_packets)))
    }
}

/// A command that has left the client's window, and whose answer is still to come.
#[must_use = "the client waits for its answer"]
pub(in crate::proxy) struct TakenOut(pub(super) Arrived);

impl TakenOut {
    pub(in crate::proxy) fn as_it_came(&self) -> &Arrived {
        &self.0
    }

    /// The packets of the client's, after which the answer's are numbered.
    pub(super) fn into_packets(self) -> usize {
        self.0.packets
    }

    /// The packets of a file that the client has sent meanwhile count among the command's.
    pub(in crate::proxy) fn count_file(&mut self, relay: &Relay) {
        self.0.packets = relay.command_packets.into();
    }
}

/// A command needs nothing more: it is on its way with its answer owed, cut in parts, or answered if it is one that has an answer. Only
/// what does that gives one.
pub(in crate::proxy) struct Handled(pub(super) ());

impl Relay {
    /// The command goes to the server as it came. The packet numbers of a later part do not begin after its own packets.
    pub(in crate::proxy) fn send_as_it_came(&mut self, arrived: Arrived) -> Sent {
        let (window_bytes, packets) = arrived.into_size();
        self.up.accept(window_bytes);
        Sent::of(packets, window_bytes / (HEADER_BYTES + PAYLOAD_BYTES_MAX) + 1)
    }

    /// Sends a plan's text in place of the client's, whose attributes stay. Gives the command back, and sends nothing, where the
    /// blocks are not the plan's.
    pub(in crate::proxy) fn send_spliced(
        &mut self,
        (plan, blocks): (&Plan, &[IdBlock]),
        arrived: Arrived,
    ) -> Result<Sent, Arrived> {
        let replaced = self.up.replace(arrived.window_bytes, |window, out| {
            let payload = payload_of(window, arrived.window_bytes);
            let (before, text) = arrived.split(&payload);
            out.extend_from_slice(before);
            plan.splice_into(text, blocks, out)
        });
        replaced.map(|packets| Sent::of(arrived.packets, packets)).ok_or(arrived)
    }

    /// Sends `payload` in place of the client's, which is dropped from the window.
    pub(in crate::proxy) fn send_instead(&mut self, payload: &[u8], arrived: Arrived) -> Sent {
        let taken = self.take_out(arrived);
        self.send_for_client(payload, taken)
    }

    /// The command's bytes leave the window, and the server gets none of them.
    pub(in crate::proxy) fn take_out(&mut self, arrived: Arrived) -> TakenOut {
        self.up.skip(arrived.window_bytes);
        TakenOut(arrived)
    }

    /// [`Relay::send_instead`] with packets that were made ready.
    pub(in crate::proxy) fn send_ready(&mut self, ready: Ready, arrived: Arrived) -> Sent {
        let taken = self.take_out(arrived);
        self.up.push(ready.bytes);
        Sent::of(taken.into_packets(), ready.packets)
    }

    /// Sends `payload` for a command of the client's, after what is to be sent already.
    pub(in crate::proxy) fn send_for_client(&mut self, payload: &[u8], taken: TakenOut) -> Sent {
        put_packets(self.up.out(), 0, payload);
        Sent::of(taken.into_packets(), packets_of(payload.len()))
    }

    /// Notes that the backend owes the response of a command that begins to pass, unread, packet by packet.
    pub(super) fn owe_packet(&mut self, reply: Reply, may_change_session: bool, note: Note) {
        self.command_packets = 1;
        self.owe(reply, may_change_session, Sent::of(1, 1), note);
    }
}
