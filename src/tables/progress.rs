//! How far a start or a reload is, in the log each second: with thousands of tables either takes
//! longer.

use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Progress(Mutex<Step>);

#[derive(Debug, Default, Clone, Copy)]
struct Step {
    /// `reading tables`; empty before the first step.
    what: &'static str,
    done: usize,
    total: usize,
}

impl Progress {
    /// What is done from now on, of how many tables.
    pub(super) fn begin(&self, what: &'static str, total: usize) {
        *self.0.lock() = Step { what, done: 0, total };
    }

    pub(super) fn add(&self, done: usize) {
        self.0.lock().done += done;
    }

    /// Does the work, and tells each second how far it is.
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
            tracing::info!("{what}: {} of {}", grouped(done), grouped(total));
        }
    }
}

/// Digits by threes: `1,200`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_by_threes() {
        for (number, expect) in [(0, "0"), (999, "999"), (1_200, "1,200"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expect);
        }
    }
}
