//! COM_STMT_EXECUTE's payload, taken apart so far that a parameter can be added or replaced.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>; of values
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>, <https://mariadb.com/kb/en/com_stmt_execute/>.

use std::collections::BTreeSet;

use super::command::{Command, execution_flags};
use super::reader::{Malformed, Reader, put_lenenc, put_lenenc_bytes};

/// Bytes in front of the parameters: command, statement id, flags, iteration count.
const HEAD_BYTES: usize = 10;
/// The statement that was prepared last, whose id the client does not know yet (MariaDB).
pub const LAST_PREPARED: u32 = u32::MAX;
/// PARAMETER_COUNT_AVAILABLE, among the flags: the parameters are counted though the statement has none (MySQL).
const COUNT_AVAILABLE: u8 = 0x08;

/// A parameter's type as it travels: type byte, and flags with UNSIGNED as 0x80.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParamType {
    pub kind: u8,
    pub flags: u8,
}

impl ParamType {
    pub const BIGINT: ParamType = ParamType { kind: 0x08, flags: 0 };
    pub const BIGINT_UNSIGNED: ParamType = ParamType { kind: 0x08, flags: 0x80 };

    /// VAR_STRING
    pub const TEXT: ParamType = ParamType { kind: 0xFD, flags: 0 };

    /// DECIMAL or NEWDECIMAL: its digits are an exact number, where those of a string become what the server makes of them.
    pub fn is_decimal(self) -> bool {
        matches!(self.kind, 0x00 | 0xF6)
    }

    /// Strings and decimals: what [`Param::scalar`] takes for text.
    pub fn carries_text(self) -> bool {
        !matches!(self.kind, 0x01..=0x0D | 0x10 | 0xFF)
    }

    /// The type's name, if MariaDB takes a value of it for NULL and its bytes for those of the parameter after it (measured on
    /// 10.11 by binding each type).
    pub fn unread_by_mariadb(self) -> Option<&'static str> {
        match self.kind {
            0x09 => Some("INT24"),
            0x0D => Some("YEAR"),
            0x10 => Some("BIT"),
            0xFF => Some("GEOMETRY"),
            _ => None,
        }
    }

    pub fn is_unsigned(self) -> bool {
        self.flags & 0x80 != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamValue<'a> {
    Null,
    /// Sent before by COM_STMT_SEND_LONG_DATA; takes no place in the packet.
    LongData,
    /// The value's bytes as they travel, with their length where the type has one.
    Value(&'a [u8]),
}

/// A value as far as an id's place must be understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Integer(i128),
    Float(f64),
    /// Strings and decimals: their text.
    Text(&'a [u8]),
    /// Dates, times, geometry, long data.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param<'a> {
    pub kind: ParamType,
    pub value: ParamValue<'a>,
    /// The parameter's name as a query attribute. Empty if it is none.
    name: &'a [u8],
}

/// A COM_STMT_EXECUTE in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    head: &'a [u8],
    /// The statement's own, then query attributes.
    pub params: Vec<Param<'a>>,
    /// CLIENT_QUERY_ATTRIBUTES: parameters are counted and named.
    with_attributes: bool,
}

/// The facts that the parts of an execution depend on.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'k> {
    /// Number of the client's own parameters.
    pub params: u16,
    /// The types of the last execution that sent any.
    pub types: Option<&'k [ParamType]>,
    /// The parameters that were sent ahead.
    pub long_data: &'k BTreeSet<u16>,
    /// CLIENT_QUERY_ATTRIBUTES is negotiated.
    pub with_attributes: bool,
}

/// The statement that an EXECUTE, FETCH, RESET, CLOSE or SEND_LONG_DATA names.
pub fn statement_id(payload: &[u8]) -> Result<u32, Malformed> {
    let mut r = Reader::new(payload);
    r.u8("command")?;
    r.u32("statement id")
}

/// Writes another statement's id into the payload of a command that names one (see [`statement_id`]).
pub fn put_statement_id(payload: &mut [u8], id: u32) {
    if let Some(place) = payload.get_mut(1..5) {
        place.copy_from_slice(&id.to_le_bytes());
    }
}

impl<'a> Execute<'a> {
    pub fn parse(payload: &'a [u8], expected: Expected<'_>) -> Result<Self, Malformed> {
        let with_attributes = expected.with_attributes;
        let mut r = Reader::new(payload);
        let head = r.bytes(HEAD_BYTES, "head of an execution")?;
        let own = usize::from(expected.params);
        let is_counted = with_attributes && (own > 0 || execution_flags(head)? & COUNT_AVAILABLE != 0);
        let count = if is_counted { param_count(&mut r, own)? } else { own };
        if count == 0 {
            // The server does not look at what follows.
            return Ok(Execute { head, params: Vec::new(), with_attributes });
        }
        let nulls = r.bytes(count.div_ceil(8), "null bitmap")?;
        let types = match r.u8("flag for new parameter types")? {
            0 => known_types(expected, count)?,
            _ => read_types(&mut r, count, with_attributes)?,
        };
        let mut params = Vec::with_capacity(count);
        for (index, (kind, name)) in types.into_iter().enumerate() {
            let is_null = nulls.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
            let is_ahead = u16::try_from(index).is_ok_and(|index| expected.long_data.contains(&index));
            let value = if is_ahead {
                ParamValue::LongData
            } else if is_null {
                ParamValue::Null
            } else {
                ParamValue::Value(read_value(&mut r, kind.kind)?)
            };
            params.push(Param { kind, value, name });
        }
        if !r.is_empty() {
            return Err(Malformed::Bad("execution: bytes follow its last parameter"));
        }
        Ok(Execute { head, params, with_attributes })
    }

    /// See [`Execute::new`]: once, without a cursor. `counts`: there are parameters
    /// to count.
    pub fn head(statement_id: u32, counts: bool) -> [u8; HEAD_BYTES] {
        let [a, b, c, d] = statement_id.to_le_bytes();
        let flags = if counts { COUNT_AVAILABLE } else { 0 };
        [Command::StmtExecute as u8, a, b, c, d, flags, 1, 0, 0, 0]
    }

    /// An execution of ours. `head`: [`Execute::head`].
    pub fn new(head: &'a [u8; HEAD_BYTES], params: Vec<Param<'a>>, with_attributes: bool) -> Self {
        Execute { head, params, with_attributes }
    }

    /// The types of the statement's own parameters. There are `own` of them; the server forgets the types of attributes.
    pub fn types(&self, own: u16) -> Vec<ParamType> {
        self.own_types(own).collect()
    }

    /// True if [`Execute::types`] are these.
    pub fn has_types(&self, types: &[ParamType], own: u16) -> bool {
        self.own_types(own).eq(types.iter().copied())
    }

    fn own_types(&self, own: u16) -> impl Iterator<Item = ParamType> {
        self.params.iter().take(usize::from(own)).map(|p| p.kind)
    }

    /// Puts parameters among these: each at its index among all, ascending.
    pub fn put_among(&mut self, others: impl ExactSizeIterator<Item = (usize, Param<'a>)>) {
        let room = Vec::with_capacity(self.params.len() + others.len());
        let mut own = std::mem::replace(&mut self.params, room).into_iter();
        for (index, param) in others {
            let before = index.saturating_sub(self.params.len());
            self.params.extend(own.by_ref().take(before));
            self.params.push(param);
        }
        self.params.extend(own);
    }

    /// The payload again, its types always with it: the server's memory of types holds ours too.
    pub fn build(&self) -> Vec<u8> {
        let values: usize =
            self.params.iter().map(|p| if let ParamValue::Value(v) = p.value { v.len() } else { 0 }).sum();
        let names: usize = self.params.iter().map(|p| p.name.len()).sum();
        let mut out = Vec::with_capacity(HEAD_BYTES + 4 + self.params.len() * 4 + names + values);
        out.extend_from_slice(self.head);
        if self.params.is_empty() {
            // A statement without parameters has their number, 0, only where this flag is set.
            if self.with_attributes && self.head.get(5).is_some_and(|flags| flags & COUNT_AVAILABLE != 0) {
                out.push(0);
            }
            return out;
        }
        if self.with_attributes {
            put_lenenc(&mut out, self.params.len() as u64);
        }
        for eight in self.params.chunks(8) {
            let bits = eight.iter().enumerate().filter(|(_, p)| p.value == ParamValue::Null);
            out.push(bits.fold(0, |byte, (bit, _)| byte | 1 << bit));
        }
        out.push(1);
        for param in &self.params {
            out.extend_from_slice(&[param.kind.kind, param.kind.flags]);
            if self.with_attributes {
                put_lenenc_bytes(&mut out, param.name);
            }
        }
        for param in &self.params {
            if let ParamValue::Value(value) = param.value {
                out.extend_from_slice(value);
            }
        }
        out
    }
}

impl<'a> Param<'a> {
    pub fn new(kind: ParamType, value: ParamValue<'a>) -> Self {
        Param { kind, value, name: b"" }
    }

    /// An id, whose bytes (see [`id_bytes`]) live at least as long as the packet's. `is_unsigned`: what the server expects, by
    /// the column. Where another type is bound than it expects MySQL prepares the statement again, and then other parameters
    /// are read by what is bound to them, not by their columns: other values may be stored (measured on 9.7).
    pub fn id(bytes: &'a [u8; 8], is_unsigned: bool) -> Self {
        let is_above_bigint = bytes[7] & 0x80 != 0;
        let kind =
            if is_unsigned || is_above_bigint { ParamType::BIGINT_UNSIGNED } else { ParamType::BIGINT };
        Param { kind, value: ParamValue::Value(bytes), name: &[] }
    }

    /// Text of less than 251 bytes after its length, see [`id_text`].
    pub fn text(bytes: &'a [u8]) -> Self {
        Param { kind: ParamType::TEXT, value: ParamValue::Value(bytes), name: &[] }
    }

    /// This parameter, bound to text or binary data, its length before it.
    #[must_use]
    pub fn with_text(&self, bytes: &'a [u8]) -> Self {
        let kind = if self.kind.carries_text() { self.kind } else { ParamType::TEXT };
        Param { kind, value: ParamValue::Value(bytes), name: self.name }
    }

    /// The value as the server will read it.
    pub fn scalar(&self) -> Result<Scalar<'a>, Malformed> {
        let value = match self.value {
            ParamValue::Null => return Ok(Scalar::Null),
            ParamValue::LongData => return Ok(Scalar::Other),
            ParamValue::Value(value) => value,
        };
        let mut r = Reader::new(value);
        let what = "bound value";
        let unsigned = self.kind.is_unsigned();
        Ok(match self.kind.kind {
            0x01 => integer(u64::from(r.u8(what)?), 8, unsigned),
            0x02 => integer(u64::from(r.u16(what)?), 16, unsigned),
            0x03 => integer(u64::from(r.u32(what)?), 32, unsigned),
            0x08 => integer(r.u64(what)?, 64, unsigned),
            0x04 => Scalar::Float(f64::from(f32::from_bits(r.u32(what)?))),
            0x05 => Scalar::Float(f64::from_bits(r.u64(what)?)),
            0x06 | 0x07 | 0x09..=0x0D | 0x10 | 0xFF => Scalar::Other,
            _ => Scalar::Text(r.lenenc_bytes(what)?),
        })
    }
}

/// An id and a letter as text in the binary protocol: to an integer column the id, with a warning.
pub fn id_text(id: u64) -> Vec<u8> {
    let text = format!("{id}x");
    // At most 21 bytes.
    let len = u8::try_from(text.len()).unwrap_or(u8::MAX);
    [&[len], text.as_bytes()].concat()
}

/// An id's bytes in the binary protocol.
pub fn id_bytes(id: u64) -> [u8; 8] {
    id.to_le_bytes()
}

fn integer<'a>(value: u64, bits: u32, unsigned: bool) -> Scalar<'a> {
    if unsigned {
        return Scalar::Integer(i128::from(value));
    }
    // Sign-extend from the type's own width.
    let shift = 64 - bits;
    Scalar::Integer(i128::from((value << shift).cast_signed() >> shift))
}

/// The number of parameters that are sent. Those beyond the statement's own are query attributes.
fn param_count(r: &mut Reader<'_>, own: usize) -> Result<usize, Malformed> {
    let count = r.lenenc("number of parameters")?;
    usize::try_from(count).ok().filter(|&n| n >= own).ok_or(Malformed::Bad("number of parameters"))
}

pub(super) type Types<'a> = Vec<(ParamType, &'a [u8])>;

fn known_types<'a>(expected: Expected<'_>, count: usize) -> Result<Types<'a>, Malformed> {
    let known = expected.types.ok_or(Malformed::Bad("first execution: it has no parameter types"))?;
    if known.len() != count {
        return Err(Malformed::Bad("execution: its query attributes have no types"));
    }
    Ok(known.iter().map(|&kind| (kind, &[][..])).collect())
}

pub(super) fn read_types<'a>(r: &mut Reader<'a>, count: usize, named: bool) -> Result<Types<'a>, Malformed> {
    // Each takes two bytes at least.
    let mut types = Vec::with_capacity(count.min(r.left() / 2));
    for _ in 0..count {
        let kind = ParamType { kind: r.u8("parameter type")?, flags: r.u8("parameter flags")? };
        types.push((kind, if named { r.lenenc_bytes("parameter name")? } else { &[] }));
    }
    Ok(types)
}

/// The bytes of one value, its length included where it has one.
pub(super) fn read_value<'a>(r: &mut Reader<'a>, kind: u8) -> Result<&'a [u8], Malformed> {
    let what = "bound value";
    let fixed = match kind {
        0x01 => 1,
        0x02 => 2,
        0x03 | 0x04 => 4,
        0x05 | 0x08 => 8,
        // Everything else carries its length: dates and times in one byte, which reads as a short lenenc too; what MySQL
        // refuses as a parameter, and what MariaDB does not read ([`ParamType::unread_by_mariadb`]).
        _ => {
            let mut ahead = *r;
            ahead.lenenc_bytes(what)?;
            return r.bytes(ahead.position() - r.position(), what);
        }
    };
    r.bytes(fixed, what)
}

#[cfg(test)]
mod tests {
    use super::{Execute, Expected, Malformed, Param, ParamType, ParamValue, Scalar, id_bytes, statement_id};
    use proptest::prelude::{any, proptest};
    use std::collections::BTreeSet;

    const HEAD: [u8; 10] = [0x17, 2, 0, 0, 0, 0, 1, 0, 0, 0];

    fn packet(rest: &[u8]) -> Vec<u8> {
        [&HEAD, rest].concat()
    }

    fn parse<'a>(
        payload: &'a [u8],
        params: u16,
        types: Option<&[ParamType]>,
        long_data: &BTreeSet<u16>,
    ) -> Result<Execute<'a>, Malformed> {
        Execute::parse(payload, Expected { params, types, long_data, with_attributes: false })
    }

    #[test]
    fn parts_and_whole() {
        // MariaDB Connector/C 3.3.20 to MariaDB 10.11.19 and to MySQL 9.7.4. Three parameters: NULL, "ab", 7.
        let payload = b"\x17\x02\0\0\0\0\x01\0\0\0\x01\x01\x06\0\xfd\0\x03\0\x02ab\x07\0\0\0";
        let execute = parse(payload, 3, None, &BTreeSet::new()).unwrap();
        assert_eq!(
            execute.params.iter().map(|p| p.scalar().unwrap()).collect::<Vec<_>>(),
            [Scalar::Null, Scalar::Text(b"ab"), Scalar::Integer(7)]
        );
        assert_eq!(execute.build(), payload);
        assert_eq!(statement_id(payload), Ok(2));
    }

    #[test]
    fn a_parameter_in_front_moves_the_bitmap() {
        let payload =
            packet(&[0b1000_0000, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6]);
        let mut execute = parse(&payload, 8, None, &BTreeSet::new()).unwrap();
        let id = id_bytes(0x0102);
        execute.params.insert(0, Param::id(&id, false));
        let built = execute.build();
        assert_eq!(&built[10..13], [0, 0b1, 1]);
        assert_eq!(&built[13..17], [8, 0, 1, 0]);
        assert_eq!(&built[31..39], [2, 1, 0, 0, 0, 0, 0, 0]);
        let again = parse(&built, 9, None, &BTreeSet::new()).unwrap();
        assert_eq!(again, execute);
    }

    #[test]
    fn types_are_remembered_and_long_data_takes_no_place() {
        let types = [ParamType { kind: 0xFC, flags: 0 }, ParamType { kind: 0x01, flags: 0 }];
        let payload = packet(&[0, 0, 0xFF]);
        let long = BTreeSet::from([0]);
        let execute = parse(&payload, 2, Some(&types), &long).unwrap();
        assert_eq!(execute.params[0].value, ParamValue::LongData);
        assert_eq!(execute.params[1].scalar(), Ok(Scalar::Integer(-1)));
        assert!(parse(&payload, 2, None, &long).is_err());
    }

    #[test]
    fn no_parameters_of_its_own() {
        let mut execute = parse(&HEAD, 0, None, &BTreeSet::new()).unwrap();
        assert_eq!(execute.build(), HEAD);
        let id = id_bytes(9);
        execute.params.push(Param::id(&id, false));
        assert_eq!(execute.build(), packet(&[0, 1, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
    }

    /// An attribute `a` after the statement's own parameters; a parameter of ours goes between them.
    #[track_caller]
    fn check_attributes(params: u16, flags: u8, rest: &[u8], with_ours: &[u8]) {
        let of = |rest: &[u8]| [&HEAD[..5], &[flags], &HEAD[6..], rest].concat();
        let (payload, long_data) = (of(rest), BTreeSet::new());
        let types = [ParamType { kind: 1, flags: 0 }];
        let expected = Expected { params, types: Some(&types), long_data: &long_data, with_attributes: true };
        let mut execute = Execute::parse(&payload, expected).unwrap();
        let id = id_bytes(9);
        execute.params.insert(usize::from(params), Param::id(&id, false));
        assert_eq!(execute.build(), of(with_ours));
    }

    #[test]
    fn query_attributes_stay_behind_the_parameters() {
        const ID: &[u8] = &[9, 0, 0, 0, 0, 0, 0, 0];
        let ours = [&[1, 0, 1, 8, 0, 0][..], ID].concat();
        check_attributes(0, 0, b"", &ours);
        check_attributes(0, 0, b"\x01what the server does not read", &ours);
        check_attributes(0, 8, b"\x00", &ours);
        let both = [b"\x02\x00\x01\x08\x00\x00\xfe\x00\x01a", ID, b"\x02hi"].concat();
        // MySQL Connector/J 26.10 to MySQL 9.7.4, without a parameter and with an INT.
        check_attributes(0, 8, b"\x01\x00\x01\xfe\x00\x01a\x02hi", &both);
        let ours = [b"\x03\x00\x01\x03\x00\x00\x08\x00\x00\xfe\x00\x01a\x07\0\0\0", ID, b"\x02hi"].concat();
        check_attributes(1, 8, b"\x02\0\x01\x03\0\0\xfe\0\x01a\x07\0\0\0\x02hi", &ours);
        let behind = [&[2, 0, 1, 1, 0, 0, 8, 0, 0, 7][..], ID].concat();
        check_attributes(1, 0, &[1, 0, 1, 1, 0, 0, 7], &behind);
        // The types are known; a name that it has once is no longer there.
        check_attributes(1, 0, &[1, 0, 0, 7], &behind);
        let null = [b"\x03\x04\x01\x01\x00\x00\x08\x00\x00\xfe\x00\x01a\x07", ID].concat();
        check_attributes(1, 8, b"\x02\x02\x01\x01\x00\x00\xfe\x00\x01a\x07", &null);
    }

    #[test]
    fn fewer_parameters_than_the_statement_has() {
        let long_data = BTreeSet::new();
        let expected = Expected { params: 2, types: None, long_data: &long_data, with_attributes: true };
        let one = packet(&[1, 0, 1, 1, 0, 0, 7]);
        assert_eq!(Execute::parse(&one, expected), Err(Malformed::Bad("number of parameters")));
    }

    #[test]
    fn an_absurd_length_is_refused() {
        let payload = packet(&[0, 1, 0xFD, 0, 0xFE, 255, 255, 255, 255, 255, 255, 255, 127, 1]);
        assert_eq!(parse(&payload, 1, None, &BTreeSet::new()), Err(Malformed::Truncated("bound value")));
    }

    proptest! {
        #[test]
        fn what_is_read_is_built_again(
            payload: Vec<u8>, params in 0u16..20, long_data: BTreeSet<u16>, with_attributes: bool
        ) {
            let payload = packet(&payload);
            let expected = Expected { params, types: None, long_data: &long_data, with_attributes };
            if let Ok(execute) = Execute::parse(&payload, expected) {
                let built = execute.build();
                let again = Execute::parse(&built, expected).unwrap();
                assert_eq!(again, execute);
                for param in &execute.params {
                    let _ = param.scalar();
                }
            }
        }

        #[test]
        fn integers_keep_their_sign(n in any::<i32>()) {
            let bytes = n.to_le_bytes();
            let signed = Param { kind: ParamType { kind: 3, flags: 0 }, value: ParamValue::Value(&bytes), name: &[] };
            assert_eq!(signed.scalar(), Ok(Scalar::Integer(i128::from(n))));
            let unsigned = Param { kind: ParamType { kind: 3, flags: 0x80 }, ..signed };
            assert_eq!(unsigned.scalar(), Ok(Scalar::Integer(i128::from(n.cast_unsigned()))));
        }
    }
}
