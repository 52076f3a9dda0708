//! A generator of either kind, as the proxy uses it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::block::IdBlock;
use super::timestamp::Timestamp;
use crate::ids::errors::TakeError;
use crate::ids::fence::moves::Moves;
use crate::ids::generator::{Advanced, Sequence};

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

    /// Issues nothing any more, and hands what was reserved last and not issued back to the store.
    pub async fn close(&self) {
        match self {
            Generator::Sequence(sequence) => sequence.close().await,
            Generator::Timestamp(timestamp) => timestamp.close().await,
        }
    }
}
