//! COM_STMT_EXECUTE taken apart: the client's parameters must be the server's, but for ids.
//! Sources: MySQL manual, "COM_STMT_EXECUTE"; MariaDB Knowledge Base, "COM_STMT_EXECUTE".

use std::collections::BTreeSet;

use super::edits::{Rest, digits_and_letter, number};

const LONGLONG: u8 = 0x08;
const VAR_STRING: u8 = 0xFD;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    flags: u8,
    iterations: [u8; 4],
    sends_types: bool,
    pub(crate) params: Vec<Param>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Param {
    kind: [u8; 2],
    /// `None`: NULL. As on the wire, its length in front of it where it has one; nothing, where it was sent ahead.
    value: Option<Vec<u8>>,
}

impl Param {
    /// The id, if the value is of type LONGLONG.
    pub(crate) fn id(&self) -> Option<u64> {
        let bytes = self.value.as_ref().filter(|_| self.kind[0] == LONGLONG)?;
        Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))
    }

    /// The id, if the value is an id with a letter after it.
    fn warned_id(&self) -> Option<u64> {
        digits_and_letter(self.value.as_ref().filter(|_| self.kind[0] == VAR_STRING)?.get(1..)?)
    }

    /// True if a column may make zero of the value, with a warning or an error.
    fn may_be_warned_of(&self) -> bool {
        let Some(value) = &self.value else { return false };
        match self.kind[0] {
            LONGLONG => value.last().is_some_and(|byte| byte & 0x80 != 0),
            0xF6 | 0xFC | VAR_STRING | 0xFE | 0x0F | 0x10 => {
                let text = String::from_utf8_lossy(value.get(1..).unwrap_or_default());
                number(&text, Rest::Any).is_some_and(|number| number <= 0.5)
            }
            _ => false,
        }
    }

    /// NULL, or what a server may take for zero: the results show whether it does.
    fn may_take_id(&self) -> bool {
        let zeros = [0, b'0', b'.', b'+', b'-', b'e', b'E', b' '];
        let Some(value) = &self.value else { return true };
        match self.kind[0] {
            0x04 => value.as_slice().try_into().is_ok_and(|bytes| f32::from_le_bytes(bytes).abs() <= 0.5),
            0x05 => value.as_slice().try_into().is_ok_and(|bytes| f64::from_le_bytes(bytes).abs() <= 0.5),
            // The text comes after a length of one byte.
            0xF6 | 0xFC | VAR_STRING | 0xFE | 0x0F | 0x10 => {
                let text = value.get(1..).unwrap_or_default();
                text.iter().all(|byte| zeros.contains(byte))
                    || std::str::from_utf8(text)
                        .is_ok_and(|text| text.trim().parse::<f64>().is_ok_and(|n| n.abs() <= 0.5))
            }
            _ => value.iter().all(|byte| *byte == 0),
        }
    }
}

impl Execution {
    /// `long`: parameters that were sent ahead. The client of these tests binds all types with each execution, and
    /// negotiates no query attributes.
    pub(crate) fn read(payload: &[u8], params: usize, long: &BTreeSet<u16>) -> Option<Execution> {
        let mut rest = payload.get(5..)?;
        let mut take = |count: usize| {
            let (head, tail) = rest.split_at_checked(count)?;
            rest = tail;
            Some(head.to_vec())
        };
        let flags = take(1)?[0];
        let iterations = take(4)?.try_into().ok()?;
        let mut execution = Execution { flags, iterations, sends_types: false, params: Vec::new() };
        if params > 0 {
            let nulls = take(params.div_ceil(8))?;
            execution.sends_types = take(1)? == [1];
            if !execution.sends_types {
                return None;
            }
            let kinds = take(2 * params)?;
            for (nth, kind) in kinds.chunks(2).enumerate() {
                let is_null = nulls[nth / 8] & (1 << (nth % 8)) != 0;
                let is_long = u16::try_from(nth).is_ok_and(|nth| long.contains(&nth));
                let value = match kind[0] {
                    _ if is_null => None,
                    _ if is_long => Some(Vec::new()),
                    0x06 => None,
                    0x01 => Some(take(1)?),
                    0x02 | 0x0D => Some(take(2)?),
                    0x03 | 0x04 | 0x09 => Some(take(4)?),
                    0x05 | LONGLONG => Some(take(8)?),
                    _ => {
                        let head = take(1)?;
                        let more = match head[0] {
                            0xFC => take(2)?,
                            0xFD => take(3)?,
                            0xFE => take(8)?,
                            _ => Vec::new(),
                        };
                        let length = if more.is_empty() { &head } else { &more };
                        let length =
                            length.iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
                        let bytes = take(length)?;
                        Some([head, more, bytes].concat())
                    }
                };
                execution.params.push(Param { kind: [kind[0], kind[1]], value });
            }
        }
        rest.is_empty().then_some(execution)
    }

    /// The ids in `sent`: those bound to `hidden` parameters, and those in place of the client's; `None`: it differs by more.
    pub(crate) fn ids_in(&self, sent: &Execution, hidden: &[u16]) -> Option<Bound> {
        let mut bound = Bound::default();
        let mut theirs = self.params.iter();
        for (nth, param) in (0_u16..).zip(&sent.params) {
            if hidden.contains(&nth) {
                bound.hidden.push(param.id()?);
                continue;
            }
            let asked = theirs.next()?;
            if asked != param {
                let id = param.id().filter(|_| asked.may_take_id());
                let warned_id = || param.warned_id().filter(|_| asked.may_be_warned_of());
                bound.replaced.push(id.or_else(warned_id)?);
            }
        }
        let same = theirs.next().is_none() && (self.flags, self.iterations) == (sent.flags, sent.iterations);
        same.then_some(bound)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) hidden: Vec<u64>,
    pub(crate) replaced: Vec<u64>,
}
