//! Ids for a statement, and whether they may be sent.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ids::block::IdBlock;
use crate::ids::generator::Advanced;
use crate::ids::{Generator, TakeError};
use crate::rewrite::plan::target::Target;
use crate::tables::locks::SendBy;
use crate::tables::{OfGenerator, Tables};

impl Tables {
    /// Ids that are at hand. Whether they may be used is for [`Tables::is_guarded`] to say, after
    /// they were taken.
    pub(crate) fn take_at_once(&self, target: &Target, n: NonZeroU64) -> Option<IdBlock> {
        if self.common.successor.is_some() || self.is_to_be_looked_at(target) {
            return None;
        }
        self.common.taken.at_once(&target.rule.generator, |of| {
            let block = self.generators.with(&target.rule.generator, |generator| generator.try_take(n))?;
            of.note(&target.rule.generator, n.get());
            Some(block)
        })
    }

    pub(crate) async fn take(
        &self,
        target: &Target,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<IdBlock, TakeError> {
        if let Some(successor) = &self.common.successor {
            return successor.take(target, n, deadline).await;
        }
        let of = self.common.taken.of(&target.rule.generator);
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
            self.common.taken.waited.note(asked.elapsed());
            block?
        };
        self.guarded(target, deadline).await?;
        Ok(block)
    }

    /// Like [`Tables::take`]. If the rule has the server number the rows when there are no ids, only the first statement
    /// that finds none waits for ids.
    pub(crate) async fn take_or_none(
        &self,
        target: &Target,
        n: NonZeroU64,
        deadline: Duration,
    ) -> Result<IdBlock, TakeError> {
        if !target.may_go_without() {
            return self.take(target, n, deadline).await;
        }
        let of = self.common.taken.of(&target.rule.generator);
        let deadline = if of.is_away() { Duration::ZERO } else { deadline };
        let taken = self.take(target, n, deadline).await;
        if taken.as_ref().is_err_and(TakeError::is_outage) && !self.is_retired() {
            of.set_away(true);
        }
        taken
    }

    /// Until when ids that were taken for the table under these rules may be sent; `None`: that is
    /// not known. A lapse of the locks retires the rules before there is another lease, so the
    /// lease is read first.
    pub(crate) fn send_by(&self, target: &Target) -> Option<SendBy> {
        let by = self.lease(target)?;
        (!self.is_retired()).then_some(by)
    }

    /// Like [`Tables::send_by`], for a caller that then looks itself whether the rules are retired.
    pub(crate) fn lease(&self, target: &Target) -> Option<SendBy> {
        match &self.common.locks {
            Some(locks) => locks.send_by().filter(|_| self.lost_lock(target).is_none()),
            None => Some(SendBy::AnyTime),
        }
    }

    /// True if ids that were taken for the table may be used, as far as is known.
    pub(crate) fn is_guarded(&self, target: &Target) -> bool {
        self.send_by(target).is_some()
    }

    /// Waits until ids that were taken for the table may be used.
    pub(crate) async fn guarded(&self, target: &Target, limit: Duration) -> Result<(), TakeError> {
        let Some(locks) = &self.common.locks else { return Ok(()) };
        let seen = locks.seen(limit).await;
        let lost = seen.and_then(|()| self.lost_lock(target).map_or(Ok(()), Err));
        let generator = || target.rule.generator.to_string();
        lost.map_err(|reason| TakeError::Unguarded { generator: generator(), reason })
    }

    fn lost_lock(&self, target: &Target) -> Option<String> {
        let locks = self.common.locks.as_ref()?;
        locks.lost(|| self.table_key(&target.rule, &target.table))
    }

    /// Like [`Generator::expect`]. While another process issues the ids, it does not know of these
    /// before they are stored.
    pub(crate) fn expect(&self, target: &Target, ids: &Arc<[u64]>) {
        if let Some(generator) = self.generators.get(&target.rule.generator) {
            generator.expect(ids);
        }
    }

    /// Like [`Generator::unexpect`].
    pub(crate) fn unexpect(&self, target: &Target, ids: &Arc<[u64]>) {
        if let Some(generator) = self.generators.get(&target.rule.generator) {
            generator.unexpect(ids);
        }
    }

    /// Like [`Generator::advance_past`].
    pub(crate) async fn advance_past(
        &self,
        target: &Target,
        id: u64,
        deadline: Duration,
    ) -> Result<Advanced, TakeError> {
        match &self.common.successor {
            Some(successor) => successor.advance_past(target, id, deadline).await,
            None => self.generator(target)?.advance_past(id, deadline).await,
        }
    }

    pub(super) fn generator(&self, target: &Target) -> Result<Generator, TakeError> {
        let name = &target.rule.generator;
        self.generators.get(name).ok_or_else(|| TakeError::NotOpen { generator: name.to_string() })
    }
}
