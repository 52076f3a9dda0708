//! A check of the clock when a generator starts. There is no earlier reading to compare it with, so it is compared with
//! another machine's clock. Nothing is issued or reserved until both agree; later the monotonic clock is used.

use std::time::Duration;

use super::Timestamp;
use super::clock::Watch;
use crate::ids::errors::Held;
use crate::ids::layout::Moment;

/// Two clocks that are no further apart agree.
pub const APART_MAX: Duration = Duration::from_secs(5);

impl Timestamp {
    /// Issues nothing until [`Timestamp::compare_clock`] finds the clock right. For a generator that has issued nothing.
    pub fn hold(&self) {
        let mut state = self.state.lock();
        state.held = Some(Held::Unread);
        self.counter.shut();
    }

    /// True if the generator waits for its clock.
    pub fn is_held(&self) -> bool {
        self.state.lock().held.is_some()
    }

    /// Compares the clock of a generator that is held. `other` is what another clock said, at most so long ago. Returns why
    /// the generator stays held.
    pub fn compare_clock(&self, other: Moment, ago: Duration) -> Option<Held> {
        let mut state = self.state.lock();
        let before = state.held?;
        let reading = self.clock.read();
        let (ours, theirs) = (reading.wall.micros(), other.micros());
        let apart = Duration::from_micros(ours.abs_diff(theirs));
        if apart > APART_MAX + ago {
            let held = if ours > theirs { Held::Ahead(apart) } else { Held::Behind(apart) };
            state.held = Some(held);
            if before == Held::Unread {
                tracing::error!(generator = %self.name, "{held}: no ids are issued until the wrong clock is corrected");
            }
            return Some(held);
        }
        if before != Held::Unread {
            tracing::info!(generator = %self.name, "the clock is right: ids are issued now");
        }
        state.held = None;
        // Nothing was issued by what the clock said before.
        state.watch = Watch::new(reading, self.spec.max_forward);
        self.look_in(&mut state);
        self.more.notify_waiters();
        None
    }
}
