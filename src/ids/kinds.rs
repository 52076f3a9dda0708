//! A generator of either kind, as the proxy uses it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::block::IdBlock;
use super::timestamp::Timestamp;
use crate::ids::errors::TakeError;
use crate::ids::fence::Records;
use crate::ids::fence::moves::Moves;
use crate::ids::generator::{Advanced, Sequence};
use crate::store::Store;

/// Cloned, it is the same generator.
#[derive(Clone)]
pub enum Generator {
    Sequence(Arc<Sequence>),
    Timestamp(Arc<Timestamp>),
}

impl Generator {
    /// `schema.name`
    pub fn name(&self) -> &str {
        match self {
            Generator::Sequence(sequence) => sequence.name(),
            Generator::Timestamp(timestamp) => timestamp.name(),
        }
    }

    /// `n` ids, if they are reserved already.
    pub fn try_take(&self, n: NonZeroU64) -> Option<IdBlock> {
        match self {
            Generator::Sequence(sequence) => sequence.try_take(n),
            Generator::Timestamp(timestamp) => timestamp.try_take(n),
        }
    }

    /// `n` ids, waiting up to `deadline` for the store.
    pub async fn take(&self, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.take(n, deadline).await,
            Generator::Timestamp(timestamp) => timestamp.take(n, deadline).await,
        }
    }

    /// See [`Sequence::expect`].
    pub fn expect(&self, ids: &Arc<[u64]>) {
        if let Generator::Sequence(sequence) = self {
            sequence.expect(ids);
        }
    }

    /// See [`Sequence::unexpect`].
    pub fn unexpect(&self, ids: &Arc<[u64]>) {
        if let Generator::Sequence(sequence) = self {
            sequence.unexpect(ids);
        }
    }

    /// See [`Sequence::advance_past`]. A timestamp generator follows nobody's ids: its own are of their time.
    pub async fn advance_past(&self, id: u64, deadline: Duration) -> Result<Advanced, TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.advance_past(id, deadline).await,
            Generator::Timestamp(_) => Ok(Advanced::Past),
        }
    }

    /// See [`Sequence::pass`]. A timestamp generator follows nobody's ids.
    pub async fn pass(&self, highest: u64, deadline: Duration) -> Result<bool, TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.pass(highest, deadline).await,
            Generator::Timestamp(_) => Ok(false),
        }
    }

    /// See [`Sequence::rise_above`].
    pub async fn rise_above(&self, highest: u64, deadline: Duration) -> Result<bool, TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.rise_above(highest, deadline).await,
            Generator::Timestamp(timestamp) => timestamp.raise_floor(highest).map(|()| false),
        }
    }

    /// See [`Sequence::reach`].
    pub fn reach(&self) -> Option<u64> {
        match self {
            Generator::Sequence(sequence) => Some(sequence.reach()),
            Generator::Timestamp(_) => None,
        }
    }

    /// See [`Sequence::last_below`].
    pub fn last_below(&self, id: u64) -> Option<u64> {
        match self {
            Generator::Sequence(sequence) => sequence.last_below(id),
            Generator::Timestamp(_) => None,
        }
    }

    /// Ids issued here from now on are above `floor`.
    pub async fn raise_floor(&self, floor: u64, deadline: Duration) -> Result<(), TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.raise_floor(floor, deadline).await,
            Generator::Timestamp(timestamp) => timestamp.raise_floor(floor),
        }
    }

    /// See [`Sequence::raise_floor_by`].
    pub async fn raise_floor_by(
        &self,
        read: &Records,
        floor: u64,
        deadline: Duration,
    ) -> Result<(), TakeError> {
        match self {
            Generator::Sequence(sequence) => sequence.raise_floor_by(read, floor, deadline).await.map(drop),
            Generator::Timestamp(timestamp) => timestamp.raise_floor(floor),
        }
    }

    /// The last id that a timestamp generator's node has. `None`: a sequence.
    pub fn id_max(&self) -> Option<u64> {
        match self {
            Generator::Sequence(_) => None,
            Generator::Timestamp(timestamp) => Some(timestamp.id_max()),
        }
    }

    /// The node as which this proxy makes a timestamp generator's ids. `None`: a sequence.
    pub fn node(&self) -> Option<u64> {
        match self {
            Generator::Sequence(_) => None,
            Generator::Timestamp(timestamp) => Some(timestamp.node()),
        }
    }

    /// Notes that this proxy has moved a table away from the generator.
    pub async fn follow(&self, moves: &Moves) {
        match self {
            Generator::Sequence(sequence) => sequence.follow(moves).await,
            Generator::Timestamp(timestamp) => timestamp.follow(moves).await,
        }
    }

    /// True if it can never reserve again, and must be opened again.
    pub fn is_lost(&self) -> bool {
        match self {
            Generator::Sequence(sequence) => sequence.is_lost(),
            Generator::Timestamp(timestamp) => timestamp.is_lost(),
        }
    }

    /// True if both are one generator.
    pub fn is(&self, other: &Generator) -> bool {
        match (self, other) {
            (Generator::Sequence(a), Generator::Sequence(b)) => Arc::ptr_eq(a, b),
            (Generator::Timestamp(a), Generator::Timestamp(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// Gives up the ids that are reserved here and not issued: the store is found to have gone back.
    pub fn give_up_reserve(&self) {
        match self {
            Generator::Sequence(sequence) => sequence.give_up_reserve(),
            Generator::Timestamp(timestamp) => timestamp.give_up_reserve(),
        }
    }

    /// Issues nothing any more. What was reserved and not issued is lost.
    pub fn burn(&self) {
        match self {
            Generator::Sequence(sequence) => sequence.burn(),
            Generator::Timestamp(timestamp) => timestamp.burn(),
        }
    }

    /// Issues nothing any more, and hands what was reserved last and not issued back to the store. False: the store did not answer.
    pub async fn close(&self) -> bool {
        match self {
            Generator::Sequence(sequence) => sequence.close().await,
            Generator::Timestamp(timestamp) => timestamp.close().await,
        }
    }
}

/// Closes them all; see [`Sequence::close`]. What they hand back goes to the store by the hundred. Once the store does not answer
/// it is asked for no more of them: their unused ids are lost.
pub async fn close_all(store: &dyn Store, generators: Vec<Generator>) {
    let (mut alone, mut handing, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for generator in generators {
        match &generator {
            Generator::Sequence(sequence) => match sequence.handing_back().await {
                Some(write) => {
                    writes.push(write);
                    handing.push(generator);
                }
                None => alone.push(generator),
            },
            Generator::Timestamp(_) => alone.push(generator),
        }
    }
    let answer = if writes.is_empty() { Ok(Vec::new()) } else { store.write_all(&writes).await };
    let mut is_away = false;
    match answer {
        Ok(written) => {
            let left = handing.into_iter().zip(written).filter(|(_, written)| !written);
            alone.extend(left.map(|(generator, _)| generator));
        }
        Err(error) => {
            is_away = error.passes();
            tracing::warn!(generators = handing.len(), %error, "could not return unused ids to the store");
        }
    }
    for generator in alone {
        if is_away {
            generator.burn();
        } else {
            is_away = !generator.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Generator, close_all};
    use crate::ids::sequence::SequenceSpec;
    use crate::ids::{Sequence, bound_of, raise_bound};
    use crate::store::Store;
    use crate::store::memory::{Faults, MemoryStore};

    const FIVE: NonZeroU64 = NonZeroU64::new(5).unwrap();

    /// 20 sequences, each with 5 ids issued, and their closing; returns how many calls of the store it took.
    async fn closed(memory: &Arc<MemoryStore>) -> u64 {
        let store: Arc<dyn Store> = memory.clone();
        let mut all = Vec::new();
        for nth in 0..20 {
            let name = format!("s.g{nth:02}");
            let sequence = Sequence::open(store.clone(), &name, "p1", SequenceSpec::default(), 0, u64::MAX)
                .await
                .unwrap();
            let _ = sequence.take(FIVE, Duration::from_secs(1)).await.unwrap();
            all.push(Generator::Sequence(sequence));
        }
        raise_bound(store.clone(), "s.g07", "p2", 5_000).await.unwrap();
        let calls = memory.calls();
        close_all(&*store, all.clone()).await;
        let calls = memory.calls() - calls;
        for generator in all {
            assert!(generator.try_take(FIVE).is_none());
        }
        calls
    }

    #[tokio::test]
    async fn what_many_have_not_issued_goes_back_in_one_call() {
        let memory = Arc::default();
        // One for all, and one for the seventh, which another proxy has raised.
        assert_eq!(closed(&memory).await, 2);
        for nth in 0..20 {
            let expect = if nth == 7 { 5_000 } else { 6 };
            assert_eq!(bound_of(&*memory, &format!("s.g{nth:02}")).await.unwrap(), expect, "{nth}");
        }
    }

    #[tokio::test]
    async fn a_store_that_is_away_is_asked_once() {
        let memory = Arc::new(MemoryStore::new());
        let store: Arc<dyn Store> = memory.clone();
        let mut all = Vec::new();
        for name in ["s.a", "s.b"] {
            let spec = SequenceSpec::default();
            let sequence = Sequence::open(store.clone(), name, "p1", spec, 0, u64::MAX).await.unwrap();
            let _ = sequence.take(FIVE, Duration::from_secs(1)).await.unwrap();
            all.push(Generator::Sequence(sequence));
        }
        memory.set_faults(Faults { away: 1000, ..Faults::default() });
        let calls = memory.calls();
        close_all(&*store, all).await;
        assert_eq!(memory.calls() - calls, 1);
    }
}
