//! Ids in a table that its generator does not know of. Somebody inserts past Rowstamp, or the server
//! has numbered rows itself (`unavailable = "native"`, `rewrite.on_doubt = "forward"`, `insert_id`). The
//! generator goes on above them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{DDL_LOCK_SECONDS, FLOOR_DEADLINE, InForce, TableError, Tables};
use crate::ids::TakeError;
use crate::ids::range::block::IdBlock;
use crate::rewrite::plan::target::Target;
use crate::rules::model::Collide;

/// A generator is raised once in this time at most.
const PAUSE: Duration = Duration::from_secs(1);

/// The tables whose generator is still to be raised.
#[derive(Debug, Default)]
pub(super) struct Raising(Mutex<Due>);

#[derive(Debug, Default)]
struct Due {
    tables: Vec<Arc<Target>>,
    /// Somebody raises, and looks for more until nothing is due.
    is_going_on: bool,
}

impl Raising {
    /// Whether nobody raises yet, and so the caller has to.
    fn add(&self, target: &Arc<Target>) -> bool {
        let mut due = self.0.lock();
        if !due.tables.iter().any(|other| other.table == target.table && other.rule == target.rule) {
            due.tables.push(Arc::clone(target));
        }
        !std::mem::replace(&mut due.is_going_on, true)
    }

    fn is_due(&self) -> bool {
        !self.0.lock().tables.is_empty()
    }

    /// `None`: nothing is due, and nobody raises any more.
    fn next(&self) -> Option<Vec<Arc<Target>>> {
        let mut due = self.0.lock();
        due.is_going_on = !due.tables.is_empty();
        due.is_going_on.then(|| std::mem::take(&mut due.tables))
    }
}

impl InForce {
    /// The server has answered 1062 to an id of the generator's. It is counted. Once a second at most it is
    /// told, and where the rule says so the generator goes on above the table's ids.
    pub(crate) fn collided(self: &Arc<Self>, target: &Arc<Target>, id: u64) {
        let rule = &target.rule;
        if !self.backend.taken.of(&rule.generator).note_collision() {
            return;
        }
        tracing::warn!(
            table = format!("{}.{}", rule.schema, target.table),
            id,
            generator = %rule.generator,
            "an INSERT failed with 1062: the table already has the id that the generator issued. Another client inserts without Rowstamp, by \
             AUTO_INCREMENT or with ids of its own; let all writers use the proxy: {}",
            crate::book::page!("migrate")
        );
        if rule.collide == Collide::Raise {
            self.raise(target);
        }
    }

    /// The server numbers rows of the table itself.
    pub(crate) fn numbered_natively(self: &Arc<Self>, target: &Arc<Target>) {
        self.backend.taken.of(&target.rule.generator).note_native();
        if self.raise(target) {
            tracing::warn!(
                table = format!("{}.{}", target.rule.schema, target.table),
                generator = %target.rule.generator,
                "the server numbers rows of the table by its AUTO_INCREMENT: Rowstamp has no ids (unavailable = \"native\") or cannot rewrite a \
                 statement (rewrite.on_doubt = \"forward\"), or the client has set insert_id"
            );
        }
    }

    /// Has the table's generator go on above all that is in it, soon. Whether nobody was at it already.
    fn raise(self: &Arc<Self>, target: &Arc<Target>) -> bool {
        let of = self.backend.taken.of(&target.rule.generator);
        if !of.raising.add(target) {
            return false;
        }
        let in_force = Arc::clone(self);
        tokio::spawn(async move {
            // Whether the last one failed: one line a failure, however long it lasts.
            let mut has_failed = false;
            while let Some(due) = of.raising.next() {
                // The table's ids were read while the store was away, and the server went on numbering rows until the bound was raised:
                // these are looked at right away, for the generator has ids again.
                let was_away = of.is_away();
                for target in due {
                    let rule = &target.rule;
                    let table = format!("{}.{}", rule.schema, target.table);
                    match in_force.now().go_above(&target).await {
                        Ok(Some(highest)) => {
                            has_failed = false;
                            of.set_away(false);
                            if was_away && of.raising.is_due() {
                                continue;
                            }
                            tracing::info!(table, generator = %rule.generator, highest, "the generator continues above the table's ids");
                        }
                        Ok(None) => of.set_away(false),
                        Err(error) => {
                            if !std::mem::replace(&mut has_failed, true) {
                                tracing::warn!(
                                    table, generator = %rule.generator, %error,
                                    "the generator cannot continue above the table's ids yet, so INSERTs may fail with 1062; Rowstamp \
                                     tries again each second"
                                );
                            }
                            of.raising.add(&target);
                        }
                    }
                }
                if of.is_away() || !was_away {
                    tokio::time::sleep(PAUSE).await;
                }
            }
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

    /// Has the table's generator go on above all that is in it. `None`: what is in it is not known, or takes
    /// a look at each row; or a later version of the rules has no such generator.
    async fn go_above(&self, target: &Target) -> Result<Option<u64>, TableError> {
        let rule = &target.rule;
        let (Some(generator), Some(schema)) =
            (self.generators.get(&rule.generator), self.backend.schema.as_ref())
        else {
            return Ok(None);
        };
        if target.id_shape().is_none_or(|column| column.highest().is_none()) {
            return Ok(None);
        }
        let (schema_name, table, column) = (&rule.schema, &target.table, &rule.column);
        let highest = schema
            .highest_id_within(DDL_LOCK_SECONDS, schema_name, table, column, generator.id_max())
            .await?;
        generator.raise_floor(highest, FLOOR_DEADLINE).await?;
        Ok(Some(highest))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;

    use super::Raising;
    use crate::ids::range::block::Spacing;
    use crate::rewrite::plan::target::Target;
    use crate::rules::set::tests::rule;

    #[test]
    fn one_raises_and_looks_again_until_nothing_is_due() {
        let target = |table: &str| {
            let spacing = Spacing::by(NonZeroU64::MIN);
            Arc::new(Target::new(Arc::new(rule("s", table)), table, None, spacing))
        };
        let (raising, a, b) = (Raising::default(), target("a"), target("b"));
        assert!(raising.add(&a) && !raising.add(&b) && !raising.add(&a));
        assert_eq!(raising.next().map(|due| due.len()), Some(2));
        // It is under way: what comes meanwhile is due again.
        assert!(!raising.add(&a));
        assert_eq!(raising.next().map(|due| due.len()), Some(1));
        assert_eq!(raising.next(), None);
        assert!(raising.add(&a));
    }
}
