//! Which of a client's commands opensrv-mysql is given. It ends the connection at some that it
//! cannot carry out, and says OK to those that it does not know (`opensrv` has the list): these are
//! refused in front of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::mysql::command::Command::{self, self as C};
use crate::mysql::error::Refusal;
use crate::mysql::reader::Reader;

/// COM_STMT_EXECUTE: the command, the statement's id, flags, a count.
const EXECUTE_BYTES_MIN: usize = 10;

/// The state that one connection has set. The reader of its commands and the library's shim share it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    /// The answer to the query that comes next.
    pub(crate) refusal: Option<Refusal>,
    /// The texts of prepared statements, by the ids that the client has for them.
    pub(crate) prepared: BTreeMap<u32, String>,
    pub(crate) database: Option<String>,
}

pub(crate) type SharedState = Arc<Mutex<ConnectionState>>;

/// The payload that the library gets in place of this one. `None`: the command is dropped, since it
/// has no answer.
pub(crate) fn filter(mut payload: Vec<u8>, state: &mut ConnectionState) -> Result<Option<Vec<u8>>, Refusal> {
    let mut reader = Reader::new(&payload);
    let command = reader.u8("command").map_err(|_| Refusal::UnknownCommand(0))?;
    let rest = reader.rest();
    let statement = Reader::new(rest).u32("statement id").ok();
    let is_prepared = statement.is_some_and(|id| state.prepared.contains_key(&id));
    match Command::from_byte(command) {
        Some(C::Query | C::StmtPrepare | C::InitDb) if std::str::from_utf8(rest).is_err() => {
            return Err(Refusal::MalformedPacket);
        }
        // A blank in front: the library knows by the first bytes what it answers by itself.
        Some(C::Query) => payload.insert(1, b' '),
        Some(C::StmtExecute) if payload.len() < EXECUTE_BYTES_MIN => return Err(Refusal::MalformedPacket),
        // The library does not know COM_STMT_RESET: it says OK, which is right.
        Some(C::StmtExecute | C::StmtReset | C::StmtClose) if is_prepared => {}
        Some(C::StmtExecute | C::StmtReset) => {
            return Err(Refusal::UnknownStatement(statement.unwrap_or_default()));
        }
        Some(C::StmtClose | C::StmtSendLongData) => return Ok(None),
        // The library says OK to COM_RESET_CONNECTION too, which is right.
        Some(C::ResetConnection) => *state = ConnectionState::default(),
        Some(C::StmtPrepare | C::InitDb | C::Quit | C::Ping | C::FieldList) => {}
        _ => return Err(Refusal::UnknownCommand(command)),
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
