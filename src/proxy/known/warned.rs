//! Warnings of what goes by way of a stage. The server shows those of its last statement, which
//! stored the rows; those of the one before it, which filled the stage, are kept here for a SHOW
//! WARNINGS of the client's.

use crate::mysql::reader::{Reader, put_lenenc_bytes};
use crate::proxy::known::answered::Table;
use crate::sql::look::Shown;

#[derive(Debug)]
pub(crate) struct Warned {
    filling: Table,
    /// The stage's rows were stored: the server shows the warnings of that.
    pub(crate) is_stored: bool,
    /// The number of warnings of zero dates that the server gives again when it stores the rows.
    repeated: u16,
    /// The parts of these warnings' messages that name the columns.
    of_dates: Vec<Vec<u8>>,
}

impl Warned {
    /// `filling`: what the server shows once the stage is filled, or not. It calls the table `stage`.
    pub(crate) fn new(mut filling: Table, stage: &[u8], table: &[u8]) -> Self {
        for row in &mut filling.rows {
            if let Some(renamed) = with_name(row, stage, table) {
                *row = renamed;
            }
        }
        Warned { filling, is_stored: false, repeated: 0, of_dates: Vec::new() }
    }

    /// `dates`: the quoted names of the columns that have them.
    pub(crate) fn repeated<'a>(self, repeated: u16, dates: impl Iterator<Item = &'a [u8]>) -> Self {
        let of_column = |quoted: &[u8]| {
            let name = quoted.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(quoted);
            let name = replaced(name, b"``", b"`");
            // MariaDB's 1292 names the table as well.
            [[b" for column '", &*name, b"' at row "].concat(), [b".", quoted, b" at row "].concat()]
        };
        let of_dates = if repeated > 0 { dates.flat_map(of_column).collect() } else { Vec::new() };
        Warned { repeated, of_dates, ..self }
    }

    /// The stage's rows are stored next.
    pub(crate) fn stored(mut self) -> Self {
        self.is_stored = true;
        self
    }

    /// The packets that answer the client. `storing`: what the server shows now.
    pub(crate) fn shown(&self, storing: Option<&Table>, shown: Shown) -> Vec<Vec<u8>> {
        let Some((end, head)) = storing.unwrap_or(&self.filling).others.split_last() else {
            return Vec::new();
        };
        let mut repeated = self.repeated;
        let is_new = |row: &&Vec<u8>| {
            let is_again = repeated > 0 && self.is_of_date(row);
            repeated -= u16::from(is_again);
            !is_again
        };
        let stored = storing.into_iter().flat_map(|table| &table.rows).filter(is_new);
        let rows = self.filling.rows.iter().chain(stored);
        let rows = rows.filter(|row| !shown.errors_only || is_error(row));
        head.iter().chain(rows.skip(shown.offset).take(shown.rows)).chain([end]).cloned().collect()
    }
}

impl Warned {
    fn is_of_date(&self, row: &[u8]) -> bool {
        let mut r = Reader::new(row);
        let mut cell = || r.lenenc_bytes("a warning").unwrap_or_default();
        let (_, code, message) = (cell(), cell(), cell());
        // Out of range, truncated, wrong value.
        let is_of_value = [&b"1264"[..], b"1265", b"1292"].contains(&code);
        is_of_value && self.of_dates.iter().any(|of| memchr::memmem::find(message, of).is_some())
    }
}

fn is_error(row: &[u8]) -> bool {
    Reader::new(row).lenenc_bytes("level of a warning").is_ok_and(|level| level == b"Error")
}

/// A row (level, code, message) whose message has another name in place of `from`.
fn with_name(row: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<u8>> {
    let mut r = Reader::new(row);
    let mut cell = || r.lenenc_bytes("a warning").ok();
    let (level, code, message) = (cell()?, cell()?, cell()?);
    let mut out = Vec::with_capacity(row.len() + to.len());
    put_lenenc_bytes(&mut out, level);
    put_lenenc_bytes(&mut out, code);
    put_lenenc_bytes(&mut out, &replaced(message, from, to));
    Some(out)
}

/// `text` with `to` wherever it has `from`.
pub(crate) fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest_at = 0;
    for at in memchr::memmem::find_iter(text, from) {
        out.extend_from_slice(text.get(rest_at..at).unwrap_or_default());
        out.extend_from_slice(to);
        rest_at = at + from.len();
    }
    out.extend_from_slice(text.get(rest_at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Shown = Shown { errors_only: false, offset: 0, rows: usize::MAX };

    fn row(level: &str, message: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for cell in [level, "1265", message] {
            put_lenenc_bytes(&mut out, cell.as_bytes());
        }
        out
    }

    fn table(rows: &[Vec<u8>]) -> Table {
        Table { rows: rows.to_vec(), others: vec![b"count".to_vec(), b"column".to_vec(), b"end".to_vec()] }
    }

    #[track_caller]
    fn check(warned: &Warned, storing: Option<&Table>, shown: Shown, rows: &[Vec<u8>]) {
        let expected = [&[b"count".to_vec(), b"column".to_vec()], rows, &[b"end".to_vec()]].concat();
        assert_eq!(warned.shown(storing, shown), expected);
    }

    #[test]
    fn those_of_filling_come_first_under_the_tables_name() {
        let long = "x".repeat(260);
        let filling = [row("Note", &format!("`db`.`s`.`a`{long}")), row("Error", "s.a")];
        let warned = Warned::new(table(&filling), b"s", b"orders");
        let (first, second) = (row("Note", &format!("`db`.`orders`.`a`{long}")), row("Error", "orders.a"));
        check(&warned, None, ALL, &[first.clone(), second.clone()]);
        check(&warned, None, Shown { errors_only: true, ..ALL }, std::slice::from_ref(&second));
        let third = row("Error", "Duplicate entry");
        let storing = table(std::slice::from_ref(&third));
        check(&warned, Some(&storing), ALL, &[first, second.clone(), third.clone()]);
        check(&warned, Some(&storing), Shown { offset: 1, rows: 1, ..ALL }, &[second]);
        check(&warned, Some(&storing), Shown { offset: 2, rows: 9, ..ALL }, &[third]);
    }

    #[test]
    fn a_zero_date_is_shown_once() {
        let dates = |names: &[&'static str]| names.iter().map(|name| name.as_bytes()).collect::<Vec<_>>();
        let of = |column: &str| row("Warning", &format!("Data truncated for column '{column}' at row 1"));
        let filling = [of("d"), of("a")];
        let warned = || Warned::new(table(&filling), b"s", b"t");
        let storing = table(&[of("d"), of("d"), of("a")]);
        let names = dates(&["`d`", "`e`"]);
        let shown = [of("d"), of("a"), of("d"), of("a")];
        check(&warned().repeated(1, names.iter().copied()), Some(&storing), ALL, &shown);
        let shown = [of("d"), of("a"), of("a")];
        check(&warned().repeated(9, names.iter().copied()), Some(&storing), ALL, &shown);
        let odd = dates(&["`a``b`"]);
        let storing = table(&[of("a`b"), row("Warning", "wrong for column `db`.`t`.`a``b` at row 1")]);
        check(&warned().repeated(2, odd.iter().copied()), Some(&storing), ALL, &filling);
    }

    #[test]
    fn a_table_without_rows() {
        check(&Warned::new(table(&[]), b"s", b"t"), Some(&table(&[])), ALL, &[]);
    }
}
