//! The ruled tables as they are now: rule, columns and generator of each, found by the name in a statement.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use self::column::{column, highest};
use self::lookup::{Ddl, Known};
use super::locks::{LockError, TableLocks};
use super::views::Views;
use crate::ids::bindings::bind;
use crate::ids::sequence::{Seed, SequenceSpec};
use crate::ids::{OpenError, Sequence, TakeError};
use crate::rewrite::plan::Target;
use crate::rules::RuleSet;
use crate::rules::model::{GeneratorKind, GeneratorName, Mode, NameCase, Rule};
use crate::schema::{LiveTable, Schema, SchemaError};
use crate::store::{Store, StoreError};

mod column;
mod lookup;
mod refresh;
mod through;

pub(super) use column::{highest_of, id_shape};
pub use lookup::SHAPE_AGE_MAX;
pub use refresh::REFRESH_INTERVAL;

/// Why a ruled table cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("binding {table} to its generator: {error}")]
    Bind { table: String, error: StoreError },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Floor(#[from] TakeError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

/// Everything that sessions need to know about ruled tables.
pub struct Tables {
    rules: Arc<RuleSet>,
    case: NameCase,
    /// `None`: there is no control account.
    schema: Option<Schema>,
    store: Arc<dyn Store>,
    /// `None`: the store itself keeps other proxies off.
    locks: Option<TableLocks>,
    owner: String,
    generators: HashMap<GeneratorName, Arc<Sequence>>,
    /// By schema and table as `case` compares them.
    known: ArcSwap<Known>,
    views: Views,
    ddl: Ddl,
    /// One table is looked up at a time.
    fetching: tokio::sync::Mutex<()>,
}

impl Tables {
    /// Binds every table that the rules name and the backend has, and opens the generators above them.
    pub async fn open(
        rules: Arc<RuleSet>,
        schema: Option<Schema>,
        store: Arc<dyn Store>,
        locks: Option<TableLocks>,
        owner: String,
    ) -> Result<Tables, TableError> {
        let case = match &schema {
            Some(schema) => schema.name_case().await?,
            None => NameCase::Sensitive,
        };
        let mut tables = Tables {
            rules: rules.clone(),
            case,
            schema,
            store,
            locks,
            owner,
            generators: HashMap::new(),
            known: ArcSwap::default(),
            views: Views::default(),
            ddl: Ddl::default(),
            fetching: tokio::sync::Mutex::new(()),
        };
        tables.read_views().await?;
        let live = tables.live().await?;
        for spec in rules.generators() {
            let GeneratorKind::Sequence(sequence) = &spec.kind;
            let mine = live.iter().filter(|(_, rule)| rule.generator == spec.name);
            let (mut floor, mut max) = (0, sequence.max.unwrap_or(i64::MAX.unsigned_abs()));
            for (table, rule) in mine {
                let live = tables.live_table(&rule.schema, table).await?;
                let column = live.as_ref().and_then(|live| column(&live.shape, &rule.column));
                if let Some(column) = column {
                    max = max.min(highest(column).unwrap_or(max));
                    floor = floor.max(tables.bind(rule, table, sequence.seed).await?);
                }
            }
            let name = spec.name.to_string();
            let store = tables.store.clone();
            let opened =
                Sequence::open(store, &name, &tables.owner, SequenceSpec::clone(sequence), floor, max)
                    .await?;
            tables.generators.insert(spec.name.clone(), opened);
        }
        for (table, rule) in &live {
            tables.fetch(&rule.schema, table, true).await;
        }
        Ok(tables)
    }

    /// Each ruled table of the backend with its rule.
    async fn live(&self) -> Result<Vec<(String, Arc<Rule>)>, TableError> {
        let Some(schema) = &self.schema else { return Ok(Vec::new()) };
        let mut live = Vec::new();
        let mut schemas: Vec<&str> = self.rules.rules().map(|rule| rule.schema.as_str()).collect();
        schemas.sort_unstable();
        schemas.dedup();
        for name in schemas {
            for table in schema.tables(name).await? {
                match self.rules.find(self.case, name, &table) {
                    Ok(Some(rule)) if rule.mode != Mode::Off => live.push((table, rule.clone())),
                    Ok(_) => {}
                    Err(ambiguous) => tracing::error!("{ambiguous}"),
                }
            }
        }
        Ok(live)
    }

    async fn live_table(&self, schema: &str, table: &str) -> Result<Option<LiveTable>, TableError> {
        match &self.schema {
            Some(live) => Ok(live.table(self.case, schema, table).await?),
            None => Ok(None),
        }
    }

    /// Binds a table to its rule's generator; returns what the generator's ids must be above.
    async fn bind(&self, rule: &Rule, table: &str, seed: Seed) -> Result<u64, TableError> {
        // Letter case that the backend does not tell apart makes no second lock and no second binding.
        let (folded_schema, folded_table) = self.key(&rule.schema, table);
        let name = format!("{folded_schema}.{folded_table}");
        if let Some(locks) = &self.locks {
            locks.take(&name).await?;
        }
        let highest = match (&self.schema, seed) {
            (Some(schema), Seed::Tables) => schema.highest_id(&rule.schema, table, &rule.column).await?,
            _ => 0,
        };
        let bound = bind(&self.store, &name, &rule.generator.to_string(), &self.owner, highest).await;
        let bound = bound.map_err(|error| TableError::Bind { table: name.clone(), error })?;
        if let Some(from) = &bound.moved_from {
            tracing::info!(table = name, from, to = %rule.generator, floor = bound.floor, "the table has a new generator");
        }
        Ok(bound.floor)
    }

    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    pub fn generators(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.generators.values()
    }

    pub(super) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    pub(super) fn generator(&self, target: &Target) -> Option<&Arc<Sequence>> {
        self.generators.get(&target.rule.generator)
    }

    async fn raise_floor(&self, rule: &Rule, table: &str) -> Result<(), TableError> {
        let Some((spec, generator)) =
            self.rules.generator(&rule.generator).zip(self.generators.get(&rule.generator))
        else {
            return Ok(());
        };
        let GeneratorKind::Sequence(sequence) = &spec.kind;
        let floor = self.bind(rule, table, sequence.seed).await?;
        Ok(generator.raise_floor(floor, Duration::from_secs(5)).await?)
    }

    fn step(&self, rule: &Rule) -> NonZeroU64 {
        match self.rules.generator(&rule.generator).map(|spec| &spec.kind) {
            Some(GeneratorKind::Sequence(sequence)) => sequence.step,
            None => NonZeroU64::MIN,
        }
    }
}
