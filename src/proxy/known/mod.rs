//! The knowledge of one session, as plain data: nothing here waits, sends or reads a socket.
//!
//! `session_state` has the session's state, `statements` what is prepared, `need` what a command
//! still lacks. `inserts` and `explicit` are what the proxy has to do when a statement is answered.

pub(super) mod answered;
pub(super) mod drawn;
pub(super) mod explicit;
pub(super) mod inserts;
pub(super) mod moves;
pub(super) mod need;
pub(super) mod note;
pub(super) mod rights;
pub(super) mod session_state;
pub(super) mod sql_prepared;
pub(super) mod statements;
pub(super) mod temporary;
pub(super) mod tracking;
pub(super) mod warned;

use self::need::Supplied;
use self::rights::Rights;
use self::session_state::SessionState;
use self::statements::Statements;
use crate::mysql::capabilities::Capabilities;
use crate::sessions::SessionHandle;

/// The facts by which a session's commands are decided. `decide` asks nobody: it says what it lacks, and `serve` asks for that.
pub(super) struct Known {
    pub(super) session: SessionState,
    pub(super) statements: Statements,
    pub(super) rights: Rights,
    /// The facts that were found out for the client's present command.
    pub(super) supplied: Supplied,
    /// The client has sent a LOCK TABLES. Whether tables are locked now, the server says.
    pub(super) may_have_locked: bool,
    /// The capabilities that the backend and the proxy agreed on, which decide the forms of packets.
    pub(super) capabilities: Capabilities,
    /// The session's place among all sessions, and what is counted of the session.
    pub(super) here: SessionHandle,
}

impl Known {
    /// True if queries carry attributes before their texts.
    pub(super) fn has_attributes(&self) -> bool {
        self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES)
    }

    pub(super) fn found_rows(&self) -> bool {
        self.capabilities.contains(Capabilities::FOUND_ROWS)
    }

    /// The command is decided: what was found out for it serves no other.
    pub(super) fn forget_supplied(&mut self) {
        self.supplied = Supplied::default();
        self.rights.forget_answers();
        self.session.sql_prepared.forget_answers();
    }
}
