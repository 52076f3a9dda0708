//! The server's answer to a question of the proxy's.

use crate::mysql::reader::Reader;
use crate::sql::name::quoted;
use crate::text_query::unhex;

#[derive(Debug)]
pub(crate) struct Answer {
    /// The first packet that was no row and no definition.
    pub(crate) first: Vec<u8>,
    /// The first row, where there is one.
    pub(crate) row: Option<Vec<u8>>,
    /// The whole result, where the question asked for it.
    pub(crate) table: Option<Table>,
}

/// A result, packet by packet, as the server sent it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Vec<u8>>,
    /// The packets before the rows, and last the packet that ends them.
    pub(crate) others: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) text: String,
    /// The error packet's whole payload.
    pub(crate) payload: Vec<u8>,
}

/// The result of a question: the server's answer, or its error.
pub(crate) type Answered = Result<Answer, ServerError>;

/// ER_TABLE_NOT_LOCKED: the session has locked tables, and this one is not among them.
const NOT_LOCKED: u16 = 1100;

/// No client locks a table under this alias.
const ALIAS: &str = "`rowstamp lock`";

/// A statement whose preparation shows whether the session has locked tables: such a session can use only the names and
/// aliases that it has locked. The server runs nothing, and waits for no other session's LOCK TABLES.
pub(crate) fn lock_probe(schema: &str, table: &str) -> String {
    format!("SELECT 1 FROM {}.{} AS {ALIAS} LIMIT 1", quoted(schema), quoted(table))
}

/// True if the answer to [`lock_probe`] says that the session has locked tables.
pub(crate) fn says_locked(answered: &Answered) -> bool {
    answered.as_ref().is_err_and(|error| error.code == NOT_LOCKED)
}

/// The text in a row's only column, which came as hexadecimal digits; zero bytes of UTF-16 are passed over.
pub(crate) fn text_of(row: &[u8]) -> Option<String> {
    let digits = Reader::new(row).lenenc_bytes("an answer of ours").ok()?;
    unhex(digits)
}

/// The digits in a row's only column; "0" where it is NULL. Zero bytes of UTF-16 are passed over.
pub(crate) fn digits(row: &[u8]) -> String {
    let cell = Reader::new(row).lenenc_bytes("an answer of ours").unwrap_or_default();
    let digits: String = cell.iter().filter(|byte| **byte != 0).map(|byte| char::from(*byte)).collect();
    if digits.is_empty() { "0".to_owned() } else { digits }
}

/// The number in a row's only column, which came as its hexadecimal digits; zero bytes of UTF-16 are passed over.
pub(crate) fn number_of(row: &[u8]) -> Option<u64> {
    let digits = Reader::new(row).lenenc_bytes("an answer of ours").ok()?;
    let digits: Vec<u8> = digits.iter().copied().filter(|digit| *digit != 0).collect();
    u64::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn digits_in_an_answer() {
        for (row, expect) in
            [(&b"\x0252"[..], "52"), (b"\x04\x005\x002", "52"), (b"\x02-3", "-3"), (b"\xFB", "0"), (b"", "0")]
        {
            assert_eq!(digits(row), expect, "{row:?}");
        }
    }
}
