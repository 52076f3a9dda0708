//! What a name in a statement means: a ruled table's columns as they were read last, a view of one, or nothing of ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::column::column;
use super::{TableError, Tables};
use crate::proxy::locks::TableLocks;
use crate::rewrite::plan::{Lookup, Target};
use crate::rules::model::{Mode, NameCase, Rule};
use crate::schema::SchemaError;

/// A table's columns, and the views, are read again after so long: DDL that did not come through this proxy is seen then.
pub const SHAPE_AGE_MAX: Duration = Duration::from_secs(5);

/// How often DDL was seen by any session: what was read before the last time may be out of date.
#[derive(Debug, Default)]
pub(super) struct Ddl(AtomicU64);

impl Ddl {
    fn saw(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

pub(super) type Known = BTreeMap<(String, String), Entry>;

#[derive(Clone)]
pub(super) struct Entry {
    lookup: Lookup,
    read_at: Instant,
    /// [`Ddl::seen`] before it was read.
    ddl: u64,
    /// Bound to its generator, and above its floor.
    is_bound: bool,
}

impl Tables {
    /// Whether two names are one to the backend.
    pub(in crate::proxy) fn is_same_name(&self, a: &str, b: &str) -> bool {
        match self.case {
            NameCase::Sensitive => a == b,
            NameCase::Insensitive => a.to_lowercase() == b.to_lowercase(),
        }
    }

    fn key(&self, schema: &str, table: &str) -> (String, String) {
        match self.case {
            NameCase::Sensitive => (schema.to_owned(), table.to_owned()),
            NameCase::Insensitive => (schema.to_lowercase(), table.to_lowercase()),
        }
    }

    /// What a name in a statement means; never waits.
    pub(in crate::proxy) fn lookup(&self, schema: &str, table: &str) -> Lookup {
        match self.rules.find(self.case, schema, table) {
            Ok(None) => return self.unruled(schema, table),
            Ok(Some(rule)) if rule.mode == Mode::Off => return Lookup::NotRuled,
            Err(ambiguous) => return Lookup::Refused(ambiguous.to_string()),
            Ok(Some(_)) => {}
        }
        if let Some(reason) = self.locks.as_ref().and_then(TableLocks::lost) {
            return Lookup::Refused(reason);
        }
        match self.known.load().get(&self.key(schema, table)) {
            Some(entry) if self.schema.is_none() || self.is_fresh(entry) => entry.lookup.clone(),
            _ => Lookup::Unknown,
        }
    }

    fn is_fresh(&self, entry: &Entry) -> bool {
        entry.ddl == self.ddl.seen() && entry.read_at.elapsed() < SHAPE_AGE_MAX
    }

    /// A name without a rule may still be a view of a table that has one.
    fn unruled(&self, schema: &str, table: &str) -> Lookup {
        if !self.views.are_read_at(self.ddl.seen()) {
            return Lookup::Unknown;
        }
        let is_view = match self.case {
            NameCase::Sensitive => self.views.contains(schema, table),
            NameCase::Insensitive => self.views.contains(&schema.to_lowercase(), &table.to_lowercase()),
        };
        if !is_view {
            return Lookup::NotRuled;
        }
        Lookup::Refused(format!(
            "{schema}.{table} is a view of a ruled table, which is not supported yet; INSERT into the table itself"
        ))
    }

    /// Reads the views afresh; those made past this proxy are seen when this is called from time to time.
    pub async fn read_views(&self) -> Result<(), SchemaError> {
        let Some(schema) = &self.schema else { return Ok(()) };
        let ddl = self.ddl.seen();
        let views = schema.views().await;
        if let Ok(views) = &views {
            self.views.take(&self.rules, self.case, views);
        }
        // Where they could not be read, what was known before goes on: statements on other tables must not fail for it.
        self.views.settle(ddl);
        views.map(|_| ())
    }

    /// DDL was seen: every shape is read again when it is needed.
    pub(in crate::proxy) fn forget_shapes(&self) {
        if self.schema.is_some() {
            self.ddl.saw();
        }
    }

    /// Reads a table's columns afresh, and binds it where it is new, so that [`Tables::lookup`] knows it. `again`: also
    /// where what is known is not old.
    pub(in crate::proxy) async fn fetch(&self, schema: &str, table: &str, again: bool) {
        let _one_at_a_time = self.fetching.lock().await;
        if !again && !matches!(self.lookup(schema, table), Lookup::Unknown) {
            return;
        }
        let Ok(Some(rule)) = self.rules.find(self.case, schema, table) else {
            if let Err(error) = self.read_views().await {
                tracing::warn!(%error, "the views of ruled tables cannot be read");
            }
            return;
        };
        let rule = rule.clone();
        let ddl = self.ddl.seen();
        let key = self.key(schema, table);
        let was_bound = self.known.load().get(&key).is_some_and(|entry| entry.is_bound);
        let entry = match self.read(&rule, table, was_bound).await {
            Ok((lookup, is_bound)) => Entry { lookup, read_at: Instant::now(), ddl, is_bound },
            Err(error) => {
                tracing::error!(%error, table = format!("{schema}.{table}"), "a ruled table cannot be served");
                Entry {
                    lookup: Lookup::Refused(error.to_string()),
                    read_at: Instant::now(),
                    ddl,
                    is_bound: was_bound,
                }
            }
        };
        self.known.rcu(|known| {
            let mut known = Known::clone(known);
            known.insert(key.clone(), entry.clone());
            known
        });
    }

    async fn read(
        &self,
        rule: &Arc<Rule>,
        table: &str,
        was_bound: bool,
    ) -> Result<(Lookup, bool), TableError> {
        let shape = self.shape(&rule.schema, table).await?;
        if let Some(shape) = &shape
            && column(shape, &rule.column).is_none()
        {
            let why = format!(
                "table {}.{table} has no column {} (rule at {}:{}); correct the rule's column",
                rule.schema,
                rule.column,
                rule.origin.file.display(),
                rule.origin.line
            );
            return Ok((Lookup::Refused(why), was_bound));
        }
        let is_missing = self.schema.is_some() && shape.is_none();
        if !was_bound && !is_missing {
            self.raise_floor(rule, table).await?;
        }
        let target = Target { rule: rule.clone(), table: table.to_owned(), step: self.step(rule), shape };
        let lookup = if is_missing { Lookup::Missing } else { Lookup::Ruled(Arc::new(target)) };
        Ok((lookup, was_bound || !is_missing))
    }
}
