//! Ids in a table that its generator does not know of. Somebody inserts past Rowstamp, another table has
//! taken the name, or the server has numbered rows itself (`unavailable = "native"`, `rewrite.on_doubt = "forward"`,
//! `insert_id`). The generator continues above them.
//!
//! The first id that collides (error 1062) stops the generator until it is above the table's ids, so that no later id
//! collides. Ids that were taken before may still collide.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{DDL_LOCK_SECONDS, FLOOR_DEADLINE, InForce, TableError, Tables};
use crate::ids::range::block::IdBlock;
use crate::ids::{Generator, TakeError};
use crate::rewrite::plan::target::Target;
use crate::rules::model::Collide;

/// The pause after a failure, and between two looks at a table whose rows the server numbers.
const PAUSE: Duration = Duration::from_secs(1);

/// A statement whose ids were taken before the generator was raised is answered within this time.
const UNDER_WAY: Duration = Duration::from_secs(10);

/// The tables whose generator is still to be raised.
#[derive(Debug, Default)]
pub(super) struct Raising {
    due: Mutex<Due>,
    /// An id has collided: requests wait until the generator is above the table's ids. Each request reads this.
    holds: AtomicBool,
    released: Notify,
    /// The loop need not pause: an id has collided.
    woken: Notify,
}

#[derive(Debug, Default)]
struct Due {
    tables: Vec<Arc<Target>>,
    /// Somebody raises, and looks for more until nothing is due.
    is_going_on: bool,
    /// The last look at a table failed: ids are issued meanwhile.
    is_failing: bool,
    /// The next success is logged.
    is_told: bool,
    /// The generator was raised above this id, and when.
    above: Option<(u64, Instant)>,
}

/// Why a generator is to be raised.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// The table has this id already. `is_told`: the collision was logged.
    Collided { id: u64, is_told: bool },
    /// The server numbers rows itself.
    Native,
    /// The generator could not be raised yet.
    Failed,
}

impl Due {
    /// Whether the generator was raised above this id a moment ago.
    fn is_below(&self, id: u64) -> bool {
        self.above.is_some_and(|(above, at)| id <= above && at.elapsed() < UNDER_WAY)
    }
}

impl Raising {
    /// Whether nobody raises yet, and so the caller has to.
    fn add(&self, target: &Arc<Target>, why: Why) -> bool {
        let mut due = self.due.lock();
        match why {
            // This id was taken before the generator was raised.
            Why::Collided { id, .. } if due.is_below(id) => return false,
            Why::Collided { is_told, .. } => {
                due.is_told |= is_told;
                if !due.is_failing {
                    self.holds.store(true, Ordering::Relaxed);
                    self.woken.notify_one();
                }
            }
            Why::Native => due.is_told = true,
            Why::Failed => {
                due.is_failing = true;
                self.release();
            }
        }
        if !due.tables.iter().any(|other| other.table == target.table && other.rule == target.rule) {
            due.tables.push(Arc::clone(target));
        }
        !std::mem::replace(&mut due.is_going_on, true)
    }

    fn is_due(&self) -> bool {
        !self.due.lock().tables.is_empty()
    }

    /// `None`: nothing is due, and nobody raises any more.
    fn next(&self) -> Option<Vec<Arc<Target>>> {
        let mut due = self.due.lock();
        due.is_going_on = !due.tables.is_empty();
        if !due.is_going_on {
            self.release();
        }
        due.is_going_on.then(|| std::mem::take(&mut due.tables))
    }

    /// The generator is above this.
    fn succeeded(&self, highest: Option<u64>) {
        let mut due = self.due.lock();
        if let Some(highest) = highest {
            due.above = Some((highest, Instant::now()));
        }
        due.is_told |= std::mem::take(&mut due.is_failing);
    }

    /// Whether the success is to be logged.
    fn tells(&self) -> bool {
        std::mem::take(&mut self.due.lock().is_told)
    }

    /// Until the next look is due: at once for an id that collides, unless the last look failed.
    async fn pause(&self) {
        if self.is_failing() {
            tokio::time::sleep(PAUSE).await;
        } else if !self.holds() {
            let _ = timeout(PAUSE, self.woken.notified()).await;
        }
    }

    fn is_failing(&self) -> bool {
        self.due.lock().is_failing
    }

    fn release(&self) {
        self.holds.store(false, Ordering::Relaxed);
        self.released.notify_waiters();
    }

    pub(super) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Waits until ids may be taken, for `limit` at most: after that they are taken anyway.
    pub(super) async fn released(&self, limit: Duration) {
        let mut released = std::pin::pin!(self.released.notified());
        released.as_mut().enable();
        if self.holds() && timeout(limit, released).await.is_err() {
            // It takes long: others do not wait too.
            self.due.lock().is_failing = true;
            self.release();
        }
    }
}

/// If the task that raises panics, the next id that collides starts another one.
struct Ending<'a>(Option<&'a Raising>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(raising) = self.0 {
            raising.due.lock().is_going_on = false;
            raising.release();
        }
    }
}

impl InForce {
    /// The server has answered 1062 to an id of the generator's. The collision is counted, and logged once a second at most.
    /// If the rule says so, the generator issues no id until it is above the table's ids.
    pub(crate) fn collided(self: &Arc<Self>, target: &Arc<Target>, id: u64) {
        let rule = &target.rule;
        let is_told = self.backend.taken.of(&rule.generator).note_collision();
        if is_told {
            tracing::warn!(
                table = format!("{}.{}", rule.schema, target.table),
                id,
                generator = %rule.generator,
                "the table already has the id that the generator issued (error 1062). Another client inserts without Rowstamp, by \
                 AUTO_INCREMENT or with ids of its own, or another table has taken this name; let all writers use the proxy: {}",
                crate::book::page!("migrate")
            );
        }
        if rule.collide == Collide::Raise {
            self.raise(target, Why::Collided { id, is_told });
        }
    }

    /// The server numbers rows of the table itself.
    pub(crate) fn numbered_natively(self: &Arc<Self>, target: &Arc<Target>) {
        self.backend.taken.of(&target.rule.generator).note_native();
        if self.raise(target, Why::Native) {
            tracing::warn!(
                table = format!("{}.{}", target.rule.schema, target.table),
                generator = %target.rule.generator,
                "the server numbers rows of the table by its AUTO_INCREMENT: Rowstamp has no ids (unavailable = \"native\") or cannot rewrite a \
                 statement (rewrite.on_doubt = \"forward\"), or the client has set insert_id"
            );
        }
    }

    /// Has the table's generator go on above all that is in it. Whether nobody was at it already.
    fn raise(self: &Arc<Self>, target: &Arc<Target>, why: Why) -> bool {
        let of = self.backend.taken.of(&target.rule.generator);
        if !of.raising.add(target, why) {
            return false;
        }
        let in_force = Arc::clone(self);
        tokio::spawn(async move {
            let mut ending = Ending(Some(&of.raising));
            while let Some(due) = of.raising.next() {
                // The table's ids were read while the store was away, and the server went on numbering rows until the bound was raised:
                // these are looked at right away, for the generator has ids again.
                let was_away = of.is_away();
                for target in due {
                    let rule = &target.rule;
                    let table = format!("{}.{}", rule.schema, target.table);
                    match in_force.now().go_above(&target).await {
                        Ok(highest) => {
                            of.raising.succeeded(highest);
                            of.set_away(false);
                            if was_away && of.raising.is_due() {
                                continue;
                            }
                            if let Some(highest) = highest.filter(|_| of.raising.tells()) {
                                tracing::info!(table, generator = %rule.generator, highest, "the generator continues above the table's ids");
                            }
                        }
                        Err(error) => {
                            // One line a failure, however long it lasts.
                            if !of.raising.is_failing() {
                                tracing::warn!(
                                    table, generator = %rule.generator, %error,
                                    "the generator cannot continue above the table's ids yet, so INSERTs may get error 1062; Rowstamp \
                                     tries again each second"
                                );
                            }
                            of.raising.add(&target, Why::Failed);
                        }
                    }
                }
                if of.is_away() || !was_away {
                    of.raising.pause().await;
                }
            }
            ending.0 = None;
        });
        true
    }
}

impl Tables {
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
        let id_max = generator.as_ref().and_then(Generator::id_max);
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
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Raising, Why};
    use crate::ids::range::block::Spacing;
    use crate::rewrite::plan::target::Target;
    use crate::rules::set::tests::rule;

    fn target(table: &str) -> Arc<Target> {
        let spacing = Spacing::by(NonZeroU64::MIN);
        Arc::new(Target::new(Arc::new(rule("s", table)), table, None, spacing))
    }

    #[test]
    fn one_raises_and_looks_again_until_nothing_is_due() {
        let (raising, a, b) = (Raising::default(), target("a"), target("b"));
        assert!(
            raising.add(&a, Why::Native) && !raising.add(&b, Why::Native) && !raising.add(&a, Why::Native)
        );
        assert_eq!(raising.next().map(|due| due.len()), Some(2));
        // It is under way: what comes meanwhile is due again.
        assert!(!raising.add(&a, Why::Native));
        assert_eq!(raising.next().map(|due| due.len()), Some(1));
        assert_eq!(raising.next(), None);
        assert!(raising.add(&a, Why::Native) && !raising.holds());
    }

    #[tokio::test]
    async fn ids_wait_until_the_generator_is_above_the_one_that_collided() {
        let (raising, a) = (Raising::default(), target("a"));
        let collided = |id| raising.add(&a, Why::Collided { id, is_told: id == 7 });
        assert!(collided(7) && raising.holds() && !collided(8));
        assert_eq!(raising.next().map(|due| due.len()), Some(1));
        raising.succeeded(Some(50));
        assert!(raising.tells() && !raising.tells());
        assert!(raising.holds(), "until nothing is due");
        assert_eq!(raising.next(), None);
        assert!(!raising.holds());
        raising.released(Duration::MAX).await;
        // Taken before.
        assert!(!collided(50) && !raising.holds());
        assert!(collided(51) && raising.holds());
        // Nobody knows how long it lasts, so ids are issued.
        assert_eq!(raising.next().map(|due| due.len()), Some(1));
        assert!(!raising.add(&a, Why::Failed) && !raising.holds());
        assert!(!collided(52) && !raising.holds());
        assert_eq!(raising.next().map(|due| due.len()), Some(1));
        raising.succeeded(Some(60));
        assert!(raising.tells(), "after a failure");
        assert_eq!(raising.next(), None);
        // A request that waits is released.
        assert!(collided(61));
        let waiting = std::pin::pin!(raising.released(Duration::MAX));
        let ((), next) = tokio::join!(waiting, async { raising.next().and(raising.next()) });
        assert_eq!(next, None);
    }
}
