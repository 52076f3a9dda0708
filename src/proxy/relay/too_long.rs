//! A payload longer than `limits.statement_bytes`. The beginning of a COM_QUERY of one statement, or of a
//! COM_STMT_PREPARE, decides if it passes. Other payloads are dropped as they come, and answered at the end, if at all.

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::proxy::known::note::Note;
use crate::proxy::relay::{Event, Relay, Step, UpState};
use crate::rewrite::planner;

/// The bytes within which a statement that is too long to be read must name its table.
const BEGINNING_BYTES: usize = 4 * 1024;

impl Relay {
    /// The beginning of one statement may tell that it passes; all else is answered in the server's place.
    pub(super) fn too_long(&mut self, command: Command, header: Header) -> Step {
        if !self.up.is_clear() {
            return Step::SendFirst;
        }
        let is_one = match command {
            Command::Query => !self.known.session.multi_statements,
            other => other == Command::StmtPrepare,
        };
        if !is_one {
            return self.refuse_too_long(command, header);
        }
        let beginning = header.packet_bytes().min(BEGINNING_BYTES);
        if self.up.window().len() < beginning {
            return Step::More(beginning);
        }
        if self.known.session.is_untouched() && self.begins_unconcerned(command, header) {
            self.pass_too_long(command, header);
            return Step::Moved;
        }
        match self.beginning(command, header) {
            Err(step) => step,
            Ok(_) => Step::Event(Event::TooLong(command)),
        }
    }

    /// True if the beginning of a statement that is too long to be read shows that it inserts into a table that no rule concerns.
    fn begins_unconcerned(&self, command: Command, header: Header) -> bool {
        let Ok(text) = self.beginning(command, header) else { return false };
        let tables = self.tables.now();
        planner::begins_insert(text, &self.known.session.presumed_dialect())
            && !tables.concerns(text, self.known.session.default_schema(), None)
    }

    /// An INSERT into a table that no rule concerns passes, however long it is.
    pub(crate) fn pass_too_long(&mut self, command: Command, header: Header) -> Step {
        if command == Command::StmtPrepare {
            self.known.statements.forget_last();
        }
        self.owe_packet(command.reply(), false, Note::Nothing);
        self.pass_packet(header)
    }

    pub(crate) fn refuse_too_long(&mut self, command: Command, header: Header) -> Step {
        if command == Command::StmtPrepare {
            self.known.statements.refuse_last();
        }
        self.discard_from(command, header, 1)
    }

    fn discard_from(&mut self, command: Command, header: Header, packets: usize) -> Step {
        let (left, continues) = (header.packet_bytes(), header.continues());
        self.up_state = UpState::Discarding { command, left, continues, packets };
        Step::Moved
    }

    /// Drops a payload that is too long to be read, then answers it, if the client expects an answer.
    pub(super) fn discard(&mut self, command: Command, left: usize, continues: bool, packets: usize) -> Step {
        let left = left - self.up.skip(left);
        self.up_state = UpState::Discarding { command, left, continues, packets };
        if left > 0 {
            return Step::More(1);
        }
        if !continues {
            self.up_state = UpState::Boundary;
            if command.is_answered() {
                self.answer_after(&Refusal::PacketTooBig { bytes_max: self.statement_bytes_max }, packets);
            }
            return Step::Moved;
        }
        match Header::parse(self.up.window()) {
            None => Step::More(HEADER_BYTES),
            Some(header) => self.discard_from(command, header, packets + 1),
        }
    }
}
