//! Reads the clock once a tick, so that no taker has to. It sleeps while nobody takes ids, and then none are to be had
//! without a look at the clock: the first taker looks, and wakes it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::Timestamp;
use crate::ids::refill::forever;

/// The runtime's own clock is no finer. Ids of shorter ticks are unique all the same.
const PERIOD_MIN: Duration = Duration::from_millis(1);
const PERIOD_MAX: Duration = Duration::from_millis(100);
/// The time without an id after which the ticker sleeps.
const IDLE: Duration = Duration::from_secs(1);

pub(super) fn start(generator: &Arc<Timestamp>, wake: &Arc<Notify>) {
    let generator = Arc::downgrade(generator);
    let period =
        generator.upgrade().map_or(PERIOD_MIN, |generator| generator.tick()).clamp(PERIOD_MIN, PERIOD_MAX);
    let run = {
        let wake = Arc::clone(wake);
        move || run(generator.clone(), Arc::clone(&wake), period)
    };
    forever("the task that reads the clock", Arc::clone(wake), run);
}

async fn run(generator: Weak<Timestamp>, wake: Arc<Notify>, period: Duration) {
    loop {
        wake.notified().await;
        let mut quiet = Duration::ZERO;
        let mut seen = 0;
        while quiet < IDLE {
            tokio::time::sleep(period).await;
            let Some(generator) = generator.upgrade() else { return };
            quiet = if generator.position() == seen { quiet + period } else { Duration::ZERO };
            generator.look();
            seen = generator.position();
        }
        let Some(generator) = generator.upgrade() else { return };
        if !generator.sleep(seen) {
            // Somebody came in this moment.
            wake.notify_one();
        }
    }
}
