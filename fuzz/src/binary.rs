//! COM_STMT_EXECUTE and COM_STMT_BULK_EXECUTE as a client writes and a server reads them; nothing of it is the proxy's.
//! Sources: MySQL manual, "COM_STMT_EXECUTE", "Binary Protocol Value"; MariaDB Knowledge Base, "COM_STMT_BULK_EXECUTE".

use std::collections::BTreeSet;

use rowstamp::mysql::prepared::ParamType;

use crate::input::Input;

/// A parameter that was bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub kind: u8,
    pub flags: u8,
    pub name: Vec<u8>,
    pub bound: Bound,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    Null,
    /// Of bulk executions.
    Default,
    Ignore,
    LongData,
    /// Without its length.
    Bytes(Vec<u8>),
}

/// How the values of a type travel.
enum Width {
    Fixed(usize),
    /// A length in one byte.
    Short,
    Lenenc,
}

/// INT and its like, FLOAT, DOUBLE, DATETIME, TIME, VARCHAR, BLOB, NEWDECIMAL.
const KINDS: [u8; 12] = [0x08, 0x03, 0xFD, 0x01, 0x02, 0x04, 0x05, 0x0C, 0x0B, 0x0F, 0xFC, 0xF6];
const TEXTS: [&[u8]; 8] = [b"0", b"7", b"", b"-0", b"0.4", b" 0", b"abc", b"18446744073709551615"];

fn width(kind: u8) -> Width {
    match kind {
        0x01 => Width::Fixed(1),
        0x02 => Width::Fixed(2),
        0x03 | 0x04 => Width::Fixed(4),
        0x05 | 0x08 => Width::Fixed(8),
        0x07 | 0x0A..=0x0C => Width::Short,
        _ => Width::Lenenc,
    }
}

/// One byte for each value: what is bound to it.
pub fn values(input: &mut Input<'_>, count: usize, with_long_data: bool) -> Vec<Value> {
    (0..count)
        .map(|_| {
            let byte = input.byte();
            let kind = KINDS[usize::from(byte & 15) % KINDS.len()];
            let flags = if byte & 16 != 0 { 0x80 } else { 0 };
            let bound = match byte >> 5 {
                0 => Bound::Null,
                1 if with_long_data && matches!(kind, 0xFC | 0xFD | 0x0F) => Bound::LongData,
                which => Bound::Bytes(content(kind, which, input)),
            };
            Value { kind, flags, name: Vec::new(), bound }
        })
        .collect()
}

fn content(kind: u8, which: u8, input: &mut Input<'_>) -> Vec<u8> {
    match width(kind) {
        Width::Fixed(len) if which < 4 => vec![0; len],
        Width::Fixed(len) if kind == 0x04 && which == 4 => 0.4f32.to_le_bytes()[..len].to_vec(),
        Width::Fixed(len) if kind == 0x05 && which == 4 => 0.5f64.to_le_bytes()[..len].to_vec(),
        Width::Fixed(len) => (0..len).map(|_| input.byte()).collect(),
        Width::Short => vec![0; [0, 4, 7, 11][usize::from(which % 4)]],
        Width::Lenenc if which == 7 => {
            let len = usize::from(input.byte());
            vec![b'1'; len]
        }
        Width::Lenenc => input.pick(&TEXTS).to_vec(),
    }
}

/// The values of another execution under the types of the first.
pub fn retype(values: &mut [Value], types: &[ParamType]) {
    for (value, kind) in values.iter_mut().zip(types) {
        if value.kind != kind.kind {
            value.bound = match (&value.bound, width(kind.kind)) {
                (Bound::Bytes(_), Width::Fixed(len)) => Bound::Bytes(vec![0; len]),
                (Bound::Bytes(_), Width::Short) => Bound::Bytes(Vec::new()),
                (Bound::LongData, Width::Fixed(_) | Width::Short) => Bound::Null,
                (bound, _) => bound.clone(),
            };
        }
        (value.kind, value.flags) = (kind.kind, kind.flags);
    }
}

pub fn long_data(values: &[Value]) -> BTreeSet<u16> {
    let is_ahead = |(_, value): &(u16, &Value)| value.bound == Bound::LongData;
    (0u16..).zip(values).filter(is_ahead).map(|(at, _)| at).collect()
}

fn lenenc(out: &mut Vec<u8>, n: usize) {
    let bytes = (n as u64).to_le_bytes();
    match n {
        0..=250 => out.push(bytes[0]),
        251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        _ => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
    }
}

fn put(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    match width(kind) {
        Width::Fixed(_) => {}
        Width::Short => out.push(u8::try_from(bytes.len()).expect("a short value")),
        Width::Lenenc => lenenc(out, bytes.len()),
    }
    out.extend_from_slice(bytes);
}

pub fn execute(values: &[Value], attributes: &[Value], sends_types: bool, with_attributes: bool) -> Vec<u8> {
    let flags = if attributes.is_empty() { 0 } else { 8 };
    let mut out = vec![0x17, 5, 0, 0, 0, flags, 1, 0, 0, 0];
    let all: Vec<&Value> = values.iter().chain(attributes).collect();
    let is_counted = with_attributes && (!values.is_empty() || flags != 0);
    if is_counted {
        lenenc(&mut out, all.len());
    }
    if all.is_empty() {
        return out;
    }
    let mut nulls = vec![0u8; all.len().div_ceil(8)];
    for (at, _) in all.iter().enumerate().filter(|(_, value)| value.bound == Bound::Null) {
        nulls[at / 8] |= 1 << (at % 8);
    }
    out.extend(nulls);
    let sends_types = sends_types || values.is_empty();
    out.push(u8::from(sends_types));
    if sends_types {
        for (at, value) in all.iter().enumerate() {
            out.extend([value.kind, value.flags]);
            if with_attributes {
                let name = if at < values.len() { &[][..] } else { b"n" };
                lenenc(&mut out, name.len());
                out.extend_from_slice(name);
            }
        }
    }
    for value in all {
        if let Bound::Bytes(bytes) = &value.bound {
            put(&mut out, value.kind, bytes);
        }
    }
    out
}

/// Each NULL of the values may become another sign.
pub fn bulk(sets: &[Vec<Value>], types: &[ParamType], sends_types: bool, input: &mut Input<'_>) -> Vec<u8> {
    let mut out = vec![0xFA, 5, 0, 0, 0, if sends_types { 0x80 } else { 0 }, 0];
    if sends_types {
        out.extend(types.iter().flat_map(|kind| [kind.kind, kind.flags]));
    }
    for value in sets.iter().flatten() {
        match &value.bound {
            Bound::Bytes(bytes) => {
                out.push(0);
                put(&mut out, value.kind, bytes);
            }
            _ => out.push(1 + input.below(3)),
        }
    }
    out
}

/// What no client would send.
pub fn damage(payload: &mut Vec<u8>, input: &mut Input<'_>) {
    let at = usize::from(input.byte()) % payload.len().max(1);
    match input.below(3) {
        0 => payload.truncate(at),
        1 => payload.insert(at, input.byte()),
        _ => payload[at] = input.byte(),
    }
}

/// Reads bytes that must be there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at_checked(n).expect("bytes of the packet");
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn lenenc(&mut self) -> usize {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        match self.byte() {
            0xFC => number(self.take(2)),
            0xFD => number(self.take(3)),
            0xFE => number(self.take(8)),
            n => usize::from(n),
        }
    }

    fn value(&mut self, kind: u8) -> Vec<u8> {
        let len = match width(kind) {
            Width::Fixed(len) => len,
            Width::Short => usize::from(self.byte()),
            Width::Lenenc => self.lenenc(),
        };
        self.take(len).to_vec()
    }
}

/// As the server reads it, `params` of its own and attributes behind them.
pub fn decode(
    payload: &[u8],
    params: usize,
    long_data: &BTreeSet<u16>,
    with_attributes: bool,
    known: Option<&[ParamType]>,
) -> Vec<Value> {
    let mut r = Reader(payload);
    let head = r.take(10);
    let is_counted = with_attributes && (params > 0 || head[5] & 8 != 0);
    let count = if is_counted { r.lenenc() } else { params };
    if count == 0 {
        assert!(r.0.is_empty(), "bytes behind an execution without parameters");
        return Vec::new();
    }
    let nulls = r.take(count.div_ceil(8));
    let sends_types = r.byte() == 1;
    let mut values: Vec<Value> = (0..count)
        .map(|at| {
            let (kind, flags, name) = if sends_types {
                let (kind, flags) = (r.byte(), r.byte());
                let len = if with_attributes { r.lenenc() } else { 0 };
                (kind, flags, r.take(len).to_vec())
            } else {
                let kind = known.expect("types")[at];
                (kind.kind, kind.flags, Vec::new())
            };
            Value { kind, flags, name, bound: Bound::Null }
        })
        .collect();
    for (at, value) in values.iter_mut().enumerate() {
        let is_ahead = u16::try_from(at).is_ok_and(|at| long_data.contains(&at));
        if is_ahead {
            value.bound = Bound::LongData;
        } else if nulls[at / 8] >> (at % 8) & 1 == 0 {
            value.bound = Bound::Bytes(r.value(value.kind));
        }
    }
    assert!(r.0.is_empty(), "bytes behind an execution");
    values
}

pub fn decode_bulk(payload: &[u8], params: usize, known: &[ParamType]) -> Vec<Vec<Value>> {
    let mut r = Reader(payload);
    let head = r.take(7);
    let types: Vec<ParamType> = match head[5] {
        0x80 => (0..params).map(|_| ParamType { kind: r.byte(), flags: r.byte() }).collect(),
        _ => known.to_vec(),
    };
    let mut sets = Vec::new();
    while !r.0.is_empty() {
        let one = types.iter().map(|kind| {
            let bound = match r.byte() {
                0 => Bound::Bytes(r.value(kind.kind)),
                1 => Bound::Null,
                2 => Bound::Default,
                _ => Bound::Ignore,
            };
            Value { kind: kind.kind, flags: kind.flags, name: Vec::new(), bound }
        });
        sets.push(one.collect());
    }
    sets
}

impl Value {
    pub fn kind(&self) -> ParamType {
        ParamType { kind: self.kind, flags: self.flags }
    }

    /// Where it is an id as it is sent: a BIGINT UNSIGNED for a column that is, or where it would be negative otherwise; else a
    /// BIGINT.
    pub fn id(&self, is_unsigned: bool) -> Option<u64> {
        match &self.bound {
            Bound::Bytes(bytes) if self.kind == 0x08 => {
                let id = u64::from_le_bytes(bytes.as_slice().try_into().ok()?);
                let flags = if is_unsigned || id > i64::MAX.unsigned_abs() { 0x80 } else { 0 };
                (self.flags == flags).then_some(id)
            }
            // Of which the server warns, as of what the client bound.
            Bound::Bytes(bytes) if self.kind == 0xFD => {
                std::str::from_utf8(bytes.strip_suffix(b"x")?).ok()?.parse().ok()
            }
            _ => None,
        }
    }

    /// Where it is an integer or digits.
    pub fn number(&self) -> Option<i128> {
        let Bound::Bytes(bytes) = &self.bound else { return None };
        let bits = u64::try_from(bytes.len()).ok()? * 8;
        match self.kind {
            0x01..=0x03 | 0x08 => {
                let n = bytes.iter().rev().fold(0i128, |sum, &byte| sum << 8 | i128::from(byte));
                let is_negative = self.flags & 0x80 == 0 && n >> (bits - 1) & 1 == 1;
                Some(if is_negative { n - (1 << bits) } else { n })
            }
            0x04 | 0x05 | 0x07 | 0x0A..=0x0C => None,
            _ => std::str::from_utf8(bytes).ok()?.parse().ok(),
        }
    }

    /// The same to the server, whatever type it is sent as.
    pub fn same_value(&self, other: &Value) -> bool {
        self.bound == other.bound && (self.kind, self.flags) == (other.kind, other.flags)
            || self.number().is_some() && self.number() == other.number()
    }

    /// A FLOAT or DOUBLE that an integer column stores as this.
    pub fn rounds_to(&self, n: i128) -> bool {
        let Bound::Bytes(bytes) = &self.bound else { return false };
        let value = match (self.kind, bytes.as_slice()) {
            (0x04, bytes) => bytes.try_into().map_or(f64::NAN, |bytes| f64::from(f32::from_le_bytes(bytes))),
            (0x05, bytes) => bytes.try_into().map_or(f64::NAN, f64::from_le_bytes),
            _ => return false,
        };
        let rounded = value.round();
        // In range, and whole.
        #[allow(clippy::cast_possible_truncation)]
        let whole = rounded as i128;
        rounded.abs() < 1e38
            && (whole == n || ((value - rounded).abs() - 0.5).abs() < f64::EPSILON && (whole - n).abs() == 1)
    }

    pub fn is_default(&self) -> bool {
        matches!(self.bound, Bound::Default | Bound::Ignore)
    }

    pub fn must_take(&self) -> bool {
        self.bound == Bound::Null
    }

    /// Whether it may ask for an id: NULL, or what may be zero.
    pub fn may_take(&self) -> bool {
        match &self.bound {
            Bound::Null | Bound::Default | Bound::Ignore => true,
            Bound::LongData => false,
            Bound::Bytes(bytes) => match self.kind {
                // Below zero is out of the range of an unsigned column.
                0x01..=0x03 | 0x08 => {
                    bytes.iter().all(|&byte| byte == 0) || bytes.last().is_some_and(|&byte| byte & 0x80 != 0)
                }
                0x04 | 0x05 => true,
                0x07 | 0x0A..=0x0C => false,
                _ => !bytes.iter().any(|byte| (b'1'..=b'9').contains(byte)) || bytes.contains(&b'.'),
            },
        }
    }
}
