//! Following a response packet by packet, to know where it ends, without looking into its rows.
//!
//! A [`Follower`] is asked for each packet what it [is](Follower::classify), from its length and first byte alone; rows and
//! definitions then pass unread, and only the few packets that steer the response are read whole by
//! [`advance`](Follower::advance). Sources: <https://mariadb.com/kb/en/result-set-packets/>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html>. What they leave open on
//! DEPRECATE_EOF, cursors and progress reports was measured on MariaDB 10.11 and MySQL 9.

use super::command::Reply;
use super::ok::status::{CURSOR_EXISTS, MORE_RESULTS, OUT_PARAMS};
use super::packet::PAYLOAD_BYTES_MAX;
use super::reader::{Malformed, Reader};

/// MariaDB's progress report travels as an error of this number and ends nothing. It begins with the number of its strings, where an
/// error has a `#`.
const PROGRESS_REPORT: u16 = 0xFFFF;

/// The negotiated capabilities that change the form of responses.
#[allow(clippy::struct_excessive_bools)] // Independent facts, not states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forms {
    /// CLIENT_DEPRECATE_EOF: no EOF after definitions; an OK with header 0xFE ends the rows.
    pub deprecate_eof: bool,
    /// A flag after the column count says whether definitions follow (CLIENT_OPTIONAL_RESULTSET_METADATA,
    /// MARIADB_CLIENT_CACHE_METADATA).
    pub metadata_flag: bool,
    /// CLIENT_OPTIONAL_RESULTSET_METADATA: the flag stands in COM_STMT_PREPARE's OK too.
    pub metadata_flag_in_prepare: bool,
    /// MARIADB_CLIENT_PROGRESS: reports may come in front of a response. Errors of MySQL may have their number.
    pub progress_reports: bool,
}

/// The kind of a packet, as far as the relay must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A row: passes unread.
    Row,
    /// A definition of a column or a parameter: passes unread.
    Definition,
    /// Steers the response: read whole, and given to [`Follower::advance`].
    Control(Control),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Ok,
    Err,
    /// A classic EOF packet, or with DEPRECATE_EOF the OK packet (header 0xFE) that ends rows.
    Eof,
    /// LOCAL INFILE request.
    Infile,
    ColumnCount,
    PrepareOk,
    /// A packet that ends the response whatever it is.
    Any,
}

/// The state of a response after a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseProgress {
    /// More packets of this response follow.
    Continues,
    /// A result ended, another one of the same command follows.
    NextResult,
    /// The client sends a file's bytes now, then the server goes on.
    ClientSendsFile,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    First,
    Columns { left: u64 },
    ColumnsEof,
    // `another_follows`: the EOF after the columns said so. The EOF after the rows may not say it.
    Rows { another_follows: bool },
    PrepareFirst,
    PrepareParams { left: u16, columns: u16 },
    PrepareParamsEof { columns: u16 },
    PrepareColumns { left: u16 },
    PrepareColumnsEof,
    FieldList,
    Single,
}

/// COM_STMT_PREPARE's OK. Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrepareOk {
    pub statement_id: u32,
    pub columns: u16,
    pub params: u16,
    pub definitions: bool,
}

impl PrepareOk {
    /// The offset of the number of parameters in the payload. The number takes two bytes.
    pub const PARAMS_AT: usize = 7;

    pub fn parse(payload: &[u8], forms: Forms) -> Result<PrepareOk, Malformed> {
        let mut r = Reader::new(payload);
        r.u8("header of a prepare response")?;
        let statement_id = r.u32("statement id")?;
        let columns = r.u16("number of columns")?;
        let params = r.u16("number of parameters")?;
        // A filler and the warning count; MySQL's flag comes after them.
        r.u8("filler")?;
        r.u16("warning count")?;
        let definitions = !forms.metadata_flag_in_prepare || r.is_empty() || r.u8("metadata flag")? != 0;
        Ok(PrepareOk { statement_id, columns, params, definitions })
    }
}

/// True if a packet among rows is certainly a row, and ends its payload: it is not full, not empty, and does not
/// begin as an error or an EOF.
pub fn is_plain_row(payload_bytes: usize, first: u8) -> bool {
    (1..PAYLOAD_BYTES_MAX).contains(&payload_bytes) && first < 0xFE
}

#[derive(Debug, Clone, Copy)]
pub struct Follower {
    state: State,
    forms: Forms,
    /// The last packet was of full length, so the next one continues its payload.
    continuing: bool,
    /// Status bits of the last OK or EOF seen. All may be 0: a session without autocommit, outside of a transaction.
    status: Option<u16>,
    /// COM_STMT_PREPARE's OK said that only the EOFs of definitions follow, where there are any.
    without_definitions: bool,
    /// Only then may the EOF after the columns end the response: the rows are fetched by later commands.
    may_open_cursor: bool,
}

impl Follower {
    /// `None` where the command has no response.
    pub fn new(reply: Reply, forms: Forms) -> Option<Follower> {
        let state = match reply {
            Reply::None => return None,
            Reply::Single => State::Single,
            Reply::Query | Reply::QueryOrCursor => State::First,
            Reply::Prepare => State::PrepareFirst,
            Reply::Fetch => State::Rows { another_follows: false },
            Reply::FieldList => State::FieldList,
        };
        Some(Follower {
            state,
            forms,
            continuing: false,
            status: None,
            without_definitions: false,
            may_open_cursor: reply == Reply::QueryOrCursor,
        })
    }

    /// The kind of the packet of this length and first byte. `first` is `None` for an empty payload. Must be asked
    /// once for each packet, in order. If the answer is [`Kind::Control`], `advance` must follow with the payload.
    pub fn classify(&mut self, payload_bytes: usize, first: Option<u8>) -> Kind {
        let continued = std::mem::replace(&mut self.continuing, payload_bytes == PAYLOAD_BYTES_MAX);
        if continued {
            return Kind::Row;
        }
        match (self.state, first) {
            (State::Single, _) => Kind::Control(Control::Any),
            (_, Some(0xFF)) => Kind::Control(Control::Err),
            (State::First, Some(0x00)) => Kind::Control(Control::Ok),
            (State::First, Some(0xFB)) => Kind::Control(Control::Infile),
            (State::First, _) => Kind::Control(Control::ColumnCount),
            (State::PrepareFirst, _) => Kind::Control(Control::PrepareOk),
            (State::ColumnsEof | State::PrepareParamsEof { .. } | State::PrepareColumnsEof, _) => {
                Kind::Control(Control::Eof)
            }
            // A row may begin with 0xFE too, but then its first value alone is 16 MiB or longer.
            (State::Rows { .. } | State::FieldList, Some(0xFE)) if self.is_eof(payload_bytes) => {
                Kind::Control(Control::Eof)
            }
            (State::Rows { .. }, _) => Kind::Row,
            (State::FieldList, _) => Kind::Definition,
            (State::Columns { left }, _) => {
                self.state = self.after_columns(left.saturating_sub(1));
                Kind::Definition
            }
            (State::PrepareParams { left, columns }, _) => {
                self.state = self.after_params(left.saturating_sub(1), columns);
                Kind::Definition
            }
            (State::PrepareColumns { left }, _) => {
                self.state = after_prepare_columns(left.saturating_sub(1));
                Kind::Definition
            }
        }
    }

    /// True if the next packet is a row, provided that [`is_plain_row`] says so of it. It may then pass without being
    /// [asked about](Follower::classify).
    pub fn is_in_rows(&self) -> bool {
        matches!(self.state, State::Rows { .. }) && !self.continuing
    }

    /// True if the last definition has just passed and the response ends with it: COM_STMT_PREPARE under DEPRECATE_EOF.
    pub fn ended_with_definition(&self) -> bool {
        self.forms.deprecate_eof && matches!(self.state, State::PrepareColumnsEof)
    }

    /// Status bits of the last OK or EOF of this response.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// True if this is the response to a COM_STMT_PREPARE that is not answered, or with an error.
    pub fn prepares_nothing(&self) -> bool {
        matches!(self.state, State::PrepareFirst)
    }

    pub fn awaits_params_eof(&self) -> bool {
        matches!(self.state, State::PrepareParamsEof { .. })
    }

    pub fn awaits_param(&self) -> bool {
        matches!(self.state, State::PrepareParams { .. })
    }

    fn is_eof(&self, payload_bytes: usize) -> bool {
        if self.forms.deprecate_eof { payload_bytes < PAYLOAD_BYTES_MAX } else { payload_bytes < 9 }
    }

    fn after_columns(&self, left: u64) -> State {
        match left {
            0 if self.forms.deprecate_eof => State::Rows { another_follows: false },
            0 => State::ColumnsEof,
            left => State::Columns { left },
        }
    }

    fn after_params(&self, left: u16, columns: u16) -> State {
        match left {
            0 if self.forms.deprecate_eof => after_prepare_columns(columns),
            0 => State::PrepareParamsEof { columns },
            left => State::PrepareParams { left, columns },
        }
    }

    /// Takes a control packet's whole payload.
    pub fn advance(&mut self, control: Control, payload: &[u8]) -> Result<ResponseProgress, Malformed> {
        match control {
            Control::Any => Ok(ResponseProgress::Done),
            Control::Err => {
                let is_report = self.forms.progress_reports && is_progress_report(payload)?;
                Ok(if is_report { ResponseProgress::Continues } else { ResponseProgress::Done })
            }
            Control::Ok => Ok(self.end_result(ok_status(payload)?, false)),
            Control::Infile => Ok(ResponseProgress::ClientSendsFile),
            Control::ColumnCount => self.column_count(payload),
            Control::PrepareOk => self.prepare_ok(payload),
            Control::Eof => self.eof(payload),
        }
    }

    /// Back to the start after the client has sent its file.
    pub fn file_sent(&mut self) {
        self.state = State::First;
    }

    fn end_result(&mut self, status: u16, another_follows: bool) -> ResponseProgress {
        self.status = Some(status);
        if another_follows || status & MORE_RESULTS != 0 {
            self.state = State::First;
            ResponseProgress::NextResult
        } else {
            ResponseProgress::Done
        }
    }

    fn column_count(&mut self, payload: &[u8]) -> Result<ResponseProgress, Malformed> {
        let mut r = Reader::new(payload);
        let columns = r.lenenc("column count")?;
        let definitions = !self.forms.metadata_flag || r.is_empty() || r.u8("metadata flag")? != 0;
        self.state = self.after_columns(if definitions { columns } else { 0 });
        Ok(ResponseProgress::Continues)
    }

    fn prepare_ok(&mut self, payload: &[u8]) -> Result<ResponseProgress, Malformed> {
        let ok = PrepareOk::parse(payload, self.forms)?;
        self.without_definitions = !ok.definitions;
        let has_none = ok.params == 0 && ok.columns == 0;
        // Measured on MySQL 9.7: the EOFs after definitions are sent also without these.
        let is_done = has_none || !ok.definitions && self.forms.deprecate_eof;
        self.state = match ok {
            _ if is_done => State::PrepareColumnsEof,
            PrepareOk { definitions: false, params: 0, .. } => State::PrepareColumnsEof,
            PrepareOk { definitions: false, columns, .. } => State::PrepareParamsEof { columns },
            PrepareOk { params: 0, columns, .. } => State::PrepareColumns { left: columns },
            PrepareOk { params, columns, .. } => State::PrepareParams { left: params, columns },
        };
        Ok(if is_done { ResponseProgress::Done } else { ResponseProgress::Continues })
    }

    /// By the EOF after the columns. Measured on both servers: the bit is set, and stays set, also where a procedure has opened
    /// a cursor for itself, and the results of a procedure never come by a cursor.
    fn opens_cursor(&self, status: u16) -> bool {
        self.may_open_cursor && status & (CURSOR_EXISTS | MORE_RESULTS) == CURSOR_EXISTS
    }

    fn eof(&mut self, payload: &[u8]) -> Result<ResponseProgress, Malformed> {
        let status = eof_status(payload, self.forms.deprecate_eof)?;
        Ok(match self.state {
            State::ColumnsEof if self.opens_cursor(status) => {
                self.status = Some(status);
                ResponseProgress::Done
            }
            State::ColumnsEof => {
                // Measured on MySQL 9.7: of OUT parameters, to a client without DEPRECATE_EOF, it is sent here alone.
                let tells = OUT_PARAMS | MORE_RESULTS;
                self.state = State::Rows { another_follows: status & tells == tells };
                ResponseProgress::Continues
            }
            State::PrepareParamsEof { columns: 0 } => ResponseProgress::Done,
            State::PrepareParamsEof { columns } => {
                self.state = after_prepare_columns(if self.without_definitions { 0 } else { columns });
                ResponseProgress::Continues
            }
            State::Rows { another_follows } => self.end_result(status, another_follows),
            _ => ResponseProgress::Done,
        })
    }
}

fn after_prepare_columns(left: u16) -> State {
    match left {
        0 => State::PrepareColumnsEof,
        left => State::PrepareColumns { left },
    }
}

fn is_progress_report(payload: &[u8]) -> Result<bool, Malformed> {
    let mut r = Reader::new(payload);
    r.u8("header of an error")?;
    Ok(r.u16("error code")? == PROGRESS_REPORT && r.peek() != Some(b'#'))
}

/// Status of an OK packet, whatever its header byte.
fn ok_status(payload: &[u8]) -> Result<u16, Malformed> {
    let mut r = Reader::new(payload);
    r.u8("header of an OK")?;
    r.lenenc("affected rows")?;
    r.lenenc("insert id")?;
    r.u16("status")
}

fn eof_status(payload: &[u8], deprecate_eof: bool) -> Result<u16, Malformed> {
    // MySQL ends rows that a handler cut off by the old packet, whatever was negotiated (measured on 9.7).
    if deprecate_eof && payload.len() != 5 {
        return ok_status(payload);
    }
    let mut r = Reader::new(payload);
    r.u8("header of an EOF")?;
    r.u16("warning count")?;
    r.u16("status")
}

#[cfg(test)]
mod tests;
