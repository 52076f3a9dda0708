//! Tables in shadow mode: known to the planner as if their rules were on, and to nothing else. No
//! id is taken for them, nothing is assigned or locked, and no statement waits for their columns.

pub mod counts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rewrite::plan::Lookup;
use crate::rules::model::{Mode, Rule};
use crate::schema::{SchemaError, TableKind};
use crate::sql::digest::Digest;
use crate::table_name::{FoldedName, TableName};
use crate::tables::shadow::counts::{Outcome, ShadowCount};
use crate::tables::view_targets::{ViewTargets, read_view_targets};
use crate::tables::{InForce, SHAPE_AGE_MAX, Tables};

/// The tables in shadow mode and their views, as they were read; by names as the backend compares
/// them.
#[derive(Default)]
pub(super) struct Shadows {
    tables: BTreeMap<FoldedName<'static>, Lookup>,
    pub(super) views: ViewTargets,
    read_at: Option<Instant>,
    /// The number of times that DDL had been seen before they were read.
    ddl: u64,
}

impl Tables {
    /// True if any rule is in shadow mode.
    pub(crate) fn rehearses(&self) -> bool {
        self.rules.any_is_shadow()
    }

    /// The table in shadow mode that a name in a statement means: its own, or a view's of it.
    pub(crate) fn shadowed(&self, schema: &str, table: &str) -> Option<TableName> {
        if !self.rehearses() {
            return None;
        }
        if let Some(view) = self.shadows.load().views.get(&self.folded(schema, table)) {
            return Some(view.table.clone());
        }
        self.rules.shadow(self.common.case, schema, table)?;
        let name = self.folded(schema, table);
        // A pattern that passes the table over.
        let is_none = matches!(self.shadows.load().tables.get(&name), Some(Lookup::NotRuled));
        (!is_none).then(|| TableName::new(name.schema(), name.table()))
    }

    /// Like [`Tables::lookup`], but tables in shadow mode count as ruled. Only such tables can be
    /// [`Lookup::Unknown`]: what is to be known of others was fetched for the statement on its way to
    /// the server.
    pub(crate) fn rehearsed(&self, schema: &str, table: &str, now: Instant) -> Lookup {
        let shadows = self.shadows.load();
        let found = self.rules.shadow(self.common.case, schema, table);
        let name = self.folded(schema, table);
        let Some(rule) = found.filter(|_| !shadows.views.contains_key(&name)) else {
            let ddl = self.common.ddl.seen();
            let lookup = || self.lookup_since(schema, table, ddl, now);
            let on_its_way = if self.has_rules() { lookup() } else { Lookup::NotRuled };
            return match on_its_way {
                Lookup::NotRuled | Lookup::Unknown => {
                    shadows.views.get(&name).map_or(Lookup::NotRuled, |view| view.lookup.clone())
                }
                found => found,
            };
        };
        if self.common.schema.is_none() {
            return self.meaning(&as_if_on(&rule), table, None);
        }
        shadows.tables.get(&name).cloned().unwrap_or(Lookup::Unknown)
    }

    /// `name`: schema and table as a statement spells them, where it names any.
    pub(crate) fn count_shadow(
        &self,
        name: Option<(&str, &str)>,
        outcome: &Outcome,
        asks: bool,
        digest: &dyn Fn() -> Digest,
    ) {
        let name = name.map(|(schema, table)| self.folded(schema, table));
        let name = name.as_ref().map(|name| (name.schema(), name.table()));
        self.common.shadow.count(name, outcome, asks, digest);
    }

    /// Reads the columns of all tables in shadow mode, and their views, where they are old or DDL
    /// was seen. Nobody waits for it but who makes a version ready, and nothing fails with it.
    pub(crate) async fn read_shadows(&self) {
        let ddl = self.common.ddl.seen();
        let shadows = self.shadows.load();
        let is_fresh = |at: Instant| at.elapsed() < SHAPE_AGE_MAX.saturating_sub(Duration::from_millis(500));
        if !self.rehearses() || shadows.ddl == ddl && shadows.read_at.is_some_and(is_fresh) {
            return;
        }
        match self.shadows_now(ddl).await {
            Ok(shadows) => {
                self.shadows.store(shadows.into());
                self.renew_mentions();
            }
            Err(error) => {
                tracing::debug!(%error, "Rowstamp cannot read the columns of tables in shadow mode");
            }
        }
    }

    async fn shadows_now(&self, ddl: u64) -> Result<Shadows, SchemaError> {
        let mut shadows = Shadows { ddl, read_at: Some(Instant::now()), ..Shadows::default() };
        let Some(schema) = &self.common.schema else { return Ok(shadows) };
        let found = schema.ruled_names(self.common.case, &self.rules).await?;
        let mine: Vec<_> = found.names.into_iter().filter(|(_, rule)| rule.mode == Mode::Shadow).collect();
        let names: Vec<_> = mine.iter().map(|(name, _)| name.clone()).collect();
        let live = schema.live_tables(self.common.case, &names).await?;
        for ((name, rule), live) in mine.iter().zip(live) {
            let Some(live) = live.filter(|live| live.kind == TableKind::Base) else { continue };
            let meaning = self.meaning(&as_if_on(rule), &live.name, Some(Arc::new(live.shape)));
            shadows.tables.insert(self.folded(&name.schema, &name.table).into_owned(), meaning);
        }
        let is_ruled = |lookup: &&Lookup| !matches!(lookup, Lookup::NotRuled);
        let base = |schema: &str, table: &str| {
            shadows.tables.get(&self.folded(schema, table)).filter(is_ruled).cloned()
        };
        shadows.views = read_view_targets(schema, self.common.case, base).await?;
        Ok(shadows)
    }
}

fn as_if_on(rule: &Rule) -> Arc<Rule> {
    Arc::new(Rule { mode: Mode::On, ..rule.clone() })
}

impl InForce {
    /// The statements into tables in shadow mode since the proxy began, counted by what would have become of them.
    pub fn shadow(&self) -> Vec<ShadowCount> {
        self.common.shadow.counted()
    }
}
