//! The version of the rules that counts, and its giving way to the next.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::ids::timestamp::clock::SystemClock;
use crate::ids::{Generator, close_all};
use crate::rules::RuleSet;
use crate::schema::{Schema, SchemaError};
use crate::store::Store;
use crate::table_name::NameCase;
use crate::tables::change::{Next, close};
use crate::tables::locks::TableLocks;
use crate::tables::{Common, InForce, TableError, Tables};

/// Between two versions. However it ends, by an error or a panic or cut off, sessions get a version
/// that is not retired.
struct Succession<'a> {
    in_force: &'a InForce,
    old: &'a Arc<Tables>,
    /// The version that becomes active now.
    tables: Option<Tables>,
}

impl Drop for Succession<'_> {
    fn drop(&mut self) {
        if let Some(tables) = self.tables.take() {
            self.in_force.replace(self.old, tables);
        }
    }
}

impl InForce {
    /// Assigns every table that the rules name and the backend has, and opens the generators above
    /// them. `trusts_clock`: this machine's clock is right, whatever the backend's says.
    pub async fn open(
        rules: Arc<RuleSet>,
        schema: Option<Schema>,
        store: Arc<dyn Store>,
        locks: Option<TableLocks>,
        owner: String,
        trusts_clock: bool,
    ) -> Result<InForce, TableError> {
        let case = match &schema {
            Some(schema) => schema.name_case().await?,
            None => NameCase::Sensitive,
        };
        let common = Common {
            case,
            schema,
            store,
            locks,
            successor: None,
            owner,
            taken: Arc::default(),
            clock: Arc::new(SystemClock::new()),
            trusts_clock,
            ddl: Arc::default(),
            moves: Arc::default(),
            shadow: Arc::default(),
            fetching: Arc::default(),
            progress: Arc::default(),
        };
        let (tables, is_waiting) =
            match common.progress.told(Tables::open(rules.clone(), common.clone())).await {
                Ok(tables) => (tables, false),
                Err(error) if error.passes() => {
                    tracing::error!(%error, "Rowstamp issues no ids until the store answers");
                    (Tables::new(rules, common.clone()), true)
                }
                Err(error) => return Err(error),
            };
        Ok(InForce {
            is_waiting: AtomicBool::new(is_waiting),
            draws: AtomicBool::new(tables.has_draws()),
            now: ArcSwap::from_pointee(tables),
            common,
            changing: tokio::sync::Mutex::default(),
            past: Mutex::default(),
        })
    }

    /// True if there are generators that calls draw from.
    pub(crate) fn has_draws(&self) -> bool {
        self.draws.load(Ordering::Relaxed)
    }

    /// Makes `rules` active for every statement that comes from now on, or fails and leaves those
    /// that were.
    pub async fn change(&self, rules: Arc<RuleSet>) -> Result<(), TableError> {
        let _one_at_a_time = self.changing.lock().await;
        self.change_to(rules).await
    }

    /// Assigns all tables again, above the ids that are in them: after a lapse of their locks another
    /// store's proxy may have issued ids, and a store that was settled may have lost its records.
    pub async fn assign_again(&self) -> Result<(), TableError> {
        let _one_at_a_time = self.changing.lock().await;
        if let Some(locks) = &self.common.locks {
            locks.name_store_again().await?;
        }
        let old = self.now();
        old.unassign_all();
        self.change_to(old.rules.clone()).await?;
        self.guarded_again().await;
        Ok(())
    }

    /// See [`TableLocks::lapses`].
    pub fn lapses(&self) -> Option<watch::Receiver<u64>> {
        self.common.locks.as_ref().map(TableLocks::lapses)
    }

    /// The caller has `changing` locked: one change at a time.
    async fn change_to(&self, rules: Arc<RuleSet>) -> Result<(), TableError> {
        let old = self.now();
        if old.common.successor.is_some() {
            return Err(TableError::Yielded);
        }
        let changed = async {
            let next = Next::make(Some(&old), rules, self.common.clone()).await?;
            self.succeed(&old, next).await
        };
        self.common.progress.told(Box::pin(changed)).await?;
        if self.is_waiting.swap(false, Ordering::AcqRel) {
            tracing::info!("the store answers: Rowstamp issues ids");
        }
        Ok(())
    }

    /// Retires `old` and puts `next` in its place.
    pub(super) async fn succeed(&self, old: &Arc<Tables>, next: Next) -> Result<(), TableError> {
        let _nothing_is_assigned = self.common.fetching.lock().await;
        let mut handover = Succession { in_force: self, old, tables: Some(next.instead(old)) };
        old.retire();
        let (tables, leaving) = next.assigned(old).await?;
        handover.tables = Some(tables);
        close(&*self.common.store, leaving).await;
        Ok(())
    }

    /// Called from time to time: notices views that were made past this proxy, and gives up locks that nobody needs
    /// any more.
    pub async fn tidy(&self) -> Result<(), SchemaError> {
        self.give_up_locks().await;
        self.now().look_at_views().await
    }

    /// A table's lock is held while its rule is active, and while a statement is under way that
    /// began when it was.
    async fn give_up_locks(&self) {
        let Some(locks) = &self.common.locks else { return };
        // A change takes locks for tables that are assigned later.
        let Ok(_nothing_changes) = self.changing.try_lock() else { return };
        {
            let mut past = self.past.lock();
            past.retain(|tables| tables.strong_count() > 0);
            if !past.is_empty() {
                return;
            }
        }
        let _nothing_is_assigned = self.common.fetching.lock().await;
        let now = self.now();
        let tables = now.assigned_names().into_iter().chain(now.exact_names());
        let kept: HashSet<String> = tables.chain(now.drawn_names()).collect();
        locks.keep(|table| kept.contains(table)).await;
    }

    /// The store went back: what the generators have reserved may be others' too.
    pub fn give_up_reserves(&self) {
        for generator in self.generators() {
            generator.give_up_reserve();
        }
    }

    /// The number of times that an operator has settled the store.
    pub fn store_era(&self) -> u64 {
        self.common.store.era()
    }

    /// Generators that could not be opened, and those whose nodes went to other proxies while this
    /// one was away, are opened.
    pub async fn reopen(&self) -> Result<(), TableError> {
        if !self.must_reopen() {
            return Ok(());
        }
        let _one_at_a_time = self.changing.lock().await;
        // After the lock: a reload that held it may have opened them, and the rules from before it
        // must not come back.
        if !self.must_reopen() {
            return Ok(());
        }
        let is_waiting = self.is_waiting();
        match self.change_to(self.rules()).await {
            Err(error) if is_waiting && error.passes() => Ok(()),
            other => other,
        }
    }

    fn must_reopen(&self) -> bool {
        self.is_waiting() || self.generators().iter().any(Generator::is_lost)
    }

    /// For the end of the process: no more ids are issued, and those that were reserved last go back to the store.
    pub async fn close_generators(&self) {
        close_all(&*self.common.store, self.generators()).await;
    }

    pub fn generators(&self) -> Vec<Generator> {
        self.now().generators.all().into_iter().map(|(_, generator)| generator).collect()
    }
}

#[cfg(test)]
impl InForce {
    /// With a store in memory, and no server.
    pub(crate) async fn over_memory(rules: &str) -> (Arc<InForce>, Arc<crate::store::memory::MemoryStore>) {
        let (rules, store) = (Arc::new(RuleSet::of_text(rules)), Arc::default());
        let in_force = InForce::open(rules, None, Arc::clone(&store) as _, None, "me".to_owned(), true).await;
        (Arc::new(in_force.unwrap()), store)
    }
}
