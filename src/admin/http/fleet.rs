//! The proxies of a store. The store is asked for them every few seconds, however many pages are
//! open.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::admin::desk::Desk;
use crate::admin::status::FleetStatus;

const AGE_MAX: Duration = Duration::from_secs(5);
/// For the store's answer.
const TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Fleet(Mutex<Option<(Instant, FleetStatus)>>);

impl Fleet {
    /// Whoever comes while the store is asked waits for that answer.
    pub(super) async fn look(&self, desk: &dyn Desk) -> FleetStatus {
        let mut known = self.0.lock().await;
        if let Some((at, fleet)) = known.as_ref()
            && at.elapsed() < AGE_MAX
        {
            return fleet.clone();
        }
        let trouble = |why: String| FleetStatus { proxies: Vec::new(), trouble: Some(why) };
        let fleet = match timeout(TIMEOUT, desk.proxies()).await {
            Ok(Ok(proxies)) => FleetStatus { proxies, trouble: None },
            Ok(Err(error)) => trouble(error.to_string()),
            Err(_) => trouble(format!("the store did not answer within {TIMEOUT:?}")),
        };
        *known = Some((Instant::now(), fleet.clone()));
        fleet
    }
}
