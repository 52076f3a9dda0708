//! `rules.watch`: changed rules are taken up without a word from anybody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::daemon::caught;
use crate::daemon::reload::{Activation, Reloader};
use crate::rules::{Mark, Watch};

/// The interval of looks at the folder; files that two looks find the same have come to rest.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Rules that could not be made active, since the store or the backend was away, are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Never ends.
pub(crate) async fn watch_rules(reloader: Arc<Reloader>) {
    let mut watch = Watch::default();
    let mut again_at = None;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let Some(folder) = reloader.watched().await else { continue };
        let Ok(now) = tokio::task::spawn_blocking(move || Mark::of(&folder)).await else { continue };
        let is_due = watch.is_due(now, &reloader.read());
        if !is_due && again_at.is_none_or(|at| Instant::now() < at) {
            continue;
        }
        again_at = match caught(reloader.reload_and_log("rules.watch")).await {
            Ok(Activation::TryAgain) => Some(Instant::now() + RETRY_INTERVAL),
            Ok(Activation::Active | Activation::Refused) => None,
            Err(_) => {
                tracing::error!(
                    "rules.watch: an internal error of Rowstamp ended the reload; the log has its message above; Rowstamp reloads \
                     again when the rules change"
                );
                None
            }
        };
    }
}
