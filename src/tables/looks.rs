//! Looks at the highest id of a table in use. Ids come into a table by other ways than an INSERT that Rowstamp gives ids: another
//! client inserts, an UPDATE sets the id, a routine runs, another table takes the name, or the server has numbered rows itself
//! (`unavailable = "native"`, `rewrite.on_doubt = "forward"`, `insert_id`). Where an INSERT then gets an id that is in the table, the server answers with
//! error 1062. Where a REPLACE gets it, the row that has the id is deleted, and there is no error.
//!
//! So a table is looked at before its next id after an id has collided, and after a statement that may give rows other ids. Once a second
//! the tables that took ids since the last look are looked at, which finds what does not come through the proxy. Where the last look is
//! older than that, a REPLACE, or an INSERT with IGNORE or ON DUPLICATE KEY UPDATE, has the table looked at before it.

mod failures;
pub(in crate::tables) mod names;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

pub(in crate::tables) use failures::unseen_within;
use failures::{note_success, warn_of_failure};

use super::{DDL_LOCK_SECONDS, DDL_READ_MAX, InForce, Look, TableError, Tables};
use crate::ids::Generator;
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::rules::model::{Collide, ColumnShape, Explicit};
use crate::schema::{AskedHighest, HIGHEST_PER_QUERY, Schema, SchemaError};
use crate::table_use::Unseen;

/// A statement that hides a collision has its table looked at before it, where the last look is older. Tables in use are looked at
/// every second.
const LOOK_AGE_MAX: Duration = Duration::from_millis(1500);

/// The looks at the first tables of a packet count for so long. More than a look takes at most.
const PACKET_LOOKS_MAX: Duration = Duration::from_secs(10);

/// A statement whose ids were taken before the generator was raised is answered within this time.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// If the server has numbered no rows of a table for this time, the next time that it does is logged again.
const NATIVE_PAUSE: Duration = Duration::from_secs(2);

/// A statement that hides collisions waits so long for the look at its table.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// The process that took over has so long to look, so that its answer comes before the look is given up.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1500);
const ANSWERS_HIDING_WITHIN: Duration = Duration::from_millis(4500);

/// The store has so long to raise a generator above what was seen.
const RAISED_WITHIN: Duration = Duration::from_secs(2);

const RAISES_AT_ONCE: usize = 2;

/// Ids that came into a table without its generator are logged once in this time.
const OVERTAKEN_PAUSE: Duration = Duration::from_secs(1);

impl InForce {
    /// A statement was answered that may have given rows other ids.
    pub(crate) fn ids_may_have_moved(&self) {
        self.common.moves.saw();
    }

    /// The server has answered 1062 to an id of the generator's. The collision is counted, and logged once a second at most.
    /// If the rule says so, the table gets no id until the generator is above its ids.
    pub(crate) fn collided(&self, target: &Target, id: u64) {
        let rule = &target.rule;
        if self.common.taken.of(&rule.generator).note_collision() {
            tracing::warn!(
                table = name_of(target),
                id,
                generator = %rule.generator,
                "the table already has the id that the generator issued (error 1062). Another client inserts without Rowstamp, by \
                 AUTO_INCREMENT or with ids of its own, or another table has taken this name; let all writers use the proxy: {}",
                crate::book::page!("migrate")
            );
        }
        let looks = &target.usage.looks;
        // If it was taken before the generator was raised, the generator is above it.
        let is_below = looks.above.lock().is_some_and(|(above, at)| id <= above && at.elapsed() < UNDER_WAY);
        if rule.collide == Collide::Raise && !is_below {
            looks.due.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The server numbers rows of the table itself.
    pub(crate) fn numbered_natively(&self, target: &Target) {
        let of = self.common.taken.of(&target.rule.generator);
        of.note_native();
        let looks = &target.usage.looks;
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

    /// Looks at a table before it gets an id, if that is due. `hides`: the statement hides collisions, and must not get
    /// an id after an error; for others the server reports a collision. `read`: the highest id, read by the session.
    pub(crate) async fn look(
        &self,
        target: &Target,
        hides: bool,
        read: Option<&str>,
        limit: Duration,
    ) -> Result<(), Unseen> {
        let (asked, wanted) = (Instant::now(), self.common.moves.seen());
        let limit = if hides { SEEN_WITHIN } else { limit.min(DDL_READ_MAX) };
        let end = tokio::time::Instant::now() + limit;
        let looks = &target.usage.looks;
        let Ok(_one_at_a_time) = timeout_at(end, looks.looking.lock()).await else {
            return Err(unseen_within(limit));
        };
        let (mut now, begun) = (self.now(), Instant::now());
        let (seen, moves) = loop {
            // Another session's look may have been the one that is wanted.
            if !(now.is_due(target, wanted) || hides && now.is_unseen(target, Some(asked), Instant::now())) {
                return Ok(());
            }
            let is_away = || self.common.taken.of(&target.rule.generator).is_away();
            if hides && target.may_go_without() && is_to_be_raised(target) && is_away() {
                return Err(Unseen::new("the server numbers the table's rows"));
            }
            let shared =
                looks.failed.lock().clone().filter(|(begun, _)| hides && read.is_none() && *begun >= asked);
            if let Some((_, unseen)) = shared {
                return Err(unseen);
            }
            let moves = self.common.moves.seen();
            let looked = timeout_at(end, now.look_or_raise(target, hides, read)).await;
            // The generator was closed perhaps, and its ids are the next one's.
            if now.is_retired() {
                let next = timeout_at(end, self.after(&now, limit)).await.ok().flatten();
                now = next.ok_or_else(|| Unseen::new("the rules are being changed"))?;
                continue;
            }
            let seen = match looked {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => now.note_failure(target, &error),
                Err(_) => {
                    let unseen = unseen_within(limit);
                    warn_of_failure(target, &unseen.why);
                    Err(unseen)
                }
            };
            break (seen, moves);
        };
        // Also where it failed: INSERTs that hide nothing do not wait for it again. The background looks again each second.
        looks.moves.fetch_max(moves, Ordering::AcqRel);
        match &seen {
            Ok(()) => now.note_look(target, begun),
            Err(unseen) => {
                *looks.looked_at.lock() = None;
                *looks.failed.lock() = hides.then(|| (begun, unseen.clone()));
            }
        }
        seen
    }

    /// Looks again at tables that could not be looked at, and raises the generators of those whose rows the server numbers.
    pub async fn raise_due(&self) {
        let tables = self.now();
        let mut raises = JoinSet::new();
        // A locked table keeps its connection for a second.
        let at_once = Arc::new(Semaphore::new(RAISES_AT_ONCE));
        let is_due = |target: &Arc<Target>| {
            is_to_be_raised(target) || target.usage.looks.is_failing.load(Ordering::Relaxed)
        };
        for target in tables.targets().filter(is_due) {
            let (tables, at_once) = (Arc::clone(&tables), Arc::clone(&at_once));
            raises.spawn(async move {
                let _one_of_them = at_once.acquire().await;
                if let Err(error) = tables.look_or_raise(&target, false, None).await {
                    drop(tables.note_failure(&target, &error));
                }
            });
        }
        raises.join_all().await;
    }

    /// Looks at the tables that took ids since they were looked at last.
    pub async fn look_at_used(&self) {
        let tables = self.now();
        let Some(schema) = &self.common.schema else { return };
        // The process that issues the ids looks itself.
        if tables.common.successor.is_some() {
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

/// True if an id has collided, or the server has numbered rows, since the generator was raised.
fn is_to_be_raised(target: &Target) -> bool {
    let looks = &target.usage.looks;
    looks.done.load(Ordering::Acquire) < looks.due.load(Ordering::Acquire)
}

/// The time from which looks at a packet's tables count, if they still do.
pub(crate) fn packet_looks_from(from: Option<Instant>, now: Instant) -> Option<Instant> {
    from.filter(|from| now.duration_since(*from) < PACKET_LOOKS_MAX)
}

/// One line a second for each table at most.
fn note_overtaken(target: &Target, highest: u64) {
    target.usage.note_overtaken();
    let mut told = target.usage.looks.told.lock();
    if told.is_none_or(|told| told.elapsed() >= OVERTAKEN_PAUSE) {
        *told = Some(Instant::now());
        tracing::info!(
            table = name_of(target), generator = %target.rule.generator, highest,
            "ids came into the table without the generator; the generator continues above the table's ids"
        );
    }
}

impl Tables {
    fn note_look(&self, target: &Target, begun: Instant) {
        if !self.is_retired() {
            let mut looked_at = target.usage.looks.looked_at.lock();
            // Another look may have begun later, and has ended.
            let begun = looked_at.map_or(begun, |other| other.max(begun));
            *looked_at = Some(begun);
            target.usage.looks.ended.fetch_add(1, Ordering::Release);
        }
    }

    /// True if an id has collided since the table was looked at, or a statement may have given rows other ids.
    pub(crate) fn is_to_be_looked_at(&self, target: &Target) -> bool {
        self.is_due(target, self.common.moves.seen())
    }

    /// Like [`Self::is_to_be_looked_at`], but of the statements that may give rows other ids only the first `moves` count.
    fn is_due(&self, target: &Target, moves: u64) -> bool {
        let looks = &target.usage.looks;
        is_to_be_raised(target) && !looks.is_failing.load(Ordering::Relaxed)
            || looks.moves.load(Ordering::Acquire) < moves && self.id_column_to_look_at(target).is_some()
    }

    /// True if a statement that hides collisions has to wait for a look: ids of others may be in the table by now. `from`: when
    /// tables were first looked at for its packet.
    pub(crate) fn must_be_seen(&self, target: &Target, from: Option<Instant>, now: Instant) -> bool {
        self.is_unseen(target, packet_looks_from(from, now), now)
    }

    /// True if the last look is too old. `from`: one that began later is not.
    fn is_unseen(&self, target: &Target, from: Option<Instant>, now: Instant) -> bool {
        let looks = &target.usage.looks;
        let is_old_at = |begun| {
            now.saturating_duration_since(begun) > LOOK_AGE_MAX && from.is_none_or(|from| begun < from)
        };
        let is_old = looks.looked_at.lock().is_none_or(is_old_at);
        let is_due = || is_to_be_raised(target) && *looks.has_index.lock() != Some(false);
        (is_old || is_due()) && self.id_column_to_look_at(target).is_some()
    }

    pub(super) async fn look_or_raise(
        &self,
        target: &Target,
        hides: bool,
        read: Option<&str>,
    ) -> Result<(), TableError> {
        let (looks, begun) = (&target.usage.looks, Instant::now());
        if let Some((schema, column)) = self.common.schema.as_ref().zip(self.id_column_to_look_at(target))
            && hides
            && !self.has_index(schema, target, &column).await?
        {
            return Ok(());
        }
        let due = looks.due.load(Ordering::Acquire);
        let raises = read.is_none() && is_to_be_raised(target);
        match &self.common.successor {
            // The ranges that are reserved are there.
            Some(successor) => {
                let look = Look { raises, read: read.map(str::to_owned) };
                let limit = if hides { ANSWERS_HIDING_WITHIN } else { ANSWERS_WITHIN };
                successor.look(target, look, limit).await?;
                if raises {
                    self.common.taken.of(&target.rule.generator).set_away(false);
                }
            }
            None if raises => self.raise(target).await?,
            None => self.look_at(target, read).await?,
        }
        // A generator that was closed meanwhile was not raised, and the next one may issue the same ids.
        if !self.is_retired() {
            looks.done.fetch_max(due, Ordering::AcqRel);
            note_success(target);
            self.note_look(target, begun);
        }
        Ok(())
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
        let Some((schema, column)) = self.common.schema.as_ref().zip(self.id_column_to_look_at(target))
        else {
            return Ok(());
        };
        let Some(read) = read else {
            if self.has_index(schema, target, &column).await? {
                self.look_at_all(schema, &[(Arc::new(target.clone()), column)]).await?;
            }
            return Ok(());
        };
        let highest =
            schema.highest_id_above(read, &target.rule.schema, &target.table, self.reach(target)).await?;
        // A session of the process before this one does not know how far its generator follows.
        if self.reach(target).is_some_and(|reach| highest > reach) {
            let why = format!("id {highest} in it is too high for its generator (connect again)");
            return Err(TableError::Unseen(Unseen::new(why)));
        }
        // The session sees this highest id itself. Ids that are reserved here below it are given up.
        if self.lift(target, highest).await? == Some(true) {
            note_overtaken(target, highest);
        }
        Ok(())
    }

    /// Looks at these tables together: by one query in each round.
    async fn look_at_all(
        &self,
        schema: &Schema,
        targets: &[(Arc<Target>, ColumnShape)],
    ) -> Result<(), TableError> {
        let begun = Instant::now();
        let mut asked: Vec<AskedHighest<'_>> =
            targets.iter().map(|of| asked(of, self.reach(&of.0))).collect();
        let mut of: Vec<&Target> = targets.iter().map(|(target, _)| &**target).collect();
        // A generator has two ranges at most.
        for _ in 0..3 {
            let highest = schema.highest_ids_in_use(self.common.case, &asked).await?;
            let mut below = Vec::new();
            for ((asked, target), highest) in asked.iter().zip(of).zip(highest) {
                self.pass(target, highest).await?;
                // If the highest id is in the range of another proxy, lower ids may lie in a range of this proxy.
                let last =
                    self.generators.with(&target.rule.generator, |generator| generator.last_below(highest));
                below.extend(last.map(|last| (AskedHighest { id_max: Some(last), ..*asked }, target)));
            }
            (asked, of) = below.into_iter().unzip();
            if asked.is_empty() {
                break;
            }
        }
        for (target, _) in targets {
            self.note_look(target, begun);
        }
        Ok(())
    }

    async fn pass(&self, target: &Target, highest: u64) -> Result<(), TableError> {
        if let Some(generator) = self.generators.get(&target.rule.generator)
            && generator.pass(highest, RAISED_WITHIN).await?
        {
            note_overtaken(target, highest);
        }
        Ok(())
    }

    /// Has the table's generator continue above all that is in it, whatever is reserved.
    async fn raise(&self, target: &Target) -> Result<(), TableError> {
        let Some((highest, came_past)) = self.go_above(target).await? else { return Ok(()) };
        if self.is_retired() {
            return Ok(());
        }
        *target.usage.looks.above.lock() = Some((highest, Instant::now()));
        let of = self.common.taken.of(&target.rule.generator);
        // The server has numbered rows meanwhile. The store may have the bound of an attempt that it did not answer in time.
        let was_away = of.is_away();
        of.set_away(false);
        if came_past || was_away {
            note_overtaken(target, highest);
        }
        Ok(())
    }

    /// Has the table's generator continue above all that is in it: the highest id, and whether it came there without a generator. `None`: nobody can
    /// read what is in it, or a later version of the rules has no such generator.
    async fn go_above(&self, target: &Target) -> Result<Option<(u64, bool)>, TableError> {
        let rule = &target.rule;
        let Some(schema) = &self.common.schema else { return Ok(None) };
        let id_max =
            self.generators.with(&rule.generator, |generator| generator.id_max().or(generator.reach()));
        let (schema_name, table, column) = (&rule.schema, &target.table, &rule.column);
        let highest = schema.highest_id_within(DDL_LOCK_SECONDS, schema_name, table, column, id_max).await?;
        let came_past = self.lift(target, highest).await?;
        Ok(came_past.map(|came_past| (highest, came_past)))
    }

    /// Gives up the ids that the generator has reserved up to `highest`. True if `highest` came into the table without a
    /// generator; `None`: there is no such generator any more.
    async fn lift(&self, target: &Target, highest: u64) -> Result<Option<bool>, TableError> {
        let Some(generator) = self.generators.get(&target.rule.generator) else { return Ok(None) };
        Ok(Some(generator.rise_above(highest, RAISED_WITHIN).await?))
    }

    /// Ids above it do not count: one that a client has mistyped must not use the generator up.
    pub(crate) fn reach(&self, target: &Target) -> Option<u64> {
        self.generators.with(&target.rule.generator, Generator::reach)
    }

    /// Asks once, and again after DDL, for an index of the id's column. True if an index begins with the column.
    async fn has_index(
        &self,
        schema: &Schema,
        target: &Target,
        column: &ColumnShape,
    ) -> Result<bool, SchemaError> {
        let known = *target.usage.looks.has_index.lock();
        if let Some(known) = known {
            return Ok(known);
        }
        let (name, table) = (&target.rule.schema, &target.table);
        let found =
            schema.index_begins_with(AskedHighest { schema: name, table, column, id_max: None }).await?;
        *target.usage.looks.has_index.lock() = Some(found);
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
        let is_used = |target: &Arc<Target>| target.usage.looks.is_used.swap(false, Ordering::Relaxed);
        let with_column =
            |target: Arc<Target>| self.id_column_to_look_at(&target).map(|column| (target, column));
        self.targets().filter(is_used).filter_map(with_column).collect()
    }
}

fn asked((target, column): &(Arc<Target>, ColumnShape), reach: Option<u64>) -> AskedHighest<'_> {
    AskedHighest { schema: &target.rule.schema, table: &target.table, column, id_max: reach }
}
