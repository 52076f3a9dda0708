//! A packet of several statements that goes to the server in parts, each a COM_QUERY: what follows a cut is read, and sent, when all
//! before it is answered, as the server itself would go on. The client sees one response: its packet numbers go on, every end but the last
//! one says that more results follow, and an error ends it.

use crate::mysql::ok::OkPacket;
use crate::mysql::ok::status::MORE_RESULTS;
use crate::mysql::packet::as_packets;
use crate::mysql::response::Control;
use crate::proxy::relay::command::{Arrived, Handled};
use crate::proxy::relay::{DownState, Fate, Relay, Step, number_after};

/// The rest of a packet that was cut.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The parts as they would have come from the client; the next one is the last.
    rest: Vec<Vec<u8>>,
    /// The number of the packet with which the response continues.
    next_nr: u8,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A part is at the front of the client's window.
    Ready,
    /// The part is on its way, or answered.
    Taken,
    /// The part was answered by an error.
    Failed,
}

impl Relay {
    /// Cuts the packet in the window, after `at` bytes of its text. Its first part arrives next.
    pub(crate) fn cut(&mut self, arrived: Arrived, at: usize) -> Handled {
        let payload = self.payload(&arrived);
        let (before, text) = arrived.split(&payload);
        let (first, rest) = text.split_at_checked(at).unwrap_or_default();
        let packets = |text: &[u8]| as_packets(0, &[before, text].concat());
        let (first, rest) = (packets(first), packets(rest));
        drop(payload);
        let (window_bytes, packets) = arrived.into_size();
        self.up.put_back(window_bytes, first);
        let next_nr = number_after(packets);
        let parts = self
            .parts
            .get_or_insert_with(|| Box::new(Parts { rest: Vec::new(), next_nr, state: State::Ready }));
        parts.rest.push(rest);
        parts.state = State::Ready;
        Handled(())
    }

    /// Puts the next part into the client's window, once the one before it is answered. `None`: what is there may be read.
    pub(crate) fn next_part(&mut self) -> Option<Step> {
        let parts = self.parts.as_mut()?;
        if parts.state == State::Ready {
            return None;
        }
        if !self.outstanding.is_empty() {
            return Some(Step::Hold);
        }
        match parts.rest.pop().filter(|_| parts.state == State::Taken) {
            None => self.parts = None,
            Some(part) => {
                parts.state = State::Ready;
                self.up.put_back(0, part);
                // The client's side knows of the answer, which goes on.
                if self.framed.client {
                    self.down_state = DownState::Announced;
                }
            }
        }
        Some(Step::Moved)
    }

    /// A command has arrived that took so many packets. How many its response is numbered after:
    /// that of a later part goes on from the one before it.
    pub(crate) fn part_packets(&mut self, packets: usize) -> usize {
        let Some(parts) = &mut self.parts else { return packets };
        parts.state = State::Taken;
        let next_nr = parts.next_nr.into();
        if parts.rest.is_empty() {
            self.parts = None;
        }
        next_nr
    }

    /// True if results follow those of the client's present command.
    pub(crate) fn more_follows(&self) -> bool {
        self.parts.is_some()
    }

    /// The present part is answered by an error: what follows it is dropped.
    pub(crate) fn part_failed(&mut self) {
        if let Some(parts) = &mut self.parts {
            parts.state = State::Failed;
        }
    }

    /// A packet of this number went to the client, in the response of a part that others follow. The answer to the next part is numbered
    /// after it.
    pub(crate) fn part_numbered(&mut self, packet_nr: u8) {
        if let Some(parts) = &mut self.parts {
            parts.next_nr = packet_nr.wrapping_add(1);
        }
    }

    /// The decision on a packet in the response of a part that others follow: it gets the bit that more
    /// results follow, as the server's own have it.
    pub(crate) fn with_more_results(&self, control: Control, payload: &[u8], fate: Fate) -> Fate {
        /// The status follows the header byte and two bytes of warnings.
        const EOF_STATUS_AT: usize = 3;
        let payload = match &fate {
            Fate::Pass => payload,
            Fate::Replace(payload) => payload,
            Fate::Drop => return fate,
        };
        let status_at = match (control, payload) {
            (Control::Eof, [0xFE, _, _, _, _]) => Some(EOF_STATUS_AT),
            (Control::Ok | Control::Eof, _) => {
                OkPacket::parse(payload, self.known.capabilities).ok().map(|ok| ok.status_at())
            }
            _ => None,
        };
        let mut out = payload.to_vec();
        let Some(status) = status_at.and_then(|at| out.get_mut(at)) else { return fate };
        let [low, _] = MORE_RESULTS.to_le_bytes();
        *status |= low;
        Fate::Replace(out)
    }
}
