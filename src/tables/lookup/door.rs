//! Generators by their names, for the doors that give ids without a statement (`doors`).

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::ids::block::{IdBlock, Spacing};
use crate::ids::nodes::holders;
use crate::ids::{Generator, Holder, TakeError};
use crate::rewrite::plan::target::Target;
use crate::rules::model::{GeneratorName, GeneratorSpec};
use crate::tables::locks::LockError;
use crate::tables::{InForce, Tables};

/// A lock that another has is not asked for again within this time.
const HELD_PAUSE: Duration = Duration::from_secs(1);

/// A generator that doors draw from, since one of them has asked for it. Its lock is not given up.
#[derive(Debug)]
pub(super) struct AtDoor {
    pub(super) target: Arc<Target>,
    is_locked: AtomicBool,
    /// One asks for the lock at a time; when that failed last, and how.
    failed: Mutex<Option<(Instant, TakeError)>>,
}

impl AtDoor {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let target = Arc::new(Target::of_generator(spec));
        AtDoor { target, is_locked: AtomicBool::default(), failed: Mutex::default() }
    }
}

/// A generator that doors draw from, under one version of the rules. Its lock is held.
#[derive(Clone)]
pub(crate) struct DoorGenerator {
    pub(in crate::tables) tables: Arc<Tables>,
    pub(in crate::tables) target: Arc<Target>,
}

impl DoorGenerator {
    pub(crate) fn name(&self) -> &GeneratorName {
        &self.target.rule.generator
    }

    pub(crate) fn spacing(&self) -> Spacing {
        self.target.spacing
    }

    /// Ids that are at hand and may be given away.
    pub(crate) fn take_at_once(&self, n: NonZeroU64) -> Option<IdBlock> {
        let may_give = || self.tables.is_guarded(&self.target);
        // Looked at before, so that nothing is taken in vain; and after, since only that says that they may be given away.
        if !may_give() {
            return None;
        }
        let block = self.tables.take_at_once(&self.target, n)?;
        may_give().then_some(block)
    }
}

impl Tables {
    /// Proxies with other stores give no ids of this name from here on.
    async fn lock_for_door(&self, at_door: &AtDoor) -> Result<(), TakeError> {
        let Some(locks) = &self.common.locks else {
            at_door.is_locked.store(true, Ordering::Release);
            return Ok(());
        };
        let mut failed = at_door.failed.lock().await;
        if at_door.is_locked.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some((_, error)) = failed.as_ref().filter(|(at, _)| at.elapsed() < HELD_PAUSE) {
            return Err(error.clone());
        }
        let target = &at_door.target;
        if let Err(error) = locks.take(&self.table_key(&target.rule, &target.table)).await {
            let error = self.unlocked(&target.rule.generator, &error);
            *failed = Some((Instant::now(), error.clone()));
            return Err(error);
        }
        locks.settled().await;
        at_door.is_locked.store(true, Ordering::Release);
        Ok(())
    }

    /// The log has what the server said, once; the client who holds the lock.
    fn unlocked(&self, name: &GeneratorName, error: &LockError) -> TakeError {
        let unguarded = |reason| TakeError::Unguarded { generator: name.to_string(), reason };
        self.common.taken.of(name).note_refused(name, &unguarded(error.to_string()));
        let reason = match error {
            LockError::Held { .. } => "another Rowstamp, which has another store, gives ids of it",
            _ => "Rowstamp could not lock it",
        };
        unguarded(format!("{reason}; the proxy's log has more"))
    }
}

impl InForce {
    /// The generator of this name, if its lock is held for doors under these rules.
    pub(crate) fn at_door(&self, name: &str) -> Option<DoorGenerator> {
        let tables = self.now();
        let at_door = tables.drawn.at_doors(name).filter(|one| one.is_locked.load(Ordering::Acquire))?;
        Some(DoorGenerator { tables, target: at_door.target.clone() })
    }

    /// The generator of this name, as people write it. `None`: there is none. Waits for its lock, where it is the first to ask.
    pub(crate) async fn for_door(
        &self,
        name: &str,
        deadline: Duration,
    ) -> Result<Option<DoorGenerator>, TakeError> {
        if let Some(found) = self.at_door(name) {
            return Ok(Some(found));
        }
        let tables = self.now();
        let Some(spec) = self.generator_named(name) else { return Ok(None) };
        // From here on the lock is not given up for one that nobody needs.
        let at_door = tables.drawn.serve_at_doors(&spec);
        let (of_task, locked) = (tables.clone(), at_door.clone());
        // A task of its own, since the caller may go: a question to the server that is cut off would end the connection, and all
        // its locks.
        let locking = tokio::spawn(async move { of_task.lock_for_door(&locked).await });
        let Ok(Ok(locked)) = timeout(deadline, locking).await else {
            let reason = "its lock on the server was not obtained in time".to_owned();
            return Err(TakeError::Unguarded { generator: name.to_owned(), reason });
        };
        locked?;
        Ok(Some(DoorGenerator { tables, target: at_door.target.clone() }))
    }

    /// `n` ids of the generator, under whatever rules are active by then.
    pub(crate) async fn take_for_door(
        &self,
        name: &str,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<Option<IdBlock>, TakeError> {
        loop {
            let Some(DoorGenerator { tables, target }) = self.for_door(name, deadline).await? else {
                return Ok(None);
            };
            // Nothing is taken in vain while the locks are away.
            let guarded = tables.guarded(&target, deadline).await;
            let taken = match guarded {
                Ok(()) => tables.take(&target, n, deadline).await,
                Err(error) => Err(error),
            };
            if !tables.is_retired() {
                return taken.map(Some);
            }
            if self.after(&tables, deadline).await.is_none() {
                return Err(TakeError::Closed { generator: name.to_owned() });
            }
        }
    }

    /// The node as which this proxy makes a timestamp generator's ids. `None`: it is not open here, or no such generator.
    pub(crate) fn node_of(&self, name: &GeneratorName) -> Option<u64> {
        self.now().generators.with(name, Generator::node)
    }

    /// The living proxies that hold a generator's nodes, by node. `None`: the store does not answer, or another process has it.
    pub(crate) async fn holders_of(
        &self,
        name: &GeneratorName,
        deadline: Duration,
    ) -> Option<BTreeMap<u64, Holder>> {
        if self.has_yielded() {
            return None;
        }
        let found = timeout(deadline, holders(&*self.common.store, &name.to_string())).await.ok()?;
        let told = found.inspect_err(|error| {
            tracing::warn!(%error, generator = %name, "which proxy is which node cannot be read from the store");
        });
        let mut holders = told.ok()?;
        // A node that this proxy had before is still its own in the store, until another takes it.
        let own = self.node_of(name);
        holders.retain(|node, holder| holder.proxy != self.common.owner || Some(*node) == own);
        Some(holders)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::rules::RuleSet;
    use crate::store::Key;
    use crate::store::memory::MemoryStore;
    use crate::tables::InForce;

    fn rules(step: u64) -> Arc<RuleSet> {
        let text = format!(
            "schema = 's'\n[generators.g]\nkind = 'sequence'\n[generators.h]\nkind = 'sequence'\nstep = {step}\n"
        );
        Arc::new(RuleSet::of_text(&text))
    }

    /// Also of a generator that the next version has too, as it is.
    #[tokio::test]
    async fn nothing_is_given_under_rules_that_are_retired() {
        let (store, deadline) = (Arc::new(MemoryStore::new()), Duration::from_mins(1));
        let in_force = InForce::open(rules(1), None, store, None, "me".into(), false).await.unwrap();
        let one = NonZeroU64::MIN;
        assert!(
            in_force.at_door("s.g").is_none() && in_force.for_door("s.x", deadline).await.unwrap().is_none()
        );
        let first = in_force.take_for_door("s.g", one, deadline).await.unwrap().unwrap();
        let before = in_force.at_door("s.g").unwrap();
        assert_eq!(before.take_at_once(one).map(|block| block.first()), Some(first.first() + 1));
        in_force.change(rules(2)).await.unwrap();
        assert!(before.take_at_once(one).is_none());
        let after = in_force.take_for_door("s.g", one, deadline).await.unwrap().unwrap();
        assert_eq!(after.first(), first.first() + 2, "nothing was taken in vain");
    }

    /// A node that this proxy had before is its own in the store until another takes it, but it makes no ids as that one.
    #[tokio::test]
    async fn whose_the_nodes_are() {
        let (store, deadline) = (Arc::new(MemoryStore::new()), Duration::from_mins(1));
        let proxy = br#"{"v":1,"address":"a","version":"0","since":"s","run":"r"}"#;
        for name in ["me", "other"] {
            store.poke(&Key::proxy(name), proxy);
        }
        let rules = |node: u64| {
            let text = "schema = 's'\n[generators.t]\nkind = 'timestamp'\nlayout = 'snowflake'\n";
            Arc::new(RuleSet::of_text(&format!("{text}node = {node}\n")))
        };
        let open =
            |owner: &str, node| InForce::open(rules(node), None, store.clone(), None, owner.to_owned(), true);
        let (_other, in_force) = (open("other", 7).await.unwrap(), open("me", 5).await.unwrap());
        let spec = in_force.generator_named("s.t").unwrap();
        for (node, expect) in [(5, [(5, "me"), (7, "other")]), (6, [(6, "me"), (7, "other")])] {
            in_force.change(rules(node)).await.unwrap();
            assert_eq!(in_force.node_of(&spec.name), Some(node));
            let holders = in_force.holders_of(&spec.name, deadline).await.unwrap();
            let found: Vec<_> = holders.iter().map(|(node, holder)| (*node, holder.proxy.as_str())).collect();
            assert_eq!(found, expect);
        }
    }
}
