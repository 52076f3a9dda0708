//! The ids that a user has drawn from this process, at its doors and by calls in SQL. They go by the user's name, and
//! stay while the user is not known, for example while the store does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    ids: AtomicU64,
    denied: AtomicU64,
    over_quota: AtomicU64,
}

/// A user who has drawn ids is the same user.
impl PartialEq for Usage {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Usage {}

impl Usage {
    pub(crate) fn note_given(&self, ids: u64) {
        self.0.ids.fetch_add(ids, Ordering::Relaxed);
    }

    pub(crate) fn note_denied(&self) {
        self.0.denied.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_over_quota(&self) {
        self.0.over_quota.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody of this name has asked for ids.
    pub(crate) fn has_any(&self) -> bool {
        self.ids() + self.denied() + self.over_quota() > 0
    }

    pub(crate) fn ids(&self) -> u64 {
        self.0.ids.load(Ordering::Relaxed)
    }

    /// Requests for ids that the user has no right to.
    pub(crate) fn denied(&self) -> u64 {
        self.0.denied.load(Ordering::Relaxed)
    }

    /// Requests for more ids than the LIMIT of the user's grant allows.
    pub(crate) fn over_quota(&self) -> u64 {
        self.0.over_quota.load(Ordering::Relaxed)
    }
}
