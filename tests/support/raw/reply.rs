//! The answers of a server: OK, ERR, result sets.

use std::io;

use super::value::Value;
use super::wire::Cursor;
use super::{CLIENT_DEPRECATE_EOF, CLIENT_SESSION_TRACK};

const SERVER_SESSION_STATE_CHANGED: u16 = 0x4000;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Ok(OkPacket),
    Err(ErrPacket),
    Rows(ResultSet),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OkPacket {
    pub affected_rows: u64,
    pub insert_id: u64,
    pub status: u16,
    pub warnings: u16,
    pub info: String,
    /// The session state changes as they came, not decoded.
    pub session_state: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrPacket {
    pub code: u16,
    pub sqlstate: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResultSet {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    pub status: u16,
    pub warnings: u16,
    /// From the OK packet that ends the rows under DEPRECATE_EOF; 0 where an EOF does.
    pub affected_rows: u64,
    pub insert_id: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub schema: String,
    /// The alias, as `org_table` is the table itself.
    pub table: String,
    pub org_table: String,
    pub name: String,
    pub org_name: String,
    pub collation: u16,
    pub length: u32,
    pub kind: u8,
    pub flags: u16,
    pub decimals: u8,
}

impl Column {
    pub const FLAG_UNSIGNED: u16 = 0x20;

    pub fn is_unsigned(&self) -> bool {
        self.flags & Self::FLAG_UNSIGNED != 0
    }
}

impl Outcome {
    pub fn status(&self) -> u16 {
        match self {
            Outcome::Ok(ok) => ok.status,
            Outcome::Rows(set) => set.status,
            // An ERR ends the list of results and has no status.
            Outcome::Err(_) => 0,
        }
    }

    pub fn ok(&self) -> Option<&OkPacket> {
        if let Outcome::Ok(ok) = self { Some(ok) } else { None }
    }

    pub fn err(&self) -> Option<&ErrPacket> {
        if let Outcome::Err(error) = self { Some(error) } else { None }
    }

    pub fn rows(&self) -> &[Vec<Value>] {
        if let Outcome::Rows(set) = self { &set.rows } else { &[] }
    }

    /// One value as text; `None` for NULL and where there is none.
    pub fn cell(&self, row: usize, column: usize) -> Option<String> {
        self.rows().get(row)?.get(column)?.text()
    }
}

pub(super) fn ok_packet(payload: &[u8], capabilities: u32) -> io::Result<OkPacket> {
    let mut packet = Cursor::new(payload);
    packet.u8()?;
    let affected_rows = packet.lenenc()?;
    let insert_id = packet.lenenc()?;
    let status = packet.u16()?;
    let warnings = packet.u16()?;
    let (info, session_state) = if packet.rest().is_empty() {
        (&[][..], &[][..])
    } else if capabilities & CLIENT_SESSION_TRACK == 0 {
        // The manual says "rest of the packet"; both servers send a length first.
        (packet.lenenc_bytes()?, &[][..])
    } else {
        let info = packet.lenenc_bytes()?;
        let changed = status & SERVER_SESSION_STATE_CHANGED != 0;
        (info, if changed { packet.lenenc_bytes()? } else { &[] })
    };
    Ok(OkPacket {
        affected_rows,
        insert_id,
        status,
        warnings,
        info: text(info),
        session_state: session_state.to_vec(),
    })
}

pub(super) fn err_packet(payload: &[u8], _capabilities: u32) -> io::Result<ErrPacket> {
    let mut packet = Cursor::new(payload);
    packet.u8()?;
    let code = packet.u16()?;
    let rest = packet.rest();
    // Before the handshake is done there is no state; then the message begins at once.
    let (sqlstate, message) = match rest.first() {
        Some(b'#') if rest.len() >= 6 => (&rest[1..6], &rest[6..]),
        _ => (&[][..], rest),
    };
    let message = text(message);
    // An application's error is seen by strangers.
    let tells = ["127.0.0.1", "/rowstamp", "root"].into_iter().find(|word| message.contains(word));
    assert!(code != 1467 || tells.is_none(), "1467 tells a client of {tells:?}: {message}");
    Ok(ErrPacket { code, sqlstate: text(sqlstate), message })
}

/// The packet after the last row: an OK that begins with 0xFE, or an EOF with only its warnings and status.
pub(super) fn end_of_rows(payload: &[u8], capabilities: u32) -> io::Result<OkPacket> {
    if capabilities & CLIENT_DEPRECATE_EOF != 0 {
        return ok_packet(payload, capabilities);
    }
    let mut packet = Cursor::new(payload);
    packet.u8()?;
    let warnings = packet.u16()?;
    Ok(OkPacket {
        affected_rows: 0,
        insert_id: 0,
        status: packet.u16()?,
        warnings,
        info: String::new(),
        session_state: Vec::new(),
    })
}

pub(super) fn column(payload: &[u8]) -> io::Result<Column> {
    let mut packet = Cursor::new(payload);
    packet.lenenc_bytes()?;
    let schema = text(packet.lenenc_bytes()?);
    let table = text(packet.lenenc_bytes()?);
    let org_table = text(packet.lenenc_bytes()?);
    let name = text(packet.lenenc_bytes()?);
    let org_name = text(packet.lenenc_bytes()?);
    packet.lenenc()?;
    Ok(Column {
        schema,
        table,
        org_table,
        name,
        org_name,
        collation: packet.u16()?,
        length: packet.u32()?,
        kind: packet.u8()?,
        flags: packet.u16()?,
        decimals: packet.u8()?,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
