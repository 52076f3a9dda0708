//! The state of the door.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::doors::issuer::Issuer;
use crate::users::throttle::Throttle;

/// The log has a wrong token at most so often: they cost who sends them nothing.
const TELL_INTERVAL: Duration = Duration::from_secs(10);

/// The state that all clients of the door share.
pub(super) struct ApiOffice {
    pub(super) issuer: Issuer,
    pub(super) throttle: Arc<Throttle>,
    /// The OpenAPI document.
    pub(super) document: String,
    wrong_tokens: Mutex<Told>,
}

/// When the log had one last, and how many came since.
#[derive(Default)]
struct Told {
    at: Option<Instant>,
    since: u64,
}

impl ApiOffice {
    pub(super) fn new(issuer: Issuer, document: String) -> ApiOffice {
        ApiOffice { issuer, throttle: Arc::default(), document, wrong_tokens: Mutex::default() }
    }

    pub(super) fn tell_of_wrong_token(&self, client: &str) {
        let mut told = self.wrong_tokens.lock();
        if told.at.is_some_and(|at| at.elapsed() < TELL_INTERVAL) {
            told.since += 1;
            return;
        }
        let untold = std::mem::take(&mut told.since);
        told.at = Some(Instant::now());
        tracing::warn!(client, untold, "a client of the HTTP API gave a token that nobody has");
    }
}
