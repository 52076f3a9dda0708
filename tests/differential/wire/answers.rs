//! Answers of the server, and as the client got them: the same packets, but for what is named here.
//!
//! * OK packets of ruled statements have another insert id: one of those that the statement was given, or 0. Where an
//!   INSERT may bring ids itself, they have one where they had none; which one, the facts of the native run say.
//! * OK packets come without the reports of session tracking that the client did not ask for: all, where it lacks the
//!   capability, else some. Which ones is judged by what the same statements answer without the proxy.
//! * Of a prepared statement our parameters are missing, in its counts and among its definitions.

use super::transcript::{command, shown};
use crate::support::raw::{CLIENT_DEPRECATE_EOF, CLIENT_SESSION_TRACK, SERVER_MORE_RESULTS_EXISTS};

const SESSION_STATE_CHANGED: u16 = 0x4000;
pub(crate) const NO_INDEX_USED: u16 = 0x0020;

/// The differences that are allowed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed<'a> {
    /// The client's capabilities.
    pub(crate) capabilities: u32,
    /// The statement was changed, so that its OK packets may tell of no id where they told of one.
    pub(crate) is_ruled: bool,
    /// The statement may bring ids itself.
    pub(crate) inserts: bool,
    /// First and last of runs of ids, one of which an OK packet may tell.
    pub(crate) ids: &'a [(u64, u64)],
    /// Warnings that are counted with those of an OK packet.
    pub(crate) more_warnings: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Ok,
    Other,
}

impl Allowed<'_> {
    fn has(self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    /// The answer to a command other than COM_STMT_PREPARE.
    pub(crate) fn compare(self, byte: u8, told: &[Vec<u8>], answer: &[Vec<u8>]) -> Result<(), String> {
        let roles = match byte {
            // An exchange of authentication data, at the end of which stands one.
            command::CHANGE_USER => Some([vec![Role::Other; answer.len() - 1], vec![Role::Ok]].concat()),
            _ => self.roles(answer),
        };
        let Some(roles) = roles else {
            // The answer has another form than results. No ruled statement gets one.
            return if told == answer { Ok(()) } else { Err(format!("cannot be followed: {}", all(answer))) };
        };
        if told.len() != answer.len() {
            return Err(format!("{} packets became {}: {}", answer.len(), told.len(), all(told)));
        }
        for (nth, (told, answer)) in told.iter().zip(answer).enumerate() {
            let same = match roles[nth] {
                Role::Ok => self.is_same_ok(told, answer),
                Role::Other => told == answer,
            };
            if !same {
                return Err(format!("packet {nth}: {} became {}", shown(answer), shown(told)));
            }
        }
        Ok(())
    }

    /// The role of each packet. `None`: they are no whole answer.
    fn roles(self, answer: &[Vec<u8>]) -> Option<Vec<Role>> {
        let eof = !self.has(CLIENT_DEPRECATE_EOF);
        let mut roles = Vec::new();
        let is_end = |packet: &Vec<u8>| packet.first() == Some(&0xFE) && packet.len() < 0x00FF_FFFF;
        loop {
            let packet = answer.get(roles.len())?;
            let status = match packet.first()? {
                0x00 => {
                    roles.push(Role::Ok);
                    OkPacket::parse(packet)?.status
                }
                0xFF => {
                    roles.push(Role::Other);
                    0
                }
                // A request for a local file; the rest follows.
                0xFB => {
                    roles.push(Role::Other);
                    continue;
                }
                _ => {
                    let columns = usize::from(packet[0]) + usize::from(eof);
                    let rows = answer.get(roles.len() + 1 + columns..)?;
                    let is_last = |packet: &Vec<u8>| is_end(packet) || packet.first() == Some(&0xFF);
                    let count = rows.iter().position(is_last)?;
                    roles.extend(vec![Role::Other; 1 + columns + count]);
                    let end = &rows[count];
                    roles.push(if eof || !is_end(end) { Role::Other } else { Role::Ok });
                    match end.as_slice() {
                        [0xFF, ..] => 0,
                        [_, _, _, low, high, ..] if eof => u16::from_le_bytes([*low, *high]),
                        _ => OkPacket::parse(end)?.status,
                    }
                }
            };
            if status & SERVER_MORE_RESULTS_EXISTS == 0 {
                return (roles.len() == answer.len()).then_some(roles);
            }
        }
    }

    fn is_same_ok(self, told: &[u8], answer: &[u8]) -> bool {
        let (Some(ok), Some(told_ok)) = (OkPacket::parse(answer), OkPacket::parse(told)) else {
            return false;
        };
        let insert_id = told_ok.insert_id;
        let may_be = insert_id == ok.insert_id
            || (self.is_ruled || self.inserts) && insert_id == 0
            || self.inserts && ok.insert_id == 0
            || self.ids.iter().any(|(first, last)| (*first..=*last).contains(&insert_id));
        let state = if self.has(CLIENT_SESSION_TRACK) { told_ok.state } else { &[] };
        may_be && is_part(state, ok.state) && ok.written(insert_id, state, self.more_warnings) == told
    }

    /// The answer to a COM_STMT_PREPARE; `hidden`: parameters of ours in it.
    pub(crate) fn compare_prepared(
        self,
        told: &[Vec<u8>],
        answer: &[Vec<u8>],
        hidden: &[u16],
    ) -> Result<(), String> {
        let expected =
            self.without(answer, hidden).ok_or_else(|| format!("cannot be followed: {}", all(answer)))?;
        if told == expected {
            return Ok(());
        }
        Err(format!("{} should have become {}, and became {}", all(answer), all(&expected), all(told)))
    }

    fn without(self, answer: &[Vec<u8>], hidden: &[u16]) -> Option<Vec<Vec<u8>>> {
        let mut head = answer.first()?.clone();
        if hidden.is_empty() || head.first() != Some(&0) {
            return Some(answer.to_vec());
        }
        let params = usize::from(u16::from_le_bytes([*head.get(7)?, *head.get(8)?]));
        let left = params.checked_sub(hidden.len())?;
        head[7..9].copy_from_slice(&u16::try_from(left).ok()?.to_le_bytes());
        let mut expected = vec![head];
        for (nth, definition) in (0_u16..).zip(answer.get(1..=params)?) {
            if !hidden.contains(&nth) {
                expected.push(definition.clone());
            }
        }
        let eof = !self.has(CLIENT_DEPRECATE_EOF);
        expected.extend_from_slice(answer.get(1 + params + usize::from(eof && left == 0)..)?);
        Some(expected)
    }
}

/// An OK packet, see the manuals' "OK_Packet".
struct OkPacket<'a> {
    head: u8,
    affected_rows: &'a [u8],
    insert_id: u64,
    written_id: &'a [u8],
    status: u16,
    warnings: [u8; 2],
    /// With its length.
    info: &'a [u8],
    /// The reports of the session's state, with their length.
    state: &'a [u8],
}

impl<'a> OkPacket<'a> {
    fn parse(packet: &'a [u8]) -> Option<OkPacket<'a>> {
        let (head, rest) = packet.split_first()?;
        let (_, affected_rows, rest) = number(rest)?;
        let (insert_id, written_id, rest) = number(rest)?;
        let ([low, high, warnings @ ..], rest) = rest.split_first_chunk::<4>()?;
        let (status, warnings) = (u16::from_le_bytes([*low, *high]), *warnings);
        let (info, state) = match number(rest) {
            None => (rest, &rest[rest.len()..]),
            Some((length, written, _)) => {
                rest.split_at_checked(written.len() + usize::try_from(length).ok()?)?
            }
        };
        Some(OkPacket { head: *head, affected_rows, insert_id, written_id, status, warnings, info, state })
    }

    /// With this insert id, and with these reports of the session's state.
    fn written(&self, insert_id: u64, state: &[u8], more_warnings: i32) -> Vec<u8> {
        let is_stripped = state.is_empty() && self.status & SESSION_STATE_CHANGED != 0;
        let status = if is_stripped { self.status & !SESSION_STATE_CHANGED } else { self.status };
        let warnings = i32::from(u16::from_le_bytes(self.warnings)) + more_warnings;
        let warnings = u16::try_from(warnings).unwrap_or_default();
        let info = with_warnings(self.info, warnings);
        let id = if insert_id == self.insert_id { self.written_id.to_vec() } else { put_number(insert_id) };
        let mut out =
            [&[self.head], self.affected_rows, &*id, &status.to_le_bytes(), &warnings.to_le_bytes()].concat();
        if !is_stripped {
            out.extend([&*info, state].concat());
        } else if self.info != [0] && !self.info.is_empty() {
            out.extend(info);
        }
        out
    }
}

/// An OK packet of an INSERT ... SELECT that stores a stage, in the form of one of what filled it.
pub(crate) fn as_filled(packet: &[u8], no_index_used: bool, is_one: bool) -> Vec<u8> {
    let Some(ok) = (packet.first() == Some(&0)).then(|| OkPacket::parse(packet)).flatten() else {
        return packet.to_vec();
    };
    let status = ok.status & !NO_INDEX_USED | if no_index_used { NO_INDEX_USED } else { 0 };
    let info: &[u8] = match (is_one, ok.state.is_empty()) {
        (false, _) => ok.info,
        (true, true) => &[],
        (true, false) => &[0],
    };
    let (status, head) = (status.to_le_bytes(), [ok.head]);
    [&head[..], ok.affected_rows, ok.written_id, &status, &ok.warnings, info, ok.state].concat()
}

/// The same of a LOAD that has read so many records, and skipped some of them.
pub(crate) fn as_load(packet: &[u8], (records, skipped): (u64, u64), replaces: bool) -> Vec<u8> {
    let Some(ok) = (packet.first() == Some(&0)).then(|| OkPacket::parse(packet)).flatten() else {
        return packet.to_vec();
    };
    let text =
        number(ok.info).map(|(_, _, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let &[stored, duplicates, warnings] = &numbers[..] else { return packet.to_vec() };
    // Rows that a CHECK has left out are no records.
    let records = records.min(stored + skipped);
    let (deleted, skipped) = if replaces { (duplicates, skipped) } else { (0, skipped + duplicates) };
    let info = format!("Records: {records}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}");
    let info = [put_number(info.len() as u64), info.into_bytes()].concat();
    let ok = OkPacket { info: &info, status: ok.status & !NO_INDEX_USED, ..ok };
    let status = ok.status.to_le_bytes();
    [&[ok.head], ok.affected_rows, ok.written_id, &status, &ok.warnings, ok.info, ok.state].concat()
}

/// The info text with its length before it, and `Warnings: n` with that number.
fn with_warnings(info: &[u8], warnings: u16) -> Vec<u8> {
    const LABEL: &str = "Warnings: ";
    let Some((_, _, text)) = number(info) else { return info.to_vec() };
    let text = String::from_utf8_lossy(text);
    let Some(at) = text.find(LABEL) else { return info.to_vec() };
    let text = format!("{}{warnings}", &text[..at + LABEL.len()]);
    [put_number(text.len() as u64), text.into_bytes()].concat()
}

/// True if each report in `some` is in `all`, in their order. Both begin with their length.
fn is_part(some: &[u8], all: &[u8]) -> bool {
    let (Some(some), Some(all)) = (reports(some), reports(all)) else { return false };
    let mut all = all.into_iter();
    some.iter().all(|report| all.any(|one| one == *report))
}

/// The reports in `state`. Each is a type, a length and data.
fn reports(state: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reports = Vec::new();
    if state.is_empty() {
        return Some(reports);
    }
    let (length, _, mut rest) = number(state)?;
    if usize::try_from(length).ok()? != rest.len() {
        return None;
    }
    while !rest.is_empty() {
        let (length, written, _) = number(&rest[1..])?;
        let (report, more) = rest.split_at_checked(1 + written.len() + usize::try_from(length).ok()?)?;
        reports.push(report);
        rest = more;
    }
    Some(reports)
}

/// A length-encoded number, how it is written, and what follows.
fn number(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let more = match bytes.first()? {
        0xFC => 2,
        0xFD => 3,
        0xFE => 8,
        0xFB | 0xFF => return None,
        _ => 0,
    };
    let (written, rest) = bytes.split_at_checked(1 + more)?;
    let digits = if more == 0 { written } else { &written[1..] };
    Some((digits.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), written, rest))
}

fn put_number(number: u64) -> Vec<u8> {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xFA => vec![bytes[0]],
        0xFB..=0xFFFF => [&[0xFC], &bytes[..2]].concat(),
        0x1_0000..=0xFF_FFFF => [&[0xFD], &bytes[..3]].concat(),
        _ => [&[0xFE], &bytes[..]].concat(),
    }
}

fn all(packets: &[Vec<u8>]) -> String {
    packets.iter().map(|packet| shown(packet)).collect::<Vec<_>>().join(" | ")
}
