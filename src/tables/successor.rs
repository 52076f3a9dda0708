//! Ids from the process that took over, and for the one before (`takeover`).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::time::timeout;

use crate::ids::generator::Advanced;
use crate::ids::range::block::{IdBlock, Spacing};
use crate::ids::{Generator, TakeError};
use crate::rewrite::plan::Lookup;
use crate::rewrite::plan::target::{Target, Unseen};
use crate::tables::change::Next;
use crate::tables::locks::SendBy;
use crate::tables::looks::unseen_within;
use crate::tables::{Backend, InForce, OfGenerator, TableError, Tables};

/// The process that issues ids in this one's stead.
#[async_trait]
pub trait Successor: Send + Sync + 'static {
    async fn take(&self, target: &Target, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError>;

    /// As [`Generator::advance_past`].
    async fn advance_past(&self, target: &Target, id: u64, deadline: Duration)
    -> Result<Advanced, TakeError>;

    /// Looks at the table's highest id. Ids issued afterwards are above it.
    async fn look(&self, target: &Target, look: Look, deadline: Duration) -> Result<(), TableError>;
}

/// How long the lock of a generator may take for a session of the process before.
const LOCKED_WITHIN: Duration = Duration::from_secs(5);

/// How a table is to be looked at.
#[derive(Debug)]
pub struct Look {
    /// Ids have collided, or the server has numbered rows: what is reserved up to the highest id is given up.
    pub raises: bool,
    /// The table's highest id, where the session has read it, since nobody else can.
    pub read: Option<String>,
}

/// What another process's rules say of a table.
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

impl Tables {
    /// Ids that are at hand. Whether they may be used is for [`Tables::is_guarded`] to say, after
    /// they were taken.
    pub(crate) fn take_at_once(&self, target: &Target, n: NonZeroU64) -> Option<IdBlock> {
        if self.backend.successor.is_some() || self.is_to_be_looked_at(target) {
            return None;
        }
        self.backend.taken.at_once(&target.rule.generator, |of| {
            let block = self.generators.with(&target.rule.generator, |generator| generator.try_take(n))?;
            of.note(&target.rule.generator, n.get());
            Some(block)
        })
    }

    /// `n` ids for a statement that inserts into `target`.
    pub(crate) async fn take(
        &self,
        target: &Target,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<IdBlock, TakeError> {
        if let Some(successor) = &self.backend.successor {
            return successor.take(target, n, deadline).await;
        }
        let of = self.backend.taken.of(&target.rule.generator);
        let block = self.take_here(target, n, deadline, &of).await;
        match &block {
            Ok(_) => of.note(&target.rule.generator, n.get()),
            Err(error) => of.note_refused(&target.rule.generator, error),
        }
        block
    }

    async fn take_here(
        &self,
        target: &Target,
        n: NonZeroU64,
        deadline: Duration,
        of: &OfGenerator,
    ) -> Result<IdBlock, TakeError> {
        if of.is_paused() {
            return Err(TakeError::Paused { generator: target.rule.generator.to_string() });
        }
        let generator = self.generator(target)?;
        let block = if let Some(block) = generator.try_take(n) {
            block
        } else {
            let asked = Instant::now();
            let block = generator.take(n, deadline).await;
            self.backend.taken.waited.note(asked.elapsed());
            block?
        };
        self.guarded(target, deadline).await?;
        Ok(block)
    }

    /// Until when ids that were taken for the table under these rules may be sent; `None`: that is
    /// not known. A lapse of the locks retires the rules before there is another lease, so the
    /// lease is read first.
    pub(crate) fn send_by(&self, target: &Target) -> Option<SendBy> {
        let by = self.lease(target)?;
        (!self.is_retired()).then_some(by)
    }

    /// As [`Tables::send_by`], for a caller that then looks itself whether the rules are retired.
    pub(crate) fn lease(&self, target: &Target) -> Option<SendBy> {
        match &self.backend.locks {
            Some(locks) => locks.send_by().filter(|_| self.lost_lock(target).is_none()),
            None => Some(SendBy::AnyTime),
        }
    }

    /// Whether ids that were taken for the table may be used, as far as is known.
    pub(crate) fn is_guarded(&self, target: &Target) -> bool {
        self.send_by(target).is_some()
    }

    /// Waits until ids that were taken for the table may be used.
    pub(crate) async fn guarded(&self, target: &Target, limit: Duration) -> Result<(), TakeError> {
        let Some(locks) = &self.backend.locks else { return Ok(()) };
        let seen = locks.seen(limit).await;
        let lost = seen.and_then(|()| self.lost_lock(target).map_or(Ok(()), Err));
        let generator = || target.rule.generator.to_string();
        lost.map_err(|reason| TakeError::Unguarded { generator: generator(), reason })
    }

    fn lost_lock(&self, target: &Target) -> Option<String> {
        let locks = self.backend.locks.as_ref()?;
        locks.lost(|| self.bound_name(&target.rule, &target.table))
    }

    /// As [`Generator::expect`]. While another process issues the ids it does not know of these
    /// before they are stored.
    pub(crate) fn expect(&self, target: &Target, ids: &Arc<[u64]>) {
        if let Some(generator) = self.generators.get(&target.rule.generator) {
            generator.expect(ids);
        }
    }

    /// As [`Generator::unexpect`].
    pub(crate) fn unexpect(&self, target: &Target, ids: &Arc<[u64]>) {
        if let Some(generator) = self.generators.get(&target.rule.generator) {
            generator.unexpect(ids);
        }
    }

    /// As [`Generator::advance_past`].
    pub(crate) async fn advance_past(
        &self,
        target: &Target,
        id: u64,
        deadline: Duration,
    ) -> Result<Advanced, TakeError> {
        match &self.backend.successor {
            Some(successor) => successor.advance_past(target, id, deadline).await,
            None => self.generator(target)?.advance_past(id, deadline).await,
        }
    }

    pub(super) fn generator(&self, target: &Target) -> Result<Generator, TakeError> {
        let name = &target.rule.generator;
        self.generators.get(name).ok_or_else(|| TakeError::NotOpen { generator: name.to_string() })
    }
}

impl InForce {
    /// From here on this process makes no ids: its generators are closed, and statements take
    /// their ids from `successor`. The store has no more calls from here.
    pub async fn yield_to(&self, successor: Arc<dyn Successor>) {
        let _one_at_a_time = self.changing.lock().await;
        let _nothing_is_bound = self.backend.fetching.lock().await;
        let old = self.now();
        let backend = Backend { successor: Some(successor), locks: None, ..self.backend.clone() };
        let tables = old.with_backend(backend);
        old.retire();
        self.replace(&old, tables);
        self.is_waiting.store(false, Ordering::Release);
        for (_, generator) in old.generators.all() {
            generator.close().await;
        }
    }

    /// After [`InForce::yield_to`]: the successor has ended without taking over, and the store is
    /// open again.
    pub async fn take_back(&self) -> Result<(), TableError> {
        let _one_at_a_time = self.changing.lock().await;
        let old = self.now();
        let next = Next::make(Some(&old), old.rules.clone(), self.backend.clone()).await?;
        self.succeed(&old, next).await?;
        self.guarded_again().await;
        Ok(())
    }

    /// Whether another process issues ids in this one's stead.
    pub fn has_yielded(&self) -> bool {
        self.now().backend.successor.is_some()
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
                    target.filled.note(n.get());
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
                    let looks = &target.filled.looks;
                    let _one_at_a_time = looks.looking.lock().await;
                    if target.may_go_without() && self.backend.taken.of(&target.rule.generator).is_away() {
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
        // Of ids that are drawn without an INSERT.
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
        assert!(old.views.take(&old.rules, old.backend.case, &[view]));
        old.renew_mentions();
        in_force.yield_to(Arc::new(NoIds)).await;
        assert!(in_force.now().mention(b"INSERT INTO v VALUES (1)", DefaultSchema::Is("s")).table);
    }
}
