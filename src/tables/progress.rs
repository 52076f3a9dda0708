//! The progress of a start or a reload, in the log each second: with thousands of tables either
//! takes longer.

use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct ChangeProgress(Mutex<Step>);

#[derive(Debug, Default, Clone, Copy)]
struct Step {
    /// `reading tables`; empty before the first step.
    what: &'static str,
    done: usize,
    total: usize,
}

impl ChangeProgress {
    /// Begins a step: its text, and how many tables or generators it has.
    pub(super) fn begin(&self, what: &'static str, total: usize) {
        *self.0.lock() = Step { what, done: 0, total };
    }

    pub(super) fn add(&self, done: usize) {
        self.0.lock().done += done;
    }

    /// Does the work, and logs each second how far it is.
    pub(super) async fn told<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            match tokio::time::timeout(INTERVAL, &mut work).await {
                Ok(done) => return done,
                Err(_) => self.tell(),
            }
        }
    }

    fn tell(&self) {
        let Step { what, done, total } = *self.0.lock();
        if total > 0 {
            tracing::info!("{what}: {} of {}", grouped(&done.to_string()), grouped(&total.to_string()));
        }
    }
}

/// `1234567` -> `1,234,567`
pub(crate) fn grouped(digits: &str) -> String {
    let length = digits.len();
    let separated = digits.chars().enumerate().flat_map(|(at, digit)| {
        let is_between = at > 0 && (length - at).is_multiple_of(3);
        is_between.then_some(',').into_iter().chain([digit])
    });
    separated.collect()
}
