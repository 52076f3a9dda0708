//! Which of a client's commands opensrv-mysql is given. It ends the connection at some that it
//! cannot carry out, and says OK to those that it does not know (`opensrv` has the list): these are
//! refused in front of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::mysql::command::Command;
use crate::mysql::error::Refusal;

const COM_QUIT: u8 = Command::Quit as u8;
const COM_INIT_DB: u8 = Command::InitDb as u8;
pub(crate) const COM_QUERY: u8 = Command::Query as u8;
const COM_FIELD_LIST: u8 = Command::FieldList as u8;
const COM_PING: u8 = Command::Ping as u8;
const COM_STMT_PREPARE: u8 = Command::StmtPrepare as u8;
const COM_STMT_EXECUTE: u8 = Command::StmtExecute as u8;
const COM_STMT_SEND_LONG_DATA: u8 = Command::StmtSendLongData as u8;
const COM_STMT_CLOSE: u8 = Command::StmtClose as u8;
const COM_STMT_RESET: u8 = Command::StmtReset as u8;
const COM_RESET_CONNECTION: u8 = Command::ResetConnection as u8;
/// COM_STMT_EXECUTE: the command, the statement's id, flags, a count.
const EXECUTE_BYTES_MIN: usize = 10;

/// The state that one connection has set. The reader of its commands and the library's shim share it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    /// The answer to the query that comes next.
    pub(crate) refusal: Option<Refusal>,
    /// The texts of prepared statements.
    pub(crate) prepared: BTreeMap<u32, String>,
    pub(crate) database: Option<String>,
}

pub(crate) type SharedState = Arc<Mutex<ConnectionState>>;

/// The payload that the library gets in place of this one. `None`: the command is dropped, since it
/// has no answer.
pub(crate) fn filter(mut payload: Vec<u8>, state: &mut ConnectionState) -> Result<Option<Vec<u8>>, Refusal> {
    let (&command, rest) = payload.split_first().ok_or(Refusal::UnknownCommand(0))?;
    let statement = rest.first_chunk().map(|id| u32::from_le_bytes(*id));
    let is_prepared = statement.is_some_and(|id| state.prepared.contains_key(&id));
    match command {
        COM_QUERY | COM_STMT_PREPARE | COM_INIT_DB if std::str::from_utf8(rest).is_err() => {
            return Err(Refusal::MalformedPacket);
        }
        // A blank in front: the library knows by the first bytes what it answers by itself.
        COM_QUERY => payload.insert(1, b' '),
        COM_STMT_EXECUTE if payload.len() < EXECUTE_BYTES_MIN => return Err(Refusal::MalformedPacket),
        // The library does not know COM_STMT_RESET: it says OK, which is right.
        COM_STMT_EXECUTE | COM_STMT_RESET | COM_STMT_CLOSE if is_prepared => {}
        COM_STMT_EXECUTE | COM_STMT_RESET => {
            return Err(Refusal::UnknownStatement(statement.unwrap_or_default()));
        }
        COM_STMT_CLOSE | COM_STMT_SEND_LONG_DATA => return Ok(None),
        // The library says OK to COM_RESET_CONNECTION too, which is right.
        COM_RESET_CONNECTION => *state = ConnectionState::default(),
        COM_STMT_PREPARE | COM_INIT_DB | COM_QUIT | COM_PING | COM_FIELD_LIST => {}
        other => return Err(Refusal::UnknownCommand(other)),
    }
    Ok(Some(payload))
}

#[cfg(test)]
mod tests {
    use super::{ConnectionState, filter};
    use crate::mysql::error::Refusal::{MalformedPacket, UnknownCommand, UnknownStatement};

    #[test]
    fn commands() {
        let mut state = ConnectionState { prepared: [(1, String::new())].into(), ..Default::default() };
        let execute = |id: u8| vec![0x17, id, 0, 0, 0, 0, 1, 0, 0, 0];
        let given = |payload: &[u8]| Ok(Some(payload.to_vec()));
        for (payload, expect) in [
            (b"\x03USE x".to_vec(), given(b"\x03 USE x")),
            (b"\x03\xff".to_vec(), Err(MalformedPacket)),
            (b"\x02\xff".to_vec(), Err(MalformedPacket)),
            (b"\x16SHOW RULES".to_vec(), given(b"\x16SHOW RULES")),
            (execute(1), given(&execute(1))),
            (execute(2), Err(UnknownStatement(2))),
            (execute(1)[..9].to_vec(), Err(MalformedPacket)),
            (b"\x17".to_vec(), Err(MalformedPacket)),
            (b"\x1a\x02\0\0\0".to_vec(), Err(UnknownStatement(2))),
            (b"\x19\x02\0\0\0".to_vec(), Ok(None)),
            (b"\x19\x01".to_vec(), Ok(None)),
            (b"\x18\x01\0\0\0\0\0x".to_vec(), Ok(None)),
            (b"\x11dba".to_vec(), Err(UnknownCommand(0x11))),
            (b"\x09".to_vec(), Err(UnknownCommand(9))),
            (b"\x0c\x01\0\0\0".to_vec(), Err(UnknownCommand(0x0C))),
            (b"\xff".to_vec(), Err(UnknownCommand(0xFF))),
            (vec![], Err(UnknownCommand(0))),
            (b"\x1f".to_vec(), given(b"\x1f")),
            (execute(1), Err(UnknownStatement(1))),
        ] {
            assert_eq!(filter(payload.clone(), &mut state), expect, "{payload:?}");
        }
    }
}
