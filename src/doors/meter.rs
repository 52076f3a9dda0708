//! The counts of a door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrawOutcome {
    Given,
    /// The user has no right to them.
    Denied,
    /// The user has drawn as many as its LIMIT allows.
    OverQuota,
    /// No such generator, or a number of ids that none gives.
    Wrong,
    /// The generator gave none.
    NoIds,
}

impl DrawOutcome {
    const ALL: [(DrawOutcome, &'static str); 5] = [
        (DrawOutcome::Given, "given"),
        (DrawOutcome::Denied, "denied"),
        (DrawOutcome::OverQuota, "over_quota"),
        (DrawOutcome::Wrong, "wrong"),
        (DrawOutcome::NoIds, "no_ids"),
    ];
}

#[derive(Debug, Default)]
pub struct DoorMeter {
    /// The requests by outcome, in the order of [`DrawOutcome::ALL`].
    requests: [AtomicU64; DrawOutcome::ALL.len()],
    ids: AtomicU64,
    connections: AtomicU64,
    logins_refused: AtomicU64,
}

impl DoorMeter {
    pub(crate) fn note(&self, outcome: DrawOutcome) {
        self.note_all(outcome, 1);
    }

    fn note_all(&self, outcome: DrawOutcome, requests: u64) {
        if let Some(count) = self.requests.get(outcome as usize) {
            count.fetch_add(requests, Ordering::Relaxed);
        }
    }

    pub(crate) fn note_given(&self, requests: u64, ids: u64) {
        self.note_all(DrawOutcome::Given, requests);
        self.ids.fetch_add(ids, Ordering::Relaxed);
    }

    pub(crate) fn note_login_refused(&self) {
        self.logins_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A client that has logged in, for as long as what is returned lives. `None`: there are as many as may be.
    pub(crate) fn seat(self: &Arc<Self>, most: u64) -> Option<Seat> {
        let more = |taken| (taken < most).then_some(taken + 1);
        self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Seat(Arc::clone(self)))
    }

    /// Requests for ids, by what came of them.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DrawOutcome::ALL.iter().zip(&self.requests).map(|((_, word), n)| (*word, n.load(Ordering::Relaxed)))
    }

    pub fn ids(&self) -> u64 {
        self.ids.load(Ordering::Relaxed)
    }

    /// Clients that have logged in.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub fn logins_refused(&self) -> u64 {
        self.logins_refused.load(Ordering::Relaxed)
    }
}

/// See [`DoorMeter::seat`].
#[derive(Debug)]
pub(crate) struct Seat(Arc<DoorMeter>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{DoorMeter, DrawOutcome};
    use std::sync::Arc;

    #[test]
    fn each_outcome_has_its_count() {
        let meter = Arc::new(DoorMeter::default());
        for (nth, (outcome, _)) in DrawOutcome::ALL.into_iter().enumerate() {
            (0..=nth).for_each(|_| meter.note(outcome));
        }
        meter.note_given(1, 7);
        let counts: Vec<_> = meter.requests().collect();
        assert_eq!(counts, [("given", 2), ("denied", 2), ("over_quota", 3), ("wrong", 4), ("no_ids", 5)]);
        assert_eq!(meter.ids(), 7);
        let one = meter.seat(1);
        assert!(one.is_some() && meter.seat(1).is_none() && meter.connections() == 1);
        drop(one);
        assert_eq!(meter.connections(), 0);
    }
}
