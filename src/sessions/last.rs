//! The last statement of a session that was given ids, as SHOW SESSIONS has it: without its values.

use crate::sql::dialect::Dialect;
use crate::sql::digest::digest;

/// A longer text is not kept: each session has one.
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// The statement as it came. Its digest is made when somebody asks, which is seldom. The room of a text is used again; of one that
/// is not kept there is the table, and the bytes if the text was known.
#[derive(Debug)]
pub(super) enum Last {
    None,
    Text { text: Vec<u8>, dialect: Dialect },
    Unkept { table: String, bytes: Option<usize> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastDigest {
    /// The digest as `log.audit` writes it. `None`: the statement's text was not kept.
    pub hash: Option<String>,
    pub text: String,
}

impl Last {
    /// `table`: the first that it inserts into.
    pub(super) fn note(&mut self, text: Option<(&[u8], Dialect)>, table: impl FnOnce() -> String) {
        match (&mut *self, text) {
            (Last::Text { text, dialect }, Some((new, its))) if new.len() <= TEXT_BYTES_MAX => {
                text.clear();
                text.extend_from_slice(new);
                *dialect = its;
            }
            (_, Some((new, dialect))) if new.len() <= TEXT_BYTES_MAX => {
                *self = Last::Text { text: new.to_vec(), dialect };
            }
            (_, text) => *self = Last::Unkept { table: table(), bytes: text.map(|(text, _)| text.len()) },
        }
    }

    /// `None`: there was none.
    pub(super) fn digest(&self) -> Option<LastDigest> {
        match self {
            Last::None => None,
            Last::Text { text, dialect } => {
                let digest = digest(text, dialect);
                Some(LastDigest { hash: Some(digest.hash), text: digest.text })
            }
            Last::Unkept { table, bytes } => {
                let bytes = bytes.map_or_else(String::new, |bytes| format!(" of {bytes} bytes"));
                Some(LastDigest { hash: None, text: format!("(a statement{bytes} into {table})") })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Last, TEXT_BYTES_MAX};
    use crate::sql::dialect::Dialect;

    #[test]
    fn no_value_is_shown_and_a_long_text_is_named_by_its_table() {
        let mut last = Last::None;
        assert_eq!(last.digest(), None);
        let long = vec![b'x'; TEXT_BYTES_MAX + 1];
        let rows: [(Option<&[u8]>, &str); 4] = [
            (Some(b"INSERT INTO t(a) VALUES ('secret'), ('more')"), "INSERT INTO t(a) VALUES (...)"),
            (Some(b"REPLACE t VALUES (7)"), "REPLACE t VALUES (...)"),
            (Some(&long), "(a statement of 4097 bytes into shop.t)"),
            (None, "(a statement into shop.t)"),
        ];
        // Each after each.
        for (text, expected) in rows.into_iter().flat_map(|a| rows.into_iter().flat_map(move |b| [a, b])) {
            last.note(text.map(|text| (text, Dialect::MYSQL)), || "shop.t".into());
            let digest = last.digest().unwrap();
            assert_eq!(digest.text, expected);
            assert_eq!(digest.hash.is_some(), text.is_some_and(|text| text.len() <= TEXT_BYTES_MAX));
        }
    }
}
