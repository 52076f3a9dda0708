//! Slots handed out by one atomic addition, and the proof that none is handed out twice.
//!
//! # What there is
//! Slots are reserved from the store in *ranges*, each ours alone. Of the *current* range slots are drawn: `next` is the
//! next one, `mark` a limit up to which a drawer may keep what it drew. At most one more range is *pending*.
//! A drawer reads `mark`, then adds to `next`, and keeps `[first, first + n)` if that ends at or before the mark it read.
//! Everything else happens under the mutex. The gate is *open* (drawers may draw) or *shut* (`mark` is 0, `next` is
//! parked above every slot; requests are served under the mutex from what the range has left). The time from one
//! opening to the next is an *epoch*.
//!
//! # Why no slot is handed out twice
//! 1. Only four things change `next`: a draw and a cut ([`Dispenser::skip_to`], [`Dispenser::raise_floor`]) raise it; opening
//!    stores it, then publishes a mark; shutting parks it, also after a panic. So between an opening and a shutting, what
//!    is drawn never overlaps.
//! 2. Every mark published in an epoch is at most the range's end at that time, and ends only grow.
//! 3. A drawer that read an epoch's mark drew in that epoch or later: `mark` was published (Release) after `next` was
//!    stored, and was read (Acquire) before the draw. *This is why the mark is read first.* (Were it published before
//!    `next` is stored, a draw in between would begin at [`PARKED`] and be void: the order is a second guard.)
//! 4. On shutting, the range's rest starts at R: where `next` stood, if that is not above the end. If it is, one draw
//!    alone crossed the end; the drawer that made it reports where it began, and until then the rest counts as empty.
//!    All that was kept in the epoch lies before R: by 1 it does not overlap the crossing draw, by 2 it ends at or
//!    before the end.
//! 5. The next epoch starts at or after R, in the same range made longer or in a later one; slots served while shut are
//!    cut off the rest first. Draws made while shut begin at or above [`PARKED`], above every mark.
//! 6. A drawer may read a mark, sleep, and draw in a later epoch. If it keeps that draw, it ends before the old mark,
//!    and so lies in what was R to the end when the epochs changed: ours, and drawn once by 1.
//! 7. A drawer whose draw ends above its mark reports to the mutex with the mark it read. It may keep its draw there only if
//!    the draw is of the epoch that stands now, or that ended last with the range unchanged since. That holds if its mark
//!    is at or above [`State::marks_from`]: marks of a later epoch are above all marks of earlier ones. Otherwise the
//!    draw is lost (a gap, in a rare race) and it draws again.
//!
//! The range's end is a bound that the store has committed; nothing here reaches beyond it. If a panic ever poisons the
//! mutex, all ranges are given up: ids are lost, none is repeated.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, oneshot};

use crate::ids::block::RUN_MAX;

/// The place of `next` while the gate is shut: above all slots and ends, so that no draw ends before a mark. To wrap
/// `next` would take 65,535 draws in flight at once, of [`RUN_MAX`] each.
const PARKED: u64 = super::slots::ID_MAX + 2;

/// Two atomics on one cache line would slow each other down; the prefetcher of x86-64 takes lines in pairs.
#[repr(align(128))]
struct Padded(AtomicU64);

pub(super) struct Dispenser {
    next: Padded,
    mark: Padded,
    state: Mutex<State>,
    /// Notified when the reserve runs low or somebody waits.
    refiller: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Shut,
    /// Shut for good.
    Closed,
}

/// Why a waiter gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Exhausted,
    Closed,
}

type Answer = Result<u64, Refused>;

struct Waiter {
    count: NonZeroU64,
    reply: oneshot::Sender<Answer>,
}

struct State {
    gate: Gate,
    range: SlotRange,
    pending: Option<SlotRange>,
    /// No slot before it is handed out any more.
    floor: u64,
    /// Marks of this epoch are at or above it, marks of earlier ones below.
    marks_from: u64,
    /// The highest mark ever published.
    mark_max: u64,
    /// The refiller is notified when so many slots are left.
    low_left: u64,
    waiters: VecDeque<Waiter>,
    /// Slots handed out; of an open epoch, only those skipped are here, as a debt.
    issued: i128,
}

/// A draw that ended above the mark that was read before it; mark 0: nothing was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    mark: u64,
    first: u64,
}

pub(super) enum Taken {
    /// The first slot of a run.
    Slots(u64),
    Wait(oneshot::Receiver<Answer>),
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skipped {
    /// All slots handed out from now on are at or above the slot.
    Done,
    /// Between two of our ranges: somebody else's.
    Elsewhere,
    /// Above all that is reserved here.
    Beyond,
}

/// The slots that the refiller should reserve: none, or a batch and so many more for those who wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refilling {
    Nothing,
    Batch { waiting: u64 },
}

/// Reserved slots, `start` the first that was not handed out (of the current range, while the gate is open: the first
/// that was not handed out when it opened).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ids) struct SlotRange {
    pub(in crate::ids) start: u64,
    pub(in crate::ids) end: u64,
}

impl SlotRange {
    const EMPTY: SlotRange = SlotRange { start: 0, end: 0 };

    fn left(self) -> u64 {
        self.end - self.start
    }

    fn cut_to(&mut self, start: u64) {
        self.start = self.start.max(start).min(self.end);
    }
}

impl Dispenser {
    pub(super) fn new(refiller: Arc<Notify>) -> Self {
        Dispenser {
            next: Padded(AtomicU64::new(PARKED)),
            mark: Padded(AtomicU64::new(0)),
            state: Mutex::new(State {
                gate: Gate::Shut,
                range: SlotRange::EMPTY,
                pending: None,
                floor: 0,
                marks_from: 1,
                mark_max: 0,
                low_left: 0,
                waiters: VecDeque::new(),
                issued: 0,
            }),
            refiller,
        }
    }

    /// The fast path. More than [`RUN_MAX`] are never drawn.
    #[inline]
    pub(super) fn draw(&self, count: NonZeroU64) -> Result<u64, Ticket> {
        let mark = self.mark.0.load(Ordering::Acquire);
        if mark == 0 || count.get() > RUN_MAX {
            return Err(Ticket { mark: 0, first: 0 });
        }
        #[cfg(test)]
        tests::between_mark_and_draw();
        let first = self.next.0.fetch_add(count.get(), Ordering::Relaxed);
        // Cannot wrap: see RUN_MAX.
        if first.wrapping_add(count.get()) <= mark { Ok(first) } else { Err(Ticket { mark, first }) }
    }

    /// Settles a ticket: gives the first of `count` slots, if there are enough. `count` is at most [`RUN_MAX`].
    #[cold]
    pub(super) fn settle(&self, count: NonZeroU64, ticket: Ticket) -> Option<u64> {
        self.settle_in(&mut self.lock(), count, ticket)
    }

    /// Settles as [`Self::settle`] does, or puts the caller into the line.
    #[cold]
    pub(super) fn settle_or_wait(&self, count: NonZeroU64, ticket: Ticket) -> Taken {
        let mut state = self.lock();
        if let Some(first) = self.settle_in(&mut state, count, ticket) {
            return Taken::Slots(first);
        }
        if state.gate == Gate::Closed {
            return Taken::Closed;
        }
        let (reply, answer) = oneshot::channel();
        state.waiters.push_back(Waiter { count, reply });
        self.refiller.notify_one();
        Taken::Wait(answer)
    }

    fn settle_in(&self, state: &mut State, count: NonZeroU64, ticket: Ticket) -> Option<u64> {
        if let Some(first) = self.redeem(state, count, ticket) {
            return Some(first);
        }
        if state.gate == Gate::Open {
            // The ticket was of an earlier epoch.
            let mark = state.range.end;
            let first = self.next.0.fetch_add(count.get(), Ordering::Relaxed);
            if let Some(first) = self.redeem(state, count, Ticket { mark, first }) {
                return Some(first);
            }
        }
        if state.gate == Gate::Closed {
            return None;
        }
        let first = serve(state, count);
        self.reopen(state);
        self.refiller.notify_one();
        first
    }

    /// Keeps a ticket of this epoch, if the range reaches that far; if not, no draw can succeed any more: shuts the gate.
    fn redeem(&self, state: &mut State, count: NonZeroU64, ticket: Ticket) -> Option<u64> {
        if ticket.mark < state.marks_from || ticket.first >= PARKED {
            return None;
        }
        let end = ticket.first + count.get();
        if end <= state.range.end {
            if state.gate == Gate::Open && end > low_mark(state) {
                self.publish(state, state.range.end);
                self.refiller.notify_one();
            }
            return Some(ticket.first);
        }
        self.shut(state);
        if ticket.first < state.range.end && state.gate == Gate::Shut {
            // Ours is the one draw that crossed the end (4).
            state.issued -= i128::from(state.range.end - ticket.first);
            state.range.start = ticket.first;
            state.range.cut_to(state.floor);
        }
        None
    }

    fn publish(&self, state: &mut State, mark: u64) {
        state.mark_max = state.mark_max.max(mark);
        self.mark.0.store(mark, Ordering::Release);
    }

    /// Opens the gate if the range has slots that were never below a published mark. A rest that lies wholly below one is
    /// served under the mutex: its epoch's marks could not be distinguished from older ones.
    fn reopen(&self, state: &mut State) {
        if state.gate != Gate::Shut || state.range.left() == 0 || state.range.end <= state.mark_max {
            return;
        }
        state.gate = Gate::Open;
        end_epoch(state);
        state.issued -= i128::from(state.range.start);
        self.next.0.store(state.range.start, Ordering::Relaxed);
        self.publish(state, low_mark(state));
    }

    /// Parks `next`; what is left of the range then starts where it stood.
    fn shut(&self, state: &mut State) {
        if state.gate != Gate::Open {
            return;
        }
        state.gate = Gate::Shut;
        self.mark.0.store(0, Ordering::Relaxed);
        let stood = self.next.0.swap(PARKED, Ordering::Relaxed).min(state.range.end);
        state.issued += i128::from(stood);
        state.range.start = stood;
        state.range.cut_to(state.floor);
    }

    /// Takes a range that was reserved, later than all before, and serves those who wait.
    pub(super) fn install(&self, mut new: SlotRange, low_left: u64) {
        let mut state = self.lock();
        let state = &mut *state;
        state.waiters.retain(|waiter| !waiter.reply.is_closed());
        new.cut_to(state.floor);
        if new.left() == 0 {
            return;
        }
        state.low_left = low_left;
        if !state.waiters.is_empty() {
            self.shut(state);
        }
        if state.gate == Gate::Shut {
            end_epoch(state);
        }
        let last = state.pending.as_mut().unwrap_or(&mut state.range);
        debug_assert!(new.start >= last.end, "{new:?} behind {last:?}");
        if last.end == new.start && last.end != 0 {
            last.end = new.end;
            if state.gate == Gate::Open && state.pending.is_none() {
                self.publish(state, low_mark(state));
            }
        } else {
            if let Some(pending) = state.pending.take() {
                self.shut(state);
                end_epoch(state);
                state.range = pending;
            }
            if state.gate == Gate::Shut && state.range.left() == 0 {
                state.range = new;
            } else {
                state.pending = Some(new);
            }
        }
        serve_waiters(state);
        self.reopen(state);
    }

    /// Refuses all who wait for more than `slots`.
    pub(super) fn refuse_above(&self, slots: u64) {
        let mut state = self.lock();
        for waiter in std::mem::take(&mut state.waiters) {
            if waiter.count.get() > slots {
                // A waiter that gave up meanwhile has its own answer.
                let _ = waiter.reply.send(Err(Refused::Exhausted));
            } else {
                state.waiters.push_back(waiter);
            }
        }
    }

    /// Goes on at `slot` if that lies in what is reserved here.
    pub(super) fn skip_to(&self, slot: u64) -> Skipped {
        let mut state = self.lock();
        if slot <= state.floor {
            return Skipped::Done;
        }
        let reaches = |range: SlotRange| slot <= range.end;
        match state.pending {
            _ if reaches(state.range) => {}
            Some(pending) if slot <= pending.start => return Skipped::Elsewhere,
            Some(pending) if reaches(pending) => {}
            _ => return Skipped::Beyond,
        }
        self.cut(&mut state, slot);
        Skipped::Done
    }

    /// Hands out no slot before `slot` any more, wherever that lies.
    pub(super) fn raise_floor(&self, slot: u64) {
        self.cut(&mut self.lock(), slot);
    }

    fn cut(&self, state: &mut State, slot: u64) {
        if slot <= state.floor {
            return;
        }
        state.floor = slot;
        if state.gate == Gate::Open && slot <= state.range.end {
            let stood = self.next.0.fetch_max(slot, Ordering::Relaxed);
            state.issued -= i128::from(slot.saturating_sub(stood));
            return;
        }
        self.shut(state);
        state.range.cut_to(slot);
        if let Some(mut pending) = state.pending {
            pending.cut_to(slot);
            state.pending = Some(pending).filter(|pending| pending.left() > 0);
        }
        if state.range.left() == 0
            && let Some(pending) = state.pending.take()
        {
            state.range = pending;
            end_epoch(state);
        }
        self.reopen(state);
        if state.mark_max > 0 {
            self.refiller.notify_one();
        }
    }

    pub(super) fn need(&self) -> Refilling {
        let mut state = self.lock();
        if state.gate == Gate::Closed {
            return Refilling::Nothing;
        }
        state.waiters.retain(|waiter| !waiter.reply.is_closed());
        let waiting = state.waiters.iter().map(|waiter| waiter.count.get()).fold(0, u64::saturating_add);
        if waiting == 0 && self.left_in(&state) > state.low_left {
            return Refilling::Nothing;
        }
        Refilling::Batch { waiting }
    }

    /// Hands out nothing any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        self.shut(&mut state);
        state.gate = Gate::Closed;
        for waiter in std::mem::take(&mut state.waiters) {
            let _ = waiter.reply.send(Err(Refused::Closed));
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().gate == Gate::Closed
    }

    /// The unused rest of the range that was reserved last, if the dispenser is closed.
    pub(super) fn rest(&self) -> Option<SlotRange> {
        let state = self.lock();
        (state.gate == Gate::Closed)
            .then(|| state.pending.unwrap_or(state.range))
            .filter(|range| range.left() > 0)
    }

    /// Slots that can be handed out without the store.
    pub(super) fn left(&self) -> u64 {
        self.left_in(&self.lock())
    }

    fn left_in(&self, state: &State) -> u64 {
        let mut range = state.range;
        if state.gate == Gate::Open {
            range.cut_to(self.next.0.load(Ordering::Relaxed));
        }
        range.left() + state.pending.map_or(0, SlotRange::left)
    }

    pub(super) fn issued(&self) -> u64 {
        let state = self.lock();
        let drawn = match state.gate {
            Gate::Open => self.next.0.load(Ordering::Relaxed).min(state.range.end),
            Gate::Shut | Gate::Closed => 0,
        };
        u64::try_from(state.issued + i128::from(drawn)).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            self.give_up_all(&mut state);
            self.state.clear_poison();
            state
        })
    }

    /// After a panic under the mutex nothing is known but that ends only grow.
    fn give_up_all(&self, state: &mut State) {
        self.mark.0.store(0, Ordering::Relaxed);
        self.next.0.swap(PARKED, Ordering::Relaxed);
        let last_end = state.pending.take().unwrap_or(state.range).end;
        state.range = SlotRange { start: last_end, end: last_end };
        if state.gate == Gate::Open {
            state.gate = Gate::Shut;
        }
        end_epoch(state);
        self.refiller.notify_one();
    }

    /// The first slot that may still be handed out, wherever what is reserved lies.
    pub(in crate::ids) fn floor(&self) -> u64 {
        self.lock().floor
    }

    /// The slot that is handed out next, of what is reserved here.
    pub(in crate::ids) fn next(&self) -> u64 {
        self.next_in(&self.lock())
    }

    fn next_in(&self, state: &State) -> u64 {
        let stands = match state.gate {
            Gate::Open => self.next.0.load(Ordering::Relaxed).min(state.range.end),
            Gate::Shut | Gate::Closed => state.range.start,
        };
        stands.max(state.floor)
    }

    /// True if a slot is reserved here and not handed out.
    pub(in crate::ids) fn has_left(&self, slot: u64) -> bool {
        let state = self.lock();
        let next = self.next_in(&state);
        let lies_in = |start, end| (start..end).contains(&slot);
        lies_in(next, state.range.end)
            || state.pending.is_some_and(|pending| lies_in(pending.start.max(state.floor), pending.end))
    }

    /// The ends of what is reserved here and not handed out, the last one first.
    pub(in crate::ids) fn ends(&self) -> impl Iterator<Item = u64> {
        let state = self.lock();
        let pending = state.pending.map(|pending| pending.end);
        let range =
            (self.left_in(&state) > state.pending.map_or(0, SlotRange::left)).then_some(state.range.end);
        pending.into_iter().chain(range)
    }
}

/// Serves from what is left while the gate is shut, or from the pending range. The rest of a range that is too short
/// is given up only when the next one takes its place: ids of one connection must ascend.
fn serve(state: &mut State, count: NonZeroU64) -> Option<u64> {
    if state.gate != Gate::Shut {
        return None;
    }
    if state.range.left() < count.get() {
        state.range = state.pending.take_if(|pending| pending.left() >= count.get())?;
        end_epoch(state);
    }
    let first = state.range.start;
    state.range.start += count.get();
    state.issued += i128::from(count.get());
    Some(first)
}

fn serve_waiters(state: &mut State) {
    let mut still = VecDeque::new();
    while let Some(waiter) = state.waiters.pop_front() {
        if waiter.reply.is_closed() {
            continue;
        }
        let Some(first) = serve(state, waiter.count) else {
            still.push_back(waiter);
            continue;
        };
        if waiter.reply.send(Ok(first)).is_err() {
            // The waiter gave up in this moment, so nobody has the slots.
            state.range.start = first;
            state.issued -= i128::from(waiter.count.get());
        }
    }
    state.waiters = still;
}

/// From here on no ticket of an earlier draw is redeemed. Due before the range changes while the gate is shut (7): such
/// a ticket may reach above the end that it was drawn under.
fn end_epoch(state: &mut State) {
    state.marks_from = state.mark_max + 1;
}

/// Draws that end above it tell the refiller.
fn low_mark(state: &State) -> u64 {
    state.range.end.saturating_sub(state.low_left).max(state.marks_from).min(state.range.end)
}

#[cfg(test)]
mod tests;
