//! Column definitions, as far as an INSERT ... SELECT must know them.
//! Sources: MySQL manual, "Column Definition"; MariaDB knowledge base, "Result Set Packets". What flags computed columns
//! have was measured on MariaDB 10.11 and MySQL 9.7.

use super::reader::{Malformed, Reader};

const UNSIGNED_FLAG: u16 = 0x20;
const BINARY_FLAG: u16 = 0x80;
/// Bytes of the part of fixed length.
const FIXED_BYTES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnDefinition {
    kind: u8,
    flags: u16,
}

impl ColumnDefinition {
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(payload);
        for what in ["catalog", "schema", "table", "original table", "name", "original name"] {
            r.lenenc_bytes(what)?;
        }
        // MariaDB's extended metadata may stand in front.
        let mut fixed = r.lenenc_bytes("column")?;
        if fixed.len() != FIXED_BYTES {
            fixed = r.lenenc_bytes("column")?;
        }
        // After character set and length.
        let mut r = Reader::new(fixed);
        r.u16("character set")?;
        r.u32("length")?;
        Ok(ColumnDefinition { kind: r.u8("type")?, flags: r.u16("flags")? })
    }

    /// TINYINT to BIGINT, and YEAR.
    pub fn is_integer(self) -> bool {
        matches!(self.kind, 0x01 | 0x02 | 0x03 | 0x08 | 0x09 | 0x0D)
    }

    /// The literal NULL.
    pub fn is_null(self) -> bool {
        self.kind == 0x06
    }

    /// DECIMAL that is no column's.
    pub fn is_computed_decimal(self) -> bool {
        matches!(self.kind, 0x00 | 0xF6) && self.flags & BINARY_FLAG != 0
    }

    /// `0x41`, `b'1'`: strings that are unsigned.
    pub fn is_hexadecimal_literal(self) -> bool {
        matches!(self.kind, 0xFD | 0xFE) && self.flags & UNSIGNED_FLAG != 0
    }
}

#[cfg(test)]
mod tests {
    use super::ColumnDefinition;
    use proptest::proptest;

    fn definition(kind: u8, flags: u16, extended: &[u8]) -> Vec<u8> {
        let mut out = b"\x03def\x01x\x01s\x01s\x01d\x01d".to_vec();
        out.extend_from_slice(extended);
        out.extend_from_slice(&[0x0C, 63, 0, 11, 0, 0, 0, kind]);
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&[4, 0, 0]);
        out
    }

    #[test]
    fn what_a_column_is() {
        let parse = |kind, flags| ColumnDefinition::parse(&definition(kind, flags, b"")).unwrap();
        assert!(parse(0x08, 0x80).is_integer() && !parse(0xF6, 0).is_integer());
        assert!(parse(0xF6, 0x80).is_computed_decimal() && !parse(0xF6, 0).is_computed_decimal());
        assert!(parse(0xFD, 0xA1).is_hexadecimal_literal() && !parse(0xFD, 0x80).is_hexadecimal_literal());
        assert!(parse(0x06, 0x80).is_null());
        let extended = ColumnDefinition::parse(&definition(0x03, 0, b"\x06\x00\x04json")).unwrap();
        assert!(extended.is_integer());
    }

    #[test]
    fn cut_anywhere_is_an_error() {
        let whole = definition(0x03, 0, b"");
        for len in 0..whole.len() - 3 {
            assert!(ColumnDefinition::parse(&whole[..len]).is_err(), "{len}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(bytes: Vec<u8>) {
            let _ = ColumnDefinition::parse(&bytes);
        }
    }
}
