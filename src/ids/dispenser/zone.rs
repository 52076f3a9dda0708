//! Reserved slots.

/// Reserved slots, `start` the first that was not handed out (of the current zone, while the gate is open: the first
/// that was not handed out when it opened).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ids) struct Zone {
    pub(in crate::ids) start: u64,
    pub(in crate::ids) end: u64,
}

impl Zone {
    pub(super) const EMPTY: Zone = Zone { start: 0, end: 0 };

    pub(super) fn left(self) -> u64 {
        self.end - self.start
    }

    pub(super) fn cut_to(&mut self, start: u64) {
        self.start = self.start.max(start).min(self.end);
    }
}
