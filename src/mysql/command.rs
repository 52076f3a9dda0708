//! The commands a client may send, and what answers each.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>,
//! <https://mariadb.com/kb/en/clientserver-protocol/>.

use super::reader::{Malformed, Reader};

/// First byte of a command's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Command {
    Quit = 0x01,
    InitDb = 0x02,
    Query = 0x03,
    FieldList = 0x04,
    CreateDb = 0x05,
    DropDb = 0x06,
    Refresh = 0x07,
    Shutdown = 0x08,
    Statistics = 0x09,
    ProcessInfo = 0x0A,
    ProcessKill = 0x0C,
    Debug = 0x0D,
    Ping = 0x0E,
    ChangeUser = 0x11,
    StmtPrepare = 0x16,
    StmtExecute = 0x17,
    StmtSendLongData = 0x18,
    StmtClose = 0x19,
    StmtReset = 0x1A,
    SetOption = 0x1B,
    StmtFetch = 0x1C,
    ResetConnection = 0x1F,
    /// MariaDB's COM_STMT_BULK_EXECUTE.
    StmtBulkExecute = 0xFA,
}

/// The form of a command's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The server sends nothing, or (COM_CHANGE_USER) what comes is an exchange of its own.
    None,
    /// One packet, whatever it is: OK, ERR, EOF, or COM_STATISTICS's bare string.
    Single,
    /// OK, ERR, a LOCAL INFILE request or result sets, several of them in a row.
    Query,
    /// The replies of `Query`, or definitions alone: the rows wait in a cursor that was asked for.
    QueryOrCursor,
    /// COM_STMT_PREPARE's OK with definitions, or ERR.
    Prepare,
    /// Rows to their EOF, or ERR.
    Fetch,
    /// Column definitions to their EOF, or ERR.
    FieldList,
}

impl Command {
    /// `None`: a command that this proxy does not know, or refuses to relay (replication streams, COM_MULTI, clones),
    /// because it could not follow what comes after it.
    pub fn from_byte(byte: u8) -> Option<Command> {
        use Command as C;
        Some(match byte {
            0x01 => C::Quit,
            0x02 => C::InitDb,
            0x03 => C::Query,
            0x04 => C::FieldList,
            0x05 => C::CreateDb,
            0x06 => C::DropDb,
            0x07 => C::Refresh,
            0x08 => C::Shutdown,
            0x09 => C::Statistics,
            0x0A => C::ProcessInfo,
            0x0C => C::ProcessKill,
            0x0D => C::Debug,
            0x0E => C::Ping,
            0x11 => C::ChangeUser,
            0x16 => C::StmtPrepare,
            0x17 => C::StmtExecute,
            0x18 => C::StmtSendLongData,
            0x19 => C::StmtClose,
            0x1A => C::StmtReset,
            0x1B => C::SetOption,
            0x1C => C::StmtFetch,
            0x1F => C::ResetConnection,
            0xFA => C::StmtBulkExecute,
            _ => return None,
        })
    }

    /// True if the payload begins with a statement's id.
    pub fn names_statement(self) -> bool {
        use Command as C;
        matches!(
            self,
            C::StmtExecute
                | C::StmtSendLongData
                | C::StmtClose
                | C::StmtReset
                | C::StmtFetch
                | C::StmtBulkExecute
        )
    }

    /// True if the server answers the command. An exchange of its own counts as an answer.
    pub fn is_answered(self) -> bool {
        !matches!(self, Command::Quit | Command::StmtSendLongData | Command::StmtClose)
    }

    /// The form of the response to this very command, whose payload begins with `start`.
    pub fn reply_to(self, start: &[u8]) -> Reply {
        /// `CURSOR_TYPE_READ_ONLY`. Measured on MariaDB 10.11 and MySQL 9.7: the other types open no cursor.
        const READ_ONLY: u8 = 1;
        match execution_flags(start) {
            Ok(flags) if self == Command::StmtExecute && flags & READ_ONLY != 0 => Reply::QueryOrCursor,
            _ => self.reply(),
        }
    }

    pub fn reply(self) -> Reply {
        use Command as C;
        match self {
            C::Quit | C::StmtSendLongData | C::StmtClose | C::ChangeUser => Reply::None,
            C::Query | C::ProcessInfo | C::StmtExecute | C::StmtBulkExecute => Reply::Query,
            C::StmtPrepare => Reply::Prepare,
            C::StmtFetch => Reply::Fetch,
            C::FieldList => Reply::FieldList,
            C::InitDb
            | C::CreateDb
            | C::DropDb
            | C::Refresh
            | C::Shutdown
            | C::Statistics
            | C::ProcessKill
            | C::Debug
            | C::Ping
            | C::StmtReset
            | C::SetOption
            | C::ResetConnection => Reply::Single,
        }
    }
}

/// The payload of a COM_QUERY without attributes, or of a COM_STMT_PREPARE.
pub fn command_payload(command: Command, text: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(text.len() + 1);
    payload.push(command as u8);
    payload.extend_from_slice(text);
    payload
}

/// The flags of an execution whose payload begins so.
pub fn execution_flags(start: &[u8]) -> Result<u8, Malformed> {
    let mut r = Reader::new(start);
    r.bytes(5, "command and statement id")?;
    r.u8("flags")
}

/// True if a COM_SET_OPTION allows several statements in one packet (MYSQL_OPTION_MULTI_STATEMENTS_ON is 0, OFF is 1).
/// `None`: the option is another. Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html>.
pub fn sets_multi_statements(payload: &[u8]) -> Option<bool> {
    let mut r = Reader::new(payload);
    r.u8("command").ok()?;
    let option = r.u16("option").ok().filter(|option| *option <= 1)?;
    Some(option == 0)
}

#[cfg(test)]
mod tests {
    use super::{Command, Reply};

    #[test]
    fn a_cursor_is_asked_for_by_an_execution_alone() {
        let flags = |flags| [0x17, 1, 0, 0, 0, flags, 1, 0, 0, 0];
        for (command, start, expect) in [
            (Command::StmtExecute, &flags(0)[..], Reply::Query),
            (Command::StmtExecute, &flags(1), Reply::QueryOrCursor),
            (Command::StmtExecute, &flags(9), Reply::QueryOrCursor),
            (Command::StmtExecute, &flags(6), Reply::Query),
            (Command::StmtExecute, &flags(1)[..5], Reply::Query),
            (Command::StmtBulkExecute, &flags(1), Reply::Query),
            (Command::Query, b"\x03SELECT 1", Reply::Query),
        ] {
            assert_eq!(command.reply_to(start), expect, "{command:?} {start:?}");
        }
    }

    #[test]
    fn a_byte_is_one_command() {
        let known: Vec<u8> = (0..=255).filter(|&b| Command::from_byte(b).is_some()).collect();
        assert_eq!(known.len(), 23);
        for byte in known {
            assert_eq!(Command::from_byte(byte).map(|c| c as u8), Some(byte));
        }
    }
}
