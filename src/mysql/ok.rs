//! The OK packet: how a command without a result set ends, and with `DEPRECATE_EOF` (header 0xFE) how one with rows does.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html>, <https://mariadb.com/kb/en/ok_packet/>.
//!
//! Both servers write the info text length-encoded whether or not `SESSION_TRACK` was negotiated (the manuals have it run
//! to the packet's end without), and leave it away where it and the session state are empty.

use super::capabilities::Capabilities;
use super::reader::{Malformed, Reader, put_lenenc, put_lenenc_bytes};

/// Status bits: SERVER_STATUS_flags_enum in <https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html>; the last one is MariaDB's.
pub mod status {
    pub const IN_TRANS: u16 = 0x0001;
    pub const AUTOCOMMIT: u16 = 0x0002;
    pub const MORE_RESULTS: u16 = 0x0008;
    pub const NO_INDEX_USED: u16 = 0x0020;
    pub const CURSOR_EXISTS: u16 = 0x0040;
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
    /// SERVER_PS_OUT_PARAMS: the rows are a procedure's OUT parameters.
    pub const OUT_PARAMS: u16 = 0x1000;
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
    /// The offset of info and session state.
    tail_at: usize,
}

/// One entry of the session-state block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChange<'a> {
    /// A variable, and its value as text.
    SystemVariable { name: &'a [u8], value: &'a [u8] },
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

    /// The changes of the session's state, in the server's order. Ends after a malformed entry.
    pub fn state_changes(&self) -> StateChanges<'a> {
        StateChanges { entries: Reader::new(self.state), variables: Reader::new(&[]) }
    }

    /// True if the packet announces a change of the session's state.
    pub fn has_state(&self) -> bool {
        self.status & status::SESSION_STATE_CHANGED != 0
    }

    /// The packet, byte for byte, except for what is patched.
    pub fn patched(&self, Patch { insert_id, more_warnings, filled, report }: Patch<'_>) -> Vec<u8> {
        let state = match report {
            _ if !self.has_state() => None,
            StateReport::All => None,
            StateReport::Nothing => Some(Vec::new()),
            StateReport::Filtered(tracking) => tracking.filtered(self.state),
        };
        let mut out = Vec::with_capacity(self.payload.len() + 8);
        out.extend_from_slice(self.slice(0, self.insert_id_at));
        match insert_id {
            Some(id) => put_lenenc(&mut out, id),
            None => out.extend_from_slice(self.slice(self.insert_id_at, self.status_at)),
        }
        if state.is_none() && more_warnings == 0 && filled.is_none() {
            out.extend_from_slice(self.slice(self.status_at, self.payload.len()));
            return out;
        }
        let state = state.as_deref().unwrap_or(self.state);
        let mut lost = if state.is_empty() { status::SESSION_STATE_CHANGED } else { 0 };
        let mut found = 0;
        // By the statement that has read the rows, not by the one that has stored them.
        if let Some(filled) = filled {
            lost |= status::NO_INDEX_USED;
            found = if filled.no_index_used { status::NO_INDEX_USED } else { 0 };
        }
        let warnings = i32::from(self.warnings).saturating_add(more_warnings).clamp(0, i32::from(u16::MAX));
        let warnings = u16::try_from(warnings).unwrap_or(u16::MAX);
        out.extend_from_slice(&(self.status & !lost | found).to_le_bytes());
        out.extend_from_slice(&warnings.to_le_bytes());
        // The tail was read once already.
        let mut tail = Reader::new(self.slice(self.tail_at, self.payload.len()));
        let info = tail.lenenc_bytes("info").unwrap_or_default();
        let info = match filled.map(|filled| filled.form) {
            Some(Form::OneRow) => Vec::new(),
            Some(Form::Load(loaded)) => loaded
                .info(numbered(info, b"Records: "), numbered(info, b"Duplicates: "), warnings)
                .into_bytes(),
            Some(Form::Rows) | None => info_with(info, warnings),
        };
        if !(info.is_empty() && state.is_empty()) {
            put_lenenc_bytes(&mut out, &info);
        }
        if !state.is_empty() {
            put_lenenc_bytes(&mut out, state);
        }
        out
    }

    pub fn status_at(&self) -> usize {
        self.status_at
    }

    /// A part of the payload. All positions come from the reader that read it.
    fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.payload.get(from..to).unwrap_or_default()
    }
}

/// The info text `Records: 3  Duplicates: 0  Warnings: 0` with another number of warnings.
fn info_with(info: &[u8], warnings: u16) -> Vec<u8> {
    const LABEL: &[u8] = b"Warnings: ";
    let Some(at) = memchr::memmem::find(info, LABEL) else { return info.to_vec() };
    let (before, rest) = info.split_at(at + LABEL.len());
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    [before, warnings.to_string().as_bytes(), rest.get(digits..).unwrap_or_default()].concat()
}

/// The number after a label in the info text `Records: 3  Duplicates: 0  Warnings: 0`.
fn numbered(info: &[u8], label: &[u8]) -> u64 {
    let Some(at) = memchr::memmem::find(info, label) else { return 0 };
    let digits = info.get(at + label.len()..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

#[derive(Debug, Clone, Copy)]
pub struct Patch<'a> {
    /// `None`: it stays.
    pub insert_id: Option<u64>,
    /// The number of warnings to add, of statements before it. It may be negative.
    pub more_warnings: i32,
    /// The OK packet is to tell of this statement, whose rows an INSERT ... SELECT has stored.
    pub filled: Option<Filled>,
    /// If no change of the session's state is left, the bit that announces them goes too.
    pub report: StateReport<'a>,
}

impl<'a> Patch<'a> {
    /// A patch of nothing but the changes of the session's state.
    pub fn state(report: StateReport<'a>) -> Self {
        Patch { insert_id: None, more_warnings: 0, filled: None, report }
    }
}

/// The statement that has read the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// The bit as the statement's own OK packet had it.
    pub no_index_used: bool,
    pub form: Form,
}

/// The form of the statement that the info text describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An INSERT ... SELECT, or an INSERT of several rows: `Records: 3  Duplicates: 0  Warnings: 0`.
    Rows,
    /// An INSERT of one row of values: nothing.
    OneRow,
    Load(Loaded),
}

/// The counts of a LOAD that has read its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loaded {
    pub records: u64,
    /// The rows that were to be stored.
    pub rows: u64,
    /// Left out before they were stored.
    pub skipped: u64,
    /// Rows in the way are deleted, rather than the new ones skipped.
    pub replaces: bool,
}

impl Loaded {
    /// From the info text of a LOAD: `Records: 3  Deleted: 0  Skipped: 0  Warnings: 0`.
    pub fn parse(info: &[u8], rows: u64, replaces: bool) -> Option<Loaded> {
        let info = std::str::from_utf8(info).ok()?;
        let mut numbers = info.split_whitespace().filter_map(|word| word.parse().ok());
        let (records, _deleted, skipped) = (numbers.next()?, numbers.next()?, numbers.next()?);
        Some(Loaded { records, rows, skipped, replaces })
    }

    /// `stored` and `duplicates` are the counts that the server reports for the INSERT ... SELECT. Rows that IGNORE
    /// leaves out for a CHECK are no records of either.
    fn info(self, stored: u64, duplicates: u64, warnings: u16) -> String {
        let (deleted, more) = if self.replaces { (duplicates, 0) } else { (0, duplicates) };
        let records = self.records.saturating_sub(self.rows.saturating_sub(stored));
        let skipped = self.skipped.saturating_add(more);
        format!("Records: {records}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}")
    }
}

/// Which changes of the session's state a client gets.
#[derive(Debug, Clone, Copy)]
pub enum StateReport<'a> {
    /// All changes, as the server reports them.
    All,
    /// The client did not negotiate `SESSION_TRACK`.
    Nothing,
    /// The changes that the client's own variables ask for: the server was asked for more.
    Filtered(&'a Tracking),
}

/// The variables that say which changes a session gets: <https://dev.mysql.com/doc/refman/8.0/en/session-state-tracking.html>.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tracking {
    /// `session_track_schema`
    pub schema: bool,
    /// `session_track_state_change`
    pub state_change: bool,
    /// `session_track_system_variables`: names with commas between them, or `*`.
    pub variables: String,
}

impl Tracking {
    /// True if changes of a system variable are reported.
    pub fn tells_variable(&self, name: &[u8]) -> bool {
        let is_it = |known: &str| known == "*" || known.as_bytes().eq_ignore_ascii_case(name);
        self.variables.split(',').map(str::trim).any(is_it)
    }

    /// The block of session state that is reported. `None`: all of `state`.
    fn filtered(&self, state: &[u8]) -> Option<Vec<u8>> {
        let mut entries = Reader::new(state);
        let mut out = Vec::with_capacity(state.len());
        while !entries.is_empty() {
            let (kind, data) =
                (entries.u8("type of session state").ok()?, entries.lenenc_bytes("state").ok()?);
            let kept = match kind {
                0 => self.reported_variables(data)?,
                1 if !self.schema => continue,
                2 if !self.state_change => continue,
                _ => data.to_vec(),
            };
            if kind != 0 || !kept.is_empty() {
                out.push(kind);
                put_lenenc_bytes(&mut out, &kept);
            }
        }
        (out.len() != state.len()).then_some(out)
    }

    /// The reported variables of an entry of system variables, which may hold several.
    fn reported_variables(&self, data: &[u8]) -> Option<Vec<u8>> {
        let mut variables = Reader::new(data);
        let mut out = Vec::with_capacity(data.len());
        while !variables.is_empty() {
            let name = variables.lenenc_bytes("variable's name").ok()?;
            let value = variables.lenenc_bytes("variable's value").ok()?;
            if self.tells_variable(name) {
                put_lenenc_bytes(&mut out, name);
                put_lenenc_bytes(&mut out, value);
            }
        }
        Some(out)
    }
}

/// See [`OkPacket::state_changes`].
#[derive(Debug, Clone)]
pub struct StateChanges<'a> {
    entries: Reader<'a>,
    /// The rest of an entry of system variables: it may hold several.
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
    use super::{OkPacket, Patch, StateChange, StateReport, Tracking, status};
    use crate::mysql::capabilities::Capabilities;
    use proptest::prelude::{any, proptest};

    const TRACK: Capabilities = Capabilities::SESSION_TRACK;
    const PLAIN: Capabilities = Capabilities::PROTOCOL_41;

    /// MySQL 9.7.4 to `USE test`: schema = "test", and no info.
    const USE_TEST: &[u8] = b"\x00\x00\x00\x02\x40\x00\x00\x00\x07\x01\x05\x04test";
    /// MySQL 9.7.4 to an UPDATE with LAST_INSERT_ID(256) and a function that sets time_zone: info, a variable and a GTID.
    const INFO_AND_STATE: &[u8] =
        b"\0\x01\xfc\0\x01\x02\x40\0\0\x28Rows matched: 1  Changed: 1  Warnings: 0\x3e\0\x11\x09time_zone\x06+01:00\
        \x03\x29\0\x27e677e24d-ecb1-11f1-a5a3-02fc00000001:13";

    #[track_caller]
    fn check(payload: &[u8], insert_id: Option<u64>, strip: bool, expect: &[u8]) {
        let ok = OkPacket::parse(payload, TRACK).unwrap();
        let report = if strip { StateReport::Nothing } else { StateReport::All };
        assert_eq!(ok.patched(Patch { insert_id, ..Patch::state(report) }), expect);
    }

    /// Checks what is left of `payload` for a client with these variables.
    #[track_caller]
    fn check_report(schema: bool, state_change: bool, variables: &str, payload: &[u8], expect: &[u8]) {
        let tracking = Tracking { schema, state_change, variables: variables.to_owned() };
        let ok = OkPacket::parse(payload, TRACK).unwrap();
        assert_eq!(ok.patched(Patch::state(StateReport::Filtered(&tracking))), expect);
    }

    #[test]
    fn a_client_is_told_what_its_own_variables_ask_for() {
        check_report(true, false, "", USE_TEST, USE_TEST);
        check_report(false, false, "", USE_TEST, b"\x00\x00\x00\x02\x00\x00\x00");
        // A variable goes, a GTID is nothing that was switched on for us.
        let kept = [&INFO_AND_STATE[..50], b"\x2b", &INFO_AND_STATE[70..]].concat();
        check_report(true, false, "a,b", INFO_AND_STATE, &kept);
        check_report(true, false, "a, TIME_ZONE", INFO_AND_STATE, INFO_AND_STATE);
        check_report(true, false, "*", INFO_AND_STATE, INFO_AND_STATE);
        // The state has changed (02 01 31), and two variables share an entry.
        let changed = b"\x00\x00\x00\x02\x40\x00\x00\x00\x0d\x00\x08\x01a\x01b\x01c\x01d\x02\x01\x31";
        check_report(true, true, "a,c", changed, changed);
        check_report(true, false, "c", changed, b"\x00\x00\x00\x02\x40\x00\x00\x00\x06\x00\x04\x01c\x01d");
        check_report(true, false, "", changed, b"\x00\x00\x00\x02\x00\x00\x00");
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
        let (info, info_and_state) = (&INFO_AND_STATE[9..50], &INFO_AND_STATE[9..]);
        check(INFO_AND_STATE, Some(1), true, &[b"\x00\x01\x01\x02\x00\x00\x00", info].concat());
        check(INFO_AND_STATE, None, true, &[b"\x00\x01\xfc\x00\x01\x02\x00\x00\x00", info].concat());
        check(INFO_AND_STATE, Some(1), false, &[b"\x00\x01\x01\x02\x40\x00\x00", info_and_state].concat());
    }

    #[test]
    fn fields_and_changes() {
        let ok = OkPacket::parse(INFO_AND_STATE, TRACK).unwrap();
        assert_eq!((ok.affected_rows, ok.insert_id, ok.warnings), (1, 256, 0));
        assert_eq!(ok.info, b"Rows matched: 1  Changed: 1  Warnings: 0");
        assert_eq!(ok.status, status::AUTOCOMMIT | status::SESSION_STATE_CHANGED);
        let variable = StateChange::SystemVariable { name: b"time_zone", value: b"+01:00" };
        let gtid = StateChange::Other(3, &INFO_AND_STATE[72..]);
        assert_eq!(ok.state_changes().collect::<Vec<_>>(), [variable, gtid]);
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
                assert_eq!(ok.patched(Patch::state(StateReport::All)), bytes);
                let tracking = Tracking { schema: strip, state_change: !strip, variables: "a".into() };
                let reported = ok.patched(Patch::state(StateReport::Filtered(&tracking)));
                OkPacket::parse(&reported, if track { TRACK } else { PLAIN }).unwrap();
                let _ = ok.state_changes().count();
                let patched = ok.patched(Patch { insert_id: id, ..Patch::state(if strip { StateReport::Nothing } else { StateReport::All }) });
                let again = OkPacket::parse(&patched, if track { TRACK } else { PLAIN }).unwrap();
                assert_eq!(again.insert_id, id.unwrap_or(ok.insert_id));
                assert!(!(strip && again.has_state()));
            }
        }
    }
}
