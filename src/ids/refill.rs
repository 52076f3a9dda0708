//! Reserves ids in the background. It ends with its sequence only: errors are tried again, a panic starts it again.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

/// The next step after a refill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refill {
    /// Nothing until somebody asks.
    Done,
    /// Look again.
    More,
    /// Try again later.
    Failed,
    Closed,
}

/// A generator that reserves in the background.
pub(super) trait Refilled: Send + Sync + 'static {
    /// Reserves what is needed, once.
    fn refill(&self) -> impl Future<Output = Refill> + Send;
}

/// A store that comes back is noticed within the usual deadline of a statement (1 s).
const PAUSE_MAX: Duration = Duration::from_millis(400);
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// Starts the task that reserves ids. `wake` may be notified at any time, also when the sequence is gone.
pub(super) fn start<G: Refilled>(generator: &Arc<G>, wake: Arc<Notify>) {
    let generator = Arc::downgrade(generator);
    let again = Arc::clone(&wake);
    forever("the task that reserves ids", again, move || run(generator.clone(), Arc::clone(&wake)));
}

/// Runs the task until it returns; a panic starts it again, and wakes it.
pub(super) fn forever<F: Future<Output = ()> + Send + 'static>(
    what: &'static str,
    wake: Arc<Notify>,
    task: impl Fn() -> F + Send + 'static,
) {
    tokio::spawn(async move {
        while let Err(end) = tokio::spawn(task()).await {
            if !end.is_panic() {
                return; // The runtime ends.
            }
            tracing::error!(error = %end, "{what} panicked; starting it again");
            tokio::time::sleep(PAUSE_AFTER_PANIC).await;
            wake.notify_one();
        }
    });
}

/// The first batch is reserved for the first who asks: a generator that nobody uses writes nothing.
async fn run<G: Refilled>(generator: Weak<G>, wake: Arc<Notify>) {
    let mut pause = PAUSE_MIN;
    wake.notified().await;
    loop {
        let Some(strong) = generator.upgrade() else { return };
        let refill = strong.refill().await;
        drop(strong);
        match refill {
            Refill::Closed => return,
            Refill::More => pause = PAUSE_MIN,
            Refill::Done => {
                pause = PAUSE_MIN;
                wake.notified().await;
            }
            Refill::Failed => {
                let jitter = 0.5 + fastrand::f64() / 2.0;
                tokio::time::sleep(pause.mul_f64(jitter)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}
