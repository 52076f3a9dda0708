//! Ids from the process that took over, and for the one before (`takeover`).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;

use crate::ids::block::{IdBlock, Spacing};
use crate::ids::generator::Advanced;
use crate::ids::{TakeError, close_all};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::Target;
use crate::table_use::Unseen;
use crate::tables::change::Next;
use crate::tables::looks::unseen_within;
use crate::tables::{Common, InForce, TableError, Tables};

/// The process that issues ids in this one's stead.
#[async_trait]
pub trait Successor: Send + Sync + 'static {
    async fn take(&self, target: &Target, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError>;

    /// Like [`Generator::advance_past`](crate::ids::Generator::advance_past).
    async fn advance_past(&self, target: &Target, id: u64, deadline: Duration)
    -> Result<Advanced, TakeError>;

    /// Looks at the table's highest id. Ids issued afterwards are above it.
    async fn look(&self, target: &Target, look: Look, deadline: Duration) -> Result<(), TableError>;
}

/// The time limit for a generator's lock, for a session of the process before.
const LOCKED_WITHIN: Duration = Duration::from_secs(5);

/// An order to look at a table.
#[derive(Debug)]
pub struct Look {
    /// Ids have collided, or the server has numbered rows: what is reserved up to the highest id is given up.
    pub raises: bool,
    /// The table's highest id, where the session has read it, since nobody else can.
    pub read: Option<String>,
}

/// A table as another process's rules describe it.
#[derive(Debug)]
pub struct Asked<'a> {
    pub schema: &'a str,
    pub table: &'a str,
    pub column: &'a str,
    pub generator: &'a str,
    pub spacing: Spacing,
}

impl Asked<'_> {
    fn agrees(&self, target: &Target) -> bool {
        target.view.is_none()
            && target.rule.column == self.column
            && target.rule.generator.to_string() == self.generator
            && target.spacing == self.spacing
    }
}

impl InForce {
    /// From here on this process makes no ids: its generators are closed, and statements take
    /// their ids from `successor`. The store has no more calls from here.
    pub async fn yield_to(&self, successor: Arc<dyn Successor>) {
        let _one_at_a_time = self.changing.lock().await;
        let _nothing_is_assigned = self.common.fetching.lock().await;
        let old = self.now();
        let common = Common { successor: Some(successor), locks: None, ..self.common.clone() };
        let tables = old.with_common(common);
        old.retire();
        self.replace(&old, tables);
        self.is_waiting.store(false, Ordering::Release);
        let generators = old.generators.all().into_iter().map(|(_, generator)| generator);
        close_all(&*self.common.store, generators.collect()).await;
    }

    /// After [`InForce::yield_to`]: the successor has ended without taking over, and the store is
    /// open again.
    pub async fn take_back(&self) -> Result<(), TableError> {
        let _one_at_a_time = self.changing.lock().await;
        let old = self.now();
        let next = Next::make(Some(&old), old.rules.clone(), self.common.clone()).await?;
        self.succeed(&old, next).await?;
        self.guarded_again().await;
        Ok(())
    }

    /// Ids for a session of the process before this one.
    pub async fn take_for(
        &self,
        asked: &Asked<'_>,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<IdBlock, String> {
        loop {
            let (tables, target) = self.target(asked).await?;
            if tables.is_to_be_looked_at(&target) {
                // Whatever was seen: a statement that hides collisions has had the table looked at.
                drop(self.look(&target, false, None, deadline).await);
            }
            let taken = tables.take(&target, n, deadline).await;
            if !tables.is_retired() {
                if taken.is_ok() {
                    target.usage.note(n.get());
                }
                return taken.map_err(|error| error.for_client());
            }
            self.after(&tables, deadline).await.ok_or("the rules are being changed; try again")?;
        }
    }

    /// Advances past an id that a client of the process before this one wrote itself.
    pub async fn pass_for(&self, asked: &Asked<'_>, id: u64, deadline: Duration) -> Result<Advanced, String> {
        loop {
            let (tables, target) = self.target(asked).await?;
            let advanced = tables.advance_past(&target, id, deadline).await;
            if !tables.is_retired() {
                return advanced.map_err(|error| error.for_client());
            }
            self.after(&tables, deadline).await.ok_or("the rules are being changed; try again")?;
        }
    }

    /// Looks at a table for a session of the process before this one.
    pub async fn look_for(&self, asked: &Asked<'_>, look: &Look, deadline: Duration) -> Result<(), Unseen> {
        let looking = async {
            loop {
                let (tables, target) = self.target(asked).await.map_err(Unseen::new)?;
                let looked = {
                    let looks = &target.usage.looks;
                    let _one_at_a_time = looks.looking.lock().await;
                    if target.may_go_without() && self.common.taken.of(&target.rule.generator).is_away() {
                        return Err(Unseen::new("the server numbers the table's rows"));
                    }
                    looks.due.fetch_add(u64::from(look.raises), Ordering::AcqRel);
                    tables.look_or_raise(&target, false, look.read.as_deref()).await
                };
                if !tables.is_retired() {
                    return looked.or_else(|error| tables.note_failure(&target, &error));
                }
                let changed = self.after(&tables, deadline).await;
                changed.ok_or_else(|| Unseen::new("the rules are being changed"))?;
            }
        };
        timeout(deadline, looking).await.unwrap_or_else(|_| Err(unseen_within(deadline)))
    }

    async fn target(&self, asked: &Asked<'_>) -> Result<(Arc<Tables>, Arc<Target>), String> {
        let Asked { schema, table, generator, column, .. } = *asked;
        // Ids that are drawn without an INSERT have no column.
        if column.is_empty()
            && let Some(found) =
                self.for_door(generator, LOCKED_WITHIN).await.map_err(|error| error.for_client())?
            && asked.agrees(&found.target)
        {
            return Ok((found.tables, found.target));
        }
        let tables = self.now();
        let found = tables.look_up(schema, table).await;
        match found {
            Lookup::Ruled(target) if asked.agrees(&target) => Ok((tables, target)),
            Lookup::Away(reason) | Lookup::Refused(reason) => Err(reason),
            _ => Err(format!(
                "the process that took over has another rule for {schema}.{table}: connect again"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::mentions::DefaultSchema;
    use crate::schema::ViewText;
    use crate::store::memory::MemoryStore;

    /// A process that issues no ids.
    struct NoIds;

    #[async_trait]
    impl Successor for NoIds {
        async fn take(&self, _: &Target, _: NonZeroU64, _: Duration) -> Result<IdBlock, TakeError> {
            Err(TakeError::NotOpen { generator: "s.g".into() })
        }

        async fn advance_past(&self, _: &Target, _: u64, _: Duration) -> Result<Advanced, TakeError> {
            Err(TakeError::NotOpen { generator: "s.g".into() })
        }

        async fn look(&self, _: &Target, _: Look, _: Duration) -> Result<(), TableError> {
            Err(TableError::Yielded)
        }
    }

    #[tokio::test]
    async fn a_process_that_has_yielded_finds_views_in_texts() {
        let folder = tempfile::tempdir().unwrap();
        let text = "schema = \"s\"\n[generators.g]\nkind = \"sequence\"\nseed = \"none\"\n\
                    [tables.t]\ncolumn = \"id\"\ngenerator = \"g\"\n";
        std::fs::write(folder.path().join("s.toml"), text).unwrap();
        let rules = Arc::new(crate::rules::load(folder.path()).unwrap().0);
        let store = Arc::new(MemoryStore::new());
        let in_force = InForce::open(rules, None, store, None, "me".into(), false).await.unwrap();
        let old = in_force.now();
        let definition = "select 1 AS `a` from `s`.`t`".to_owned();
        let view = ViewText { schema: "s".into(), name: "v".into(), definition };
        assert!(old.views.take(&old.rules, old.common.case, &[view]));
        old.renew_mentions();
        in_force.yield_to(Arc::new(NoIds)).await;
        assert!(in_force.now().mention(b"INSERT INTO v VALUES (1)", DefaultSchema::Is("s")).table);
    }
}
