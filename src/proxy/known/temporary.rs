//! The session's temporary tables, as far as they hide names that rules know.
//!
//! The proxy follows what the text shows (CREATE TEMPORARY TABLE, DROP). It asks the server for what the text does
//! not show (CALL, EXECUTE, functions, a packet that failed half-way, renames, which the two servers do differently):
//! on the session itself, and not before a ruled INSERT names the table. SHOW CREATE TABLE says TEMPORARY.

use crate::rewrite::plan::effects::{Effects, Temporary};
use crate::sql::name::quoted;
use crate::table_name::{NameCase, TableName};

/// The answer to the question whether a temporary table hides a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    No,
    Yes,
    /// The server has to be asked.
    Unsure,
}

#[derive(Debug)]
pub(crate) struct TemporaryTables {
    /// The way in which the server compares the names of tables.
    case: NameCase,
    names: Vec<(TableName, Hidden)>,
    /// Any other name may be hidden too.
    others_unsure: bool,
}

impl TemporaryTables {
    pub(crate) fn new(case: NameCase) -> Self {
        TemporaryTables { case, names: Vec::new(), others_unsure: false }
    }

    pub(crate) fn case(&self) -> NameCase {
        self.case
    }

    /// Looks up if a temporary table of this session hides the name.
    pub(crate) fn hidden(&self, schema: &str, table: &str) -> Hidden {
        match self.names.iter().find(|(name, _)| self.case.is_same(name, schema, table)) {
            Some((_, hidden)) => *hidden,
            None if self.others_unsure => Hidden::Unsure,
            None => Hidden::No,
        }
    }

    pub(crate) fn note(&mut self, schema: &str, table: &str, hidden: Hidden) {
        let case = self.case;
        self.names.retain(|(name, _)| !case.is_same(name, schema, table));
        if hidden != Hidden::No || self.others_unsure {
            self.names.push((TableName::new(schema, table), hidden));
        }
    }

    /// Something that the text does not show may have made or dropped some.
    pub(crate) fn unsure(&mut self) {
        self.names.clear();
        self.others_unsure = true;
    }

    /// Statements ran that were not seen, but made no temporary table. Known temporary tables may be gone.
    fn perhaps_gone(&mut self) {
        for (_, hidden) in &mut self.names {
            if *hidden == Hidden::Yes {
                *hidden = Hidden::Unsure;
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
            let hidden = |name: &TableName| self.hidden(&name.schema, &name.table);
            match change {
                Temporary::Created(name) => {
                    let to = if ran { Hidden::Yes } else { Hidden::Unsure };
                    self.note(&name.schema, &name.table, to);
                }
                Temporary::Gone(name) if hidden(name) != Hidden::No => {
                    let to = if ran { Hidden::No } else { Hidden::Unsure };
                    self.note(&name.schema, &name.table, to);
                }
                Temporary::Renamed { from, to } if hidden(from) != Hidden::No || hidden(to) != Hidden::No => {
                    for name in [from, to] {
                        self.note(&name.schema, &name.table, Hidden::Unsure);
                    }
                }
                Temporary::Gone(_) | Temporary::Renamed { .. } => {}
            }
        }
    }
}

/// The question to the server whether a temporary table hides the name.
pub(crate) fn question(name: &TableName) -> String {
    format!("SHOW CREATE TABLE {}.{}", quoted(&name.schema), quoted(&name.table))
}

/// The answer's row: the name, and a text that begins with `CREATE TEMPORARY TABLE`. No row, where
/// there is no table or no right to see it: a temporary table is its session's own to see.
pub(crate) fn answer(row: Option<&[u8]>) -> Hidden {
    let is_temporary = row.is_some_and(|row| {
        let mut reader = crate::mysql::reader::Reader::new(row);
        let name = reader.lenenc_bytes("table's name").is_ok();
        let text = reader.lenenc_bytes("table's definition").unwrap_or_default();
        // In whatever character set the client wants: letters, with zero bytes between them or not.
        let letters: Vec<u8> = text.iter().copied().filter(|&b| b != 0).take(16).collect();
        name && letters.eq_ignore_ascii_case(b"CREATE TEMPORARY")
    });
    if is_temporary { Hidden::Yes } else { Hidden::No }
}

#[cfg(test)]
mod tests {
    use super::{Hidden, TemporaryTables, answer};
    use crate::rewrite::plan::effects::{Effects, Temporary};
    use crate::table_name::{NameCase, TableName};

    fn created(statement: usize, table: &str) -> (usize, Temporary) {
        (statement, Temporary::Created(TableName::new("s", table)))
    }

    #[track_caller]
    fn check(tables: &TemporaryTables, table: &str, expect: Hidden) {
        assert_eq!(tables.hidden("s", table), expect, "{table}");
    }

    #[test]
    fn a_packet_that_fails_half_way() {
        let mut tables = TemporaryTables::new(NameCase::Sensitive);
        let effects = Effects { temporary: vec![created(0, "a"), created(2, "b")], ..Effects::default() };
        tables.take_effects(&effects, false, 1);
        check(&tables, "a", Hidden::Yes);
        check(&tables, "b", Hidden::Unsure);
        check(&tables, "c", Hidden::No);
        let effects = Effects { opaque: true, temporary: vec![created(1, "c")], ..Effects::default() };
        tables.take_effects(&effects, false, 5);
        check(&tables, "a", Hidden::Unsure);
        check(&tables, "c", Hidden::Unsure);
    }

    #[test]
    fn what_is_not_seen_is_asked_once() {
        let mut tables = TemporaryTables::new(NameCase::Sensitive);
        tables.unsure();
        check(&tables, "a", Hidden::Unsure);
        tables.note("s", "a", Hidden::No);
        check(&tables, "a", Hidden::No);
        check(&tables, "b", Hidden::Unsure);
    }

    #[test]
    fn answers() {
        assert_eq!(answer(Some(b"\x01t\x18CREATE TEMPORARY TABLE `")), Hidden::Yes);
        assert_eq!(answer(Some(b"\x01t\x0eCREATE TABLE `")), Hidden::No);
        assert_eq!(answer(Some(b"\x01t")), Hidden::No);
        assert_eq!(answer(None), Hidden::No);
    }
}
