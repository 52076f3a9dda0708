//! Waiting for what comes at a time of its own.

use std::thread;
use std::time::{Duration, Instant};

/// An event that has not come by then never comes. A test decides nothing by how soon it comes: the machine
/// may be busy.
pub const NEVER: Duration = Duration::from_mins(1);

/// Asks until it is so; panics with `what` where it never is.
#[track_caller]
pub fn wait_until(what: impl FnOnce() -> String, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + NEVER;
    while !is_so() {
        assert!(Instant::now() < end, "not in {NEVER:?}: {}", what());
        thread::sleep(Duration::from_millis(20));
    }
}
