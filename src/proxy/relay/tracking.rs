//! The client's own session tracking, which is given back to a statement that may look at it, or set it.

use crate::mysql::command::Command;
use crate::mysql::packet::{HEADER_BYTES, Header};
use crate::mysql::prepared::statement_id;
use crate::proxy::relay::outstanding::Purpose;
use crate::proxy::relay::{Relay, Step};
use crate::sql::look::{LOOK_BYTES_MAX, begins_with_row_change, may_see_tracking};

impl Relay {
    /// Restores the client's own session tracking before a command that may look at it, or set it. `None`: nothing
    /// is sent before the command.
    pub(crate) fn give_back_tracking(&mut self, command: Command, header: Header) -> Option<Step> {
        let is_tracked = self.known.session.is_tracked() && !self.known.session.is_tracked_anyway()
            || self.known.session.awaits_state();
        let may_see = match command {
            // Its executions may come when the server tracks.
            Command::StmtPrepare => match self.sees_tracking(command, header) {
                Ok(sees) => {
                    self.prepares_what_sees_tracking = sees;
                    sees
                }
                Err(step) => return Some(step),
            },
            Command::Query if is_tracked => match self.sees_tracking(command, header) {
                Ok(sees) => sees,
                Err(step) => return Some(step),
            },
            Command::StmtExecute if is_tracked => {
                let start = self.up.window().get(HEADER_BYTES..HEADER_BYTES + 5);
                match start {
                    None if header.payload_bytes >= 5 => return Some(Step::More(HEADER_BYTES + 5)),
                    start => {
                        let id = start.and_then(|start| statement_id(start).ok());
                        id.is_some_and(|id| self.known.statements.sees_tracking(id))
                    }
                }
            }
            _ => false,
        };
        if !(may_see && is_tracked) {
            return None;
        }
        if self.known.session.awaits_state() {
            return Some(Step::Hold);
        }
        // After it the state would be asked for, and tracked, at once.
        if command != Command::StmtExecute && self.may_concern(command, header) {
            return None;
        }
        if !self.up.is_clear() {
            return Some(Step::SendFirst);
        }
        let statement = self.known.session.give_back_tracking()?;
        self.query_own(Purpose::Untrack, statement);
        Some(Step::SendFirst)
    }

    /// True if a command that no rule can concern may pass before the session's state is known.
    pub(crate) fn passes_unread(&self, command: Command, header: Header) -> bool {
        let is_text = matches!(command, Command::Query | Command::StmtPrepare);
        self.known.session.is_untouched()
            || is_text
                && self.known.session.shows_own_tracking()
                && self.sees_tracking(command, header).unwrap_or(false)
    }

    fn may_concern(&self, command: Command, header: Header) -> bool {
        let Ok(text) = self.beginning(command, header) else { return true };
        header.packet_bytes() > LOOK_BYTES_MAX
            || self.tables.now().concerns(text, self.known.session.default_schema(), None)
    }

    fn sees_tracking(&self, command: Command, header: Header) -> Result<bool, Step> {
        let text = self.beginning(command, header)?;
        Ok(!begins_with_row_change(text, self.known.session.dialect()) && may_see_tracking(text))
    }
}
