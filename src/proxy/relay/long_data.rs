//! COM_STMT_SEND_LONG_DATA: values of parameters that the client sends ahead of an execution.

use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::reader::Reader;
use crate::proxy::relay::{Relay, Step};

/// The place of the number of a parameter that is sent ahead, in the window; its value follows.
const PARAM: std::ops::Range<usize> = HEADER_BYTES + 5..HEADER_BYTES + 7;

impl Relay {
    /// A parameter sent ahead (COM_STMT_SEND_LONG_DATA) keeps its number among the client's; among the
    /// server's it may be another.
    pub(super) fn long_data(&mut self, header: Header) -> Step {
        self.owes_last = false;
        if header.payload_bytes >= 7 {
            let number =
                self.up.window().get(PARAM).map(|bytes| Reader::new(bytes).u16("parameter's number"));
            let Some(Ok(number)) = number else { return Step::More(PARAM.end) };
            let drawing = self.named_statement().and_then(|id| self.known.statements.drawing(id));
            let param = drawing.map_or(number, |statement| statement.draws.moved(number));
            self.note_long_data(number);
            if let Some(step) = self.keep_long_data(header, param) {
                return step;
            }
            let mut server_param = param;
            if let Some(statement) = self.named_statement().and_then(|id| self.known.statements.get_mut(id)) {
                statement.long_data.insert(param);
                let prepared = statement.kept.prepared.as_ref();
                server_param = prepared.map_or(param, |prepared| prepared.server_param(param));
            }
            if let Some(place) = self.up.window_mut().get_mut(PARAM) {
                place.copy_from_slice(&server_param.to_le_bytes());
            }
            self.translate_id();
        }
        self.pass_packet(header)
    }

    /// Notes which of the client's parameters was sent ahead, for a statement with calls.
    fn note_long_data(&mut self, number: u16) {
        if let Some(statement) = self.named_statement().and_then(|id| self.known.statements.drawing(id)) {
            statement.long_data.insert(number);
        }
    }

    /// Keeps what is sent ahead for a statement that goes by way of a stage. `None`: it goes to the server.
    fn keep_long_data(&mut self, header: Header, param: u16) -> Option<Step> {
        let id = self.named_statement()?;
        let is_whole = !header.continues() && header.payload_bytes <= self.statement_bytes_max;
        let statement = self.known.statements.get_mut(id).filter(|statement| statement.kept.is_staged())?;
        let whole = header.packet_bytes();
        let window = self.up.window();
        if !is_whole {
            statement.keep(param, None, 0);
            return None;
        }
        if window.len() < whole {
            return Some(Step::More(whole));
        }
        statement.keep(param, window.get(PARAM.end..whole), self.statement_bytes_max);
        statement.long_data.insert(param);
        self.up.skip(whole);
        Some(Step::Moved)
    }
}
