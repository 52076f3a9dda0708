//! Answers that are no backend's, and where an answer begins for a client that speaks in frames.

use crate::mysql::packet::{Header, first_of_payload};
use crate::proxy::relay::outstanding::Outstanding;
use crate::proxy::relay::{CONTROL_BYTES_MAX, DownState, Event, Relay, Step, Violation};

/// First byte of an ERR packet.
pub(crate) const ERR: u8 = 0xFF;

impl Relay {
    /// The bytes of a packet that is looked at whole, once all of it is there.
    pub(crate) fn whole_control(&self, header: Header) -> Result<usize, Step> {
        let whole = header.packet_bytes();
        if header.payload_bytes > CONTROL_BYTES_MAX {
            return Err(Step::Event(Event::Violation(Violation::TooLong(header.payload_bytes))));
        }
        if self.down.window().len() < whole { Err(Step::More(whole)) } else { Ok(whole) }
    }

    pub(crate) fn send_answer(&mut self) -> Step {
        if self.must_begin_answer() {
            return self.begin_answer();
        }
        if self.down.is_clear()
            && let Some(Outstanding::Answer(packet)) = self.outstanding.pop()
        {
            self.down.out().extend_from_slice(&packet);
            self.forget_kept();
            self.down_state = DownState::Boundary;
        }
        Step::SendFirst
    }

    /// A server that ends an idle session may say why, in an error that answers nothing (MySQL's 4031).
    pub(crate) fn unasked(&mut self, header: Header) -> Step {
        let whole = match self.whole_control(header) {
            Ok(whole) => whole,
            Err(step) => return step,
        };
        if first_of_payload(self.down.window()) != Some(ERR) {
            return Step::Event(Event::Violation(Violation::Unasked));
        }
        if self.must_begin_answer() {
            return self.begin_answer();
        }
        self.down_state = DownState::Boundary;
        self.down.accept(whole);
        Step::Moved
    }

    /// The client's side learns that an answer begins, after all that was sent before.
    pub(crate) fn begin_answer(&mut self) -> Step {
        if !self.down.is_clear() {
            return Step::SendFirst;
        }
        // By a request for a file, which an answer of ours has come after.
        let is_announced = self.down_state == DownState::Announced;
        match self.outstanding.numbers() {
            Some(numbers) => {
                numbers.begin();
                self.down_state = DownState::Boundary;
            }
            None => self.down_state = DownState::Announced,
        }
        if is_announced { Step::Moved } else { Step::BeginAnswer }
    }

    /// True if an answer of ours, or one that nobody asked for, must be announced first.
    fn must_begin_answer(&self) -> bool {
        self.framed.client && self.down_state != DownState::Announced
    }
}
