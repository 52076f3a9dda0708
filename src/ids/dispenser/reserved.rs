//! Where the slots lie that are reserved and not handed out.

use std::sync::atomic::Ordering;

use super::{Dispenser, Gate, Zone};

impl Dispenser {
    /// The first slot that may still be handed out, wherever what is reserved lies.
    pub(in crate::ids) fn floor(&self) -> u64 {
        self.lock().floor
    }

    /// The slot that is handed out next, of what is reserved here.
    pub(in crate::ids) fn next(&self) -> u64 {
        let state = self.lock();
        let stands = match state.gate {
            Gate::Open => self.next.0.load(Ordering::Relaxed).min(state.zone.end),
            Gate::Shut | Gate::Closed => state.zone.start,
        };
        stands.max(state.floor)
    }

    /// The ends of what is reserved here and not handed out, the last one first.
    pub(in crate::ids) fn ends(&self) -> impl Iterator<Item = u64> {
        let state = self.lock();
        let pending = state.pending.map(|pending| pending.end);
        let zone = (self.left_in(&state) > state.pending.map_or(0, Zone::left)).then_some(state.zone.end);
        pending.into_iter().chain(zone)
    }
}
