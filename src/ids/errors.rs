//! Why there are no ids, and why a generator is not open.

use std::fmt;
use std::time::Duration;

use super::layout::Moment;
use crate::store::StoreError;

/// A store call that takes longer counts as failed.
pub(super) const STORE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why there are no ids; each is 1467 to a client.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum TakeError {
    #[error(
        "generator {generator}: the reserved ids are used up and the store gave no more within {waited:?}: {reason}"
    )]
    StoreAway { generator: String, waited: Duration, reason: String },
    #[error(
        "generator {generator} is exhausted: there is no room for {wanted} more up to its max, {max}; widen the column \
         and raise max"
    )]
    Exhausted { generator: String, max: u64, wanted: u64 },
    #[error(
        "generator {generator}: the ids run ahead of the clock as far as max_ahead ({max_ahead:?}) allows, and the clock did \
         not catch up within {waited:?}; insert more slowly, or raise max_ahead"
    )]
    Ahead { generator: String, max_ahead: Duration, waited: Duration },
    #[error(
        "generator {generator}: the layout ends at {end} and has no room for {wanted} more; give the table a generator \
         with another layout"
    )]
    EndOfLife { generator: String, end: Moment, wanted: u64 },
    #[error(
        "generator {generator}: a table has the id {floor}, and the layout, which ends at {end}, has no id above it; give the \
         table a generator with another layout"
    )]
    NoneAbove { generator: String, floor: u64, end: Moment },
    #[error(
        "generator {generator}: {held}; correct the wrong clock (Rowstamp compares the clocks every second), or restart \
         with --trust-clock"
    )]
    Clock { generator: String, held: Held },
    #[error(
        "generator {generator}: {wanted} ids at once are too many, {most} is the maximum; use smaller statements"
    )]
    TooMany { generator: String, wanted: u64, most: u64 },
    #[error(
        "generator {generator} is paused on this proxy by an operator; run RESUME GENERATOR on the proxy's console"
    )]
    Paused { generator: String },
    #[error("generator {generator}: {reason}")]
    Unguarded { generator: String, reason: String },
    #[error(
        "generator {generator} is not open on this proxy; try again, and read the proxy's log if it stays so"
    )]
    NotOpen { generator: String },
    #[error("generator {generator}: another process has taken over and gave no ids: {reason}; connect again")]
    Successor { generator: String, reason: String },
    #[error("generator {generator} is closed: this proxy is stopping, or its rules changed; try again")]
    Closed { generator: String },
}

impl TakeError {
    /// True if the generator has ids that it cannot give just now. If not, an operator or the table's own limits say that
    /// there are none.
    pub fn is_outage(&self) -> bool {
        match self {
            TakeError::StoreAway { .. }
            | TakeError::Ahead { .. }
            | TakeError::Clock { .. }
            | TakeError::Unguarded { .. }
            | TakeError::NotOpen { .. }
            | TakeError::Successor { .. }
            | TakeError::Closed { .. } => true,
            TakeError::Exhausted { .. }
            | TakeError::EndOfLife { .. }
            | TakeError::NoneAbove { .. }
            | TakeError::TooMany { .. }
            | TakeError::Paused { .. } => false,
        }
    }

    /// For the client that asked: without what the store said, which names addresses and keys. The log has that.
    pub fn for_client(&self) -> String {
        match self {
            TakeError::StoreAway { generator, waited, .. } => format!(
                "generator {generator}: the reserved ids are used up and the store gave no more within {waited:?}; the proxy's log has \
                 the reason"
            ),
            other => other.to_string(),
        }
    }
}

#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    #[error("generator {generator}: {reason}")]
    Spec { generator: String, reason: String },
    #[error("generator {generator}: {error}")]
    Store { generator: String, error: StoreError },
    #[error("generator {generator} is open, but not above the ids in its tables yet: {error}")]
    Floor { generator: String, error: TakeError },
}

/// Why a generator issues nothing yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The other clock could not be read.
    Unread,
    /// This machine's clock is so far ahead of the other.
    Ahead(Duration),
    Behind(Duration),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |apart: &Duration| humantime::format_duration(Duration::from_secs(apart.as_secs()));
        match self {
            Held::Unread => f.write_str("Rowstamp could not read the backend's clock yet"),
            Held::Ahead(apart) => {
                write!(f, "this machine's clock is {} ahead of the backend's", seconds(apart))
            }
            Held::Behind(apart) => {
                write!(f, "this machine's clock is {} behind the backend's", seconds(apart))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TakeError;
    use std::time::Duration;

    #[test]
    fn what_the_store_said_is_for_the_log_alone() {
        for reason in
            ["etcd at http://10.0.0.7:2379: no leader", "/var/lib/rowstamp/ids.redb", "generators/shop.g"]
        {
            let away = TakeError::StoreAway {
                generator: "shop.g".into(),
                waited: Duration::from_secs(1),
                reason: reason.into(),
            };
            assert!(away.to_string().contains(reason), "the log has it: {away}");
            let told = away.for_client();
            assert!(!told.contains(reason) && told.contains("the proxy's log has the reason"), "{told}");
        }
        let other = TakeError::NotOpen { generator: "shop.g".into() };
        assert_eq!(other.for_client(), other.to_string());
    }
}
