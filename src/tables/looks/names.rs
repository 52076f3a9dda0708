//! The names by which statements call ids: of the columns that are filled with them, and of views of ruled tables. What may move ids is
//! found by them (`sql/statement/moves`).

use std::collections::BTreeSet;

use crate::rewrite::plan::Lookup;
use crate::sql::statement::moves::IdNames;
use crate::tables::Tables;

impl Tables {
    /// Keeps the names of the columns that are filled with ids in these tables and views.
    pub(in crate::tables) fn note_id_columns<'a>(&self, found: impl IntoIterator<Item = &'a Lookup>) {
        for lookup in found {
            let Lookup::Ruled(target) = lookup else { continue };
            let name = target.id_column();
            if !self.has_column(name) {
                self.id_columns.rcu(|names| Names::clone(names).with(name));
            }
        }
    }
}

impl IdNames for Tables {
    fn has_column(&self, name: &str) -> bool {
        self.id_columns.load().has(name)
    }

    fn has_view(&self, name: &str) -> bool {
        self.view_names.load().has(name)
    }
}

/// In lower case.
#[derive(Debug, Clone, Default)]
pub(in crate::tables) struct Names(BTreeSet<String>);

impl Names {
    fn has(&self, name: &str) -> bool {
        !self.0.is_empty() && self.0.contains(&name.to_lowercase())
    }

    fn with(mut self, name: &str) -> Names {
        self.0.insert(name.to_lowercase());
        self
    }

    pub(in crate::tables) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        names.into_iter().fold(Names::default(), Names::with)
    }
}
