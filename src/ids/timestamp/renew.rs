//! Reserves time ahead of the clock and of the takers, in the store, before either gets there.

use std::time::Duration;

use tokio::time::timeout;

use crate::ids::errors::STORE_TIMEOUT;
use crate::ids::fence::Raise;
use crate::ids::refill::{Refill, Refilled};
use crate::ids::timestamp::{Timestamp, TimestampSpec};
use crate::store::StoreError;

/// The least time that is reserved ahead of takers that outrun the clock.
const SPILL_MIN: Duration = Duration::from_secs(1);

/// Ticks that are ours, and how many more there should be.
pub(super) struct Reserve {
    /// Between it and `end` all ticks are ours.
    start: u64,
    /// The tick after the last one that is ours.
    end: u64,
    /// In ticks, as all the rest.
    advance: u64,
    max_ahead: Option<u64>,
    spill_min: u64,
    /// The ticks that takers who outrun the clock are given: twice what they used since the last raise, up to `advance`.
    spill: u64,
    /// The tick at which the takers were when time was reserved last.
    used: u64,
    /// Ids that are waited for.
    waited_for: u64,
}

impl Reserve {
    pub(super) fn new(spec: &TimestampSpec) -> Self {
        let tick = u128::from(spec.layout.tick_micros().get());
        let ticks = |time: Duration| u64::try_from(time.as_micros().div_ceil(tick)).unwrap_or(u64::MAX);
        let (advance, spill_min) = (ticks(spec.advance), ticks(SPILL_MIN.min(spec.advance)));
        Reserve {
            start: 0,
            end: 0,
            advance,
            max_ahead: spec.max_ahead.map(ticks),
            spill_min,
            spill: spill_min,
            used: 0,
            waited_for: 0,
        }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The number of ticks that ids may run ahead.
    pub(super) fn ahead(&self) -> Option<u64> {
        self.max_ahead
    }

    pub(super) fn wait_for(&mut self, ids: u64) {
        self.waited_for = self.waited_for.saturating_add(ids);
    }

    pub(super) fn wait_no_more(&mut self, ids: u64) {
        self.waited_for = self.waited_for.saturating_sub(ids);
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waited_for > 0
    }

    /// True if less than the store may be away for is reserved ahead of the clock, or little ahead of the takers. The takers
    /// are at tick `used`.
    pub(super) fn is_due(&self, now: u64, used: u64) -> bool {
        self.end < now.saturating_add(self.advance) || self.end < used.saturating_add(self.spill_min / 2)
    }

    /// The tick up to which to reserve: a quarter more than the store may be away for, so that the next time is not at once;
    /// for takers who are ahead of the clock, by what they use.
    fn target(&mut self, now: u64, used: u64, waited_for_ticks: u64) -> u64 {
        let spilt = used.saturating_sub(self.used.max(now)).saturating_mul(2);
        self.spill = spilt.clamp(self.spill_min, self.advance);
        let ahead_of_clock = now.saturating_add(self.advance).saturating_add(self.advance.div_ceil(4));
        ahead_of_clock.max(used.saturating_add(waited_for_ticks).saturating_add(self.spill))
    }

    /// Nothing of it is used any more.
    pub(super) fn give_up(&mut self) {
        self.start = self.end;
    }

    fn install(&mut self, from: u64, to: u64, used: u64) {
        if from != self.end {
            self.start = from;
        }
        self.end = to;
        self.used = used;
    }
}

impl Refilled for Timestamp {
    async fn refill(&self) -> Refill {
        // Nobody waits for the answer, so a store that never gives one costs nothing but this task's time.
        match timeout(STORE_TIMEOUT, self.renew()).await {
            Ok(Ok(refill)) => refill,
            Ok(Err(error)) => self.failed(error),
            Err(_) => self.failed(StoreError::Unavailable {
                store: format!("of generator {}", self.name),
                reason: format!("no answer within {STORE_TIMEOUT:?}"),
            }),
        }
    }
}

impl Timestamp {
    async fn renew(&self) -> Result<Refill, StoreError> {
        let mut fence = self.fence.lock().await;
        let Some(target) = self.wanted() else {
            return Ok(if self.state.lock().is_closed { Refill::Closed } else { Refill::Done });
        };
        let end = self.numbering.tick_of(self.numbering.end());
        let spill_min = self.state.lock().reserve.spill_min;
        // Somebody else's ticks, or those of an earlier term, may reach above the target.
        let to_of = |bound: u64| target.max(bound.saturating_add(spill_min)).min(end);
        let raise = fence.raise(|bound| (bound < end).then(|| to_of(bound))).await?;
        let mut state = self.state.lock();
        if state.trouble.take().is_some() {
            tracing::info!(generator = %self.name, "time for ids is reserved again");
        }
        let Raise::Raised { from, to } = raise else { return Ok(Refill::Done) };
        let used = self.numbering.tick_of(self.counter.next());
        state.reserve.install(from, to, used);
        self.look_in(&mut state);
        self.more.notify_waiters();
        Ok(Refill::More)
    }

    /// Up to which tick to reserve; `None`: there is enough, or nobody to reserve for.
    fn wanted(&self) -> Option<u64> {
        let mut state = self.state.lock();
        if state.is_closed || state.held.is_some() {
            return None;
        }
        let now = self.spec.layout.tick_at(state.watch.time());
        let used = self.numbering.tick_of(self.counter.next());
        // Each that waits may have to start at a tick of its own; who does not get its ids now asks again.
        let waited_for = self.numbering.ticks_of(state.reserve.waited_for).saturating_add(1);
        let reaches = used.saturating_add(waited_for);
        let is_short = state.reserve.is_waited_for() && state.reserve.end() < reaches;
        let is_due = state.reserve.is_due(now, used);
        (is_short || is_due).then(|| state.reserve.target(now, used, waited_for))
    }

    fn failed(&self, error: StoreError) -> Refill {
        if matches!(error, StoreError::Suspect { .. } | StoreError::SteppedBack { .. }) {
            self.give_up_reserve();
        }
        let mut state = self.state.lock();
        if state.trouble.is_none() {
            let reserved = self.spec.layout.time_of(state.reserve.end());
            tracing::warn!(generator = %self.name, %error, %reserved, "could not reserve time for ids; trying again");
        }
        state.trouble = Some(error);
        Refill::Failed
    }
}
