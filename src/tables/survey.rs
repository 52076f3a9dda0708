//! A survey of the backend for a version of the rules, before anything is changed: the version's
//! tables, locked, and the ids in them. Each question is about many tables.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use crate::rules::column::Meant;
use crate::rules::model::{Mode, Rule, TableShape};
use crate::schema::{AskedHighest, LiveTable, Schema, TABLES_PER_READING, TableKind};
use crate::table_name::TableName;
use crate::tables::{Common, TableError, Tables};

/// The number of missing tables that have a line each in the log.
const MISSING_MAX: usize = 20;

/// Two questions at a time: the server has more than one core.
const TABLES_PER_ROUND: usize = 2 * TABLES_PER_READING;

/// A ruled table of the backend, read before anything is changed.
pub(super) struct Live {
    pub(super) table: String,
    pub(super) rule: Arc<Rule>,
    pub(super) shape: Arc<TableShape>,
    pub(super) read_at: Instant,
    /// The number of times that DDL had been seen before it was read.
    pub(super) ddl: u64,
    pub(super) binding: Binding,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    /// Not assigned: the table lacks the rule's column.
    NoColumn,
    /// Assigned by the version before this one, and nothing that a binding depends on has changed.
    Kept,
    /// To be assigned; holds ids up to `highest`.
    New { highest: u64 },
}

impl Tables {
    /// Reads and locks what the rules name, and changes nothing else. Ids are looked at by
    /// [`Tables::read_highest`]. `old`: what it has assigned is not asked for its ids.
    pub(super) async fn survey(&self, old: Option<&Tables>) -> Result<Vec<Live>, TableError> {
        let Some(schema) = &self.common.schema else { return Ok(Vec::new()) };
        let live = self.read_all(schema, old).await?;
        self.lock_all(&live).await?;
        Ok(live)
    }

    async fn read_all(&self, schema: &Schema, old: Option<&Tables>) -> Result<Vec<Live>, TableError> {
        let progress = &self.common.progress;
        let named = self.names(schema).await?;
        progress.begin("reading tables", named.len());
        let mut live = Vec::with_capacity(named.len());
        let mut missing = Vec::new();
        for named in named.chunks(TABLES_PER_ROUND) {
            let read = (Instant::now(), self.common.ddl.seen());
            let asked: Vec<TableName> = named.iter().map(|(name, _)| name.clone()).collect();
            let (first, second) = asked.split_at(asked.len().min(TABLES_PER_READING));
            let reading = |names| schema.live_tables(self.common.case, names);
            let (first, second) = tokio::try_join!(reading(first), reading(second))?;
            for ((name, rule), found) in named.iter().zip(first.into_iter().chain(second)) {
                if found.is_none() {
                    missing.push((name, rule));
                }
                let found = found.filter(|found| found.kind == TableKind::Base);
                live.extend(found.map(|found| self.live(old, rule, found, read)));
            }
            progress.add(named.len());
        }
        missing.retain(|(_, rule)| !rule.is_pattern());
        if !missing.is_empty() {
            // Missing tables of the version before are in the log already.
            let known: HashSet<String> = old.iter().flat_map(|old| old.exact_names()).collect();
            missing.retain(|(_, rule)| !known.contains(&self.table_key(rule, &rule.table)));
            warn_of_missing(&missing);
        }
        Ok(live)
    }

    fn live(
        &self,
        old: Option<&Tables>,
        rule: &Arc<Rule>,
        found: LiveTable,
        (read_at, ddl): (Instant, u64),
    ) -> Live {
        let (table, shape) = (found.name, Arc::new(found.shape));
        let (rule, binding) = match rule.meant(&table, shape.columns.iter()) {
            // A table that a pattern passes over is noted too, so that the first statement into it does not wait.
            Meant::Passes | Meant::Lacks(_) => (rule.clone(), Binding::NoColumn),
            Meant::Fills(rule) if old.is_some_and(|old| old.assigns_as(self, &rule, &table)) => {
                (rule, Binding::Kept)
            }
            Meant::Fills(rule) => (rule, Binding::New { highest: 0 }),
        };
        Live { table, rule, shape, read_at, ddl, binding }
    }

    /// Each name that an active rule names.
    async fn names(&self, schema: &Schema) -> Result<Vec<(TableName, Arc<Rule>)>, TableError> {
        let found = schema.ruled_names(self.common.case, &self.rules).await?;
        for ambiguous in &found.ambiguous {
            tracing::error!("{ambiguous}");
        }
        Ok(found.names.into_iter().filter(|(_, rule)| rule.mode == Mode::On).collect())
    }

    /// Locks the tables that are to be assigned, those that may be made later, and the generators that calls draw
    /// from; waits until nobody
    /// else issues ids for them.
    async fn lock_all(&self, live: &[Live]) -> Result<(), TableError> {
        let Common { locks: Some(locks), progress, .. } = &self.common else { return Ok(()) };
        let new = live.iter().filter(|one| matches!(one.binding, Binding::New { .. }));
        let new = new.map(|one| self.table_key(&one.rule, &one.table));
        let new: Vec<String> = new.chain(self.drawn_names()).collect();
        progress.begin("locking tables", new.len());
        locks.take_all(&new, |taken| progress.add(taken)).await?;
        let there: HashSet<String> = live.iter().map(|one| self.table_key(&one.rule, &one.table)).collect();
        let missing: Vec<String> = self.exact_names().filter(|name| !there.contains(name)).collect();
        locks.take_ahead(&missing).await;
        if !new.is_empty() {
            locks.settled().await;
        }
        Ok(())
    }

    /// By [`Tables::table_key`], the names of active rules that are no patterns.
    pub(super) fn exact_names(&self) -> impl Iterator<Item = String> {
        let exact = self.rules.rules().filter(|rule| rule.mode == Mode::On && !rule.is_pattern());
        exact.map(|rule| self.table_key(rule, &rule.table))
    }

    /// The ids that are in the tables that are to be assigned, where their generators start above
    /// them.
    pub(super) async fn read_highest(&self, live: &mut [Live]) -> Result<(), TableError> {
        let progress = &self.common.progress;
        let is_new = |one: &&mut Live| matches!(one.binding, Binding::New { .. });
        let mut new: Vec<&mut Live> = live.iter_mut().filter(is_new).collect();
        progress.begin("reading the highest ids of tables", new.len());
        for new in new.chunks_mut(TABLES_PER_ROUND) {
            let (first, second) = new.split_at(new.len().min(TABLES_PER_READING));
            let (first, second) = tokio::try_join!(self.highest_of(first), self.highest_of(second))?;
            for (nth, highest) in first.into_iter().chain(second).enumerate() {
                if let (Some(one), Some(highest)) = (new.get_mut(nth), highest) {
                    one.binding = Binding::New { highest };
                }
            }
            progress.add(new.len());
        }
        Ok(())
    }

    /// For each table its highest id, if its generator starts above it.
    async fn highest_of(&self, new: &[&mut Live]) -> Result<Vec<Option<u64>>, TableError> {
        let Some(schema) = &self.common.schema else { return Ok(Vec::new()) };
        let asked: Vec<Option<AskedHighest<'_>>> = new.iter().map(|one| self.asked_of(one)).collect();
        let known: Vec<AskedHighest<'_>> = asked.iter().flatten().copied().collect();
        let mut highest = schema.highest_ids_of(self.common.case, &known).await?.into_iter();
        Ok(asked.iter().map(|asked| asked.and_then(|_| highest.next())).collect())
    }

    fn asked_of<'a>(&self, one: &'a Live) -> Option<AskedHighest<'a>> {
        let (_, id_max) = self.asked_for_ids(&one.rule)?;
        let column = one.shape.column(&one.rule.column)?;
        Some(AskedHighest { schema: &one.rule.schema, table: &one.table, column, id_max })
    }
}

/// A rule may be written before its table is made. A misspelt name, or a table that the account does not see, looks the same.
fn warn_of_missing(missing: &[(&TableName, &Arc<Rule>)]) {
    for (table, rule) in missing.iter().take(MISSING_MAX) {
        tracing::warn!(
            %table,
            rule = %rule.origin,
            "a rule's table is not there, or the control account does not see it; check the name, or grant the account SELECT on the table"
        );
    }
    if let more @ 1.. = missing.len().saturating_sub(MISSING_MAX) {
        tracing::warn!(more, "more tables of rules are not there; `rowstamp check --online` lists all");
    }
}
