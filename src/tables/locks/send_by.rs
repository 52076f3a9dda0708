//! Until when a statement may be sent whose ids were taken under a lock.

use std::time::Duration;

use crate::tables::locks::boottime;

/// The time after the lease in which a statement may be sent whose ids were taken within the lease.
/// The rest of the grace time is the network's and the server's.
pub(super) const SENDING: Duration = Duration::from_millis(150);

/// When a statement with ids may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendBy {
    /// Before this moment of CLOCK_BOOTTIME.
    Boottime(Duration),
    /// Nobody else can issue its ids.
    AnyTime,
}

impl SendBy {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, SendBy::Boottime(limit) if boottime() >= limit)
    }

    /// True if the lease that it came from is over.
    pub(crate) fn is_near(self) -> bool {
        matches!(self, SendBy::Boottime(limit) if boottime() + SENDING >= limit)
    }
}
