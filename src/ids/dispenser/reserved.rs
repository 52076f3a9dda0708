//! The slots that are reserved and not handed out.

use std::sync::atomic::Ordering;

use super::{Dispenser, Gate, State, Zone};

impl Dispenser {
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
            Gate::Open => self.next.0.load(Ordering::Relaxed).min(state.zone.end),
            Gate::Shut | Gate::Closed => state.zone.start,
        };
        stands.max(state.floor)
    }

    /// True if a slot is reserved here and not handed out.
    pub(in crate::ids) fn has_left(&self, slot: u64) -> bool {
        let state = self.lock();
        let next = self.next_in(&state);
        let lies_in = |start, end| (start..end).contains(&slot);
        lies_in(next, state.zone.end)
            || state.pending.is_some_and(|pending| lies_in(pending.start.max(state.floor), pending.end))
    }

    /// The ends of what is reserved here and not handed out, the last one first.
    pub(in crate::ids) fn ends(&self) -> impl Iterator<Item = u64> {
        let state = self.lock();
        let pending = state.pending.map(|pending| pending.end);
        let zone = (self.left_in(&state) > state.pending.map_or(0, Zone::left)).then_some(state.zone.end);
        pending.into_iter().chain(zone)
    }
}
