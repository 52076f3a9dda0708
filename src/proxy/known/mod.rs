//! What one session knows, as plain data: nothing here waits, sends or reads a socket.
//!
//! `session_state` has the session's state, `statements` what is prepared, `need` what a command
//! still lacks. `inserts` and `explicit` are what the proxy has to do when a statement is answered.

pub(super) mod answered;
pub(super) mod drawn;
pub(super) mod explicit;
pub(super) mod inserts;
pub(super) mod moves;
pub(super) mod need;
pub(super) mod owed_insert_id;
pub(super) mod prepared_unseen;
pub(super) mod rights;
pub(super) mod session_state;
pub(super) mod sql_prepared;
pub(super) mod statements;
pub(super) mod temporary;
pub(super) mod tracking;
pub(super) mod warned;
