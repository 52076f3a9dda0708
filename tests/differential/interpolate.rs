//! Parameters written into the text of a statement.

use std::fmt::Write;

use crate::support::raw::Param;

/// Writes the parameters in place of `?` outside of quotes, like a driver with emulated prepares.
pub(crate) fn interpolate(sql: &[u8], params: &[Param]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut params = params.iter();
    let mut quote = None;
    for byte in sql {
        match (quote, byte) {
            (None, b'?') => text.extend(params.next().map(literal).unwrap_or_default()),
            (None, b'\'' | b'"' | b'`') => {
                quote = Some(*byte);
                text.push(*byte);
            }
            (Some(open), _) if open == *byte => {
                quote = None;
                text.push(*byte);
            }
            _ => text.push(*byte),
        }
    }
    assert!(params.next().is_none(), "more parameters than places: {}", String::from_utf8_lossy(sql));
    text
}

fn literal(param: &Param) -> Vec<u8> {
    match param {
        Param::Null | Param::NullInt => b"NULL".to_vec(),
        Param::Default | Param::Ignore => b"DEFAULT".to_vec(),
        Param::Int(number) => number.to_string().into_bytes(),
        Param::Uint(number) => number.to_string().into_bytes(),
        Param::Tiny(number) => number.to_string().into_bytes(),
        Param::Double(number) => number.to_string().into_bytes(),
        Param::Float(number) => number.to_string().into_bytes(),
        Param::Decimal(bytes) => bytes.clone(),
        Param::Date { year, month, day } => format!("'{year:04}-{month:02}-{day:02}'").into_bytes(),
        Param::String(bytes) | Param::Long(bytes) => [b"'", bytes.as_slice(), b"'"].concat(),
        Param::Blob(bytes) | Param::Bit(bytes) => {
            let mut text = "x'".to_owned();
            for byte in bytes {
                let _ = write!(text, "{byte:02x}");
            }
            (text + "'").into_bytes()
        }
    }
}

#[test]
fn parameters_are_written_in_place() {
    let params = [Param::Null, Param::String(b"x?".to_vec()), Param::Blob(vec![0xAB])];
    assert_eq!(interpolate(b"(?, '?', ?, `?`, ?)", &params), b"(NULL, '?', 'x?', `?`, x'ab')");
}
