//! The OK packet: how a command without a result set ends, and with `DEPRECATE_EOF` (header 0xFE) how one with rows does.
//! Sources: MySQL manual, "OK_Packet"; MariaDB Knowledge Base, "OK_Packet".
//!
//! Both servers write the info text length-encoded whether or not `SESSION_TRACK` was negotiated (the manuals have it run
//! to the packet's end without), and leave it away where it and the session state are empty.

use super::capabilities::Capabilities;
use super::reader::{Malformed, Reader, put_lenenc};

/// Status bits, MySQL manual "SERVER_STATUS_flags_enum"; the last one is MariaDB's.
pub mod status {
    pub const IN_TRANS: u16 = 0x0001;
    pub const AUTOCOMMIT: u16 = 0x0002;
    pub const MORE_RESULTS: u16 = 0x0008;
    pub const CURSOR_EXISTS: u16 = 0x0040;
    pub const LAST_ROW_SENT: u16 = 0x0080;
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
    pub const SESSION_STATE_CHANGED: u16 = 0x4000;
    pub const ANSI_QUOTES: u16 = 0x8000;
}

/// An OK packet's payload, read in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OkPacket<'a> {
    pub affected_rows: u64,
    pub insert_id: u64,
    /// Bits of [`status`].
    pub status: u16,
    pub warnings: u16,
    pub info: &'a [u8],
    /// The session-state block, entry after entry; empty where nothing changed or it is not tracked.
    state: &'a [u8],
    payload: &'a [u8],
    insert_id_at: usize,
    status_at: usize,
    /// Where info and session state begin.
    tail_at: usize,
}

/// One entry of the session-state block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange<'a> {
    SystemVariable {
        name: &'a [u8],
        value: &'a [u8],
    },
    /// The default database; empty: none.
    Schema(&'a [u8]),
    /// Type and data of what nothing here looks at: GTIDs, transaction state, what is yet to come.
    Other(u8, &'a [u8]),
}

impl<'a> OkPacket<'a> {
    /// `capabilities`: as negotiated with the server that sent it; `PROTOCOL_41` is taken for granted.
    pub fn parse(payload: &'a [u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut r = Reader::new(payload);
        if !matches!(r.u8("header")?, 0x00 | 0xFE) {
            return Err(Malformed::Bad("OK packet's header"));
        }
        let affected_rows = r.lenenc("affected rows")?;
        let insert_id_at = r.position();
        let insert_id = r.lenenc("insert id")?;
        let status_at = r.position();
        let status = r.u16("status")?;
        let warnings = r.u16("warnings")?;
        let tail_at = r.position();
        let (mut info, mut state) = (&[][..], &[][..]);
        if !capabilities.contains(Capabilities::SESSION_TRACK) {
            info = r.rest();
        } else if !r.is_empty() {
            info = r.lenenc_bytes("info")?;
            if status & status::SESSION_STATE_CHANGED != 0 {
                state = r.lenenc_bytes("session state")?;
            }
        }
        Ok(OkPacket {
            affected_rows,
            insert_id,
            status,
            warnings,
            info,
            state,
            payload,
            insert_id_at,
            status_at,
            tail_at,
        })
    }

    /// The changes of the session's state, in the server's order. Ends behind a malformed entry.
    pub fn state_changes(&self) -> StateChanges<'a> {
        StateChanges { entries: Reader::new(self.state), variables: Reader::new(&[]) }
    }

    /// Whether [`Self::patched`] with `strip_track` would change anything.
    pub fn has_state(&self) -> bool {
        self.status & status::SESSION_STATE_CHANGED != 0
    }

    /// The same packet, byte for byte, but for its insert id, and, for a client that did not negotiate `SESSION_TRACK`,
    /// without the session state and the bit that announces it.
    pub fn patched(&self, insert_id: Option<u64>, strip_track: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.payload.len() + 8);
        out.extend_from_slice(self.slice(0, self.insert_id_at));
        match insert_id {
            Some(id) => put_lenenc(&mut out, id),
            None => out.extend_from_slice(self.slice(self.insert_id_at, self.status_at)),
        }
        if !(strip_track && self.has_state()) {
            out.extend_from_slice(self.slice(self.status_at, self.payload.len()));
            return out;
        }
        out.extend_from_slice(&(self.status & !status::SESSION_STATE_CHANGED).to_le_bytes());
        out.extend_from_slice(&self.warnings.to_le_bytes());
        if !self.info.is_empty() {
            let mut tail = Reader::new(self.slice(self.tail_at, self.payload.len()));
            // It was read once already.
            let _ = tail.lenenc_bytes("info");
            out.extend_from_slice(self.slice(self.tail_at, self.tail_at + tail.position()));
        }
        out
    }

    /// Of the payload; all positions come from the reader that read it.
    fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.payload.get(from..to).unwrap_or_default()
    }
}

/// See [`OkPacket::state_changes`].
#[derive(Debug, Clone)]
pub struct StateChanges<'a> {
    entries: Reader<'a>,
    /// What is left of an entry of system variables: it may hold several.
    variables: Reader<'a>,
}

impl<'a> StateChanges<'a> {
    fn entry(&mut self) -> Result<StateChange<'a>, Malformed> {
        if self.variables.is_empty() {
            let kind = self.entries.u8("type of session state")?;
            let data = self.entries.lenenc_bytes("session state")?;
            match kind {
                0 => self.variables = Reader::new(data),
                1 => return Reader::new(data).lenenc_bytes("schema").map(StateChange::Schema),
                _ => return Ok(StateChange::Other(kind, data)),
            }
        }
        let name = self.variables.lenenc_bytes("variable's name")?;
        let value = self.variables.lenenc_bytes("variable's value")?;
        Ok(StateChange::SystemVariable { name, value })
    }
}

impl<'a> Iterator for StateChanges<'a> {
    type Item = StateChange<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.entries.is_empty() && self.variables.is_empty() {
            return None;
        }
        let entry = self.entry().ok();
        if entry.is_none() {
            (self.entries, self.variables) = (Reader::new(&[]), Reader::new(&[]));
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::{OkPacket, StateChange, status};
    use crate::mysql::capabilities::Capabilities;
    use proptest::prelude::{any, proptest};

    const TRACK: Capabilities = Capabilities::SESSION_TRACK;
    const PLAIN: Capabilities = Capabilities::PROTOCOL_41;

    /// `USE test` with tracking: schema = "test", and no info.
    const USE_TEST: &[u8] = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04test";
    /// An UPDATE with info and with a variable and a GTID behind it.
    const INFO_AND_STATE: &[u8] =
        b"\x00\x01\xfc\x00\x01\x02\x40\x00\x00\x02hi\x0e\x00\x07\x04mode\x01x\x03\x03\x00\x01g";

    #[track_caller]
    fn check(payload: &[u8], insert_id: Option<u64>, strip: bool, expect: &[u8]) {
        let ok = OkPacket::parse(payload, TRACK).unwrap();
        assert_eq!(ok.patched(insert_id, strip), expect);
    }

    #[test]
    fn patches() {
        let plain = b"\x00\x01\x00\x02\x00\x00\x00";
        check(plain, None, false, plain);
        check(plain, None, true, plain);
        check(plain, Some(7), true, b"\x00\x01\x07\x02\x00\x00\x00");
        check(plain, Some(300), true, b"\x00\x01\xfc\x2c\x01\x02\x00\x00\x00");
        check(USE_TEST, None, false, USE_TEST);
        check(USE_TEST, None, true, b"\x00\x00\x00\x02\x00\x00\x00");
        check(INFO_AND_STATE, Some(1), true, b"\x00\x01\x01\x02\x00\x00\x00\x02hi");
        check(INFO_AND_STATE, None, true, b"\x00\x01\xfc\x00\x01\x02\x00\x00\x00\x02hi");
        check(
            INFO_AND_STATE,
            Some(1),
            false,
            b"\x00\x01\x01\x02\x40\x00\x00\x02hi\x0e\x00\x07\x04mode\x01x\x03\x03\x00\x01g",
        );
    }

    #[test]
    fn fields_and_changes() {
        let ok = OkPacket::parse(INFO_AND_STATE, TRACK).unwrap();
        assert_eq!((ok.affected_rows, ok.insert_id, ok.warnings, ok.info), (1, 256, 0, &b"hi"[..]));
        assert_eq!(ok.status, status::AUTOCOMMIT | status::SESSION_STATE_CHANGED);
        assert_eq!(
            ok.state_changes().collect::<Vec<_>>(),
            [StateChange::SystemVariable { name: b"mode", value: b"x" }, StateChange::Other(3, b"\x00\x01g")]
        );
        let ok = OkPacket::parse(USE_TEST, TRACK).unwrap();
        assert_eq!(ok.state_changes().collect::<Vec<_>>(), [StateChange::Schema(b"test")]);
        let ok = OkPacket::parse(b"\xfe\x00\x00\x02\x00\x00\x00any", PLAIN).unwrap();
        assert_eq!((ok.info, ok.state_changes().count()), (&b"any"[..], 0));
    }

    #[test]
    fn cut_anywhere_is_an_error_and_several_variables_share_an_entry() {
        for end in 0..INFO_AND_STATE.len() {
            // Without info and state the packet is whole, but for its promise of a state.
            let cut = OkPacket::parse(&INFO_AND_STATE[..end], TRACK);
            assert_eq!(cut.is_ok(), end == 9, "{end}");
        }
        let two = b"\x00\x00\x00\x02\x40\x00\x00\x00\x0a\x00\x08\x01a\x01b\x01c\x01d";
        let ok = OkPacket::parse(two, TRACK).unwrap();
        assert_eq!(ok.state_changes().count(), 2);
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>, track: bool, id in any::<Option<u64>>(), strip: bool) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = 0; }
            if let Ok(ok) = OkPacket::parse(&bytes, if track { TRACK } else { PLAIN }) {
                assert_eq!(ok.patched(None, false), bytes);
                let _ = ok.state_changes().count();
                let patched = ok.patched(id, strip);
                let again = OkPacket::parse(&patched, if track { TRACK } else { PLAIN }).unwrap();
                assert_eq!(again.insert_id, id.unwrap_or(ok.insert_id));
                assert!(!(strip && again.has_state()));
            }
        }
    }
}
