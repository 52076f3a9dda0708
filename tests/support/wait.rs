//! Waiting for what comes at a time of its own.

use std::thread;
use std::time::{Duration, Instant};

/// Asks until it is so; panics with `what` where it is not so in time.
#[track_caller]
pub fn wait_until(deadline: Duration, what: impl FnOnce() -> String, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !is_so() {
        assert!(Instant::now() < end, "not in {deadline:?}: {}", what());
        thread::sleep(Duration::from_millis(20));
    }
}
