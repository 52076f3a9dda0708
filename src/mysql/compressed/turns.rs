//! Finds where commands begin in the bytes that a client sends. Frame numbers count within a command and its answer,
//! so a writer of frames must know; packet numbers do not tell, for they wrap.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression_packet.html>.

use std::collections::VecDeque;

use crate::mysql::command::Command;
use crate::mysql::packet::{HEADER_BYTES, Header};

/// Answers that room is kept for while none is due.
const ROOM_KEPT: usize = 64;

#[derive(Debug, Default)]
pub struct Turns {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// The number of bytes that are left of the present packet's payload.
    left: usize,
    /// The next packet goes on with the same payload.
    continues: bool,
    /// The client sends the content of a file, up to an empty packet.
    in_file: bool,
    place: Place,
    /// For each command that is answered: the number of the frame after its last one.
    answers: VecDeque<u8>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A command's first byte comes next.
    Command,
    /// In the rest of a command that the server answers.
    Answered,
    /// In the rest of anything else: a command without an answer, a file, an exchange.
    #[default]
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begins {
    Command,
    /// The payload goes on with an exchange that has begun, such as that of a password.
    Exchange,
}

impl Turns {
    /// The server has asked for a file.
    pub fn expect_file(&mut self) {
        self.in_file = true;
    }

    /// True if more of a file is to come.
    pub fn is_in_file(&self) -> bool {
        self.in_file
    }

    /// The kind of the payload that begins with `bytes`. `None`: the bytes continue a payload, or belong to a file.
    pub fn begins(&self, bytes: &[u8]) -> Option<Begins> {
        if self.in_file || !self.is_between_payloads() {
            return None;
        }
        Header::parse(bytes)
            .map(|header| if header.packet_nr == 0 { Begins::Command } else { Begins::Exchange })
    }

    fn is_between_payloads(&self) -> bool {
        self.left == 0 && self.header_bytes == 0 && !self.continues
    }

    /// Follows `bytes`, which were in the frame of this number, up to the next command; returns how many those are.
    pub fn follow(&mut self, bytes: &[u8], frame_nr: u8) -> usize {
        let mut at = 0;
        while let Some((byte, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) {
            if at > 0 && self.is_between_payloads() && !self.in_file {
                break;
            }
            if self.left > 0 {
                self.inside(*byte, frame_nr);
                let n = self.left.min(rest.len() + 1);
                self.left -= n;
                at += n;
            } else {
                if let Some(place) = self.header.get_mut(self.header_bytes) {
                    *place = *byte;
                }
                self.header_bytes += 1;
                at += 1;
                self.note(frame_nr);
                if self.header_bytes == HEADER_BYTES {
                    self.header_bytes = 0;
                    self.packet(frame_nr);
                }
            }
        }
        at
    }

    /// A packet's header is whole.
    fn packet(&mut self, frame_nr: u8) {
        let Some(header) = Header::parse(&self.header) else { return };
        let is_new = !self.continues;
        self.left = header.payload_bytes;
        self.continues = header.continues();
        if !is_new {
            return;
        }
        self.place = Place::Other;
        if self.in_file {
            self.in_file = header.payload_bytes > 0;
        } else if header.packet_nr == 0 {
            self.place = Place::Command;
            if header.payload_bytes == 0 {
                // No command at all, which is answered too.
                self.begin_answered(frame_nr);
            }
        }
    }

    fn inside(&mut self, byte: u8, frame_nr: u8) {
        match self.place {
            Place::Command if Command::from_byte(byte).is_none_or(Command::is_answered) => {
                self.begin_answered(frame_nr);
            }
            Place::Command => self.place = Place::Other,
            Place::Answered | Place::Other => self.note(frame_nr),
        }
    }

    fn begin_answered(&mut self, frame_nr: u8) {
        self.place = Place::Answered;
        self.answers.push_back(frame_nr.wrapping_add(1));
    }

    /// More of a command came, in this frame.
    fn note(&mut self, frame_nr: u8) {
        let is_inside = self.left > 0 || self.continues;
        if let (Place::Answered, true, Some(nr)) = (self.place, is_inside, self.answers.back_mut()) {
            *nr = frame_nr.wrapping_add(1);
        }
    }

    /// The number of the first frame of the next answer.
    pub fn answer(&mut self) -> u8 {
        let nr = self.answers.pop_front();
        if self.answers.is_empty() && self.answers.capacity() > ROOM_KEPT {
            self.answers = VecDeque::new();
        }
        // Unasked: a server that ends the session.
        nr.unwrap_or(1)
    }
}
