//! Checks that the backend and the store answer, by asking them. Without INSERTs nobody else asks them, and a proxy
//! that is not ready for that reason gets no clients that would insert.

use std::sync::Weak;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::daemon::operator::ProxyDesk;
use crate::schema::{Role, Schema};
use crate::store::Key;

const INTERVAL: Duration = Duration::from_secs(10);
/// While one of them does not answer.
const INTERVAL_AWAY: Duration = Duration::from_secs(2);
/// Above the timeout of every store, which says better why.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The backend, when it was asked last. What the store says, its meter knows.
#[derive(Debug, Default)]
pub(super) struct Health(Mutex<BackendHealth>);

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BackendHealth {
    /// This machine's clock less the backend's, in seconds.
    pub(super) drift: Option<f64>,
    /// Why the control account got no answer, or clients could not write.
    pub(super) trouble: Option<String>,
}

impl Health {
    pub(super) fn backend(&self) -> BackendHealth {
        self.0.lock().clone()
    }
}

/// Asks both, again and again. Ends with the desk.
pub(super) async fn watch(desk: Weak<ProxyDesk>) {
    let mut asked = None::<Instant>;
    loop {
        let Some(here) = desk.upgrade() else { return };
        let parts = &here.parts;
        let is_away = here.health.0.lock().trouble.is_some() || parts.meter.is_away();
        if is_away || asked.is_none_or(|asked| asked.elapsed() >= INTERVAL) {
            asked = Some(Instant::now());
            // The store's meter notes what came of it.
            let (key, backend) = (Key::format(), ask_backend(parts.schema.as_ref()));
            let (_, backend) = tokio::join!(tokio::time::timeout(TIMEOUT, parts.store.load(&key)), backend);
            *here.health.0.lock() = backend;
        }
        drop(here);
        tokio::time::sleep(INTERVAL_AWAY).await;
    }
}

async fn ask_backend(schema: Option<&Schema>) -> BackendHealth {
    let Some(schema) = schema else { return BackendHealth::default() };
    let asked = Instant::now();
    match schema.clock().await {
        Ok(theirs) => {
            // The server read its clock somewhere between the question and now.
            let ours = SystemTime::now() - asked.elapsed() / 2;
            let ours = ours.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let theirs = Duration::from_micros(theirs.micros()).as_secs_f64();
            // If there are several servers and this one is read_only, none takes writes: otherwise another one would
            // have been chosen.
            let (role, trouble) = match schema.is_read_only().await {
                Ok(true) => (Role::ReadOnly, Some("the server is read_only".to_owned())),
                Ok(false) => (Role::Writable, None),
                Err(error) => (Role::Away, Some(error.to_string())),
            };
            note_role(schema, role);
            BackendHealth { drift: Some(ours - theirs), trouble }
        }
        Err(error) => {
            note_role(schema, Role::Away);
            BackendHealth { drift: None, trouble: Some(error.to_string()) }
        }
    }
}

/// If there are several servers, another task asks all of them each second, and knows more of them.
fn note_role(schema: &Schema, role: Role) {
    if !schema.has_several_servers() {
        schema.primary().note_role(0, role);
    }
}
