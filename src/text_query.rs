//! Our own queries go by the text protocol. Prepared statements are counted for the whole server
//! (max_prepared_stmt_count): one client that leaves 16,382 of them open would have kept every
//! ruled INSERT waiting, with error 1461.

use std::fmt::Write as _;

use mysql_async::{Params, Value};

/// The text with a value in each `?`'s place, in their order. No `?` of it stands in a literal.
///
/// Texts are written in hexadecimal digits, so that no sql_mode and no character set reads them
/// otherwise.
pub fn with_values(sql: &str, values: impl Into<Params>) -> String {
    let values = match values.into() {
        Params::Positional(values) => values,
        Params::Empty | Params::Named(_) => Vec::new(),
    };
    let mut values = values.iter();
    let mut out = String::with_capacity(sql.len() + 64);
    for (nth, piece) in sql.split('?').enumerate() {
        if nth > 0 {
            put(&mut out, values.next().unwrap_or(&Value::NULL));
        }
        out.push_str(piece);
    }
    out
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Bytes(bytes) => {
            out.push_str(if std::str::from_utf8(bytes).is_ok() { "_utf8mb4 X'" } else { "X'" });
            for byte in bytes {
                let _ = write!(out, "{byte:02X}");
            }
            out.push('\'');
        }
        other => out.push_str(&other.as_sql(false)),
    }
}

/// Text from hexadecimal digits. Zero bytes are passed over: the digits may come in UTF-16 or
/// UTF-32.
pub fn unhex(digits: &[u8]) -> Option<String> {
    let digits: Vec<u8> = digits
        .iter()
        .filter(|&&b| b != 0)
        .map(|&b| char::from(b).to_digit(16))
        .map(|d| d.and_then(|d| u8::try_from(d).ok()))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(high << 4 | low),
        _ => None,
    });
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::{unhex, with_values};

    #[test]
    fn values_stand_where_they_belong() {
        for (sql, values, expect) in [
            ("SELECT 1", vec![], "SELECT 1"),
            ("a = ? AND b > ?", vec!["x'é".into(), 5_u64.into()], "a = _utf8mb4 X'7827C3A9' AND b > 5"),
            ("?,?", vec![mysql_async::Value::NULL, b"\xff\0".to_vec().into()], "NULL,X'FF00'"),
            ("f(?)", vec!["?".into()], "f(_utf8mb4 X'3F')"),
            ("(?)", vec!["".into()], "(_utf8mb4 X'')"),
        ] {
            assert_eq!(with_values(sql, values), expect);
        }
    }

    #[test]
    fn hexadecimal_digits() {
        assert_eq!(unhex(b"616263").as_deref(), Some("abc"));
        assert_eq!(unhex(b"\x006\x001").as_deref(), Some("a"));
        assert_eq!(unhex(b"").as_deref(), Some(""));
        assert_eq!((unhex(b"6"), unhex(b"6g"), unhex(b"ff")), (None, None, None));
    }
}
