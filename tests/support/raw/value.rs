//! Values as the text and the binary protocol carry them.

use std::fmt::Write;
use std::io;

use super::reply::Column;
use super::wire::Cursor;

/// Column types by the manual's numbers.
mod kind {
    pub(super) const TINY: u8 = 0x01;
    pub(super) const SHORT: u8 = 0x02;
    pub(super) const LONG: u8 = 0x03;
    pub(super) const FLOAT: u8 = 0x04;
    pub(super) const DOUBLE: u8 = 0x05;
    pub(super) const NULL: u8 = 0x06;
    pub(super) const TIMESTAMP: u8 = 0x07;
    pub(super) const LONGLONG: u8 = 0x08;
    pub(super) const INT24: u8 = 0x09;
    pub(super) const DATE: u8 = 0x0A;
    pub(super) const TIME: u8 = 0x0B;
    pub(super) const DATETIME: u8 = 0x0C;
    pub(super) const YEAR: u8 = 0x0D;
    pub(super) const BIT: u8 = 0x10;
    pub(super) const NEW_DECIMAL: u8 = 0xF6;
    pub(super) const BLOB: u8 = 0xFC;
    pub(super) const VAR_STRING: u8 = 0xFD;
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bytes(Vec<u8>),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// A date or time as the binary protocol packs it, its length told by its bytes.
    Packed(Vec<u8>),
}

impl Value {
    /// The text that the text protocol would show, but packed times in hex; `None` for NULL.
    pub fn text(&self) -> Option<String> {
        match self {
            Value::Null => None,
            Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Value::Int(number) => Some(number.to_string()),
            Value::Uint(number) => Some(number.to_string()),
            Value::Double(number) => Some(number.to_string()),
            Value::Packed(bytes) => Some(bytes.iter().fold("time:".to_owned(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })),
        }
    }
}

/// A bound parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Param {
    /// With the type NULL, as drivers bind that do not know better.
    Null,
    /// NULL by the bitmap, with an integer's type.
    NullInt,
    Int(i64),
    Uint(u64),
    /// One byte, as drivers bind booleans.
    Tiny(i8),
    Double(f64),
    Float(f32),
    String(Vec<u8>),
    Blob(Vec<u8>),
    /// DECIMAL, as its digits.
    Decimal(Vec<u8>),
    Bit(Vec<u8>),
    /// A date; a time of day would be more bytes.
    Date {
        year: u16,
        month: u8,
        day: u8,
    },
    /// Sent ahead by COM_STMT_SEND_LONG_DATA.
    Long(Vec<u8>),
    /// The column's default, in a bulk execution; an INSERT takes `Ignore` for it too.
    Default,
    Ignore,
}

/// COM_STMT_EXECUTE after the command byte: no cursor, one iteration, types sent again. `attributes`: where
/// CLIENT_QUERY_ATTRIBUTES is agreed on.
pub(super) fn execute_body(
    statement: u32,
    params: &[Param],
    attributes: Option<&[(String, Param)]>,
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(statement.to_le_bytes());
    // PARAMETER_COUNT_AVAILABLE
    body.push(if attributes.is_some() { 0x08 } else { 0 });
    body.extend(1_u32.to_le_bytes());
    let mut all: Vec<(&str, &Param)> = params.iter().map(|param| ("", param)).collect();
    if let Some(attributes) = attributes {
        all.extend(attributes.iter().map(|(name, param)| (&**name, param)));
        write_length(&mut body, all.len());
    }
    write_params(&mut body, &all, attributes.is_some());
    body
}

/// COM_STMT_BULK_EXECUTE after the command byte. A parameter has the type of its first value.
pub(super) fn bulk_body(statement: u32, sets: &[&[Param]]) -> Vec<u8> {
    const SEND_TYPES: u16 = 0x80;
    let mut body = Vec::new();
    body.extend(statement.to_le_bytes());
    body.extend(SEND_TYPES.to_le_bytes());
    for column in 0..sets.first().map_or(0, |set| set.len()) {
        let types = sets.iter().map(|set| set[column].wire_type());
        body.extend(types.clone().find(|kind| kind[0] != kind::NULL).unwrap_or([kind::NULL, 0]));
    }
    for param in sets.iter().flat_map(|set| *set) {
        body.push(match param {
            Param::Null | Param::NullInt => 1,
            Param::Default => 2,
            Param::Ignore => 3,
            _ => 0,
        });
        param.write(&mut body);
    }
    body
}

/// The attributes that a COM_QUERY carries in front of its text.
pub(super) fn attributes(attributes: &[(String, Param)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_length(&mut out, attributes.len());
    out.push(1);
    let all: Vec<(&str, &Param)> = attributes.iter().map(|(name, param)| (&**name, param)).collect();
    write_params(&mut out, &all, true);
    out
}

fn write_params(out: &mut Vec<u8>, params: &[(&str, &Param)], named: bool) {
    if params.is_empty() {
        return;
    }
    let mut bitmap = vec![0_u8; params.len().div_ceil(8)];
    let mut types = Vec::new();
    let mut values = Vec::new();
    for (index, (name, param)) in params.iter().enumerate() {
        if matches!(param, Param::Null | Param::NullInt) {
            bitmap[index / 8] |= 1 << (index % 8);
        }
        types.extend(param.wire_type());
        if named {
            write_length(&mut types, name.len());
            types.extend(name.bytes());
        }
        param.write(&mut values);
    }
    out.extend(bitmap);
    out.push(1);
    out.extend(types);
    out.extend(values);
}

impl Param {
    fn wire_type(&self) -> [u8; 2] {
        const UNSIGNED: u8 = 0x80;
        match self {
            Param::Null | Param::Default | Param::Ignore => [kind::NULL, 0],
            Param::NullInt | Param::Int(_) => [kind::LONGLONG, 0],
            Param::Uint(_) => [kind::LONGLONG, UNSIGNED],
            Param::Tiny(_) => [kind::TINY, 0],
            Param::Double(_) => [kind::DOUBLE, 0],
            Param::Float(_) => [kind::FLOAT, 0],
            Param::String(_) => [kind::VAR_STRING, 0],
            Param::Blob(_) | Param::Long(_) => [kind::BLOB, 0],
            Param::Decimal(_) => [kind::NEW_DECIMAL, 0],
            Param::Bit(_) => [kind::BIT, 0],
            Param::Date { .. } => [kind::DATE, 0],
        }
    }

    fn write(&self, values: &mut Vec<u8>) {
        match self {
            Param::Null | Param::NullInt | Param::Long(_) | Param::Default | Param::Ignore => {}
            Param::Int(number) => values.extend(number.to_le_bytes()),
            Param::Uint(number) => values.extend(number.to_le_bytes()),
            Param::Tiny(number) => values.extend(number.to_le_bytes()),
            Param::Double(number) => values.extend(number.to_le_bytes()),
            Param::Float(number) => values.extend(number.to_le_bytes()),
            Param::Date { year, month, day } => {
                values.push(4);
                values.extend(year.to_le_bytes());
                values.extend([*month, *day]);
            }
            Param::String(bytes) | Param::Blob(bytes) | Param::Decimal(bytes) | Param::Bit(bytes) => {
                write_length(values, bytes.len());
                values.extend(bytes);
            }
        }
    }
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    match length {
        // Guarded by the ranges: no bits are lost.
        0..=0xFA => out.extend(u8::try_from(length).map(|short| [short]).unwrap_or_default()),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            out.extend(u16::try_from(length).unwrap_or_default().to_le_bytes());
        }
        _ => {
            out.push(0xFE);
            out.extend(u64::try_from(length).unwrap_or_default().to_le_bytes());
        }
    }
}

pub(super) fn text_row(payload: &[u8], columns: usize) -> io::Result<Vec<Value>> {
    let mut row = Cursor::new(payload);
    let mut values = Vec::with_capacity(columns);
    for _ in 0..columns {
        if row.rest().first() == Some(&0xFB) {
            row.u8()?;
            values.push(Value::Null);
        } else {
            values.push(Value::Bytes(row.lenenc_bytes()?.to_vec()));
        }
    }
    Ok(values)
}

pub(super) fn binary_row(payload: &[u8], columns: &[Column]) -> io::Result<Vec<Value>> {
    let mut row = Cursor::new(payload);
    row.u8()?;
    // The bitmap of a row begins at its third bit.
    let bitmap = row.take((columns.len() + 2).div_ceil(8))?;
    let mut values = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let bit = index + 2;
        let is_null = bitmap[bit / 8] & (1 << (bit % 8)) != 0;
        values.push(if is_null { Value::Null } else { binary_value(&mut row, column)? });
    }
    Ok(values)
}

fn binary_value(row: &mut Cursor, column: &Column) -> io::Result<Value> {
    let unsigned = column.is_unsigned();
    Ok(match column.kind {
        kind::TINY if unsigned => Value::Uint(row.u8()?.into()),
        kind::TINY => Value::Int(i8::from_le_bytes(row.array()?).into()),
        kind::SHORT | kind::YEAR if unsigned => Value::Uint(row.u16()?.into()),
        kind::SHORT | kind::YEAR => Value::Int(i16::from_le_bytes(row.array()?).into()),
        kind::LONG | kind::INT24 if unsigned => Value::Uint(row.u32()?.into()),
        kind::LONG | kind::INT24 => Value::Int(i32::from_le_bytes(row.array()?).into()),
        kind::LONGLONG if unsigned => Value::Uint(row.u64()?),
        kind::LONGLONG => Value::Int(i64::from_le_bytes(row.array()?)),
        kind::FLOAT => Value::Double(f32::from_le_bytes(row.array()?).into()),
        kind::DOUBLE => Value::Double(f64::from_le_bytes(row.array()?)),
        kind::NULL => Value::Null,
        kind::DATE | kind::TIME | kind::DATETIME | kind::TIMESTAMP => {
            let length = row.u8()?;
            Value::Packed(row.take(length.into())?.to_vec())
        }
        _ => Value::Bytes(row.lenenc_bytes()?.to_vec()),
    })
}
