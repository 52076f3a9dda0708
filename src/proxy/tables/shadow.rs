//! Tables in shadow mode: known to the planner as if their rules were on, and to nothing else. No id is taken for them, nothing
//! is bound or locked, and no statement waits for their columns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lookup::Name;
use super::{InForce, SHAPE_AGE_MAX, Tables};
use crate::proxy::shadow::{Outcome, ShadowCount};
use crate::rewrite::plan::Lookup;
use crate::rules::model::{Mode, Rule};
use crate::schema::{SchemaError, TableKind};
use crate::sql::digest::Digest;

/// What was read of the tables in shadow mode.
#[derive(Default)]
pub(super) struct Shadows {
    known: std::collections::BTreeMap<Name<'static>, Lookup>,
    read_at: Option<Instant>,
    /// How often DDL had been seen before they were read.
    ddl: u64,
}

impl Tables {
    /// Whether any rule is in shadow mode.
    pub(in crate::proxy) fn rehearses(&self) -> bool {
        self.rules.any_is_shadow()
    }

    /// Whether the table's rule is in shadow mode.
    pub(in crate::proxy) fn is_shadow(&self, schema: &str, table: &str) -> bool {
        self.rehearses() && self.rules.shadow(self.backend.case, schema, table).is_some()
    }

    /// As [`Tables::lookup`], with tables in shadow mode ruled as if they were on. [`Lookup::Unknown`] of such tables only: what
    /// is to be known of others was fetched for the statement on its way.
    pub(in crate::proxy) fn rehearsed(&self, schema: &str, table: &str) -> Lookup {
        let Some(rule) = self.rules.shadow(self.backend.case, schema, table) else {
            return match self.lookup(schema, table) {
                found if self.has_rules() && !matches!(found, Lookup::Unknown) => found,
                _ => Lookup::NotRuled,
            };
        };
        if self.backend.schema.is_none() {
            return self.meaning(&as_if_on(rule), table, None);
        }
        let shadows = self.shadows.load();
        shadows.known.get(&self.folded(schema, table)).cloned().unwrap_or(Lookup::Unknown)
    }

    /// `name`: schema and table as a statement spells them, where it names any.
    pub(in crate::proxy) fn count_shadow(
        &self,
        name: Option<(&str, &str)>,
        outcome: &Outcome,
        asks: bool,
        digest: &dyn Fn() -> Digest,
    ) {
        let name = name.map(|(schema, table)| self.folded(schema, table));
        let name = name.as_ref().map(|(schema, table)| (&**schema, &**table));
        self.backend.shadow.count(name, outcome, asks, digest);
    }

    /// Reads the columns of all tables in shadow mode, where they are old or DDL was seen. Nobody waits for it but who makes a
    /// version ready, and nothing fails with it.
    pub(super) async fn read_shadows(&self) {
        let ddl = self.backend.ddl.seen();
        let shadows = self.shadows.load();
        let is_fresh = |at: Instant| at.elapsed() < SHAPE_AGE_MAX.saturating_sub(Duration::from_millis(500));
        if !self.rehearses() || shadows.ddl == ddl && shadows.read_at.is_some_and(is_fresh) {
            return;
        }
        match self.shadows_now(ddl).await {
            Ok(shadows) => self.shadows.store(shadows.into()),
            Err(error) => tracing::debug!(%error, "the columns of tables in shadow mode cannot be read"),
        }
    }

    async fn shadows_now(&self, ddl: u64) -> Result<Shadows, SchemaError> {
        let mut shadows = Shadows { ddl, read_at: Some(Instant::now()), ..Shadows::default() };
        let Some(schema) = &self.backend.schema else { return Ok(shadows) };
        let found = schema.ruled_tables(self.backend.case, &self.rules).await?.tables;
        let mine: Vec<_> = found.into_iter().filter(|(_, rule)| rule.mode == Mode::Shadow).collect();
        let names: Vec<_> = mine.iter().map(|(table, rule)| (rule.schema.clone(), table.clone())).collect();
        let live = schema.live_tables(self.backend.case, &names).await?;
        for ((table, rule), live) in mine.iter().zip(live) {
            let Some(live) = live.filter(|live| live.kind == TableKind::Base) else { continue };
            let meaning = self.meaning(&as_if_on(rule), table, Some(Arc::new(live.shape)));
            shadows.known.insert(self.key(&rule.schema, table), meaning);
        }
        Ok(shadows)
    }
}

fn as_if_on(rule: &Rule) -> Arc<Rule> {
    Arc::new(Rule { mode: Mode::On, ..rule.clone() })
}

impl InForce {
    /// What would have become of statements into tables in shadow mode, since the proxy began.
    pub fn shadow(&self) -> Vec<ShadowCount> {
        self.backend.shadow.counted()
    }

    /// `Tables::read_shadows` of the version that counts.
    pub async fn refresh_shadows(&self) {
        self.now().read_shadows().await;
    }
}
