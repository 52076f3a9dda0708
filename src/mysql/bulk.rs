//! MariaDB's COM_STMT_BULK_EXECUTE: one prepared statement, several sets of parameters.
//! Source: <https://mariadb.com/kb/en/com_stmt_bulk_execute/>; what it leaves open was measured on 10.11.

use super::prepared::{Param, ParamType, ParamValue, id_bytes, put_statement_id, read_types, read_value};
use super::reader::{Malformed, Reader, put_lenenc_bytes};

/// Bytes in front of the types: command, statement id, flags.
const HEAD_BYTES: usize = 7;
/// SEND_TYPES_TO_SERVER, the one flag that is followed: the other asks for a result set in place of the OK packet.
const SEND_TYPES: u16 = 0x80;

/// The byte in front of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indicator {
    Value = 0,
    Null = 1,
    /// The column's default.
    Default = 2,
    /// The column's default in an INSERT. An UPDATE leaves the column alone.
    Ignore = 3,
}

/// One parameter of one set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    pub indicator: Indicator,
    /// The value as it travels, its length included where it has one. Empty if there is no value.
    value: &'a [u8],
}

/// A bulk execution in its parts; its sets are read by `Bulk::sets`.
#[derive(Debug)]
pub struct Bulk<'a> {
    head: &'a [u8],
    pub types: Vec<ParamType>,
    sets: &'a [u8],
}

/// Why a bulk execution is not one for the server either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkError {
    /// No parameters, or flags that were not agreed on.
    Unsupported,
    Malformed(Malformed),
}

impl From<Malformed> for BulkError {
    fn from(malformed: Malformed) -> Self {
        BulkError::Malformed(malformed)
    }
}

impl<'a> Bulk<'a> {
    /// `params` is the number of the client's own parameters, `known` the types of the last execution that sent any.
    pub fn parse(payload: &'a [u8], params: u16, known: Option<&[ParamType]>) -> Result<Self, BulkError> {
        let mut r = Reader::new(payload);
        let head = r.bytes(HEAD_BYTES, "head of a bulk execution")?;
        let mut last = Reader::new(head);
        last.bytes(HEAD_BYTES - 2, "statement id")?;
        let flags = last.u16("flags")?;
        if params == 0 || flags & !SEND_TYPES != 0 {
            return Err(BulkError::Unsupported);
        }
        let types = if flags & SEND_TYPES == 0 {
            known.ok_or(Malformed::Bad("first execution: it has no parameter types"))?.to_vec()
        } else {
            let types = read_types(&mut r, usize::from(params), false)?;
            types.into_iter().map(|(kind, _)| kind).collect()
        };
        if r.is_empty() {
            return Err(Malformed::Truncated("first set of parameters").into());
        }
        Ok(Bulk { head, types, sets: r.rest() })
    }

    /// Set after set, each with a cell for each parameter.
    pub fn cells(&self) -> Cells<'_> {
        Cells { rest: Reader::new(self.sets), types: &self.types, at: 0 }
    }

    /// The head and `types` of an execution that goes in this one's place.
    pub fn put_head(&self, types: impl Iterator<Item = ParamType>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.get(..HEAD_BYTES - 2).unwrap_or_default());
        out.extend_from_slice(&SEND_TYPES.to_le_bytes());
        for kind in types {
            out.extend_from_slice(&[kind.kind, kind.flags]);
        }
    }

    /// The execution as it came, with its types.
    pub fn whole(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes() + 64);
        self.put_head(self.types.iter().copied(), &mut out);
        out.extend_from_slice(self.sets);
        out
    }

    /// The execution as it came, with its types, for the statement of that id.
    pub fn whole_of(&self, id: u32) -> Vec<u8> {
        let mut out = self.whole();
        put_statement_id(&mut out, id);
        out
    }

    /// Length of all sets, for who allocates.
    pub fn bytes(&self) -> usize {
        self.sets.len()
    }
}

impl<'a> Cell<'a> {
    pub fn param(&self, kind: ParamType) -> Param<'a> {
        let has_value = self.indicator == Indicator::Value;
        Param::new(kind, if has_value { ParamValue::Value(self.value) } else { ParamValue::Null })
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.indicator as u8);
        out.extend_from_slice(self.value);
    }
}

/// A value of a parameter that is sent as a BIGINT, unsigned or not.
pub fn put_integer(out: &mut Vec<u8>, bits: u64) {
    out.push(0);
    out.extend_from_slice(&id_bytes(bits));
}

/// A value of a parameter whose type carries its length.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(0);
    put_lenenc_bytes(out, text);
}

/// See [`Bulk::cells`].
#[derive(Debug)]
pub struct Cells<'a> {
    rest: Reader<'a>,
    types: &'a [ParamType],
    /// The parameter whose turn it is.
    at: usize,
}

impl<'a> Cells<'a> {
    /// The next cell and its parameter; `None` after the last set.
    pub fn cell(&mut self) -> Result<Option<(usize, Cell<'a>)>, Malformed> {
        if self.at == 0 && self.rest.is_empty() {
            return Ok(None);
        }
        let indicator = match self.rest.u8("indicator")? {
            0 => Indicator::Value,
            1 => Indicator::Null,
            2 => Indicator::Default,
            3 => Indicator::Ignore,
            _ => return Err(Malformed::Bad("indicator")),
        };
        let param = self.at;
        let kind = self.types.get(param).map_or(0, |kind| kind.kind);
        let value = match indicator {
            Indicator::Value => read_value(&mut self.rest, kind)?,
            _ => &[],
        };
        self.at = if param + 1 < self.types.len() { param + 1 } else { 0 };
        Ok(Some((param, Cell { indicator, value })))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bulk, BulkError, Indicator, Malformed};
    use crate::mysql::prepared::{ParamType, Scalar};
    use proptest::prelude::proptest;

    /// MariaDB Connector/C 3.3.20 to MariaDB 10.11.19. An INT and a string; two sets, the second of NULL and DEFAULT.
    const TWO: &[u8] = b"\xfa\x03\0\0\0\x80\0\x03\0\xfd\0\0\x07\0\0\0\0\x02hi\x01\x02";

    #[test]
    fn sets_and_cells() {
        let bulk = Bulk::parse(TWO, 2, None).unwrap();
        let (mut cells, mut seen, mut out) = (bulk.cells(), Vec::new(), Vec::new());
        bulk.put_head(bulk.types.iter().copied(), &mut out);
        while let Some((param, cell)) = cells.cell().unwrap() {
            cell.put(&mut out);
            seen.push((param, cell.indicator, cell.param(bulk.types[param]).scalar().unwrap()));
        }
        let expect = [
            (0, Indicator::Value, Scalar::Integer(7)),
            (1, Indicator::Value, Scalar::Text(b"hi")),
            (0, Indicator::Null, Scalar::Null),
            (1, Indicator::Default, Scalar::Null),
        ];
        assert_eq!((&seen[..], &out[..]), (&expect[..], TWO), "what is put is what was read");
    }

    #[track_caller]
    fn check_bad(payload: &[u8], params: u16, expect: BulkError) {
        let known = [ParamType { kind: 3, flags: 0 }];
        let read = Bulk::parse(payload, params, Some(&known)).and_then(|bulk| {
            let mut cells = bulk.cells();
            while cells.cell()?.is_some() {}
            Ok(())
        });
        assert_eq!(read, Err(expect), "{payload:?}");
    }

    #[test]
    fn what_the_server_refuses_too() {
        check_bad(b"\xfa\x05\0\0\0\x80\0", 0, BulkError::Unsupported);
        check_bad(b"\xfa\x05\0\0\0\xc0\0\x03\0\0\x07\0\0\0", 1, BulkError::Unsupported);
        check_bad(b"\xfa\x05\0\0\0\0\0", 1, Malformed::Truncated("first set of parameters").into());
        check_bad(b"\xfa\x05\0\0\0\0\0\x04", 1, Malformed::Bad("indicator").into());
        check_bad(b"\xfa\x05\0\0\0\0\0\0\x07\0\0", 1, Malformed::Truncated("bound value").into());
        check_bad(b"\xfa\x05\0\0\0\x80\0\x03\0\x03\0\x01", 2, Malformed::Truncated("indicator").into());
    }

    proptest! {
        #[test]
        fn any_bytes(rest: Vec<u8>, params in 0u16..9) {
            let payload = [&TWO[..5], &rest].concat();
            if let Ok(bulk) = Bulk::parse(&payload, params, None) {
                let mut cells = bulk.cells();
                while let Ok(Some((param, cell))) = cells.cell() {
                    let _ = cell.param(bulk.types[param]).scalar();
                }
            }
        }
    }
}
