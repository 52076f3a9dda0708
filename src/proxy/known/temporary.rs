//! The session's temporary tables, as far as they mask names that rules know.
//!
//! The proxy follows what the text shows (CREATE TEMPORARY TABLE, DROP). It asks the server for what the text does
//! not show (CALL, EXECUTE, functions, a packet that failed half-way, renames, which the two servers do differently):
//! on the session itself, and not before a ruled INSERT names the table. SHOW CREATE TABLE says TEMPORARY.

use crate::rewrite::plan::effects::{Effects, Temporary};
use crate::sql::name::quoted;
use crate::table_name::{NameCase, TableName};

/// The answer to the question whether a temporary table masks a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Masked {
    No,
    Yes,
    /// To be asked.
    Unsure,
}

#[derive(Debug)]
pub(crate) struct TemporaryTables {
    /// The way in which the server compares the names of tables.
    case: NameCase,
    names: Vec<(TableName, Masked)>,
    /// Any other name may be masked too.
    others_unsure: bool,
}

impl TemporaryTables {
    pub(crate) fn new(case: NameCase) -> Self {
        TemporaryTables { case, names: Vec::new(), others_unsure: false }
    }

    pub(crate) fn case(&self) -> NameCase {
        self.case
    }

    /// Tells if a temporary table of this session masks the name.
    pub(crate) fn masked(&self, schema: &str, table: &str) -> Masked {
        match self.names.iter().find(|(name, _)| self.case.is_same(name, schema, table)) {
            Some((_, masked)) => *masked,
            None if self.others_unsure => Masked::Unsure,
            None => Masked::No,
        }
    }

    pub(crate) fn note(&mut self, schema: &str, table: &str, masked: Masked) {
        let case = self.case;
        self.names.retain(|(name, _)| !case.is_same(name, schema, table));
        if masked != Masked::No || self.others_unsure {
            self.names.push((TableName::new(schema, table), masked));
        }
    }

    /// Something that the text does not show may have made or dropped some.
    pub(crate) fn unsure(&mut self) {
        self.names.clear();
        self.others_unsure = true;
    }

    /// Statements ran that were not seen, but made no temporary table. Known temporary tables may be gone.
    fn perhaps_gone(&mut self) {
        for (_, masked) in &mut self.names {
            if *masked == Masked::Yes {
                *masked = Masked::Unsure;
            }
        }
    }

    /// `answered`: so many statements of the packet have been, and all of them where it
    /// `succeeded`.
    pub(crate) fn take_effects(&mut self, effects: &Effects, succeeded: bool, answered: usize) {
        if effects.opaque {
            self.perhaps_gone();
        }
        for (statement, change) in &effects.temporary {
            // After one that answers several times or not at all it is not known which failed.
            let ran = succeeded || !effects.opaque && *statement < answered;
            let masked = |name: &TableName| self.masked(&name.schema, &name.table);
            match change {
                Temporary::Created(name) => {
                    let to = if ran { Masked::Yes } else { Masked::Unsure };
                    self.note(&name.schema, &name.table, to);
                }
                Temporary::Gone(name) if masked(name) != Masked::No => {
                    let to = if ran { Masked::No } else { Masked::Unsure };
                    self.note(&name.schema, &name.table, to);
                }
                Temporary::Renamed { from, to } if masked(from) != Masked::No || masked(to) != Masked::No => {
                    for name in [from, to] {
                        self.note(&name.schema, &name.table, Masked::Unsure);
                    }
                }
                Temporary::Gone(_) | Temporary::Renamed { .. } => {}
            }
        }
    }
}

/// The question to the server whether a temporary table masks the name.
pub(crate) fn question(name: &TableName) -> String {
    format!("SHOW CREATE TABLE {}.{}", quoted(&name.schema), quoted(&name.table))
}

/// The answer's row: the name, and a text that begins with `CREATE TEMPORARY TABLE`. No row, where
/// there is no table or no right to see it: a temporary table is its session's own to see.
pub(crate) fn answer(row: Option<&[u8]>) -> Masked {
    let is_temporary = row.is_some_and(|row| {
        let mut reader = crate::mysql::reader::Reader::new(row);
        let name = reader.lenenc_bytes("table's name").is_ok();
        let text = reader.lenenc_bytes("table's definition").unwrap_or_default();
        // In whatever character set the client wants: letters, with zero bytes between them or not.
        let letters: Vec<u8> = text.iter().copied().filter(|&b| b != 0).take(16).collect();
        name && letters.eq_ignore_ascii_case(b"CREATE TEMPORARY")
    });
    if is_temporary { Masked::Yes } else { Masked::No }
}

#[cfg(test)]
mod tests {
    use super::{Masked, TemporaryTables, answer};
    use crate::rewrite::plan::effects::{Effects, Temporary};
    use crate::table_name::{NameCase, TableName};

    fn created(statement: usize, table: &str) -> (usize, Temporary) {
        (statement, Temporary::Created(TableName::new("s", table)))
    }

    #[track_caller]
    fn check(tables: &TemporaryTables, table: &str, expect: Masked) {
        assert_eq!(tables.masked("s", table), expect, "{table}");
    }

    #[test]
    fn a_packet_that_fails_half_way() {
        let mut tables = TemporaryTables::new(NameCase::Sensitive);
        let effects = Effects { temporary: vec![created(0, "a"), created(2, "b")], ..Effects::default() };
        tables.take_effects(&effects, false, 1);
        check(&tables, "a", Masked::Yes);
        check(&tables, "b", Masked::Unsure);
        check(&tables, "c", Masked::No);
        let effects = Effects { opaque: true, temporary: vec![created(1, "c")], ..Effects::default() };
        tables.take_effects(&effects, false, 5);
        check(&tables, "a", Masked::Unsure);
        check(&tables, "c", Masked::Unsure);
    }

    #[test]
    fn what_is_not_seen_is_asked_once() {
        let mut tables = TemporaryTables::new(NameCase::Sensitive);
        tables.unsure();
        check(&tables, "a", Masked::Unsure);
        tables.note("s", "a", Masked::No);
        check(&tables, "a", Masked::No);
        check(&tables, "b", Masked::Unsure);
    }

    #[test]
    fn answers() {
        assert_eq!(answer(Some(b"\x01t\x18CREATE TEMPORARY TABLE `")), Masked::Yes);
        assert_eq!(answer(Some(b"\x01t\x0eCREATE TABLE `")), Masked::No);
        assert_eq!(answer(Some(b"\x01t")), Masked::No);
        assert_eq!(answer(None), Masked::No);
    }
}
