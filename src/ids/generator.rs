//! The sequence generator: ids in runs, each below a bound that the store has committed.
//!
//! `dispenser` hands out what is reserved, `fence` reserves it in the store, `refill` calls the second before the
//! first runs dry. Two proofs make uniqueness: ranges of different terms and proxies never overlap (`fence`), and
//! within a range no id is handed out twice (`dispenser`).

mod above;
mod reserve;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::block::{IdBlock, RUN_MAX};
use super::demand::Demand;
use super::dispenser::{Dispenser, Refused, Skipped, Taken, Ticket};
use super::fence::{Fence, Raise, Records};
use super::refill;
use super::sequence::SequenceSpec;
use super::slots::{ID_MAX, Slots};
use crate::ids::errors::{OpenError, STORE_TIMEOUT, TakeError};
use crate::ids::fence::moves::Moves;
use crate::ids::refill::{Refill, Refilled};
use crate::store::{Store, StoreError, Write};

/// An explicit id is followed up to so far above the bound.
const REACH_MAX: u64 = 1_000_000_000;

/// The outcome for an id that a client wrote itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Advanced {
    /// Later ids of this generator here are above it.
    Past,
    /// Below the bound in a range that is not ours: another proxy may yet issue it.
    Elsewhere,
    /// More than 1e9 above the bound, or above the largest id there is: ids stay below.
    TooFar,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Ids issued since this process opened it.
    pub issued: u64,
    /// Ids that can be issued without the store.
    pub reserved: u64,
    /// The committed bound as last seen.
    pub bound: u64,
    /// The last id.
    pub max: u64,
    /// Ids from the bound up to the last.
    pub headroom: u64,
    /// Explicit ids that lay in other proxies' ranges.
    pub explicit_elsewhere: u64,
    /// Explicit ids that lay too far above the bound, and were not followed.
    pub explicit_too_far: u64,
    /// The store's last error, until it answers again.
    pub trouble: Option<String>,
}

pub struct Sequence {
    dispenser: Dispenser,
    slots: Slots,
    name: String,
    spec: SequenceSpec,
    max: u64,
    /// Held across each raise until its range is installed, so that ranges are installed in their order.
    fence: tokio::sync::Mutex<Fence>,
    refiller: Arc<Notify>,
    bound: AtomicU64,
    explicit_elsewhere: AtomicU64,
    explicit_too_far: AtomicU64,
    expected: Mutex<Vec<Arc<[u64]>>>,
    notes: Mutex<Notes>,
}

/// The state that the refiller keeps from one store write to the next.
struct Notes {
    demand: Demand,
    /// The store's last error, until it answers again.
    trouble: Option<StoreError>,
    warned_percent: u64,
    /// When the bound was read last because there was no room above it.
    reread: Option<Instant>,
}

impl Refilled for Sequence {
    fn refill(&self) -> impl Future<Output = Refill> + Send {
        Sequence::refill(self)
    }
}

impl Sequence {
    /// Opens the generator `schema.name` for `owner`; creates it above `floor` if it is not in the store, and raises its
    /// bound above `floor` if it is. Ids are at most the smaller of `max` and the spec's. Reserves nothing yet.
    /// Needs a Tokio runtime, which it uses until it is closed or dropped.
    pub async fn open(
        store: Arc<dyn Store>,
        name: &str,
        owner: &str,
        spec: SequenceSpec,
        floor: u64,
        max: u64,
    ) -> Result<Arc<Sequence>, OpenError> {
        Self::open_by(&Records::default(), store, name, owner, spec, floor, max).await
    }

    /// [`Sequence::open`], without a question to the store if the generator's record is among those that were read.
    pub async fn open_by(
        read: &Records,
        store: Arc<dyn Store>,
        name: &str,
        owner: &str,
        spec: SequenceSpec,
        floor: u64,
        max: u64,
    ) -> Result<Arc<Sequence>, OpenError> {
        let wrong = |reason: String| OpenError::Spec { generator: name.to_owned(), reason };
        let max = spec.last_id(max);
        let slots = Slots::new(spec.offset, spec.step, max);
        if slots.end() <= slots.at_or_above(spec.start) {
            return Err(wrong(format!(
                "there is no id from start = {} by step = {} up to max = {max}; correct start, step, offset or max",
                spec.start, spec.step
            )));
        }
        if !(spec.low_water > 0.0 && spec.low_water <= 1.0) {
            return Err(wrong(format!(
                "low_water is {}; write a number above 0 and at most 1",
                spec.low_water
            )));
        }
        let bound_min = bound_above(floor).max(spec.start);
        let fence = Fence::open_by(read, store, name, owner, bound_min)
            .await
            .map_err(|error| OpenError::Store { generator: name.to_owned(), error })?;
        let refiller = Arc::new(Notify::new());
        let sequence = Arc::new(Sequence {
            dispenser: Dispenser::new(Arc::clone(&refiller)),
            slots,
            name: name.to_owned(),
            spec,
            max,
            bound: AtomicU64::new(fence.bound()),
            fence: tokio::sync::Mutex::new(fence),
            refiller: Arc::clone(&refiller),
            explicit_elsewhere: AtomicU64::new(0),
            explicit_too_far: AtomicU64::new(0),
            expected: Mutex::default(),
            notes: Mutex::new(Notes {
                demand: Demand::new(Instant::now()),
                trouble: None,
                warned_percent: 0,
                reread: None,
            }),
        });
        refill::start(&sequence, refiller);
        Ok(sequence)
    }

    /// `schema.name`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last id that it may issue.
    pub fn max(&self) -> u64 {
        self.max
    }

    pub fn spec(&self) -> &SequenceSpec {
        &self.spec
    }

    /// `n` ids in one run, if they are reserved already.
    #[inline]
    pub fn try_take(&self, n: NonZeroU64) -> Option<IdBlock> {
        match self.dispenser.draw(n) {
            Ok(first) => Some(self.slots.block(first, n)),
            Err(ticket) => self.try_take_slowly(n, ticket),
        }
    }

    #[cold]
    fn try_take_slowly(&self, n: NonZeroU64, ticket: Ticket) -> Option<IdBlock> {
        let first = (n.get() <= RUN_MAX).then(|| self.dispenser.settle(n, ticket))??;
        Some(self.slots.block(first, n))
    }

    /// `n` ids in one run, waiting up to `deadline` for the store.
    pub async fn take(&self, n: NonZeroU64, deadline: Duration) -> Result<IdBlock, TakeError> {
        match self.dispenser.draw(n) {
            Ok(first) => Ok(self.slots.block(first, n)),
            Err(ticket) => self.take_slowly(n, ticket, deadline).await,
        }
    }

    #[cold]
    async fn take_slowly(
        &self,
        n: NonZeroU64,
        ticket: Ticket,
        deadline: Duration,
    ) -> Result<IdBlock, TakeError> {
        if n.get() > RUN_MAX {
            return Err(TakeError::TooMany { generator: self.name.clone(), wanted: n.get(), most: RUN_MAX });
        }
        let mut answer = match self.dispenser.settle_or_wait(n, ticket) {
            Taken::Slots(first) => return Ok(self.slots.block(first, n)),
            Taken::Closed => return Err(self.refused(n, Refused::Closed)),
            Taken::Wait(answer) => answer,
        };
        let answered = if let Ok(answered) = timeout(deadline, &mut answer).await {
            answered.ok()
        } else {
            // An answer that was sent in this moment is still taken.
            answer.close();
            answer.try_recv().ok()
        };
        match answered {
            Some(Ok(first)) => Ok(self.slots.block(first, n)),
            Some(Err(refused)) => Err(self.refused(n, refused)),
            None => Err(self.store_away(deadline)),
        }
    }

    fn refused(&self, n: NonZeroU64, refused: Refused) -> TakeError {
        let generator = self.name.clone();
        match refused {
            Refused::Exhausted => TakeError::Exhausted { generator, max: self.max, wanted: n.get() },
            Refused::Closed => TakeError::Closed { generator },
        }
    }

    fn store_away(&self, waited: Duration) -> TakeError {
        let reason = match &self.notes.lock().trouble {
            Some(error) => error.to_string(),
            None => "no answer yet".to_owned(),
        };
        TakeError::StoreAway { generator: self.name.clone(), waited, reason }
    }

    /// Call it before ids that a client wrote are sent, the highest first, and [`Sequence::unexpect`] when it is known whether they
    /// are stored: meanwhile none of them is issued here. Writes nothing to the store, so a statement that the server denies
    /// leaves no more than a gap in what is reserved here.
    pub fn expect(&self, ids: &Arc<[u64]>) {
        // First: a range that is reserved meanwhile looks here.
        self.expected.lock().push(Arc::clone(ids));
        for &id in &**ids {
            if self.skip_past(id) == Skipped::Done {
                break;
            }
        }
    }

    /// Ends what [`Sequence::expect`] began for these ids.
    pub fn unexpect(&self, ids: &Arc<[u64]>) {
        let mut expected = self.expected.lock();
        if let Some(at) = expected.iter().position(|one| Arc::ptr_eq(one, ids)) {
            expected.swap_remove(at);
        }
    }

    /// The first slot above all ids that are expected from `from` up to below `to`; 0: none is.
    fn first_unexpected(&self, from: u64, to: u64) -> u64 {
        let expected = self.expected.lock();
        let highest = expected.iter().filter_map(|ids| ids.iter().find(|&&id| id < to)).max();
        highest.filter(|&&id| id >= from).map_or(0, |&id| self.slots.at_or_above(id.saturating_add(1)))
    }

    /// Call it once an id that the client wrote is stored: ids issued here afterwards are above it, unless it is
    /// [`Advanced::TooFar`] or [`Advanced::Elsewhere`]. Writes to the store only where `id` is at or above the bound.
    pub async fn advance_past(&self, id: u64, deadline: Duration) -> Result<Advanced, TakeError> {
        let advanced = self.advance(id, deadline).await?;
        match advanced {
            Advanced::Past => {}
            Advanced::Elsewhere => {
                self.explicit_elsewhere.fetch_add(1, Ordering::Relaxed);
            }
            Advanced::TooFar => {
                self.explicit_too_far.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(generator = %self.name, id, "an explicit id is too high: the generator does not continue above it");
            }
        }
        Ok(advanced)
    }

    async fn advance(&self, id: u64, deadline: Duration) -> Result<Advanced, TakeError> {
        match self.skip_past(id) {
            Skipped::Done => Ok(Advanced::Past),
            Skipped::Elsewhere => Ok(Advanced::Elsewhere),
            Skipped::Beyond if id >= ID_MAX => Ok(Advanced::TooFar),
            Skipped::Beyond => match timeout(deadline, self.raise_past(id)).await {
                Ok(Ok(advanced)) => Ok(advanced),
                Ok(Err(error)) => Err(TakeError::StoreAway {
                    generator: self.name.clone(),
                    waited: deadline,
                    reason: error.to_string(),
                }),
                Err(_) => Err(self.store_away(deadline)),
            },
        }
    }

    fn skip_past(&self, id: u64) -> Skipped {
        self.dispenser.skip_to(self.slots.at_or_above(id.saturating_add(1)))
    }

    /// Reserves a batch above `id`, which lies above all that is reserved here, unless the bound says otherwise.
    async fn raise_past(&self, id: u64) -> Result<Advanced, StoreError> {
        let mut fence = self.fence.lock().await;
        loop {
            match self.skip_past(id) {
                Skipped::Done => return Ok(Advanced::Past),
                Skipped::Elsewhere => return Ok(Advanced::Elsewhere),
                Skipped::Beyond if self.dispenser.is_closed() => return Ok(Advanced::Past),
                Skipped::Beyond => {}
            }
            let bound_min = bound_above(id);
            let first = self.slots.at_or_above(bound_min);
            let batch = self.batch_at(first);
            let raise = fence
                .raise(|bound| {
                    if id < bound || id - bound > REACH_MAX {
                        return None;
                    }
                    let end = first.saturating_add(batch).min(self.slots.end());
                    Some(if first < end { self.slots.bound_of(end) } else { bound_min })
                })
                .await?;
            match raise {
                Raise::Declined { bound } if id < bound => return Ok(Advanced::Elsewhere),
                Raise::Declined { .. } => return Ok(Advanced::TooFar),
                Raise::Raised { from, to } => {
                    if to > id {
                        self.dispenser.raise_floor(first);
                    }
                    self.install(from, to, batch);
                    if to > id {
                        return Ok(Advanced::Past);
                    }
                }
            }
        }
    }

    /// Ids issued here from now on are above `floor`, and so is the bound in the store.
    pub async fn raise_floor(&self, floor: u64, deadline: Duration) -> Result<(), TakeError> {
        self.raise_floor_from(floor, deadline).await.map(drop)
    }

    /// Like [`Self::raise_floor`]; gives the bound that the store had before. Ids below that bound may be reserved by others,
    /// who issue them yet.
    pub async fn raise_floor_from(&self, floor: u64, deadline: Duration) -> Result<u64, TakeError> {
        self.raise_floor_by(&Records::default(), floor, deadline).await
    }

    /// [`Self::raise_floor_from`], without a question to the store if the bound is above `floor` in the record that was read.
    pub async fn raise_floor_by(
        &self,
        read: &Records,
        floor: u64,
        deadline: Duration,
    ) -> Result<u64, TakeError> {
        let bound_min = bound_above(floor);
        self.dispenser.raise_floor(self.slots.at_or_above(bound_min));
        let raised = timeout(deadline, async {
            let mut fence = self.fence.lock().await;
            fence.notice(read)?;
            let mut before = None;
            loop {
                match fence.raise(|bound| (bound < bound_min).then_some(bound_min)).await? {
                    Raise::Raised { from, to } => {
                        before.get_or_insert(from);
                        // Slots below the floor are cut off: something is left only of an earlier raise that was in doubt.
                        self.install(from, to, self.batch_at(self.slots.at_or_above(to)));
                    }
                    Raise::Declined { bound } => {
                        self.bound.store(fence.bound(), Ordering::Relaxed);
                        return Ok::<_, StoreError>(before.unwrap_or(bound));
                    }
                }
            }
        });
        match raised.await {
            Ok(Ok(before)) => Ok(before),
            Ok(Err(error)) => Err(TakeError::StoreAway {
                generator: self.name.clone(),
                waited: deadline,
                reason: error.to_string(),
            }),
            Err(_) => Err(self.store_away(deadline)),
        }
    }

    /// Notes that this proxy has moved a table away from the generator.
    pub async fn follow(&self, moves: &Moves) {
        self.fence.lock().await.follow(moves);
    }

    /// True if a table moved away while this proxy was not there: no more ids can be reserved here.
    pub fn is_lost(&self) -> bool {
        self.notes.lock().trouble.as_ref().is_some_and(StoreError::needs_reopening)
    }

    /// Gives up the ids that are reserved here and not issued: the store is found to have gone back, and may have given them
    /// to others.
    pub fn give_up_reserve(&self) {
        let end = self.bound.load(Ordering::Relaxed);
        self.dispenser.raise_floor(self.slots.at_or_above(end));
    }

    /// Issues nothing any more. What was reserved and not issued is lost: a gap.
    pub fn burn(&self) {
        self.dispenser.close();
        self.refiller.notify_one();
    }

    /// From the first id that was reserved last and not issued, up to below the end.
    fn unused(&self, fence: &Fence) -> (u64, u64) {
        match self.dispenser.rest() {
            Some(range) => (self.slots.id(range.start), self.slots.bound_of(range.end)),
            None => (fence.bound(), fence.bound()),
        }
    }

    /// Issues nothing any more. The write that hands back what [`Sequence::close`] would, where one write can.
    pub(super) async fn handing_back(&self) -> Option<Write> {
        self.burn();
        let mut fence = self.fence.lock().await;
        let (first, end) = self.unused(&fence);
        fence.handing_back(first, end)
    }

    /// Issues nothing any more, and hands the ids that were reserved last and not issued back to the store, if nobody
    /// reserved above them. Ids that the store does not take back now are lost: a gap. False: the store did not answer.
    pub async fn close(&self) -> bool {
        self.burn();
        let handing = timeout(STORE_TIMEOUT, async {
            let mut fence = self.fence.lock().await;
            let (first, end) = self.unused(&fence);
            let handed_back = fence.hand_back(first, end).await;
            self.bound.store(fence.bound(), Ordering::Relaxed);
            handed_back
        });
        match handing.await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(generator = %self.name, %error, "could not return unused ids to the store");
                !error.passes()
            }
            Err(_) => {
                tracing::warn!(generator = %self.name, "could not return unused ids to the store: the store takes too long");
                false
            }
        }
    }

    pub fn stats(&self) -> Stats {
        let notes = self.notes.lock();
        let bound = self.bound.load(Ordering::Relaxed);
        Stats {
            issued: self.dispenser.issued(),
            reserved: self.dispenser.left(),
            bound,
            max: self.max,
            headroom: self.slots.end().saturating_sub(self.slots.at_or_above(bound)),
            explicit_elsewhere: self.explicit_elsewhere.load(Ordering::Relaxed),
            explicit_too_far: self.explicit_too_far.load(Ordering::Relaxed),
            trouble: notes.trouble.as_ref().map(ToString::to_string),
        }
    }
}

impl Drop for Sequence {
    /// The refiller sees that the sequence is gone.
    fn drop(&mut self) {
        self.refiller.notify_one();
    }
}

/// The bound above `floor`; floors above the largest id exhaust the sequence, all alike.
fn bound_above(floor: u64) -> u64 {
    floor.min(ID_MAX) + 1
}

#[cfg(test)]
mod tests;
