//! The meaning of a name in a statement: a ruled table's columns as they were read last, a view of
//! one, or nothing of ours.

mod door;
mod drawn;
mod gone;
mod through;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::column::Meant;
#[cfg(test)]
use crate::rules::model::ColumnShape;
use crate::rules::model::{Mode, Rule, TableShape};
use crate::schema::{LiveTable, SchemaError, TableKind};
use crate::sql::name::same_column;
use crate::table_name::FoldedName;
use crate::tables::{InForce, TableError, Tables};

pub(super) use drawn::Drawn;
pub(crate) use drawn::DrawnFrom;

/// A table's columns are too old after this, if [`Tables::refresh`] has not read them again.
pub const SHAPE_AGE_MAX: Duration = Duration::from_secs(5);

pub(super) type Entries = BTreeMap<FoldedName<'static>, Entry>;

#[derive(Clone)]
pub(super) struct Entry {
    pub(super) lookup: Lookup,
    pub(super) read_at: Instant,
    /// The DDL that had been seen before the table was read.
    pub(super) ddl: u64,
    /// Assigned to its generator, and above its floor.
    is_assigned: bool,
    /// A statement has looked it up since it was read, so that it is worth reading again.
    pub(super) is_used: Arc<AtomicBool>,
}

impl Entry {
    /// `ddl`: the DDL that had been seen before it was read.
    pub(super) fn read(lookup: Lookup, (read_at, ddl): (Instant, u64), is_assigned: bool) -> Self {
        Entry { lookup, read_at, ddl, is_assigned, is_used: Arc::default() }
    }
}

impl Tables {
    pub(super) fn folded<'a>(&self, schema: &'a str, table: &'a str) -> FoldedName<'a> {
        self.common.case.fold(schema, table)
    }

    /// The meaning of a name in a statement. Never waits.
    pub(crate) fn lookup(&self, schema: &str, table: &str) -> Lookup {
        self.lookup_since(schema, table, self.common.ddl.seen(), Instant::now())
    }

    /// The number of times that DDL has been seen. Two equal counts mean that no DDL came between.
    pub(crate) fn ddl_seen(&self) -> u64 {
        self.common.ddl.seen()
    }

    /// Like [`Self::lookup`], but only what was read after DDL was seen for the `ddl`-th time counts.
    pub(crate) fn lookup_since(&self, schema: &str, table: &str, ddl: u64, now: Instant) -> Lookup {
        let known = self.known.load();
        let name = self.folded(schema, table);
        let is_current = |entry: &&Entry| self.common.schema.is_none() || self.is_fresh(entry, ddl, now);
        let Some(entry) = known.get(&name).filter(is_current) else {
            return self.not_known(schema, table, &name, ddl);
        };
        if let Some(away) = self.away(&name) {
            return away;
        }
        // All sessions read this cache line: it is written only once.
        if !entry.is_used.load(Ordering::Relaxed) {
            entry.is_used.store(true, Ordering::Relaxed);
        }
        entry.lookup.clone()
    }

    /// The meaning of a name of which nothing is known, or not any more.
    fn not_known(&self, schema: &str, table: &str, name: &FoldedName<'_>, ddl: u64) -> Lookup {
        match self.rules.acting(self.common.case, schema, table) {
            Ok(None) if !self.views.are_read_at(ddl) => Lookup::Unknown,
            Ok(None) if !self.views.contains(name) => Lookup::NotRuled,
            Err(ambiguous) => Lookup::Refused(ambiguous.to_string()),
            Ok(_) => self.away(name).unwrap_or(Lookup::Unknown),
        }
    }

    /// The meaning of a ruled name while its table's lock is lost.
    fn away(&self, name: &FoldedName<'_>) -> Option<Lookup> {
        self.common.locks.as_ref()?.lost(|| name.to_string()).map(Lookup::Away)
    }

    /// No table counts as assigned any more: each is assigned again before ids go into it.
    pub(super) fn unassign_all(&self) {
        self.change_known(|known| known.values_mut().for_each(|entry| entry.is_assigned = false));
    }

    /// Changes what is known; another thread's change at the same moment may have `change` run
    /// again.
    pub(super) fn change_known(&self, change: impl Fn(&mut Entries)) {
        self.known.rcu(|known| {
            let mut known = Entries::clone(known);
            change(&mut known);
            known
        });
    }

    /// The table that `target` was planned for, as it is now; `None`: its id is no longer filled.
    pub(crate) async fn serves_now(&self, target: &Target) -> Option<Arc<Target>> {
        let (schema, table) = target.named();
        match self.look_up(schema, table).await {
            Lookup::Ruled(now) if now.rule.mode == Mode::On && now.id_column() == target.id_column() => {
                Some(now)
            }
            _ => None,
        }
    }

    /// Like [`Tables::lookup`], but fetches what is not known. DDL that is seen during the fetch came
    /// after this question.
    pub(super) async fn look_up(&self, schema: &str, table: &str) -> Lookup {
        let ddl = self.common.ddl.seen();
        match self.lookup_since(schema, table, ddl, Instant::now()) {
            Lookup::Unknown => {
                self.fetch(schema, table, false, None).await;
                self.lookup_since(schema, table, ddl, Instant::now())
            }
            found => found,
        }
    }

    /// True if `entry` was read after DDL was seen for the `ddl`-th time, and not long ago.
    fn is_fresh(&self, entry: &Entry, ddl: u64, now: Instant) -> bool {
        // An entry that is to be read again has a count of DDL above the true one.
        (ddl..=self.common.ddl.seen()).contains(&entry.ddl)
            && now.saturating_duration_since(entry.read_at) < SHAPE_AGE_MAX
    }

    /// Reads the views afresh where they may have changed; those made past this proxy are seen when
    /// this is called from time to time.
    pub async fn look_at_views(&self) -> Result<(), SchemaError> {
        if let Some(schema) = &self.common.schema
            && self.views.are_read_at(self.common.ddl.seen())
            && !self.views.may_differ(schema.view_signs().await?.as_ref())
        {
            return Ok(());
        }
        self.read_views().await
    }

    pub(super) async fn read_views(&self) -> Result<(), SchemaError> {
        let ddl = self.common.ddl.seen();
        let Some(schema) = &self.common.schema else {
            // Nobody can read any.
            self.views.settle(ddl);
            return Ok(());
        };
        // Before the views: what changes from here on is seen at the next look.
        let signs = schema.view_signs().await.ok().flatten();
        let views = schema.views().await;
        if let Ok(views) = &views {
            if self.views.take(&self.rules, self.common.case, views) {
                self.renew_mentions();
            }
            self.views.were_read(signs);
        }
        // If the views could not be read, those known before stay: statements on other tables must not
        // fail for it.
        self.views.settle(ddl);
        views.map(|_| ())
    }

    /// Reads the views where DDL has been seen since they were read last.
    pub(crate) async fn know_views(&self) {
        if !self.views.are_read_at(self.common.ddl.seen()) {
            let _one_at_a_time = self.common.fetching.lock().await;
            self.know_views_alone().await;
        }
    }

    async fn know_views_alone(&self) {
        if !self.views.are_read_at(self.common.ddl.seen())
            && let Err(error) = self.read_views().await
        {
            tracing::warn!(%error, "Rowstamp cannot read the views of tables with a rule");
        }
    }

    /// Reads a table's columns afresh, and assigns it where it is new, so that [`Tables::lookup`]
    /// knows it. `again`: also where what is known is not old. `read`: the table's highest id, as a session
    /// has read it by [`Tables::highest_query`], because it has locked the table, and the control account would wait for that
    /// lock.
    pub(crate) async fn fetch(&self, schema: &str, table: &str, again: bool, read: Option<&str>) {
        let _one_at_a_time = self.common.fetching.lock().await;
        // To assign the table now could take it back from the generator of the next version.
        if self.is_retired() || !again && !matches!(self.lookup(schema, table), Lookup::Unknown) {
            return;
        }
        let rule = self.rules.acting(self.common.case, schema, table).ok().flatten();
        if rule.is_none() {
            self.know_views_alone().await;
            if !self.views.contains(&self.folded(schema, table)) {
                return;
            }
        }
        let ddl = self.common.ddl.seen();
        let known = match &rule {
            Some(rule) => self.read(rule, table, ddl, read).await,
            None => self.through(schema, table, ddl).await,
        };
        if let Err(error) = known {
            tracing::error!(%error, table = format!("{schema}.{table}"), "Rowstamp cannot serve a table with a rule");
            // A rule that looks its column up again each time may find another one then.
            let is_assigned = self.is_assigned(schema, table) && !rule.is_some_and(|rule| rule.is_auto());
            self.put(schema, table, Lookup::Away(error.for_client()), ddl, is_assigned);
        }
    }

    /// True if the table was assigned under these rules.
    pub(super) fn is_assigned(&self, schema: &str, table: &str) -> bool {
        self.known.load().get(&self.folded(schema, table)).is_some_and(|entry| entry.is_assigned)
    }

    /// True if the ids in the table are to be looked at before the table is served: it is new to its generator, or there was DDL.
    pub(crate) fn looks_at_ids(&self, schema: &str, table: &str) -> bool {
        let Ok(Some(rule)) = self.rules.acting(self.common.case, schema, table) else { return false };
        self.common.successor.is_none()
            && self.asked_for_ids(&rule).is_some()
            && (!self.is_assigned_by(&rule, table)
                || self.was_defined_otherwise(schema, table, self.common.ddl.seen()))
    }

    /// True if there was DDL since the table was read, or its columns were found to be others.
    fn was_defined_otherwise(&self, schema: &str, table: &str, ddl: u64) -> bool {
        self.known.load().get(&self.folded(schema, table)).is_some_and(|entry| entry.ddl != ddl)
    }

    /// True if the table was assigned by the ids of this rule's column.
    pub(super) fn is_assigned_by(&self, rule: &Rule, table: &str) -> bool {
        let known = self.known.load();
        let Some(entry) = known.get(&self.folded(&rule.schema, table)) else { return false };
        let is_other =
            |target: &Target| target.view.is_none() && !same_column(&target.rule.column, &rule.column);
        entry.is_assigned && !matches!(&entry.lookup, Lookup::Ruled(target) if is_other(target))
    }

    /// By [`Tables::table_key`], the tables that are assigned.
    pub(super) fn assigned_names(&self) -> Vec<String> {
        let known = self.known.load();
        let assigned = known.iter().filter(|(_, entry)| entry.is_assigned);
        assigned.map(|(name, _)| name.to_string()).collect()
    }

    /// `ddl`: the DDL that had been seen before it was read.
    pub(super) fn put(&self, schema: &str, table: &str, lookup: Lookup, ddl: u64, is_assigned: bool) {
        let key = self.folded(schema, table).into_owned();
        let entry = Entry::read(lookup, (Instant::now(), ddl), is_assigned);
        self.put_all(&[(key, entry)]);
    }

    /// Knows a table as if the backend had it with these columns.
    #[cfg(test)]
    pub(crate) fn know_columns(&self, schema: &str, table: &str, columns: &[ColumnShape]) {
        let rule = self.rules.acting(self.common.case, schema, table).unwrap().unwrap();
        let (columns, shows_insert_id, fires_on_update) = (columns.to_vec(), false, false);
        let shape = TableShape { columns, shows_insert_id, fires_on_update };
        let lookup = self.meaning(&rule, table, Some(Arc::new(shape)));
        self.put(schema, table, lookup, self.common.ddl.seen(), true);
    }

    /// Each change copies all that is known, so many tables are one change.
    pub(super) fn put_all(&self, entries: &[(FoldedName<'static>, Entry)]) {
        self.note_id_columns(entries.iter().map(|(_, entry)| &entry.lookup));
        self.change_known(|known| known.extend(entries.iter().cloned()));
    }

    /// Reads what a name with a rule is on the backend.
    async fn read(
        &self,
        rule: &Arc<Rule>,
        table: &str,
        ddl: u64,
        read: Option<&str>,
    ) -> Result<(), TableError> {
        let live = self.live_table(&rule.schema, table).await?;
        match live.as_ref().map(|live| live.kind) {
            Some(TableKind::Base) | None => {
                self.read_base(rule, table, live, ddl, read).await?;
            }
            Some(TableKind::View) => {
                self.through(&rule.schema, table, ddl).await?;
            }
            // A pattern means tables only.
            Some(TableKind::Other) if rule.is_pattern() => {
                self.put(&rule.schema, table, Lookup::NotRuled, ddl, false);
            }
            Some(TableKind::Other) => {
                let why = format!(
                    "{}.{table} is not a table (rule at {}); remove its rule",
                    rule.schema, rule.origin
                );
                self.put(&rule.schema, table, Lookup::Refused(why), ddl, false);
            }
        }
        Ok(())
    }

    pub(super) async fn read_base(
        &self,
        rule: &Arc<Rule>,
        table: &str,
        live: Option<LiveTable>,
        ddl: u64,
        read: Option<&str>,
    ) -> Result<Lookup, TableError> {
        let lookup = self.meaning(rule, table, live.map(|live| Arc::new(live.shape)));
        // A table that comes back, or gets its column later, may hold other ids.
        let is_assigned = matches!(lookup, Lookup::Ruled(_));
        if let Lookup::Ruled(target) = &lookup {
            if !self.is_assigned_by(&target.rule, table) {
                self.raise_floor(target, read).await?;
            } else if self.was_defined_otherwise(&target.rule.schema, table, ddl) {
                self.raise_floor_again(target, read).await?;
            }
        }
        self.put(&rule.schema, table, lookup.clone(), ddl, is_assigned);
        Ok(lookup)
    }

    /// The meaning of a ruled base table's name with these columns.
    pub(super) fn meaning(&self, rule: &Arc<Rule>, table: &str, shape: Option<Arc<TableShape>>) -> Lookup {
        let meant = match &shape {
            Some(shape) => rule.meant(table, shape.columns.iter()),
            None if self.common.schema.is_none() && rule.is_auto() => Meant::Lacks(format!(
                "Rowstamp cannot find the id column of {}.{table} without a control account (rule at {}); write the column into \
                 the rule",
                rule.schema, rule.origin
            )),
            None => Meant::Fills(rule.clone()),
        };
        let rule = match meant {
            Meant::Fills(rule) => rule,
            Meant::Passes => return Lookup::NotRuled,
            Meant::Lacks(why) => return Lookup::Refused(why),
        };
        if self.common.schema.is_some() && shape.is_none() {
            return Lookup::Missing;
        }
        let spacing = self.spacing(&rule);
        let usage = self.common.taken.usage_of(&rule.schema, table);
        let target = Target { rule, table: table.to_owned(), spacing, shape, view: None, usage };
        Lookup::Ruled(Arc::new(target))
    }
}

/// The tables of one rule that have been seen and get ids by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered {
    pub tables: usize,
    pub databases: BTreeSet<String>,
}

impl InForce {
    /// The tables that rules cover, by the rule as [`Rule::written`](crate::rules::model::Rule::written) has it.
    pub fn covered_by_rules(&self) -> HashMap<String, Covered> {
        let now = self.now();
        let mut all: HashMap<String, Covered> = HashMap::new();
        for entry in now.known.load().values() {
            let Lookup::Ruled(target) = &entry.lookup else { continue };
            if target.view.is_none() {
                let of_rule = all.entry(target.rule.written()).or_default();
                of_rule.tables += 1;
                if !of_rule.databases.contains(&target.rule.schema) {
                    of_rule.databases.insert(target.rule.schema.clone());
                }
            }
        }
        all
    }
}
