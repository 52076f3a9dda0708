//! The ruled tables under one version of the rules: rule, columns and generator of each, found by
//! the name in a statement. [`InForce`] has the version that counts, `change` makes the next one, and
//! `in_force` puts it in the place of the one before. `lookup` finds tables, `take` takes ids.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use self::generators::Generators;
use self::looks::names::Names;
use self::lookup::{Drawn, Entries};
use self::shadow::Shadows;
use crate::ids::bindings::{Wanted, assign};
use crate::ids::block::Spacing;
use crate::ids::sequence::Seed;
use crate::ids::timestamp::clock::Clock;
use crate::ids::{Generator, OpenError, TakeError};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::RuleSet;
use crate::rules::mentions::Mentions;
use crate::rules::model::{GeneratorName, Origin, Rule};
use crate::schema::{self, BINDING_LOCK_SECONDS, LiveTable, Schema, SchemaError, TableKind};
use crate::store::{Store, StoreError};
use crate::table_name::NameCase;
use crate::table_use::Unseen;
use crate::tables::locks::{LockError, TableLocks};
use crate::tables::progress::ChangeProgress;
pub(crate) use crate::tables::progress::grouped;
use crate::tables::shadow::counts::Shadow;
use crate::tables::views::Views;

mod change;
mod generators;
mod in_force;
pub mod locks;
mod looks;
mod lookup;
mod mentions;
mod progress;
mod refresh;
pub mod shadow;
mod successor;
mod survey;
mod take;
mod taken;
pub mod view_targets;
pub mod views;

pub(crate) use looks::packet_looks_from;
pub(crate) use lookup::DrawnFrom;
pub use lookup::{Covered, SHAPE_AGE_MAX};
pub(crate) use mentions::{is_concerning, may_change_calls};
pub use refresh::REFRESH_INTERVAL;
pub use successor::{Asked, Look, Successor};
pub use taken::{OfGenerator, TakenIds};

/// Two templates that are not alike come to one name: one generator cannot be both.
#[derive(Debug, thiserror::Error)]
#[error(
    "the templates of the rules at {first} and {second} make two different generators of one name, {name}; change one of the \
     templates"
)]
pub struct MadeTwice {
    name: GeneratorName,
    first: Origin,
    second: Origin,
}

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error("Rowstamp cannot bind {tables}: {error}")]
    Assign { tables: String, error: StoreError },
    #[error("Rowstamp cannot raise the generators above the ids of their tables: {0}")]
    Raise(StoreError),
    #[error("{origin}: {error}")]
    Open { origin: Origin, error: OpenError },
    #[error("generator {0} is not open: the store was away when this proxy started, and is not back yet")]
    NotOpen(GeneratorName),
    #[error(transparent)]
    MadeTwice(#[from] Box<MadeTwice>),
    #[error("another process has taken over; reload that process")]
    Yielded,
    #[error(transparent)]
    Floor(#[from] TakeError),
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The process that took over could not look at it.
    #[error("{}", .0.why)]
    Unseen(Unseen),
}

impl TableError {
    /// The error for the client whose statement needs the table: without addresses, accounts and the store's
    /// keys. The log has them.
    fn for_client(&self) -> String {
        let why = match self {
            TableError::Schema(error @ SchemaError::Locked { .. }) => return error.to_string(),
            TableError::Schema(_) => "Rowstamp could not read the table's columns from the server",
            TableError::Assign { .. } => "Rowstamp could not bind the table to its generator in the store",
            TableError::Raise(_) => "Rowstamp could not raise the table's generator in the store",
            TableError::Open { .. } => "Rowstamp could not open the table's generator",
            TableError::Lock(LockError::Held { .. }) => {
                "it is held by another Rowstamp, which has another store"
            }
            TableError::Lock(_) => "Rowstamp could not obtain the table's lock",
            TableError::Floor(error) => return error.for_client(),
            TableError::MadeTwice(_) => "two rules make different generators of the same name",
            TableError::NotOpen(_) | TableError::Yielded | TableError::Unseen(_) => return self.to_string(),
        };
        format!("the table cannot be served: {why}; the proxy's log has the reason")
    }

    /// True if the same attempt may succeed later, with nothing changed: the store did not
    /// answer.
    fn passes(&self) -> bool {
        match self {
            TableError::Assign { error, .. }
            | TableError::Raise(error)
            | TableError::Open { error: OpenError::Store { error, .. }, .. } => error.passes(),
            TableError::Floor(TakeError::StoreAway { .. }) => true,
            TableError::Lock(error) => error.passes(),
            _ => false,
        }
    }

    /// True if the same rules may become active later: another machine was away, or another
    /// proxy not gone yet.
    pub fn may_pass(&self) -> bool {
        self.passes() || matches!(self, TableError::Schema(_) | TableError::Lock(_))
    }
}

const FLOOR_DEADLINE: Duration = Duration::from_secs(5);

/// The limit after DDL, as [`BINDING_LOCK_SECONDS`]. Another session may hold the table's lock for as long as it likes.
const DDL_LOCK_SECONDS: u32 = 1;
/// The time limit for the whole reading after DDL; other tables' first statements wait meanwhile.
const DDL_READ_MAX: Duration = Duration::from_secs(2);

/// Everything that a statement needs to know about ruled tables. Its rules and generators never
/// change: a statement that looks at one of these sees one version of them.
pub struct Tables {
    rules: Arc<RuleSet>,
    common: Common,
    generators: Generators,
    /// By schema and table as `case` compares them.
    known: ArcSwap<Entries>,
    views: Views,
    shadows: ArcSwap<Shadows>,
    drawn: Drawn,
    /// The names that tables and views have for the filled columns, and the names of the views.
    id_columns: ArcSwap<Names>,
    view_names: ArcSwap<Names>,
    /// The words of all these names: a text without them concerns no rule.
    mentions: ArcSwap<Mentions>,
    /// Another version takes its place, or has: what was planned under this one and not sent is
    /// planned again.
    retired: AtomicBool,
}

/// The state that all sessions share. A statement takes one version of the rules, by
/// `InForce::now`, and keeps to that version.
pub struct InForce {
    now: ArcSwap<Tables>,
    /// The store was not there when the rules were read: none of their generators is open.
    is_waiting: AtomicBool,
    /// Calls may draw ids under the version that counts: asked for each statement.
    draws: AtomicBool,
    common: Common,
    /// Held while one version gives way to the next: one change at a time.
    changing: tokio::sync::Mutex<()>,
    /// Versions that gave way, while a statement that is under way holds them.
    past: Mutex<Vec<Weak<Tables>>>,
}

/// The parts that all versions of the rules share: a change keeps them.
#[derive(Clone)]
struct Common {
    case: NameCase,
    /// `None`: there is no control account.
    schema: Option<Schema>,
    store: Arc<dyn Store>,
    /// `None`: there is no control account, or another process issues the ids.
    locks: Option<TableLocks>,
    /// Issues ids in this process's stead; there are no generators then.
    successor: Option<Arc<dyn Successor>>,
    owner: String,
    taken: Arc<TakenIds>,
    clock: Arc<dyn Clock>,
    /// The clock is not compared with the backend's.
    trusts_clock: bool,
    /// DDL of any session. What was read before the last of it may be out of date.
    ddl: Arc<Sightings>,
    /// Statements from sessions that may give rows other ids.
    moves: Arc<Sightings>,
    shadow: Arc<Shadow>,
    /// One table is looked up at a time, and none while a version gives way to the next: bindings
    /// are made under it.
    fetching: Arc<tokio::sync::Mutex<()>>,
    progress: Arc<ChangeProgress>,
}

/// The number of times that something was seen.
#[derive(Debug, Default)]
struct Sightings(AtomicU64);

impl Sightings {
    fn saw(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("rules", &self.rules.rules().len()).finish_non_exhaustive()
    }
}

impl Tables {
    fn new(rules: Arc<RuleSet>, common: Common) -> Self {
        let tables = Tables {
            drawn: Drawn::new(&rules, common.case),
            id_columns: ArcSwap::default(),
            view_names: ArcSwap::default(),
            rules,
            common,
            generators: Generators::default(),
            known: ArcSwap::default(),
            views: Views::default(),
            shadows: ArcSwap::default(),
            mentions: ArcSwap::default(),
            retired: AtomicBool::new(false),
        };
        tables.renew_mentions();
        tables
    }

    async fn live_table(&self, schema: &str, table: &str) -> Result<Option<LiveTable>, TableError> {
        match &self.common.schema {
            Some(live) => Ok(live.table(self.common.case, schema, table).await?),
            None => Ok(None),
        }
    }

    /// Assigns a table to its rule's generator; returns what the generator's ids must be above.
    async fn assign(&self, rule: &Rule, table: &str, read: Option<&str>) -> Result<u64, TableError> {
        self.lock(rule, table).await?;
        if let Some(locks) = &self.common.locks {
            // Waits until nobody else issues ids for the tables that were locked: only then can their ids be looked at.
            locks.settled().await;
        }
        let highest = self.highest(rule, table, read, BINDING_LOCK_SECONDS).await?;
        let floors = self.assign_above(&[(rule, table, highest)], None).await?;
        Ok(floors.first().copied().unwrap_or(highest))
    }

    /// `schema.table`: its key in the store, and what its lock is named after. Letter case that the
    /// backend does not tell apart makes no second lock and no second binding.
    fn table_key(&self, rule: &Rule, table: &str) -> String {
        self.folded(&rule.schema, table).to_string()
    }

    /// By [`Tables::table_key`], the generators that calls draw from.
    fn drawn_names(&self) -> impl Iterator<Item = String> {
        self.drawn.all().map(|target| self.table_key(&target.rule, &target.table))
    }

    async fn lock(&self, rule: &Rule, table: &str) -> Result<(), TableError> {
        match &self.common.locks {
            Some(locks) => Ok(locks.take(&self.table_key(rule, table)).await?),
            None => Ok(()),
        }
    }

    /// The highest id in the table, where the generator starts above it. For a timestamp generator,
    /// ids above all of its own do not count: they may be other nodes', where the layout puts the
    /// node above the time. `read`: as [`Tables::fetch`] has it. Without it the control account waits `lock_seconds` for
    /// the table's lock.
    async fn highest(
        &self,
        rule: &Rule,
        table: &str,
        read: Option<&str>,
        lock_seconds: u32,
    ) -> Result<u64, TableError> {
        let Some((schema, id_max)) = self.asked_for_ids(rule) else { return Ok(0) };
        Ok(match read {
            Some(read) => schema.highest_id_above(read, &rule.schema, table, id_max).await?,
            None => schema.highest_id_within(lock_seconds, &rule.schema, table, &rule.column, id_max).await?,
        })
    }

    /// The query with which a session reads the highest id of a table that is locked; those above `reach` do not count. `None`: it need not be read, or the
    /// session may not see the true value (a view, a masked column).
    pub(crate) async fn highest_query(
        &self,
        schema: &str,
        table: &str,
        reach: Option<u64>,
    ) -> Option<String> {
        let live = self.live_table(schema, table).await.ok()??;
        let rule = self.rules.acting(self.common.case, schema, table).ok().flatten()?;
        let Lookup::Ruled(target) = self.meaning(&rule, table, Some(Arc::new(live.shape))) else {
            return None;
        };
        let (_, id_max) = self.asked_for_ids(&target.rule)?;
        // A session that reads a masked column may get another value.
        let column = target.id_shape().filter(|column| live.kind == TableKind::Base && !column.masked)?;
        Some(schema::highest_query(&target.rule.schema, table, column, id_max.or(reach)))
    }

    /// The control account's access to the ids in the rule's tables, and the highest id that counts.
    fn asked_for_ids(&self, rule: &Rule) -> Option<(&Schema, Option<u64>)> {
        let schema = self.common.schema.as_ref().filter(|_| self.seed(rule) == Seed::Tables)?;
        Some((schema, self.generators.with(&rule.generator, Generator::id_max)))
    }

    /// Assigns tables that are locked, each with the highest of its ids; returns what the generators' ids must be above. `old`: a version
    /// that may have other generators open.
    async fn assign_above(
        &self,
        tables: &[(&Rule, &str, u64)],
        old: Option<&Tables>,
    ) -> Result<Vec<u64>, TableError> {
        let name =
            |(rule, table, _): &(&Rule, &str, u64)| (self.table_key(rule, table), rule.generator.to_string());
        let names: Vec<(String, String)> = tables.iter().map(name).collect();
        let wanted = tables.iter().zip(&names).map(|((rule, _, highest), (table, generator))| Wanted {
            table,
            generator,
            is_sequence: !self.is_timestamp(rule),
            floor_of_table: *highest,
        });
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let Common { store, owner, progress, .. } = &self.common;
        let (assigned, moves) =
            assign(store, &wanted, owner, |more| progress.add(more)).await.map_err(|error| {
                let tables = match &*names {
                    [(table, generator)] => format!("table {table} to generator {generator}"),
                    _ => format!("{} tables to their generators", names.len()),
                };
                TableError::Assign { tables, error }
            })?;
        for (assigned, (table, to)) in assigned.iter().zip(&names) {
            if let Some(from) = &assigned.moved_from {
                tracing::info!(table, from, to, floor = assigned.floor, "the table has a new generator");
            }
        }
        let others = old.into_iter().flat_map(|old| old.generators.all());
        for (_, generator) in self.generators.all().into_iter().chain(others) {
            if moves.has(generator.name()) {
                generator.follow(&moves).await;
            }
        }
        Ok(assigned.into_iter().map(|assigned| assigned.floor).collect())
    }

    pub(crate) fn has_rules(&self) -> bool {
        self.rules.any_acts()
    }

    async fn raise_floor(&self, target: &Target, read: Option<&str>) -> Result<(), TableError> {
        if self.common.successor.is_some() {
            // The successor assigns the tables that it issues ids for.
            return Ok(());
        }
        let generator = self.generator_for(target).await?;
        let floor = self.assign(&target.rule, &target.table, read).await?;
        Ok(generator.raise_floor(floor, FLOOR_DEADLINE).await?)
    }

    /// Raises the floor after DDL on a table that is assigned: it may be another table now, or have
    /// another counter (RENAME, CREATE ... SELECT, ALTER TABLE ... AUTO_INCREMENT). If the table cannot
    /// be read soon (another session may have locked it), or the store is away, ids continue above
    /// those that were issued. Text columns are left alone: their highest id takes a look at each
    /// row.
    async fn raise_floor_again(&self, target: &Target, read: Option<&str>) -> Result<(), TableError> {
        let (rule, table) = (&target.rule, &target.table);
        let Some(generator) = self.generators.get(&rule.generator) else { return Ok(()) };
        *target.usage.looks.has_index.lock() = None;
        if target.id_shape().is_none_or(|column| column.highest().is_none()) {
            return Ok(());
        }
        let raised = async {
            let highest = self.highest(rule, table, read, DDL_LOCK_SECONDS).await?;
            generator.raise_floor(highest, FLOOR_DEADLINE).await.map_err(TableError::from)
        };
        let why = match tokio::time::timeout(DDL_READ_MAX, raised).await {
            Ok(Err(error)) if error.may_pass() => error.for_client(),
            Ok(raised) => return raised,
            Err(_) => format!("this took more than {DDL_READ_MAX:?}"),
        };
        tracing::warn!(
            why,
            table = format!("{}.{table}", rule.schema),
            "Rowstamp could not read the highest id of the table after DDL, or not raise the generator above it; the generator continues \
             above the ids that it has issued"
        );
        Ok(())
    }

    fn spacing(&self, rule: &Rule) -> Spacing {
        let one_by_one = Spacing::by(NonZeroU64::MIN);
        self.rules.generator_of(rule).map_or(one_by_one, |spec| spec.kind.spacing())
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    /// True if a statement that was planned under this version, and not sent, must be planned under the next.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }
}

impl InForce {
    pub(crate) fn now(&self) -> Arc<Tables> {
        self.now.load_full()
    }

    /// The version that comes after `retired`. `None`: it takes longer than `deadline`.
    pub(crate) async fn after(&self, retired: &Arc<Tables>, deadline: Duration) -> Option<Arc<Tables>> {
        let _changed = tokio::time::timeout(deadline, self.common.fetching.lock()).await.ok()?;
        Some(self.now()).filter(|now| !Arc::ptr_eq(now, retired))
    }

    fn replace(&self, old: &Arc<Tables>, next: Tables) {
        self.draws.store(next.has_draws(), Ordering::Relaxed);
        self.now.store(Arc::new(next));
        self.past.lock().push(Arc::downgrade(old));
    }

    async fn guarded_again(&self) {
        if let Some(locks) = &self.common.locks {
            locks.assigned_again().await;
        }
    }

    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.common.schema.as_ref()
    }

    pub(crate) fn name_case(&self) -> NameCase {
        self.common.case
    }

    /// The number of times that DDL from sessions was seen.
    pub fn ddl_seen(&self) -> u64 {
        self.common.ddl.seen()
    }

    /// DDL was seen: every shape is read again when it is needed.
    pub(crate) fn forget_shapes(&self) {
        if self.common.schema.is_some() {
            self.common.ddl.saw();
        }
    }

    /// The store was not there when this process started, and is not yet: no generator is open.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    pub fn taken(&self) -> &TakenIds {
        &self.common.taken
    }

    pub fn rules(&self) -> Arc<RuleSet> {
        self.now().rules.clone()
    }

    /// True if another process issues ids in this one's stead.
    pub fn has_yielded(&self) -> bool {
        self.now().common.successor.is_some()
    }
}

#[cfg(test)]
mod tests;
