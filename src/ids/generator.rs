//! The sequence generator (signatures; the body follows).

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::range::IdRange;
use crate::ids::sequence::SequenceSpec;
use crate::store::{Store, StoreError};

/// Why there are no ids; each is 1467 to a client.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum TakeError {
    #[error(
        "generator {generator}: the reserved ids are used up and the store gave no more within {waited:?}: {reason}"
    )]
    StoreAway { generator: String, waited: Duration, reason: String },
    #[error(
        "generator {generator} is exhausted: {wanted} ids do not fit below its max of {max}; widen the column and raise max"
    )]
    Exhausted { generator: String, max: u64, wanted: u64 },
    #[error("generator {generator}: {wanted} ids in one statement, at most {most}")]
    TooMany { generator: String, wanted: u64, most: u64 },
    #[error("generator {generator} is closed: this proxy is stopping or has new rules")]
    Closed { generator: String },
}

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    #[error("generator {generator}: {reason}")]
    Spec { generator: String, reason: String },
    #[error("generator {generator}: {error}")]
    Store { generator: String, error: StoreError },
}

/// What became of an id that a client wrote itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advanced {
    /// Later ids of this generator here are above it.
    Past,
    /// Below the bound, in a range that is not ours: another proxy may yet issue it.
    Elsewhere,
    /// So far above the bound that following it would waste the sequence; ids stay below.
    TooFar,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub issued: u64,
    /// Ids that can be issued without the store.
    pub reserved: u64,
    /// The committed bound as last seen.
    pub bound: u64,
    pub max: u64,
    pub demand_per_second: f64,
    pub explicit_elsewhere: u64,
    pub explicit_too_far: u64,
}

pub struct Sequence {}

impl Sequence {
    pub async fn open(
        _store: Arc<dyn Store>,
        _name: &str,
        _owner: &str,
        _spec: SequenceSpec,
        _floor: u64,
        _max: u64,
    ) -> Result<Arc<Sequence>, OpenError> {
        Ok(Arc::new(Sequence {}))
    }

    pub fn name(&self) -> &str {
        ""
    }

    pub fn try_take(&self, _n: NonZeroU64) -> Option<IdRange> {
        None
    }

    pub async fn take(&self, _n: NonZeroU64, _deadline: Duration) -> Result<IdRange, TakeError> {
        Err(TakeError::Closed { generator: String::new() })
    }

    pub async fn advance_past(&self, _id: u64, _deadline: Duration) -> Result<Advanced, TakeError> {
        Ok(Advanced::Past)
    }

    pub async fn raise_floor(&self, _floor: u64, _deadline: Duration) -> Result<(), TakeError> {
        Ok(())
    }

    pub async fn close(&self) {}

    pub fn stats(&self) -> Stats {
        Stats {
            issued: 0,
            reserved: 0,
            bound: 0,
            max: 0,
            demand_per_second: 0.0,
            explicit_elsewhere: 0,
            explicit_too_far: 0,
        }
    }
}
