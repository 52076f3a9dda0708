//! The ruled tables as they are now: rule, columns and generator of each, found by the name in a statement.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::locks::{LockError, TableLocks};
use super::views::Views;
use crate::ids::bindings::bind;
use crate::ids::sequence::{Seed, SequenceSpec};
use crate::ids::{OpenError, Sequence, TakeError};
use crate::rewrite::plan::{Lookup, Target};
use crate::rules::RuleSet;
use crate::rules::model::{ColumnShape, GeneratorKind, GeneratorName, Mode, NameCase, Rule, TableShape};
use crate::schema::{Schema, SchemaError};
use crate::store::{Store, StoreError};

/// A table's columns, and the views, are read again after so long: DDL that did not come through this proxy is seen then.
pub const SHAPE_AGE_MAX: Duration = Duration::from_secs(5);

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

/// How often DDL was seen by any session: what was read before the last time may be out of date.
#[derive(Debug, Default)]
struct Ddl(AtomicU64);

impl Ddl {
    fn saw(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

type Known = BTreeMap<(String, String), Entry>;

#[derive(Clone)]
struct Entry {
    lookup: Lookup,
    read_at: Instant,
    /// [`Ddl::seen`] before it was read.
    ddl: u64,
    /// Bound to its generator, and above its floor.
    is_bound: bool,
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
                let shape = tables.shape(&rule.schema, table).await?;
                let column = shape.as_deref().and_then(|shape| column(shape, &rule.column));
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

    async fn shape(&self, schema: &str, table: &str) -> Result<Option<Arc<TableShape>>, TableError> {
        match &self.schema {
            Some(live) => Ok(live.shape(schema, table).await?.map(Arc::new)),
            None => Ok(None),
        }
    }

    /// Binds a table to its rule's generator; returns what the generator's ids must be above.
    async fn bind(&self, rule: &Rule, table: &str, seed: Seed) -> Result<u64, TableError> {
        let name = format!("{}.{table}", rule.schema);
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

    /// Whether two names are one to the backend.
    pub(super) fn is_same_name(&self, a: &str, b: &str) -> bool {
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
    pub(super) fn lookup(&self, schema: &str, table: &str) -> Lookup {
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
    pub(super) fn forget_shapes(&self) {
        if self.schema.is_some() {
            self.ddl.saw();
        }
    }

    /// Reads a table's columns afresh, and binds it where it is new, so that [`Tables::lookup`] knows it. `again`: also
    /// where what is known is not old.
    pub(super) async fn fetch(&self, schema: &str, table: &str, again: bool) {
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

fn column<'a>(shape: &'a TableShape, name: &str) -> Option<&'a ColumnShape> {
    shape.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
}

/// The highest id that the target's column holds.
pub(super) fn highest_of(target: &Target) -> u64 {
    let column = target.shape.as_deref().and_then(|shape| column(shape, &target.rule.column));
    column.and_then(highest).unwrap_or(i64::MAX.unsigned_abs())
}

/// Whether the target's column holds strings.
pub(super) fn is_textual(target: &Target) -> bool {
    let column = target.shape.as_deref().and_then(|shape| column(shape, &target.rule.column));
    column.is_some_and(|column| matches!(column.data_type.as_str(), "char" | "varchar" | "text" | "tinytext"))
}

/// `None` for columns that are no integers. Source: MySQL manual, "Integer Types".
fn highest(column: &ColumnShape) -> Option<u64> {
    let bits = match column.data_type.as_str() {
        "tinyint" => 8,
        "smallint" => 16,
        "mediumint" => 24,
        "int" => 32,
        "bigint" => 64,
        _ => return None,
    };
    Some(u64::MAX >> (64 - bits + u32::from(!column.unsigned)))
}

#[cfg(test)]
mod tests {
    use super::highest;
    use crate::rules::model::ColumnShape;

    #[track_caller]
    fn check(data_type: &str, unsigned: bool, expect: Option<u64>) {
        let column = ColumnShape {
            name: "id".into(),
            data_type: data_type.into(),
            unsigned,
            auto_increment: false,
            generated: false,
            invisible: false,
        };
        assert_eq!(highest(&column), expect);
    }

    #[test]
    fn widest_ids() {
        check("tinyint", false, Some(127));
        check("tinyint", true, Some(255));
        check("int", false, Some(2_147_483_647));
        check("int", true, Some(4_294_967_295));
        check("bigint", false, Some(9_223_372_036_854_775_807));
        check("bigint", true, Some(u64::MAX));
        check("varchar", false, None);
    }
}
