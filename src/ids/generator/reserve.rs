//! Reserving more ids: what the refiller does, one store write at a time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::Sequence;
use crate::ids::demand::{batch_ids, low_ids};
use crate::ids::dispenser::{Refilling, SlotRange};
use crate::ids::errors::STORE_TIMEOUT;
use crate::ids::fence::{Fence, Raise};
use crate::ids::refill::Refill;
use crate::store::StoreError;

/// Another proxy may have handed ids back: so often an exhausted sequence looks again.
const EXHAUSTED_REREAD: Duration = Duration::from_secs(5);
/// Shares of the max, in percent, that are worth a warning.
const WARN_PERCENT: [u64; 4] = [80, 90, 95, 99];

impl Sequence {
    /// One store write, if ids are needed.
    pub(in crate::ids) async fn refill(&self) -> Refill {
        let mut fence = self.fence.lock().await;
        if self.dispenser.is_closed() {
            return Refill::Closed;
        }
        if self.dispenser.need() == Refilling::Nothing {
            return Refill::Done;
        }
        match timeout(STORE_TIMEOUT, self.reserve(&mut fence)).await {
            Ok(Ok(refill)) => {
                self.notes.lock().trouble = None;
                refill
            }
            Ok(Err(error)) => self.failed(error),
            Err(_) => self.failed(StoreError::Unavailable {
                store: format!("of generator {}", self.name),
                reason: format!("no answer within {STORE_TIMEOUT:?}"),
            }),
        }
    }

    async fn reserve(&self, fence: &mut Fence) -> Result<Refill, StoreError> {
        let now = Instant::now();
        self.notes.lock().demand.measure(now, self.dispenser.issued());
        let room = self.room_above(fence.bound());
        if room == 0 && self.may_reread(now) {
            fence.refresh().await?;
            return Ok(if self.room_above(fence.bound()) > 0 { Refill::More } else { self.exhausted() });
        }
        self.dispenser.refuse_above(room.saturating_add(self.dispenser.left()));
        let Refilling::Batch { waiting } = self.dispenser.need() else { return Ok(Refill::Done) };
        let batch = self.batch_at(self.first_above(fence.bound()));
        let raise = fence
            .raise(|bound| {
                let first = self.first_above(bound);
                let end = first.saturating_add(batch).saturating_add(waiting).min(self.slots.end());
                (first < end).then(|| self.slots.bound_of(end))
            })
            .await?;
        match raise {
            Raise::Raised { from, to } => {
                self.install(from, to, batch);
                if self.room_above(to) == 0 {
                    self.dispenser.refuse_above(0);
                }
                Ok(Refill::More)
            }
            Raise::Declined { .. } => Ok(self.exhausted()),
        }
    }

    /// The ids from `from` up to below `to` are ours now.
    pub(super) fn install(&self, from: u64, to: u64, batch: u64) {
        self.bound.store(to, Ordering::Relaxed);
        let end = self.slots.at_or_above(to).min(self.slots.end());
        let start = self.slots.at_or_above(from).max(self.first_unexpected(from, to));
        let range = SlotRange { start: start.min(end), end };
        self.dispenser.install(range, low_ids(batch, self.spec.low_water));
        self.warn_near_end(to);
    }

    pub(super) fn batch_at(&self, first: u64) -> u64 {
        let left = self.slots.end().saturating_sub(first);
        batch_ids(self.spec.batch, self.notes.lock().demand.per_second(), left)
    }

    /// The first slot to be had above `bound`. The floor may be higher: it is raised here before the store knows it.
    fn first_above(&self, bound: u64) -> u64 {
        self.slots.at_or_above(bound).max(self.dispenser.floor())
    }

    /// Slots to be had from `bound` to the max.
    fn room_above(&self, bound: u64) -> u64 {
        self.slots.end().saturating_sub(self.first_above(bound))
    }

    fn may_reread(&self, now: Instant) -> bool {
        let mut notes = self.notes.lock();
        let due = notes.reread.is_none_or(|last| now.saturating_duration_since(last) >= EXHAUSTED_REREAD);
        if due {
            notes.reread = Some(now);
        }
        due
    }

    /// Nothing is left to reserve: who waits gets nothing.
    fn exhausted(&self) -> Refill {
        self.dispenser.refuse_above(0);
        Refill::Done
    }

    fn failed(&self, error: StoreError) -> Refill {
        if matches!(error, StoreError::Suspect { .. } | StoreError::SteppedBack { .. }) {
            self.give_up_reserve();
        }
        let mut notes = self.notes.lock();
        if notes.trouble.is_none() {
            tracing::warn!(generator = %self.name, %error, reserved = self.dispenser.left(), "could not reserve ids; trying again");
        }
        notes.trouble = Some(error);
        Refill::Failed
    }

    fn warn_near_end(&self, bound: u64) {
        let percent = u128::from(bound) * 100 / u128::from(self.max.max(1));
        let mut notes = self.notes.lock();
        let reached = WARN_PERCENT.iter().rev().find(|&&share| percent >= u128::from(share));
        if let Some(&share) = reached.filter(|&&share| share > notes.warned_percent) {
            notes.warned_percent = share;
            tracing::warn!(generator = %self.name, bound, max = self.max, "{share} % of the ids are used: widen the column and raise max");
        }
    }
}
