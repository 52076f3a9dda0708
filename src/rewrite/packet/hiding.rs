//! Temporary tables of a packet's own statements: a name that they hide is no ruled table's.

use super::Walk;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::effects::Temporary;
use crate::sql::name::{self, Path};
use crate::sql::statement::ddl::TableChange;
use crate::table_name::TableName;

/// A temporary table hides a ruled one: no, yes, or perhaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hidden {
    No,
    Yes,
    Perhaps,
}

impl Walk<'_> {
    pub(super) fn ddl(&mut self, changes: &[TableChange], nth: usize) {
        let is_temporary = |change: &TableChange| {
            matches!(change, TableChange::CreatedTemporary(_) | TableChange::DroppedTemporary(_))
        };
        // Temporary tables are nobody else's, and no rule's.
        self.effects.ddl |= changes.is_empty() || !changes.iter().all(is_temporary);
        for change in changes {
            match *change {
                TableChange::CreatedTemporary(path) => {
                    let Some(name) = self.names(path) else { continue };
                    self.hide(&name, Hidden::Yes);
                    self.effects.temporary.push((nth, Temporary::Created(name)));
                }
                TableChange::CreatedView(path) => self.views.extend(self.names(path)),
                TableChange::Dropped(path) | TableChange::DroppedTemporary(path) => {
                    let Some(name) = self.names(path) else { continue };
                    self.hide(&name, Hidden::No);
                    self.effects.temporary.push((nth, Temporary::Gone(name)));
                }
                TableChange::Renamed { from, to } => {
                    let (Some(from), Some(to)) = (self.names(from), self.names(to)) else { continue };
                    // MariaDB's RENAME TABLE renames the temporary table, MySQL's the table
                    // that it hides.
                    if [&from, &to].iter().any(|name| self.is_hidden(&name.schema, &name.table) != Hidden::No)
                    {
                        self.hide(&from, Hidden::Perhaps);
                        self.hide(&to, Hidden::Perhaps);
                    }
                    self.effects.temporary.push((nth, Temporary::Renamed { from, to }));
                }
            }
        }
    }

    fn hide(&mut self, name: &TableName, hidden: Hidden) {
        self.overlay.push((name.clone(), hidden));
    }

    pub(super) fn is_hidden(&self, schema: &str, table: &str) -> Hidden {
        let alike = |(name, _): &&(TableName, Hidden)| {
            name::same_column(&name.schema, schema) && name::same_column(&name.table, table)
        };
        match self.overlay.iter().rev().find(alike) {
            Some((made, hidden)) if made.schema == schema && made.table == table => *hidden,
            // The server's setting decides whether letter case counts.
            Some((_, Hidden::Yes | Hidden::Perhaps)) => Hidden::Perhaps,
            other if (self.context.hidden)(schema, table) => other.map_or(Hidden::Yes, |_| Hidden::Perhaps),
            _ => Hidden::No,
        }
    }

    /// Notes an INSERT that passes only because its name is hidden.
    pub(super) fn note_hidden(&mut self, path: Path) {
        if self.effects.hidden_insert.is_some() {
            return;
        }
        let Some(name) = self.names(path) else { return };
        if !matches!((self.context.tables)(&name.schema, &name.table), Lookup::NotRuled) {
            self.effects.hidden_insert = Some(Box::new(name));
        }
    }
}
