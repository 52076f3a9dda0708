//! DDL that does not come through this proxy: the columns of tables in use are compared every
//! second, and at once where the server says something that they do not explain.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::column::Meant;
use crate::rules::model::TableShape;
use crate::schema::{SchemaError, TableKind};
use crate::table_name::{FoldedName, TableName};
use crate::tables::Tables;

pub const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Columns that were read longer ago are read again before a statement without a column list uses
/// them: its values would go into others.
const COLUMNS_AGE_MAX: Duration = Duration::from_millis(1200);

/// A statement that the server refuses has its table read again, not more often than this.
const SUSPECT_AGE: Duration = Duration::from_millis(100);

impl Tables {
    /// Reads the tables again that were used since they were read last, all base tables by one
    /// query. Those whose columns are the same stay known as they are; others are read whole when
    /// they are needed next.
    pub async fn refresh(&self) -> Result<(), SchemaError> {
        let Some(schema) = &self.common.schema else { return Ok(()) };
        self.refresh_sequences().await?;
        let ddl = self.common.ddl.seen();
        let mut names = Vec::new();
        let mut others = Vec::new();
        for (key, entry) in self.known.load().iter() {
            if entry.ddl != ddl || !entry.is_used.load(Ordering::Relaxed) {
                continue;
            }
            match &entry.lookup {
                Lookup::Ruled(target) if target.view.is_none() => {
                    names.push(TableName::new(&target.rule.schema, &target.table));
                }
                Lookup::NotRuled => names.push(TableName::new(key.schema(), key.table())),
                _ => others.push(key.clone()),
            }
        }
        let found = schema.live_tables(self.common.case, &names).await?;
        let mut same = Vec::new();
        for (name, live) in names.iter().zip(found) {
            let key = self.folded(&name.schema, &name.table).into_owned();
            let live = live.filter(|live| live.kind == TableKind::Base).map(|live| live.shape);
            let known = self.known.load().get(&key).map(|entry| entry.lookup.clone());
            match known {
                // A view, or what is no table.
                Some(Lookup::NotRuled) if live.is_none() => others.push(key),
                Some(Lookup::NotRuled) if live.as_ref().is_some_and(|live| self.passes(&key, live)) => {
                    same.push(key);
                }
                Some(Lookup::Ruled(target)) if live.is_some() && target.shape.as_deref() == live.as_ref() => {
                    same.push(key);
                }
                _ => self.outdate(&key),
            }
        }
        let now = Instant::now();
        self.change_known(|known| {
            for key in &same {
                if let Some(entry) = known.get_mut(key).filter(|entry| entry.ddl == ddl) {
                    entry.read_at = now;
                    entry.is_used = std::sync::Arc::default();
                }
            }
        });
        for name in others {
            self.fetch(name.schema(), name.table(), true, None).await;
        }
        Ok(())
    }

    /// True if a rule's pattern fits the table's name, but passes the table over for its columns.
    fn passes(&self, name: &FoldedName<'_>, shape: &TableShape) -> bool {
        let rule = self.rules.acting(self.common.case, name.schema(), name.table()).ok().flatten();
        rule.is_some_and(|rule| rule.meant(name.table(), shape.columns.iter()) == Meant::Passes)
    }

    /// True if the table's columns were read so long ago that others may be there. Tables in use are
    /// read every second.
    pub(crate) fn may_be_outdated(&self, target: &Target, now: Instant) -> bool {
        let (schema, name) = target.named();
        let known = self.known.load();
        let entry = known.get(&self.folded(schema, name));
        let age = |read_at| now.saturating_duration_since(read_at);
        self.common.schema.is_some() && entry.is_some_and(|entry| age(entry.read_at) > COLUMNS_AGE_MAX)
    }

    /// The server refused a statement on this table in a way that other columns than we know would
    /// explain.
    pub(crate) fn suspect(&self, target: &Target) {
        let base = self.folded(&target.rule.schema, &target.table).into_owned();
        let (schema, name) = target.named();
        let named = self.folded(schema, name).into_owned();
        for key in [base, named] {
            let is_old =
                self.known.load().get(&key).is_some_and(|entry| entry.read_at.elapsed() > SUSPECT_AGE);
            if is_old {
                self.outdate(&key);
            }
        }
    }

    /// Marks the table's entry as out of date: the table is read again before the entry is used again.
    fn outdate(&self, key: &FoldedName<'static>) {
        self.change_known(|known| {
            if let Some(entry) = known.get_mut(key) {
                // No DDL was seen so often yet.
                entry.ddl = u64::MAX;
            }
        });
    }
}
