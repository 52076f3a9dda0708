//! Looks at the highest id of a table in use. Ids come into a table by other ways than an INSERT that Rowstamp gives ids: another
//! client inserts, an UPDATE sets the id, a routine runs, another table takes the name, or the server has numbered rows itself
//! (`unavailable = "native"`, `rewrite.on_doubt = "forward"`, `insert_id`). Where an INSERT then gets an id that is in the table, the server answers with
//! error 1062. Where a REPLACE gets it, the row that has the id is deleted, and no error tells of it.
//!
//! So a table is looked at before its next id after an id has collided, and after a statement that may give rows other ids. Once a second
//! the tables that took ids since the last look are looked at, which finds what does not come through the proxy. Where the last look is
//! older than that, a REPLACE, or an INSERT with IGNORE or ON DUPLICATE KEY UPDATE, has the table looked at before it.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{DDL_LOCK_SECONDS, DDL_READ_MAX, FLOOR_DEADLINE, InForce, TableError, Tables};
use crate::ids::range::block::IdBlock;
use crate::ids::{Generator, TakeError};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::{Target, Unseen};
use crate::rules::model::{Collide, ColumnShape, Explicit};
use crate::schema::{HIGHEST_PER_QUERY, Highest, Schema, SchemaError};
use crate::sql::statement::moves::IdNames;

/// A statement that hides a collision has its table looked at before it, where the last look is older. Tables in use are looked at
/// every second.
const LOOK_AGE_MAX: Duration = Duration::from_millis(1500);

/// A statement whose ids were taken before the generator was raised is answered within this time.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// That the server numbers rows of a table is logged again after so long without one.
const NATIVE_PAUSE: Duration = Duration::from_secs(2);

/// A statement that hides collisions waits so long for the look at its table.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

const LOCKED: &str = "the table is locked (LOCK TABLES or DDL)";

/// That ids came into a table without its generator is logged once in this time.
const OVERTAKEN_PAUSE: Duration = Duration::from_secs(1);

/// How many statements sessions have sent that may give rows other ids.
#[derive(Debug, Default)]
pub(super) struct Moves(AtomicU64);

impl Moves {
    fn saw(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn seen(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl InForce {
    /// A statement was answered that may have given rows other ids.
    pub(crate) fn ids_may_have_moved(&self) {
        self.backend.moves.saw();
    }

    /// The server has answered 1062 to an id of the generator's. The collision is counted, and logged once a second at most.
    /// If the rule says so, the table gets no id until the generator is above its ids.
    pub(crate) fn collided(&self, target: &Target, id: u64) {
        let rule = &target.rule;
        if self.backend.taken.of(&rule.generator).note_collision() {
            tracing::warn!(
                table = name_of(target),
                id,
                generator = %rule.generator,
                "the table already has the id that the generator issued (error 1062). Another client inserts without Rowstamp, by \
                 AUTO_INCREMENT or with ids of its own, or another table has taken this name; let all writers use the proxy: {}",
                crate::book::page!("migrate")
            );
        }
        let looks = &target.filled.looks;
        // If it was taken before the generator was raised, the generator is above it.
        let is_below = looks.above.lock().is_some_and(|(above, at)| id <= above && at.elapsed() < UNDER_WAY);
        if rule.collide == Collide::Raise && !is_below {
            looks.due.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The server numbers rows of the table itself.
    pub(crate) fn numbered_natively(&self, target: &Target) {
        let of = self.backend.taken.of(&target.rule.generator);
        of.note_native();
        let looks = &target.filled.looks;
        // Nobody waits for ids that are not there.
        looks.is_failing.fetch_or(of.is_away(), Ordering::Relaxed);
        looks.due.fetch_add(1, Ordering::AcqRel);
        let before = looks.native_at.lock().replace(Instant::now());
        if before.is_none_or(|at| at.elapsed() > NATIVE_PAUSE) {
            tracing::warn!(
                table = name_of(target),
                generator = %target.rule.generator,
                "the server numbers rows of the table by its AUTO_INCREMENT: Rowstamp has no ids (unavailable = \"native\") or cannot rewrite a \
                 statement (rewrite.on_doubt = \"forward\"), or the client has set insert_id"
            );
        }
    }

    /// Looks at a table before it gets an id, if that is due. `hides`: the statement that is to get the id would hide a collision.
    /// `read`: the table's highest id, as the session has read it. After an error a statement that hides collisions must not get an
    /// id. Others may: the server tells of the collision.
    pub(crate) async fn look(
        &self,
        target: &Target,
        hides: bool,
        read: Option<&str>,
        limit: Duration,
    ) -> Result<(), Unseen> {
        let (asked, wanted) = (Instant::now(), self.backend.moves.seen());
        let looks = &target.filled.looks;
        let of = self.backend.taken.of(&target.rule.generator);
        let _one_at_a_time = of.looking.lock().await;
        let now = self.now();
        // Another session's look may have been the one that is wanted.
        if !(now.is_due(target, wanted) || hides && now.must_be_seen(target)) {
            return Ok(());
        }
        if hides && of.is_away() && is_to_be_raised(target) {
            return Err(Unseen { why: "the server numbers the table's rows".to_owned(), is_locked: false });
        }
        if let Some((_, unseen)) = looks.failed.lock().as_ref().filter(|(begun, _)| *begun >= asked) {
            return Err(unseen.clone());
        }
        let (begun, moves) = (Instant::now(), self.backend.moves.seen());
        let limit = if hides { SEEN_WITHIN } else { limit.min(DDL_READ_MAX) };
        let looked = timeout(limit, async {
            if read.is_none() && is_to_be_raised(target) {
                return now.raise(target).await;
            }
            let due = looks.due.load(Ordering::Acquire);
            now.look_at(target, read).await?;
            looks.done.fetch_max(due, Ordering::AcqRel);
            Ok(())
        });
        let seen = match looked.await {
            Ok(Ok(())) => {
                note_success(target);
                Ok(())
            }
            Ok(Err(error)) => note_failure(target, &error),
            Err(_) => Err(note_timeout(target, limit)),
        };
        // Also where it failed: INSERTs that hide nothing do not wait for it again. The background looks again each second.
        looks.moves.fetch_max(moves, Ordering::AcqRel);
        match &seen {
            Ok(()) => note_look(target),
            Err(unseen) => *looks.failed.lock() = Some((begun, unseen.clone())),
        }
        seen
    }

    /// Looks again at tables that could not be looked at, and raises the generators of those whose rows the server numbers.
    pub async fn raise_due(&self) {
        let tables = self.now();
        let mut raises = JoinSet::new();
        let is_due = |target: &Arc<Target>| {
            is_to_be_raised(target) || target.filled.looks.is_failing.load(Ordering::Relaxed)
        };
        for target in tables.targets().filter(is_due) {
            let tables = Arc::clone(&tables);
            raises.spawn(async move {
                let looked = if is_to_be_raised(&target) {
                    tables.raise(&target).await
                } else {
                    tables.look_at(&target, None).await
                };
                match looked {
                    Ok(()) => note_success(&target),
                    Err(error) => drop(note_failure(&target, &error)),
                }
            });
        }
        raises.join_all().await;
    }

    /// Looks at the tables that took ids since they were looked at last.
    pub async fn look_at_used(&self) {
        let tables = self.now();
        let Some(schema) = &self.backend.schema else { return };
        // The process that issues the ids looks itself.
        if tables.backend.successor.is_some() {
            return;
        }
        let mut due = Vec::new();
        for (target, column) in tables.used() {
            if tables.has_index(schema, &target, &column).await.unwrap_or(false) {
                due.push((target, column));
            }
        }
        for due in due.chunks(HIGHEST_PER_QUERY) {
            if tables.look_at_all(schema, due).await.is_ok() {
                continue;
            }
            // One of them is locked, or gone.
            for one in due.chunks(1) {
                if let Err(error) = tables.look_at_all(schema, one).await {
                    tracing::debug!(%error, "Rowstamp cannot look at the ids of a table, or not raise its generator");
                }
            }
        }
    }
}

fn name_of(target: &Target) -> String {
    format!("{}.{}", target.rule.schema, target.table)
}

/// Whether an id has collided, or the server has numbered rows, since the generator was raised.
fn is_to_be_raised(target: &Target) -> bool {
    let looks = &target.filled.looks;
    looks.done.load(Ordering::Acquire) < looks.due.load(Ordering::Acquire)
}

fn note_look(target: &Target) {
    *target.filled.looks.looked_at.lock() = Some(Instant::now());
}

fn note_success(target: &Target) {
    target.filled.looks.is_failing.store(false, Ordering::Relaxed);
}

/// One line a second for each table at most.
fn note_overtaken(target: &Target, highest: u64) {
    target.filled.note_overtaken();
    let mut told = target.filled.looks.told.lock();
    if told.is_none_or(|told| told.elapsed() >= OVERTAKEN_PAUSE) {
        *told = Some(Instant::now());
        tracing::info!(
            table = name_of(target), generator = %target.rule.generator, highest,
            "ids came into the table without the generator; the generator continues above the table's ids"
        );
    }
}

/// `Ok`: the server will not answer otherwise. It will tell the statement the same, or the control account lacks a right.
fn note_failure(target: &Target, error: &TableError) -> Result<(), Unseen> {
    warn_of_failure(target, error);
    let (why, is_locked) = match error {
        TableError::Schema(SchemaError::Locked { .. }) => (LOCKED.to_owned(), true),
        TableError::Schema(error) if error.waits_for_lock() => (LOCKED.to_owned(), true),
        TableError::Schema(SchemaError::Query(mysql_async::Error::Server(_))) => {
            let looks = &target.filled.looks;
            looks.done.fetch_max(looks.due.load(Ordering::Acquire), Ordering::AcqRel);
            return Ok(());
        }
        TableError::Schema(_) => ("the server did not answer the control account".to_owned(), false),
        error => (error.for_client(), false),
    };
    Err(Unseen { why, is_locked })
}

fn note_timeout(target: &Target, limit: Duration) -> Unseen {
    let why = format!("the server did not answer the control account within {limit:?}");
    warn_of_failure(target, &why);
    Unseen { why, is_locked: false }
}

/// One line a failure, however long it lasts.
fn warn_of_failure(target: &Target, error: &dyn std::fmt::Display) {
    if !target.filled.looks.is_failing.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            table = name_of(target), generator = %target.rule.generator, %error,
            "Rowstamp cannot read the table's highest id, or not raise the generator above it, so INSERTs may get error 1062; it tries again each second"
        );
    }
}

impl Tables {
    /// Whether an id has collided since the table was looked at, or a statement may have given rows other ids.
    pub(crate) fn is_to_be_looked_at(&self, target: &Target) -> bool {
        self.is_due(target, self.backend.moves.seen())
    }

    /// The same, of what was seen when there had been so many of these statements.
    fn is_due(&self, target: &Target, moves: u64) -> bool {
        let looks = &target.filled.looks;
        is_to_be_raised(target) && !looks.is_failing.load(Ordering::Relaxed)
            || looks.moves.load(Ordering::Acquire) < moves && self.id_column_to_look_at(target).is_some()
    }

    /// Whether a statement that hides collisions has to wait for a look: ids of others may be in the table by now.
    pub(crate) fn must_be_seen(&self, target: &Target) -> bool {
        // The process that issues the ids in this one's stead looks itself.
        if self.backend.successor.is_some() {
            return false;
        }
        let looks = &target.filled.looks;
        let is_old = looks.looked_at.lock().is_none_or(|at| at.elapsed() > LOOK_AGE_MAX);
        (is_old || is_to_be_raised(target)) && self.id_column_to_look_at(target).is_some()
    }

    /// The id's column, of a table whose generator follows its ids.
    fn id_column_to_look_at(&self, target: &Target) -> Option<ColumnShape> {
        let (_, id_max) = self.asked_for_ids(&target.rule)?;
        // The ids of a timestamp generator are of their time.
        let follows = target.rule.explicit != Explicit::Keep && id_max.is_none();
        let is_followed = follows && target.rule.collide == Collide::Raise;
        let column = target.id_shape().filter(|column| is_followed && column.highest().is_some())?;
        Some(ColumnShape { name: target.rule.column.clone(), ..column.clone() })
    }

    async fn look_at(&self, target: &Target, read: Option<&str>) -> Result<(), TableError> {
        let Some((schema, column)) = self.backend.schema.as_ref().zip(self.id_column_to_look_at(target))
        else {
            return Ok(());
        };
        let Some(read) = read else {
            if self.has_index(schema, target, &column).await? {
                self.look_at_all(schema, &[(Arc::new(target.clone()), column)]).await?;
            }
            return Ok(());
        };
        let highest = schema.highest_id_above(read, &target.rule.schema, &target.table, None).await?;
        self.pass(target, highest).await
    }

    /// Looks at these tables together: by one query in each round.
    async fn look_at_all(
        &self,
        schema: &Schema,
        targets: &[(Arc<Target>, ColumnShape)],
    ) -> Result<(), TableError> {
        let mut asked: Vec<Highest<'_>> = targets.iter().map(|of| asked(of, self.reach(&of.0))).collect();
        let mut of: Vec<&Target> = targets.iter().map(|(target, _)| &**target).collect();
        // A generator has two ranges at most.
        for _ in 0..3 {
            let highest = schema.highest_ids_in_use(self.backend.case, &asked).await?;
            let mut below = Vec::new();
            for ((asked, target), highest) in asked.iter().zip(of).zip(highest) {
                self.pass(target, highest).await?;
                // Where the highest is in the range of another proxy, lower ones may lie in a range of this one.
                let last =
                    self.generators.with(&target.rule.generator, |generator| generator.last_below(highest));
                below.extend(last.map(|last| (Highest { id_max: Some(last), ..*asked }, target)));
            }
            (asked, of) = below.into_iter().unzip();
            if asked.is_empty() {
                break;
            }
        }
        for (target, _) in targets {
            note_look(target);
        }
        Ok(())
    }

    async fn pass(&self, target: &Target, highest: u64) -> Result<(), TableError> {
        let name = &target.rule.generator;
        let came_past = match (self.generators.get(name), &self.backend.successor) {
            (Some(generator), _) => generator.pass(highest, FLOOR_DEADLINE).await?,
            // It looks itself, but for what was sent here.
            (None, Some(successor)) => {
                successor.advance_past(target, highest, FLOOR_DEADLINE).await?;
                false
            }
            (None, None) => false,
        };
        if came_past {
            note_overtaken(target, highest);
        }
        Ok(())
    }

    /// Has the table's generator continue above all that is in it, whatever is reserved.
    async fn raise(&self, target: &Target) -> Result<(), TableError> {
        let looks = &target.filled.looks;
        let due = looks.due.load(Ordering::Acquire);
        let highest = self.go_above(target).await?;
        looks.done.fetch_max(due, Ordering::AcqRel);
        let Some(highest) = highest else { return Ok(()) };
        *looks.above.lock() = Some((highest, Instant::now()));
        self.backend.taken.of(&target.rule.generator).set_away(false);
        note_overtaken(target, highest);
        Ok(())
    }

    /// As [`Tables::take`], where the rule has the server number the rows if there are none: only the first that
    /// finds none waits for them.
    pub(crate) async fn take_or_none(
        &self,
        target: &Target,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<IdBlock, TakeError> {
        if !target.may_go_without() {
            return self.take(target, n, deadline).await;
        }
        let of = self.backend.taken.of(&target.rule.generator);
        let deadline = if of.is_away() { Duration::ZERO } else { deadline };
        let taken = self.take(target, n, deadline).await;
        if taken.as_ref().is_err_and(TakeError::is_outage) && !self.is_retired() {
            of.set_away(true);
        }
        taken
    }

    /// Has the table's generator continue above all that is in it. `None`: nobody can read what is in it, or a later
    /// version of the rules has no such generator.
    async fn go_above(&self, target: &Target) -> Result<Option<u64>, TableError> {
        let rule = &target.rule;
        let Some(schema) = &self.backend.schema else { return Ok(None) };
        let generator = self.generators.get(&rule.generator);
        let id_max = generator.as_ref().and_then(|generator| generator.id_max().or(generator.reach()));
        let (schema_name, table, column) = (&rule.schema, &target.table, &rule.column);
        let highest = schema.highest_id_within(DDL_LOCK_SECONDS, schema_name, table, column, id_max).await?;
        match (generator, &self.backend.successor) {
            (Some(generator), _) => generator.raise_floor(highest, FLOOR_DEADLINE).await?,
            (None, Some(successor)) => {
                successor.advance_past(target, highest, FLOOR_DEADLINE).await?;
            }
            (None, None) => return Ok(None),
        }
        Ok(Some(highest))
    }

    /// Ids above it do not count: one that a client has mistyped must not use the generator up.
    fn reach(&self, target: &Target) -> Option<u64> {
        self.generators.with(&target.rule.generator, Generator::reach)
    }

    /// Whether an index begins with the id's column. Asked once, and again after DDL.
    async fn has_index(
        &self,
        schema: &Schema,
        target: &Target,
        column: &ColumnShape,
    ) -> Result<bool, SchemaError> {
        let known = *target.filled.looks.has_index.lock();
        if let Some(known) = known {
            return Ok(known);
        }
        let (name, table) = (&target.rule.schema, &target.table);
        let found = schema.index_begins_with(Highest { schema: name, table, column, id_max: None }).await?;
        *target.filled.looks.has_index.lock() = Some(found);
        Ok(found)
    }

    fn targets(&self) -> impl Iterator<Item = Arc<Target>> {
        let known = self.known.load_full();
        let of_base = |lookup: &Lookup| match lookup {
            Lookup::Ruled(target) if target.view.is_none() => Some(Arc::clone(target)),
            _ => None,
        };
        known.values().filter_map(|entry| of_base(&entry.lookup)).collect::<Vec<_>>().into_iter()
    }

    /// The tables that took ids since this was asked last.
    fn used(&self) -> Vec<(Arc<Target>, ColumnShape)> {
        let is_used = |target: &Arc<Target>| target.filled.looks.is_used.swap(false, Ordering::Relaxed);
        let with_column =
            |target: Arc<Target>| self.id_column_to_look_at(&target).map(|column| (target, column));
        self.targets().filter(is_used).filter_map(with_column).collect()
    }

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

fn asked((target, column): &(Arc<Target>, ColumnShape), reach: Option<u64>) -> Highest<'_> {
    Highest { schema: &target.rule.schema, table: &target.table, column, id_max: reach }
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
